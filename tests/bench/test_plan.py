"""What a benchmark is made of: rows, data, starts, and the text that tells one from another."""

import dataclasses
import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from askless import Supervised
from askless.acquire import ALBL, CRC, NPC, STRATEGIES, Coreset, Margin
from askless.base.errors import InputError, OptionError
from askless.bench import Benchmark, Data, Row, Successor, measures, preset
from askless.bench.plan import default_settings, learner_name, settings, start_positions, text_of
from askless.data import SOURCES, digits, long_tailed, subset, two_moons
from askless.features.frozen import Frozen
from askless.learn import DARP, FixMatch, LabelPropagation

DIGITS = Data(name="digits")


def row(**options):
    given = {
        "method": "margin",
        "strategy": "margin",
        "data": DIGITS,
        "net": "small-cnn",
        "learner": Supervised(steps=2),
    }
    return Row(**given | {"start": 10, "counts": (10, 20)} | options)


def benchmark(**options):
    return Benchmark(**{"name": "mine", "title": "Mine", "rows": (row(),), "seeds": (0,)} | options)


# --- rows and benchmarks --------------------------------------------------------------------------------------------


def test_a_strategy_may_be_a_name_or_an_object():
    assert row(strategy="margin") == row(strategy=Margin())
    assert row(strategy=NPC(draws=7)).strategy.draws == 7


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(OptionError, match="unknown strategy") as refused:
        row(strategy="margins")
    assert all(name in str(refused.value) for name in STRATEGIES)


@pytest.mark.parametrize("wrong", [3, None, Margin])
def test_what_is_no_strategy_is_refused(wrong):
    with pytest.raises(InputError, match="expected a strategy's name or an object such as NPC"):
        row(strategy=wrong)


@pytest.mark.parametrize("counts", [(), (20, 10), (10, 10), (5, 20), (9,)])
def test_numbers_of_labels_rise_from_the_start(counts):
    with pytest.raises(InputError, match="margin: expected rising numbers of labels from the 10 at the start, got"):
        row(counts=counts)


def test_from_no_labels_at_all_the_first_number_is_one_or_more():
    assert row(start=0, counts=(1,)).counts == (1,)
    with pytest.raises(InputError, match="from the 0 at the start"):
        row(start=0, counts=(0, 5))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": "digits"}, r"margin: expected data that can be called, such as Data\(name='digits'\), got 'digits'; "),
        ({"start_by": "balance"}, "start_by must be one of balanced, random, first, got 'balance'"),
        ({"layers": "most"}, "layers must be one of last, all, got 'most'"),
        ({"width": 0}, "width must be a whole number >= 1, got 0"),
        ({"trials": (0, "best")}, "trials must be a whole number >= 1, got 0"),
        ({"trials": (5, "mean")}, "trials must be one of median, best, got 'mean'"),
        ({"trials": (5, "best"), "start": 0}, "expected a start with labels for the trials to settle, got start=0"),
        ({"augment": False, "net": Frozen(backbone="raw")}, r"use Frozen\(weak=0, strong=0\)"),
        ({"augment": False, "net": "frozen:raw"}, "augment=False is for networks that see images"),
        ({"views": (("padding", 2),), "net": "frozen:raw"}, "views= is for networks that see .*, got frozen:raw, whose"),
        ({"learner": Supervised(patience=3)}, "a learner with patience needs validation=N items to hold out, got 0"),
        ({"value": (("b", Supervised(patience=3)),)}, "a learner with patience needs validation=N items"),
        ({"value": (("b", Successor(net="mlp", learner=Supervised(patience=3))),)}, "needs validation=N items"),
        ({"value": (("supervised", FixMatch()),)}, "expected learners of different names, got supervised, supervised"),
        ({"value": (("b", FixMatch()), ("b", FixMatch()))}, "expected learners of different names, got supervised, b, b"),
    ],
)  # fmt: skip
def test_what_would_fail_hours_later_is_said_at_once(options, words):
    with pytest.raises(InputError, match=words):
        row(**options)


@pytest.mark.parametrize("data", [(np.zeros((50, 8)), np.arange(50)), np.zeros((50, 8)), digits(), None, 3])
def test_data_that_cannot_be_called_are_named_by_their_type_alone(data):
    with pytest.raises(
        InputError, match=r"got a \w+; save arrays with np\.savez.* Data\(name='mine\.npz', test=300\)"
    ) as e:
        row(data=data)
    assert f"got a {type(data).__name__}; " in str(e.value)
    assert len(str(e.value)) < 260


