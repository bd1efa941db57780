"""A run whose worker keeps a reserve, beside one that does not."""

from contextlib import closing

import pytest

from askless.run import Run
from askless.run.steps import choosing_ahead
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk, next_item, reserve_items
from askless.run.store.fits import all_fits
from askless.run.store.progress import CurrentBatch, progress_of

NAMES = ("red", "green", "blue", "grey")


def steps(run, **options):
    done = []
    while (step := run.advance(reserve=True, **options)) is not None:
        done.append(step)
    return done


def chosen(run, state="<> 'ahead'"):
    query = f"SELECT t.round, t.item FROM task t JOIN round r ON r.id = t.round AND r.state {state} ORDER BY 1, t.rank"
    with run.store.look() as db:
        return [tuple(row) for row in db.execute(query)]


def label_next(run, shapes, count=0):
    """Labels what the page would show; the item, None where there is nothing."""
    desk = Desk("ann", "tab")
    with run.store.change() as db:
        item = next_item(db, desk, 1)
        if item is not None:
            given = Given(label=NAMES.index(shapes.truth[run.paths[item]]), seconds=0.5)
            answer(db, desk, f"request-{item:05d}-{count}", [item], given, overlap=1)
    return item


OPTIONS = {"learner": "supervised", "check": 0.0, "budget": 24, "batch": 4}


@pytest.mark.parametrize("strategy", ["askless", "random", "margin", "albl"])
def test_the_batches_are_those_of_a_run_without_a_reserve(shapes, tmp_path, strategy):
    """Where nobody uses the reserve, as a program does not."""
    with (
        shapes.start(tmp_path / "with", strategy=strategy, **OPTIONS) as ours,
        shapes.start(tmp_path / "without", strategy=strategy, **OPTIONS) as theirs,
    ):
        ahead = 0
        while True:
            ahead += "choosing ahead" in steps(ours)
            while theirs.advance() is not None:
                pass
            assert ours.waiting() == theirs.waiting()
            if not ours.waiting():
                break
            with ours.store.look() as db:
                assert set(reserve_items(db)).isdisjoint(item for _, item in chosen(ours))
            shapes.tell(ours)
            shapes.tell(theirs)
        assert chosen(ours) == chosen(theirs)
        assert ahead == 5  # each time but the last, when the budget is used up
        assert ours.is_finished()
        assert theirs.is_finished()


def test_while_a_model_trains_the_page_has_something_to_show_and_the_model_does_not_see_it(shapes, tmp_path):
    with shapes.start(tmp_path / "run", **OPTIONS) as run:
        assert steps(run) == ["embedding", "comparing", "choosing", "choosing ahead", "embedding"]
        first = [label_next(run, shapes) for _ in range(4)]
        assert first == [item for _, item in chosen(run)]
        assert run.advance(reserve=True) == "closing"
        ahead = [label_next(run, shapes) for _ in range(3)]  # before the training
        assert run.advance(reserve=True) == "training"
        ahead += [label_next(run, shapes) for _ in range(2)]  # and before the next batch is chosen
        with run.store.look() as db:
            assert all_fits(db)[1].labels == 4
            assert progress_of(db).batch == CurrentBatch(2, 5, 7, ahead=True)
        assert steps(run) == ["choosing", "choosing ahead"]
        second = [item for number, item in chosen(run) if number == 2]
        assert second[:5] == ahead
        assert len(second) == 7  # half a batch by the new model
        assert [label_next(run, shapes) for _ in range(2)] == second[5:]
        assert steps(run)[:2] == ["closing", "training"]
        with run.store.look() as db:
            assert all_fits(db)[2].labels == 11


def test_a_person_who_never_pauses_is_never_without_an_item_and_the_run_ends(shapes, tmp_path):
    with shapes.start(tmp_path / "run", **OPTIONS) as run:
        steps(run)
        given = []
        while len(given) < 24:
            item = label_next(run, shapes)
            assert item is not None, f"nothing to label after {len(given)}"
            given.append(item)
            run.advance(reserve=True)  # one step of the worker in the time of one label
        assert len(set(given)) == 24
        steps(run)
        assert run.is_finished()
        with run.store.look() as db:
            fits = all_fits(db)
        assert [fit.labels for fit in fits.values()][-1] == 24
        assert len(fits) > 2


def test_a_run_that_is_reopened_after_every_step_has_the_same_reserve(shapes, tmp_path, monkeypatch):
    monkeypatch.setattr(choosing_ahead, "MARGIN", 0)  # else its size depends on how long the trainings took
    results = []
    for name, reopens in (("one", False), ("two", True)):
        run = shapes.start(tmp_path / name, **OPTIONS)
        for _ in range(14):
            if run.advance(reserve=True) is None:
                for _ in range(4):
                    label_next(run, shapes)
            if reopens:
                run.close()
                run = Run.open(tmp_path / name)
        with closing(run):
            results.append((chosen(run), chosen(run, "= 'ahead'")))
    assert results[0] == results[1]
    assert results[0][1]


def test_a_program_goes_on_with_a_run_in_which_the_page_has_left_a_reserve(shapes, tmp_path):
    with shapes.start(tmp_path / "run", **OPTIONS) as run:
        steps(run)
        for _ in range(4 + 2):  # two of what was chosen ahead
            label_next(run, shapes)
        done = shapes.finish(run)
        assert "choosing ahead" not in done
        assert run.is_finished()
        assert len(chosen(run)) == 24
        assert chosen(run, "= 'ahead'") == []


def test_unsure_answers_alone_do_not_stop_the_rounds(shapes, tmp_path):
    """Nothing to train on, and still there is a next batch."""
    with shapes.start(tmp_path / "run", **OPTIONS) as run:
        steps(run)
        desk = Desk("ann", "tab")
        for place in range(6):
            with run.store.change() as db:
                item = next_item(db, desk, 1)
                answer(db, desk, f"request-{place:05d}", [item], Given(unsure="quality"), overlap=1)
        assert steps(run) == ["closing", "choosing", "choosing ahead"]
        assert [number for number, _ in chosen(run)].count(2) == 4
