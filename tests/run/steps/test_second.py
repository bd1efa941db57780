"""Second opinions: which labels are asked again, of whom, and what that costs."""

import numpy as np
import pytest

from askless.base.errors import OptionError
from askless.run import Run
from askless.run.steps import one_round
from askless.run.steps.second import ERROR, worth
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk, next_item, take_batch, waiting_for_second
from askless.run.store.labels import answers_to, disagreements, train_labels
from askless.run.store.progress import progress_of
from askless.run.store.replay import contradictions


def test_a_second_opinion_is_worth_what_a_righted_label_is_times_the_chance_that_it_is_wrong():
    for classes in (2, 3, 10):
        most = 2 * classes / (classes - 1)
        assert worth(1.0, classes) == most
        evens = ERROR / (classes - 1)  # where the others give the label this p, it is right as often as wrong
        assert worth(1 - evens / (evens + 1 - ERROR), classes) == pytest.approx(most / 2)
        values = [worth(score, classes) for score in np.linspace(0, 1, 50)]
        assert values == sorted(values)
        assert values[0] == 0


def test_a_righted_label_is_worth_as_many_new_ones_as_the_slope_says():
    m, nu, classes = 1e6, 0.01, 4
    information = lambda labels, wrong: labels * (1 - wrong / labels * classes / (classes - 1)) ** 2  # noqa: E731
    righted = information(m, nu * m - 1) - information(m, nu * m)
    assert righted == pytest.approx(2 * classes / (classes - 1), rel=0.03)


@pytest.fixture
def made(tmp_path):
    """`made(share)`: a run of two classes far apart, in whose first batch ann got one item wrong; it, and the truth."""
    runs = []

    def make(share, check=0.0):
        rng = np.random.default_rng(0)
        y = rng.integers(2, size=80)
        x = rng.normal(size=(80, 4)) + 8 * y[:, None]
        np.savez(tmp_path / "rows.npz", X=x.astype(np.float32), ids=np.array([str(i) for i in range(80)]))
        options = {
            "classes": ("a", "b"),
            "budget": 40,
            "batch": 16,
            "check": check,
            "steps": 20,
            "learner": "supervised",
        }
        run = Run.create(tmp_path / "rows.npz", tmp_path / "run", second_opinions=share, **options)
        runs.append(run)
        while run.advance(ahead=False) is not None:
            pass
        with run.store.look() as db:
            chosen = [row[0] for row in db.execute("SELECT item FROM task WHERE kind = 'train' ORDER BY rank")]
        wrong = chosen[3]
        run.tell({p: "ab"[1 - y[int(p)] if int(p) == wrong else y[int(p)]] for p in run.waiting()}, "ann")
        while run.advance(ahead=False) is not None:
            pass
        return run, wrong, y

    yield make
    for run in runs:
        run.close()


def look(run, function, *args):
    with run.store.look() as db:
        assert list(contradictions(db)) == []
        return function(db, *args)


def say(run, who, item, label):
    with run.store.change() as db:
        answer(db, Desk(who, f"{who}-tab"), f"request-{who}-{item}", [item], Given(label=label), overlap=1)


def test_the_wrong_label_is_asked_of_somebody_else_who_does_not_see_it(made):
    run, wrong, y = made(0.1)
    assert look(run, waiting_for_second) == {wrong}
    before = look(run, progress_of)
    assert (before.spent, before.second.planned, before.train.planned) == (16, 1, 39)
    with run.store.lend() as db:
        assert next_item(db, Desk("ann", "ann-tab"), 1) != wrong
        assert wrong not in take_batch(db, Desk("cy", "cy-tab"), 1, 30)
        assert next_item(db, Desk("bo", "bo-tab"), 1) == wrong
    assert [len(look(run, answers_to, [wrong], who)) for who in ("ann", "bo")] == [1, 0]
    say(run, "bo", wrong, int(y[wrong]))
    assert look(run, progress_of).spent == 17
    assert [one.item for one in look(run, disagreements)] == [wrong]
    assert wrong not in look(run, train_labels)
    assert len(look(run, answers_to, [wrong], "cy")) == 2


def test_second_opinions_are_paid_by_the_budget_and_do_not_hold_anybody_up(made):
    run, wrong, y = made(0.1)
    while run.waiting() or run.advance(ahead=False) is not None:
        run.tell({p: "ab"[y[int(p)]] for p in run.waiting()}, "ann")
    progress = look(run, progress_of)
    assert (progress.train.done, progress.second.planned, progress.second.done) == (39, 1, 0)
    assert run.is_finished()
    assert look(run, waiting_for_second) == {wrong}  # for whoever comes
    with run.store.lend() as db:
        assert next_item(db, Desk("bo", "bo-tab"), 1) == wrong
    say(run, "bo", wrong, int(y[wrong]))
    assert look(run, progress_of).spent == 40


def test_a_larger_budget_pays_for_more_second_opinions(made):
    run, _wrong, _y = made(0.1)
    most = []
    run.set_budget("request-budget", "ann", 70)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_round, "ask_second", lambda db, items, n: most.append(n))
        one_round.ask_second_opinions(run)
    assert most == [7]


def test_without_the_option_nothing_is_asked_again(made):
    run, _wrong, _y = made(0.0)
    assert look(run, waiting_for_second) == set()


def test_check_items_are_not_asked_again(made):
    run, _wrong, _y = made(0.2, check=0.3)
    kinds = look(run, lambda db: {row[0] for row in db.execute("SELECT kind FROM task WHERE wanted > 0")})
    assert kinds <= {"train"}


def test_at_most_half_of_the_budget_goes_into_second_opinions(made):
    with pytest.raises(OptionError, match=r"second_opinions: expected a share of the budget from 0 to 0.5, got 0.7"):
        made(0.7)