def test_a_layout_is_one_of_four():
    with pytest.raises(InputError, match="layout must be one of labels, steps, rounds, ends, got 'columns'"):
        Benchmark(name="a", title="A", rows=(row(),), seeds=(0,), baseline=None, layout="columns")


def test_learners_are_named_by_their_kind():
    assert learner_name(FixMatch()) == "fixmatch"
    assert learner_name(FixMatch(darp=DARP())) == "fixmatch+darp"
    assert learner_name(LabelPropagation()) == "labelpropagation"
    assert row().learner_name == "supervised"
    assert row(learner_name="mine").learner_name == "mine"
    assert row(learner="label-propagation").learner == LabelPropagation()
    with pytest.raises(InputError, match="unknown learner 'fixmach'; did you mean 'fixmatch'"):
        row(learner="fixmach")


def test_rows_are_told_apart_by_group_and_method():
    assert benchmark(rows=(row(), row(group="b"), row(method="b"))).seeds == (0,)
    with pytest.raises(InputError, match=r"mine: expected rows with distinct \(group, method\), got .*'margin'"):
        benchmark(rows=(row(), row(strategy="badge")))
    with pytest.raises(InputError, match="distinct"):
        benchmark(rows=())
    with pytest.raises(InputError, match=r"they name the cells' folders, got \('', 'reach<1'\) and \('', 'reach>1'\)"):
        benchmark(rows=(row(method="reach<1"), row(method="reach>1")))


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_seeds_are_distinct(seeds):
    with pytest.raises(InputError, match="mine: expected distinct seeds, got"):
        benchmark(seeds=seeds)


def test_one_start_is_settled_in_one_way():
    two = [row(trials=(3, "best")), row(method="b", trials=(3, "median"))]
    with pytest.raises(InputError, match=r"mine: expected one choice of trials for a start of 10 in .*median"):
        benchmark(rows=tuple(two))
    apart = dataclasses.replace(two[1], group="b")
    assert len(benchmark(rows=(two[0], apart, row(method="c"))).rows) == 3


# --- data -----------------------------------------------------------------------------------------------------------


def test_data_is_a_pool_by_its_name():
    assert Data(name="digits", options={"test": 100})().test[1].shape == (100,)
    pool, whole = Data(name="digits", items=50, test=7)(), digits()
    assert len(pool) == 50
    assert pool.labels.tolist() == subset(whole, 50).labels.tolist()
    assert pool.test[1].tolist() == whole.test[1][:7].tolist()
    assert torch.equal(pool.test[0], whole.test[0][:7])


def test_the_draw_of_a_part_is_the_same_every_time():
    assert torch.equal(Data(name="digits", items=50)().x, Data(name="digits", items=50)().x)


def test_a_tail_is_made_before_a_part_is_taken():
    pool = Data(name="digits", tail=10.0)()
    assert pool.labels.tolist() == long_tailed(digits(), 10.0).labels.tolist()
    assert Data(name="digits", tail=10.0, items=60)().labels.tolist() == subset(pool, 60).labels.tolist()


def test_unknown_data_is_refused_with_the_known_names():
    words = r"unknown data 'digit'; did you mean 'digits'\? the known ones are digits, two-moons"
    with pytest.raises(OptionError, match=words) as refused:
        Data(name="digit")
    assert all(name in str(refused.value) for name in SOURCES)


def test_data_may_be_at_a_path(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((6, 2), np.float32), y=np.arange(6) % 2)
    assert len(Data(name=str(tmp_path / "mine.npz"))()) == 6
    with pytest.raises(OptionError, match=r"unknown data .*other\.npz.* or a path"):
        Data(name=str(tmp_path / "other.npz"))


@pytest.fixture
def mine(tmp_path):
    """The path of an .npz without a test set, of 60 items of which 50 have a label."""
    y = np.where(np.arange(60) < 50, np.arange(60) % 3, -1)
    np.savez(tmp_path / "mine.npz", X=np.arange(120, dtype=np.float32).reshape(60, 2), y=y)
    return str(tmp_path / "mine.npz")


