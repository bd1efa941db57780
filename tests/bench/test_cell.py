"""One cell: an ordinary ask / tell / fit run, which goes on where it was killed."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch

from askless import ActiveLearner, Supervised, nets
from askless.acquire import ALBL, CRC, NPC, Coreset, Entropy, Margin, Refine, Selection
from askless.base import digest
from askless.base.errors import InputError
from askless.base.rng import stream
from askless.bench import Data, Row, Sample, Successor, cell
from askless.bench.cell import Stage, finished, prepare, run_cell
from askless.bench.plan import start_positions
from askless.data import digits, subset
from askless.features.frozen import Frozen
from askless.learn import FixMatch, LabelPropagation

TINY = Data(name="digits", items=120, test=50)
FEW = Supervised(steps=6, batch=16, lr=0.1)


def row(**options):
    given = {"method": "margin", "strategy": "margin", "data": TINY, "net": "small-cnn", "learner": FEW}
    return Row(**given | {"start": 10, "counts": (10, 15, 20)} | options)


def run(folder, seed=0, **options):
    made = row(**options)
    run_cell(made, seed, folder)
    return json.loads((folder / "result.json").read_text())


def values(result, metric, learner="supervised"):
    """{labels: value} of what stands at no particular place of a round."""
    return {labels: v for l, labels, x, m, v in result["records"] if (l, x, m) == (learner, None, metric)}


def saved_learner(folder):
    pool, views, _ = prepare(row())
    return ActiveLearner.load(folder / "learner", pool=pool, views=views)


class Mine:
    """Takes the last unlabelled items; an object that cannot be written as data."""

    name, needs = "mine", ()

    def select(self, view, n, rng):
        return Selection(view.unlabelled[-n:])


class Killed(BaseException):
    """What no `except Exception` catches."""


def kill_in_round(monkeypatch, folder, number, seed=0, **options):
    """Runs a cell until the training of that round, and dies there."""
    train, rounds = cell.Experiment.train, []

    def dying(experiment):
        if len(rounds) == number:
            raise Killed
        rounds.append(1)
        return train(experiment)

    monkeypatch.setattr(cell.Experiment, "train", dying)
    with pytest.raises(Killed):
        run(folder, seed, **options)
    monkeypatch.undo()
    assert not (folder / "result.json").exists()
    return json.loads((folder / "progress.json").read_text())


# --- the same as by hand --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "learner", "fresh"),
    [
        (NPC(draws=20), FEW, True),
        (NPC(draws=20), FEW, "new"),
        (CRC(), FEW, False),
        (ALBL(), FixMatch(steps=3, batch=8, mu=2), True),
    ],
)
def test_a_cell_is_ask_tell_and_fit(tmp_path, strategy, learner, fresh):
    result = run(tmp_path, 3, strategy=strategy, learner=learner, fresh=fresh)
    pool = TINY()
    by_hand = ActiveLearner(pool, net="small-cnn", learner=learner, strategy=strategy, seed=3, fresh=fresh)
    start = start_positions(pool, 10, "balanced", 3)
    by_hand.tell(start, pool.labels[start])
    asked, records = [start.tolist()], []
    name = type(learner).__name__.lower()
    for count in (10, 15, 20):
        if count > 10:
            batch = by_hand.ask(5)
            by_hand.tell(batch.indices, pool.labels[batch.indices])
            asked.append(batch.indices.tolist())
            records += [[name, count, None, m, batch.info[m]] for m in ("lambda_min", "rank") if m in batch.info]
        by_hand.fit()
        classes = len(set(by_hand.labels.values()))
        right = (by_hand.predict_pool().argmax(axis=1) == pool.labels).mean()
        records += [
            [name, count, None, "class_coverage", classes / 10],
            [name, count, None, "test_accuracy", by_hand.score()],
            [name, count, None, "pool_accuracy", right],
        ]
    assert result["asked"] == asked
    assert result["records"] == records
    assert any(m == "lambda_min" for *_, m, _ in records) == (not isinstance(strategy, ALBL))


def test_the_files_of_a_cell(tmp_path):
    result = run(tmp_path, learner_name="few")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["learner", "result.json", "times.json"]
    assert set(result) == {"settings", "asked", "records"}
    assert result["settings"]["seed"] == "0"
    assert [len(a) for a in result["asked"]] == [10, 5, 5]
    assert {(type(l), type(n), x, type(m), type(v)) for l, n, x, m, v in result["records"]} == {
        (str, int, None, str, float)
    }
    times = json.loads((tmp_path / "times.json").read_text())
    kinds = [(n, m) for _, n, _, m, _ in times]
    assert kinds.count((15, "select_seconds")) == kinds.count((15, "peak_memory_mb")) == 1
    assert (10, "select_seconds") not in kinds
    assert {n for n, m in kinds if m == "fit_seconds"} == {10, 15, 20}
    assert kinds[-1] == (20, "cell_seconds")
    assert all(v > 0 for *_, v in times)
    assert {l for l, *_ in times} == {l for l, *_ in result["records"]} == {"few"}
    back = saved_learner(tmp_path)
    assert back.labelled.tolist() == [i for batch in result["asked"] for i in batch]
    assert back.score() == values(result, "test_accuracy", "few")[20]


def test_strategies_of_a_seed_share_the_start_and_the_first_weights(tmp_path):
    results, weights = [], set()
    for name in ("random", "margin", "badge"):
        results.append(run(tmp_path / name, 5, strategy=name, counts=(10, 12)))
        learner = saved_learner(tmp_path / name)
        weights.add(digest.of_network(learner.first_network))
    assert len({tuple(r["asked"][0]) for r in results}) == len(weights) == 1
    assert len({values(r, "test_accuracy")[10] for r in results}) == 1
    assert len({tuple(r["asked"][1]) for r in results}) == 3
    other = run(tmp_path / "other", 6, counts=(10,))
    assert other["asked"][0] != results[0]["asked"][0]


@pytest.mark.parametrize("fresh", [True, "new"])
def test_every_learner_values_the_same_labels_from_the_same_first_weights(tmp_path, fresh):
    other, by = Supervised(steps=9, batch=8, lr=0.05), {"learner": FixMatch(steps=3, batch=8, mu=2), "fresh": fresh}
    result = run(tmp_path / "a", 1, value=(("again", other),), **by)
    plain = run(tmp_path / "b", 1, **by)
    assert result["asked"] == plain["asked"], "who judges does not ask"
    assert [r for r in result["records"] if r[0] == "fixmatch"] == plain["records"]
    pool, told = TINY(), []
    for count, batch in zip((10, 15, 20), result["asked"], strict=True):
        told += batch
        by_hand = ActiveLearner(pool, net="small-cnn", learner=other, seed=1, fresh=fresh)
        by_hand.tell(told, pool.labels[told])
        by_hand.fit()
        assert values(result, "test_accuracy", "again")[count] == by_hand.score()
        right = (by_hand.predict_pool().argmax(axis=1) == pool.labels).mean()
        assert values(result, "pool_accuracy", "again")[count] == right


def test_a_successor_learns_the_same_labels_with_a_network_of_its_own(tmp_path):
    raw = Frozen(backbone="raw", weak=0, strong=0)
    others = {
        "same": Successor(net="small-cnn", learner=FEW),
        "mlp": Successor(net="mlp", learner=Supervised(steps=9, batch=8, lr=0.05)),
        "propagated": Successor(net=raw, learner="label-propagation"),
    }
    result = run(tmp_path, 1, value=tuple(others.items()), fresh="new")
    assert values(result, "test_accuracy", "same") == values(result, "test_accuracy")
    pool, told = TINY(), []
    for count, batch in zip((10, 15, 20), result["asked"], strict=True):
        told += batch
        for name, other in others.items():
            by_hand = ActiveLearner(pool, net=other.net, learner=other.learner, seed=1, fresh="new")
            by_hand.tell(told, pool.labels[told])
            by_hand.fit()
            assert values(result, "test_accuracy", name)[count] == by_hand.score()


def test_a_successor_sees_frozen_features_also_of_items_that_a_row_does_not_augment(tmp_path):
    raw = Frozen(backbone="raw", weak=0, strong=0)
    result = run(tmp_path, augment=False, counts=(10,), value=(("raw", Successor(net=raw, learner=FEW)),))
    assert set(values(result, "test_accuracy", "raw")) == {10}


def test_a_start_that_a_strategy_chose_is_far_apart_and_the_same_for_all_methods(tmp_path):
    pool = TINY()
    x = pool.x.flatten(1).double()
    starts = [run(tmp_path / name, 3, strategy=name, start_by=Coreset())["asked"][0] for name in ("margin", "random")]
    assert starts[0] == starts[1] == start_positions(pool, 10, Coreset(), 3).tolist()
    distance = torch.cdist(x, x[starts[0]])
    drawn = torch.cdist(x, x[start_positions(pool, 10, "random", 3)])
    assert distance.amin(dim=1).max() < drawn.amin(dim=1).max(), "every item is near one of them"


def test_options_of_a_network_are_used_and_its_weights_drawn_from_the_seed(tmp_path):
    result = run(tmp_path, 2, net_options=(("width", 3),), counts=(10,))
    net = nets.make("small-cnn", classes=10, shape=(1, 8, 8), width=3, seed=2)
    by_hand = ActiveLearner(TINY(), net=net, learner=FEW, seed=2)
    start = result["asked"][0]
    by_hand.tell(start, by_hand.pool.labels[start])
    by_hand.fit()
    assert values(result, "test_accuracy") == {10: by_hand.score()}


def test_label_propagation_is_a_learner_too(tmp_path):
    moons = Data(name="two-moons", items=100, test=40)
    result = run(tmp_path, data=moons, net="mlp", learner=LabelPropagation(), start=4, counts=(4, 8))
    by_hand = ActiveLearner(moons(), net="mlp", learner=LabelPropagation(), strategy="margin")
    for batch in result["asked"]:
        by_hand.tell(batch, by_hand.pool.labels[batch])
    by_hand.fit()
    assert values(result, "test_accuracy", "labelpropagation")[8] == by_hand.score()


# --- starts ---------------------------------------------------------------------------------------------------------


def test_from_no_labels_the_untrained_network_asks(tmp_path):
    result = run(tmp_path, 4, strategy=NPC(draws=20), start=0, counts=(8,))
    by_hand = ActiveLearner(TINY(), net="small-cnn", learner=FEW, strategy=NPC(draws=20), seed=4)
    assert result["asked"] == [[], by_hand.ask(8).indices.tolist()]


def test_zero_shot_keeps_the_start_and_the_untrained_network_asks(tmp_path):
    result = run(tmp_path, 4, strategy=NPC(draws=20), start=10, counts=(14,))
    pool = TINY()
    by_hand = ActiveLearner(pool, net="small-cnn", learner=FEW, strategy=NPC(draws=20), seed=4)
    start = start_positions(pool, 10, "balanced", 4)
    by_hand.tell(start, pool.labels[start])
    assert result["asked"] == [start.tolist(), by_hand.ask(4).indices.tolist()]
    assert list(values(result, "test_accuracy")) == [14]


def test_with_other_init_another_network_makes_the_first_query_only(tmp_path):
    options = {"strategy": "entropy", "start": 0, "counts": (6, 9)}
    result = run(tmp_path, 4, other_init=True, **options)
    pool = TINY()
    other = int(stream(4, "other init").integers(2**62))
    asker = ActiveLearner(pool, net="small-cnn", learner=FEW, strategy="entropy", seed=other)
    trained = ActiveLearner(pool, net="small-cnn", learner=FEW, strategy="entropy", seed=4)
    first = asker.ask(6).indices
    assert result["asked"][1] == first.tolist()
    assert result["asked"][1] != trained.ask(6).indices.tolist()
    trained.tell(first, pool.labels[first])
    trained.fit()
    assert result["asked"][2] == trained.ask(3).indices.tolist()
    assert values(result, "test_accuracy")[6] == trained.score()


def test_a_start_may_have_a_seed_of_its_own(tmp_path):
    run_cell(row(counts=(10,)), 3, tmp_path, start_seed=8)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["asked"] == [start_positions(TINY(), 10, "balanced", 8).tolist()]
    assert result["settings"]["start_seed"] == "8"
    learner = saved_learner(tmp_path)
    assert learner.seed == 3
    with pytest.raises(InputError, match=r"other settings .*: start_seed: 8 → 7; use another folder"):
        run_cell(row(counts=(10,)), 3, tmp_path, start_seed=7)


# --- data and views -------------------------------------------------------------------------------------------------


def test_what_is_held_out_is_never_in_the_pool():
    pool, views, (x, y) = prepare(row(validation=30))
    whole = TINY()
    assert (len(pool), len(views), len(x), len(y)) == (90, 90, 30, 30)
    assert sorted([*pool.ids, *(set(whole.ids) - set(pool.ids))]) == sorted(whole.ids)
    items = {tuple(i.flatten().tolist()) for i in pool.x}
    held = {tuple(i.flatten().tolist()) for i in x}
    assert not items & held
    assert items | held == {tuple(i.flatten().tolist()) for i in whole.x}
    assert prepare(row())[2] is None


def test_early_stopping_looks_at_what_is_held_out(tmp_path):
    learner = Supervised(steps=40, batch=16, lr=0.1, evaluate_every=4, patience=2)
    judge = dataclasses.replace(learner, lr=0.02)
    options = {"learner": learner, "validation": 30, "counts": (10,), "value": (("slower", judge),)}
    result = run(tmp_path, 1, **options)
    pool, views, held_out = prepare(row(**options))
    for name, training in (("supervised", learner), ("slower", judge)):
        by_hand = ActiveLearner(pool, net="small-cnn", learner=training, seed=1, views=views)
        by_hand.tell(result["asked"][0], pool.labels[result["asked"][0]])
        fitted = by_hand.fit(validation=held_out)
        assert values(result, "test_accuracy", name) == {10: by_hand.score()}
        assert all("validation" in m for m in fitted.metrics)


def test_without_augmentation_weak_views_are_the_images_themselves():
    at, generator = torch.arange(20), torch.Generator().manual_seed(0)
    _, views, _ = prepare(row(augment=False))
    assert torch.equal(views.weak(at, generator), views.plain(at))
    _, moved, _ = prepare(row())
    assert not torch.equal(moved.weak(at, generator), moved.plain(at))
    assert torch.equal(moved.plain(at), views.plain(at))


def test_a_row_says_how_its_views_are_made():
    at, generator = torch.arange(20), torch.Generator().manual_seed(0)
    options = (("policy", "leedoyup"), ("padding", 1), ("border", "zero"), ("mean", 0.5), ("std", 0.5))
    _, views, _ = prepare(row(views=options))
    pixels = prepare(row(views=(("mean", 0.0), ("std", 1.0))))[1].plain(at)
    torch.testing.assert_close(views.plain(at), 2 * pixels - 1)  # in [-1, 1]
    weak = views.weak(at, generator)
    assert weak.min() == -1, "zeros, normalised, come in from the border"
    assert views.policy.fill == (125, 123, 114)
    _, still, _ = prepare(row(views=options[3:], augment=False))
    assert torch.equal(still.weak(at, generator), views.plain(at))
    stage = Stage()
    first = stage(row())
    assert stage(row(views=options)) is not first
    assert row(views=options).views == options


def test_a_cell_sees_the_views_of_its_row(tmp_path):
    def accuracy(name, **options):
        return values(run(tmp_path / name, **options), "test_accuracy")

    dark = (("mean", 0.0), ("std", 100.0))  # nothing can be learned from pixels that are all but 0
    assert accuracy("a") != accuracy("b", views=dark)
    with pytest.raises(InputError, match=r"views: \[\['mean', 0\.0\].* → \[\]"):
        run(tmp_path / "b")


def test_data_is_prepared_once_for_the_cells_that_share_it():
    stage = Stage()
    first = stage(row())
    assert stage(row(method="b", strategy="badge", data=Data(name="digits", items=120, test=50))) is first
    assert stage(row(validation=5)) is not first
    assert len(stage(row(validation=5))[0]) == 115


def test_the_pools_used_last_are_kept_while_they_fit():
    one, two, three = (row(data=Data(name="digits", items=n, test=50)) for n in (120, 121, 122))
    stage = Stage(most=250 * 64)  # bytes: two of them
    first = stage(one)
    second = stage(two)
    assert stage(one) is first
    stage(three)  # the second was not used for longest
    assert stage(one) is first
    assert stage(two) is not second
    assert len(Stage(most=0)(one)[0]) == 120


def test_two_functions_of_one_name_are_two_sets_of_data():
    stage = Stage()
    assert len(stage(row(data=lambda: subset(digits(), 30)))[0]) == 30
    assert len(stage(row(data=lambda: subset(digits(), 40)))[0]) == 40


# --- killed, and going on -------------------------------------------------------------------------------------------


def same_as_uninterrupted(tmp_path, monkeypatch, number=2, **options):
    whole = run(tmp_path / "whole", **options)
    kill_in_round(monkeypatch, tmp_path / "killed", number, **options)
    assert run(tmp_path / "killed", **options) == whole
    times = [json.loads((tmp_path / f / "times.json").read_text()) for f in ("whole", "killed")]
    assert [t[:4] for t in times[0]] == [t[:4] for t in times[1]]
    assert sorted(p.name for p in (tmp_path / "killed").iterdir()) == sorted(
        p.name for p in (tmp_path / "whole").iterdir()
    )
    return whole


def test_a_killed_cell_ends_as_one_that_was_not(tmp_path, monkeypatch):
    same_as_uninterrupted(tmp_path, monkeypatch, 1, fresh=False)


def test_a_killed_cell_looks_at_all_layers_as_before(tmp_path, monkeypatch):
    moons = {"data": Data(name="two-moons", items=30, test=20), "net": "mlp", "start": 4, "counts": (4, 6)}
    same_as_uninterrupted(tmp_path, monkeypatch, 1, layers="all", strategy=NPC(draws=10), **moons)


@pytest.mark.parametrize("other_init", [False, True])
def test_the_width_of_a_row_is_that_of_its_learners(tmp_path, monkeypatch, other_init):
    widths = []

    class Wide(ActiveLearner):
        def observe(self):
            seen = super().observe()
            widths.append(seen["features"].shape[1])
            return seen

    monkeypatch.setattr(cell, "ActiveLearner", Wide)
    run(tmp_path, layers="all", width=20, strategy=NPC(draws=3), start=0, counts=(5, 8), other_init=other_init)
    assert widths == [20, 20]


@pytest.mark.parametrize("other_init", [False, True])
def test_the_first_look_of_a_row_is_calibrated_or_not(tmp_path, other_init):
    asked = [
        run(tmp_path / str(c), calibrate=c, strategy="entropy", start=0, counts=(5,), other_init=other_init)["asked"][1]
        for c in (True, False)
    ]
    assert asked[0] != asked[1]
    other = int(stream(0, "other init").integers(2**62)) if other_init else 0
    by_hand = ActiveLearner(TINY(), net="small-cnn", learner=FEW, strategy="entropy", seed=other, calibrate=False)
    assert asked[1] == by_hand.ask(5).indices.tolist()


def test_a_strategy_that_cannot_be_saved_goes_on(tmp_path, monkeypatch):
    whole = same_as_uninterrupted(tmp_path, monkeypatch, strategy=Mine())
    assert whole["asked"][1] == [i for i in range(120) if i not in whole["asked"][0]][-5:]


@pytest.mark.parametrize("arms", [(Margin(), Coreset()), (Mine(), Coreset())])
def test_the_memory_of_a_strategy_survives(tmp_path, monkeypatch, arms):
    same_as_uninterrupted(tmp_path, monkeypatch, strategy=ALBL(arms=arms), counts=(10, 15, 20, 25))
    memories = [kill_in_round(monkeypatch, tmp_path / "again", 2, strategy=ALBL(arms=arms), counts=(10, 15, 20))]
    seen = []

    def look(experiment):
        seen.append(experiment.learner.history)
        experiment.learner.fit()
        return []

    monkeypatch.setattr(cell.Experiment, "train", look)
    run(tmp_path / "again", strategy=ALBL(arms=arms), counts=(10, 15, 20))
    asked = memories[0]["asked"]
    assert [past.indices.tolist() for past in seen[0]][:1] == asked[1:2]
    assert len(seen[0]) == 2


@pytest.mark.parametrize("drawn", [{}, {"fresh": "new"}, {"fresh": "new", "net_options": (("width", 3),)}], ids=str)
def test_a_training_resumes_at_its_checkpoint(tmp_path, monkeypatch, drawn):
    """Killed within a training: the steps that were saved are not done again."""
    options = {"learner": Supervised(steps=6, batch=16, checkpoint_every=2), "counts": (10, 15), **drawn}
    whole = run(tmp_path / "whole", **options)
    fit, steps = ActiveLearner.fit, []

    def dying(self, **given):
        def watch(done, total, numbers):
            steps.append(done)
            if len(steps) == 6 + 5:  # in the second round, after the checkpoint of step 4
                raise Killed

        return fit(self, **given | {"watch": watch})

    monkeypatch.setattr(ActiveLearner, "fit", dying)
    with pytest.raises(Killed):
        run(tmp_path / "killed", **options)
    assert {"progress.json", "training.pt", "learner-1"} <= {p.name for p in (tmp_path / "killed").iterdir()}
    steps.clear()
    assert run(tmp_path / "killed", **options) == whole
    assert steps == [5, 6]
    assert not (tmp_path / "killed" / "training.pt").exists()


def test_a_round_that_is_looked_at_is_trained_again_as_a_whole(tmp_path, monkeypatch):
    def look(learner, step, model):
        return [Sample("step", step, step)]

    options = {"along": (look,), "learner": Supervised(steps=4, evaluate_every=2), "counts": (10, 15)}
    whole = same_as_uninterrupted(tmp_path, monkeypatch, 1, **options)
    assert [(n, x) for _, n, x, m, _ in whole["records"] if m == "step"] == [
        (n, x) for n in (10, 15) for x in (0, 2, 4)
    ]


def test_a_finished_cell_is_left_alone_and_other_settings_are_refused(tmp_path, monkeypatch):
    run(tmp_path, counts=(10,))
    before = (tmp_path / "result.json").stat()
    monkeypatch.setattr(cell, "Experiment", None)
    run_cell(row(counts=(10,)), 0, tmp_path)
    after = (tmp_path / "result.json").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert finished(tmp_path, row(counts=(10,)), 0)
    fixmatch = {"counts": (10,), "learner": FixMatch()}
    for options, words in (
        ({"counts": (10, 12)}, r"counts: \[10\] → \[10, 12\]"),
        (fixmatch, r"learner: Supervised\(…\) → FixMatch\(…\)"),
    ):
        with pytest.raises(
            InputError, match=f"made with other settings .old → new.: {words}.*; use another folder, or remove"
        ):
            run_cell(row(**options), 0, tmp_path)


@pytest.mark.parametrize("of", ["strategy", "learner", "part"])
def test_results_of_another_revision_of_a_method_are_refused(tmp_path, monkeypatch, of):
    """Also of a strategy within another one, and in both directions; the first revision is as if there were none."""
    parted = Refine(strategies=(Margin(), Entropy()), final=Margin(), depth=1, batches=2)
    strategy = parted if of == "part" else Margin()
    one = row(counts=(10,), strategy=strategy)
    run_cell(one, 0, tmp_path)
    changed = {"strategy": Margin, "learner": type(one.learner), "part": Entropy}[of]
    monkeypatch.setattr(changed, "revision", 1, raising=False)
    assert finished(tmp_path, one, 0)
    monkeypatch.setattr(changed, "revision", 2)
    setting = {"part": r"strategy.strategies\[1\]."}.get(of, f"{of}.")
    said = rf": {setting}.*revision: 1 → 2; another revision of a method gives other results"
    with pytest.raises(InputError, match=said):
        finished(tmp_path, one, 0)
    shutil.rmtree(tmp_path)
    run_cell(one, 0, tmp_path)
    assert finished(tmp_path, one, 0)
    monkeypatch.setattr(changed, "revision", 3)
    with pytest.raises(InputError, match=r"revision: 2 → 3; .*; use another folder, or remove this one"):
        finished(tmp_path, one, 0)
    monkeypatch.setattr(changed, "revision", 1)
    with pytest.raises(InputError, match="revision: 2 → 1; another revision"):
        finished(tmp_path, one, 0)


def test_what_a_kill_after_the_result_left_is_removed(tmp_path, monkeypatch):
    def dying(folder):
        raise Killed

    monkeypatch.setattr(cell, "tidy", dying)
    with pytest.raises(Killed):
        run(tmp_path, counts=(10, 12))
    monkeypatch.undo()
    (tmp_path / "training.pt").touch()
    assert {"result.json", "progress.json", "learner-1"} <= {p.name for p in tmp_path.iterdir()}
    assert finished(tmp_path, row(counts=(10, 12)), 0)
    assert {p.name for p in tmp_path.iterdir()} == {"result.json", "times.json", "learner"}


def test_an_unfinished_cell_of_other_settings_is_refused_too(tmp_path, monkeypatch):
    kill_in_round(monkeypatch, tmp_path, 1)
    assert not finished(tmp_path, row(), 0)
    with pytest.raises(InputError, match=r"counts: \[10, 15, 20\] → \[10, 15\]"):
        finished(tmp_path, row(counts=(10, 15)), 0)


# --- what is measured -----------------------------------------------------------------------------------------------


def test_measures_see_the_round_and_may_keep_arrays(tmp_path):
    seen = []

    def measure(moment):
        seen.append(moment)
        moment.keep({"asked": moment.asked, "labels": moment.learner.known_labels})
        return [Sample("whole", 2), Sample("part", 0.5, 3)]

    result = run(tmp_path, 7, strategy=NPC(draws=5), measures=(measure,))
    assert [len(m.asked) for m in seen] == [0, 5, 5]
    assert {m.seed for m in seen} == {7}
    assert "lambda_min" in seen[1].info
    assert values(result, "whole") == dict.fromkeys((10, 15, 20), 2.0)
    assert [r for r in result["records"] if r[3] == "part"] == [["supervised", n, 3, "part", 0.5] for n in (10, 15, 20)]
    with np.load(tmp_path / "arrays-15.npz") as kept:
        assert kept["asked"].tolist() == result["asked"][1]
        assert kept["labels"].shape == (15,)


def test_each_round_is_reported_with_its_numbers(tmp_path):
    said = []
    run_cell(row(value=(("b", FEW),)), 0, tmp_path, report=said.append)
    result = json.loads((tmp_path / "result.json").read_text())
    assert [s["labels"] for s in said] == [10, 15, 20]
    assert [s["test_accuracy"] for s in said] == list(values(result, "test_accuracy").values())
    assert set(said[0]) == {"labels", "class_coverage", "test_accuracy", "pool_accuracy", "fit_seconds"}
    assert set(said[1]) == {*said[0], "select_seconds", "peak_memory_mb"}


def test_a_pool_without_test_items_has_the_pool_accuracy_alone(tmp_path):
    result = run(tmp_path, data=lambda: dataclasses.replace(TINY(), test=None), counts=(10,))
    assert {r[3] for r in result["records"]} == {"class_coverage", "pool_accuracy"}


def test_a_cell_trains_on_the_device_it_is_given(tmp_path, monkeypatch):
    seen, init = [], ActiveLearner.__init__

    def spy(self, *given, device="cpu", **options):
        seen.append(device)
        init(self, *given, device="cpu", **options)

    monkeypatch.setattr(ActiveLearner, "__init__", spy)
    made = row(counts=(10, 14), value=(("longer", FEW),))
    for device in ("cpu", "cpu:0"):
        seen.clear()
        run_cell(made, 0, tmp_path / device, device=device)
        assert len(seen) == 3
        assert set(seen) == {device}
    assert (tmp_path / "cpu" / "result.json").read_text() == (tmp_path / "cpu:0" / "result.json").read_text()


def test_views_of_images_are_made_on_the_device():
    assert prepare(row(), device="meta")[1].device == torch.device("meta")
    assert prepare(row(views=(("padding", 1),)), device="meta")[1].device == torch.device("meta")
    assert prepare(row())[1].device is None