def test_a_test_is_held_out_of_data_that_have_none(mine):
    pool = Data(name=mine, test=20)()
    x, y = pool.test
    assert (len(pool), len(y), int((pool.labels >= 0).sum())) == (40, 20, 30)
    assert sorted(pool.x[:, 0].tolist() + x[:, 0].tolist()) == list(range(0, 120, 2)), "each item is in one of them"
    assert y.tolist() == (x[:, 0].numpy() / 2 % 3).tolist(), "with its own label"
    assert x[:, 0].tolist() != pool.x[:20, 0].tolist() != list(range(0, 40, 2)), "drawn at random"


def test_what_is_held_out_does_not_depend_on_the_rest(mine):
    held = Data(name=mine, test=20)().test
    part = Data(name=mine, test=20, items=10)()
    assert torch.equal(part.test[0], held[0])
    assert len(part) == 10
    assert not set(part.x[:, 0].tolist()) & set(held[0][:, 0].tolist())


@pytest.mark.parametrize("test", [0, -1, 2.5, True])
def test_a_test_of_no_items_is_refused(mine, test):
    with pytest.raises(InputError, match="Data: test must be a whole number >= 1"):
        Data(name=mine, test=test)


def test_a_test_of_all_items_is_refused(mine):
    with pytest.raises(InputError, match="expected 1 to 49 of 50 labelled items for test, got 50"):
        Data(name=mine, test=50)()


# --- starts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 7, 10, 23, 40])
def test_a_balanced_start_is_as_even_as_n_allows(n):
    pool = digits()
    start = start_positions(pool, n, "balanced", 3)
    per_class = np.bincount(pool.labels[start], minlength=10)
    assert len(set(start.tolist())) == n
    assert per_class.max() - per_class.min() <= 1


def test_which_class_gets_one_more_is_drawn_too():
    pool = digits()
    alone = {int(pool.labels[start_positions(pool, 1, "balanced", seed)[0]]) for seed in range(30)}
    assert len(alone) > 5


@pytest.mark.parametrize("by", ["balanced", "random"])
def test_starts_depend_on_the_seed_alone(by):
    pool = digits()
    first, again, other = (start_positions(pool, 20, by, seed).tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(set(first)) == 20


def test_the_first_items_that_have_a_label():
    pool = two_moons(pivots=4)
    assert start_positions(pool, 4, "first", 9).tolist() == [0, 1, 2, 3]
    labels = np.array([-1, 0, -1, 1, 1])
    part = dataclasses.replace(subset(pool, np.arange(5)), labels=labels)
    assert start_positions(part, 2, "first", 0).tolist() == [1, 3]
    assert set(start_positions(part, 3, "random", 0).tolist()) == {1, 3, 4}
    assert start_positions(part, 2, "balanced", 0)[labels[start_positions(part, 2, "balanced", 0)] == 0].tolist() == [1]


def test_starts_that_cannot_be_are_refused():
    part = subset(two_moons(n=10), [0, 10, 11, 12])
    with pytest.raises(InputError, match="a start of 5 labels needs as many items with known labels, got 4"):
        start_positions(part, 5, "random", 0)
    with pytest.raises(InputError, match="a balanced start of 4 labels needs 2 items of every class"):
        start_positions(part, 4, "balanced", 0)


# --- the text of a row ----------------------------------------------------------------------------------------------

EVERYTHING = """
import functools, json, sys
import numpy as np, torch
from askless import Supervised
from askless.acquire import ALBL, NPC, Coreset
from askless.bench import Data, Row
from askless.bench.measures import GroupEigenvalues, TestNumbers
from askless.bench.plan import settings
from askless.data import load
from askless.features.frozen import Frozen
from askless.learn import DARP, FixMatch

class Mine:
    name, needs = "mine", ()
    def __init__(self, k): self.k, self.words = k, {"b", "a", "c", "dd", "e"}
    def select(self, view, n, rng): ...

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
learner = FixMatch(darp=DARP(target=np.arange(1, 3000)))
common = {"learner": learner, "counts": (10, 20), "start": 10, "value": (("s", Supervised(steps=3)),)}
rows = [
    Row(method="a", strategy=NPC(draws=3), data=Data(name="digits", items=50, options={"test": 9}), net="mlp", **common),
    Row(method="b", strategy=ALBL(arms=(Mine(1), Coreset())), data=functools.partial(load, "digits", test=3), net=net,
        **common),
    Row(method="c", strategy=Mine(2), data=lambda: None, net=Frozen(hidden=3), measures=(GroupEigenvalues(group=2),),
        along=(TestNumbers(),), **common),
]
shown = json.dumps([settings(r) for r in rows], indent=1)
"""


def test_the_text_of_a_row_is_the_same_in_another_process():
    here: dict = {}
    exec(EVERYTHING, here)
    env = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING + "\nprint(shown)"], capture_output=True, text=True, env=env, check=True
    )
    assert json.loads(done.stdout) == json.loads(here["shown"])
    assert "0x" not in here["shown"], "no place in memory"


class Held:
    name, needs = "held", ()

    def __init__(self, k):
        self.k = k

    def select(self, view, n, rng): ...


CHANGES = {
    "method": "other",
    "strategy": NPC(draws=5),
    "data": Data(name="digits", items=99),
    "net": "mlp",
    "learner": Supervised(steps=3),
    "counts": (10, 21),
    "group": "b",
    "start": 9,
    "start_by": "random",
    "trials": (3, "best"),
    "other_init": True,
    "fresh": False,
    "calibrate": False,
    "layers": "all",
    "width": 64,
    "augment": False,
    "learner_name": "mine",
    "value": (("b", FixMatch()),),
    "validation": 5,
    "net_options": (("width", 3),),
    "views": (("padding", 1),),
    "measures": (measures.GroupEigenvalues(group=3),),
    "along": (measures.TestNumbers(),),
}


def test_every_option_of_a_row_is_in_its_text():
    assert set(CHANGES) == {f.name for f in dataclasses.fields(Row)}
    base = settings(row())
    for name, value in CHANGES.items():
        changed = settings(row(**{name: value}))
        assert [n for n in changed if changed[n] != base[n]] == [name]


def test_what_an_older_askless_did_not_note_was_the_default():
    assert default_settings()["other_init"] == settings(row())["other_init"] == "False"
    assert default_settings()["calibrate"] == "False"  # untrained networks were asked without it
    assert "counts" not in default_settings()


def named(n):
    return n


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NPC(draws=5), NPC(draws=6)),
        (CRC(group=2), CRC()),
        (ALBL(arms=(Margin(), Coreset())), ALBL(arms=(Coreset(), Margin()))),
        (ALBL(arms=(Held(1), Coreset())), ALBL(arms=(Held(2), Coreset()))),
        (Data(name="digits"), Data(name="digits", options={"test": 3})),
        (Frozen(), Frozen(hidden=32)),
        (Frozen(backbone=torch.nn.Linear(2, 2)), Frozen(backbone=torch.nn.Linear(2, 2))),
        (FixMatch(), FixMatch(darp=DARP())),
        (FixMatch(darp=DARP(target=np.arange(1, 3000))), FixMatch(darp=DARP(target=np.arange(2, 3001)))),
        (functools.partial(named, 1), functools.partial(named, 2)),
        (functools.partial(named, n=1), functools.partial(named, n=2)),
        (torch.zeros(5000), torch.cat([torch.zeros(2500), torch.ones(1), torch.zeros(2499)])),
        (Held(1), Held(2)),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (0.1, 0.1 + 1e-16),
    ],
)
def test_texts_differ_where_options_do(one, other):
    assert text_of(one) == text_of(one)
    assert text_of(one) != text_of(other)


def test_an_option_that_came_later_is_in_the_text_where_it_is_used():
    """Cells with a frozen backbone that were made before its heads had dropout are the same cells."""
    before = "Frozen(backbone='raw', weak=1, strong=2, hidden=0, size=None, cache=None, seed=0"
    assert text_of(Frozen(backbone="raw")) == before + ")"
    assert text_of(Frozen(backbone="raw", dropout=0.25)) == before + ", dropout=0.25)"


def test_the_text_is_of_what_an_object_holds_and_not_of_where_it_is(monkeypatch):
    assert text_of(Held(1)) == text_of(Held(1)) == "Held({k: 1})"
    assert text_of(named) == "named"
    monkeypatch.setattr(Held, "revision", 2, raising=False)
    assert text_of(Held(1)) == "Held({k: 1, revision: 2})"


def test_a_figure_that_there_is_not_is_refused_before_anything_runs():
    known = preset("crc.fig1", "smoke")
    for figure, message in (({"kind": "pie"}, "moons"), ({"kind": "curves", "metrik": "x"}, "metrik")):
        with pytest.raises(InputError, match=message):
            dataclasses.replace(known, figures=(figure,))
