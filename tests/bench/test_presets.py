"""Every table and figure of the papers: that it is there, that full scale is the paper's protocol, and that it runs."""

import csv
import inspect
import json
import math
import re

import pytest

from askless.acquire import ALBL, BADGE, CRC, EGL, NPC, Confidence, Coreset, DynamicAL, Entropy, Margin, Random
from askless.base.errors import OptionError
from askless.bench import PRESETS, Record, Results, measures, papers, preset, tables
from askless.bench.figures import FIGURES
from askless.bench.plan import SCALES
from askless.bench.presets.common import CALIBRATED
from askless.bench.presets.learners import PRESETS as LEARNERS
from askless.bench.presets.outlooks import PRESETS as OUTLOOKS
from askless.bench.presets.own import PRESETS as OWN
from askless.bench.presets.race import PRESETS as RACES
from askless.bench.runner import describe
from askless.cli import main
from askless.data.fetch import DATA_SETS
from askless.features.frozen import Frozen
from askless.learn import DARP, FixMatch, MeanTeacher, PiModel, Supervised
from askless.learn.schedule import rate_at

NAMES = [
    *(f"npc.table{i}" for i in range(1, 4)),
    "npc.fig1",
    *(f"crc.table{i}" for i in range(1, 5)),
    *(f"crc.fig{i}" for i in range(1, 4)),
    *(f"dal.table{i}" for i in range(1, 13)),
    *(f"dal.fig{i}" for i in range(1, 8)),
]
# What a panel of stand-in data may be called: the names of data, as panels write them.
WRITTEN = {
    "digits": "digits",
    "two-moons": "two moons",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "caltech101": "Caltech-101",
}


def run(*arguments):
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in arguments])
    return done.value.code or 0


def full(name):
    return preset(name, "full")


def one(values):
    """The one value that all rows share."""
    values = list(values)
    assert all(v == values[0] for v in values)
    return values[0]


def methods(benchmark):
    return {r.method: r.strategy for r in benchmark.rows}


def by_group(benchmark):
    groups: dict = {}
    for r in benchmark.rows:
        groups.setdefault(r.group, []).append(r)
    return groups


# --- all of them ----------------------------------------------------------------------------------------------------


def test_every_table_and_figure_is_listed(capsys):
    assert sorted(PRESETS) == sorted([*NAMES, *(own.name for own in (*OWN, *LEARNERS, *RACES, *OUTLOOKS))])
    assert run("bench", "list") == 0
    shown = capsys.readouterr().out
    listed = re.findall(r"\b(?:npc|crc|dal)\.(?:table|fig)\d+\b", shown)
    assert sorted(listed) == sorted(NAMES)
    assert all(scale in shown for scale in SCALES)


def test_unknown_presets_and_scales_are_refused_with_the_known_ones():
    with pytest.raises(OptionError, match=r"unknown preset 'mine'; the known ones are npc\.table1, ") as refused:
        preset("mine")
    assert all(name in str(refused.value) for name in NAMES)
    with pytest.raises(OptionError, match="unknown scale 'tiny'; the known ones are full, small, smoke"):
        preset("npc.table1", "tiny")
    with pytest.raises(OptionError, match=r"unknown preset 'npc\.tabel1'; did you mean 'npc\.table1'\? the known"):
        preset("npc.tabel1")
    with pytest.raises(OptionError, match=r"unknown scale 'Smok'; did you mean 'smoke'\?"):
        preset("npc.table1", "Smok")


@pytest.mark.parametrize("name", NAMES)
def test_it_builds_at_every_scale(name):
    for scale in SCALES:
        made = preset(name, scale)
        assert (made.name, made.scale) == (name, scale)
        number = re.search(r"\d+$", name)[0]
        assert re.search(rf"(table|figure) {number}\b", made.title)
        assert made.protocol
        assert made.open_points
        assert made.claims
        assert made.baseline is None or made.baseline in methods(made)
        assert made.seeds == tuple(range(len(made.seeds)))
        for figure in made.figures:
            known = list(inspect.signature(FIGURES[figure["kind"]]).parameters)[1:]
            assert set(figure) - {"kind", "caption"} <= set(known)


@pytest.mark.parametrize("name", NAMES)
def test_scaled_down_it_needs_only_data_by_package_name_and_says_what_it_used(name):
    by_name = {"digits", "two-moons"} | {n for n, d in DATA_SETS.items() if d.from_package is not None}
    for scale in ("small", "smoke"):
        made = preset(name, scale)
        assert not made.comparable
        for r in made.rows:
            assert r.data.name in (by_name if scale == "small" else {"digits", "two-moons"})
            what_it_is, _, what_for = r.group.partition(", for ")
            others = [WRITTEN[n] for n in WRITTEN if n != r.data.name and WRITTEN[n] not in WRITTEN[r.data.name]]
            # "digits, for CIFAR-10 + CNN" are digits; nothing that was not used is named before the "for".
            assert not [o for o in others if o in what_it_is and not (o == "MNIST" and r.data.name == "fashion-mnist")]
            assert not what_for or WRITTEN[r.data.name] in what_it_is


@pytest.mark.parametrize("name", NAMES)
def test_printed_numbers_are_set_against_full_scale_only(name):
    made = full(name)
    printed = name in papers.SOURCES
    assert bool(made.paper) == bool(made.paper_source) == printed
    assert printed == ("table" in name)
    if printed:
        assert made.comparable == (
            name != "dal.table10"
        )  # MMD / B has the scale of a kernel that the paper does not give
        columns = {(p.group, p.method) for p in made.paper}
        rows = {(r.group, r.method) for r in made.rows}
        groups = {g for g, _ in rows}
        assert {m for _, m in columns} <= {m for _, m in rows} | groups | {""}


# --- full scale is the papers' protocol, written out by hand ---------------------------------------------------------


def fixmatch_of_the_papers(learner, decay=5e-4):
    assert isinstance(learner, FixMatch)
    assert (learner.batch, learner.mu, learner.tau, learner.weight, learner.temperature) == (64, 7, 0.95, 1.0, 1.0)
    assert (learner.optimiser, learner.lr, learner.momentum, learner.weight_decay) == ("sgd", 0.03, 0.9, decay)
    assert (learner.schedule, learner.horizon_steps, learner.ema) == ("cosine", 2**20, 0.999)


FIVE = {
    "random": Random(),
    "margin": Margin(on="logit"),
    "albl": ALBL(mode="badge"),
    "badge": BADGE(),
    "npc": NPC(draws=50_000),
}


@pytest.mark.parametrize(
    ("name", "data", "start", "counts", "decay"),
    [
        ("npc.table1", "cifar10", 10, (10, 30, 50, 70), 5e-4),
        ("npc.table2", "cifar100", 100, (100, 300, 500, 700, 900), 1e-3),
        ("npc.fig1", "cifar100", 100, (100, 300, 500, 700, 900), 1e-3),
    ],
)
def test_npc(name, data, start, counts, decay):
    made = full(name)
    assert made.seeds == (0, 1, 2)
    assert methods(made) == FIVE
    for r in made.rows:
        assert (r.data.name, r.data.items, r.data.test, r.data.tail) == (data, None, None, None)
        assert (r.net, r.layers, r.fresh, r.augment, r.validation) == ("wrn-28-2", "last", "new", True, 0)
        assert (r.start, r.start_by, r.counts, r.trials) == (start, "balanced", counts, (5, "median"))
        fixmatch_of_the_papers(r.learner, decay)
        assert (r.learner.steps, r.learner.patience) == (2**20, None)
        assert (r.learner.darp.target, r.learner.darp.alpha, r.learner.darp.warm_up, r.learner.darp.every) == (
            "uniform", 2.0, 0.4, 10 if data == "cifar10" else 100,
        )  # fmt: skip


def test_npc_table_3_is_one_query_by_an_untrained_or_a_barely_trained_network():
    made = full("npc.table3")
    assert made.seeds == (0, 1, 2)
    groups = by_group(made)
    assert set(groups) == {f"{shot}, {n} labels" for shot in ("zero-shot", "single-shot") for n in (40, 60)}
    for group, rows in groups.items():
        n = int(re.search(r"\d+", group)[0])
        counts = (n,) if group.startswith("zero") else (10, n)
        assert {r.method for r in rows} == {"random", "badge", "npc"}
        assert one((r.start, r.start_by, r.counts, r.trials, r.net) for r in rows) == (
            10, "balanced", counts, (5, "median"), "wrn-28-2",
        )  # fmt: skip
        fixmatch_of_the_papers(one(r.learner for r in rows))
        assert one(r.learner for r in rows).darp == DARP(every=10)


CIFAR_OF_CRC = ("cifar10", "wrn-28-2", 5000, 50, 350 * 1024)


def cifar_of_crc(r):
    fixmatch_of_the_papers(r.learner)
    assert r.learner.darp is None
    assert r.learner.evaluate_every == 1024
    assert dict(r.net_options) == {"slope": 0.0, "wrn_variant": "kekmodel"}, "plain ReLU on CIFAR"
    assert dict(r.views) == {
        "policy": "kekmodel", "padding": 4, "border": "reflect",
        "mean": (0.4914, 0.4822, 0.4465), "std": (0.2471, 0.2435, 0.2616),
    }  # fmt: skip
    assert (r.fresh, r.start_by, r.augment) == ("new", "balanced", True)
    return r.data.name, r.net, r.validation, r.learner.patience, r.learner.steps


def test_crc_table_1():
    made = full("crc.table1")
    assert made.seeds == (0, 1, 2)
    groups = by_group(made)
    plans = {name: one((r.start, r.counts, r.trials) for r in rows) for name, rows in groups.items()}
    assert plans == {
        "random-init first query": (0, (50, 100, 150), None),
        "random first query": (50, (50, 100, 150, 200), (5, "best")),
    }
    for rows in groups.values():
        assert {r.method: r.layers for r in rows} == {"crc last layer": "last", "crc all layers": "all"}
        assert {r.method: r.strategy for r in rows} == {
            "crc last layer": CRC(group=5),
            "crc all layers": CRC(group=5, by="kernel"),  # exact
        }
        assert one(cifar_of_crc(r) for r in rows) == CIFAR_OF_CRC
    assert "projection" not in " ".join([made.protocol, *made.open_points, preset("crc.table1", "small").protocol])


def test_crc_table_2():
    made = full("crc.table2")
    assert made.seeds == (0, 1, 2)
    assert methods(made) == {f"G = {G}": CRC(group=G) for G in (2, 5, 10, 100)} | {"random": Random()}
    assert one((r.start, r.counts, r.trials) for r in made.rows) == (100, (100, 200, 300, 400, 500, 600), (5, "best"))
    assert one(cifar_of_crc(r) for r in made.rows) == CIFAR_OF_CRC


def test_crc_table_3():
    made = full("crc.table3")
    assert made.seeds == (0, 1, 2)
    groups = by_group(made)
    assert list(groups) == ["Q = 50", "Q = 100"]
    five = {
        "random": Random(), "entropy": Entropy(), "confidence": Confidence(), "egl": EGL(layers="all"), "crc": CRC(),
    }  # fmt: skip
    assert CRC().group is None, "which is Q / 10"
    for Q, rows in zip((50, 100), groups.values(), strict=True):
        assert {r.method: r.strategy for r in rows} == five
        assert one((r.start, r.counts, r.trials) for r in rows) == (Q, tuple(Q * i for i in range(1, 7)), (5, "best"))
        assert one(cifar_of_crc(r) for r in rows) == CIFAR_OF_CRC


def test_crc_table_4():
    made = full("crc.table4")
    assert made.seeds == (0, 1, 2)
    groups = by_group(made)
    assert list(groups) == ["SVHN", "CIFAR-100"]
    assert all({r.method: r.strategy for r in rows} == {"random": Random(), "crc": CRC()} for rows in groups.values())
    for r in groups["SVHN"]:
        assert (r.data.name, r.net, r.start, r.counts) == ("svhn", "wrn-28-2", 120, (120, 140, 160, 180, 200, 220))
        assert dict(r.net_options) == {"slope": 0.1, "bn_momentum": 0.1}, "leaky"
        assert dict(r.views) == {"padding": 2, "border": "reflect", "noise": 0.0, "mean": 0.5, "std": 0.5}
        assert (r.trials, r.validation) == ((5, "best"), 0)
        learner = r.learner
        assert isinstance(learner, MeanTeacher)
        assert (learner.steps, learner.batch, learner.optimiser, learner.lr) == (512 * 1024, 50, "adam", 4e-4)
        assert (learner.weight, learner.teacher, learner.schedule, learner.weight_decay) == (8.0, 0.95, "drop", 0.0)
        assert learner.patience is None
        weights = [learner.weight_at(step) / learner.weight for step in (100_000, 199_999, 200_000)]
        assert (round(weights[0], 3), weights[1] < 1, weights[2]) == (0.287, True, 1), "ramps up over 200,000 steps"
        rates = [
            rate_at(step, schedule=learner.schedule, lr=1.0, horizon=learner.horizon_steps)
            for step in (399_999, 400_000)
        ]
        assert rates == [1.0, 0.2]
    for r in groups["CIFAR-100"]:
        assert (r.data.name, r.net, r.start, r.counts) == ("cifar100", "wrn-28-8", 200, (200, 250, 300, 350, 400))
        assert (r.trials, r.validation, r.learner.patience, r.learner.steps) == ((5, "best"), 5000, 100, 600 * 1024)
        fixmatch_of_the_papers(r.learner, decay=1e-3)
        assert dict(r.net_options) == {"slope": 0.0, "wrn_variant": "leedoyup"}
        views = dict(r.views)
        assert (views["policy"], views["padding"], views["border"]) == ("leedoyup", 4, "zero")
        assert [round(255 * m, 1) for m in views["mean"]] == [129.3, 124.1, 112.4]
        assert [round(255 * s, 1) for s in views["std"]] == [68.2, 65.4, 70.4]


def test_crc_figure_1():
    made = full("crc.fig1")
    (r,) = made.rows
    assert (r.data.name, r.data.options, r.net, r.strategy) == ("two-moons", {"pivots": 4}, "mlp", CRC(group=2))
    assert (r.start, r.start_by, r.counts[0]) == (4, "first", 4)
    assert isinstance(r.learner, PiModel)
    assert isinstance(r.measures[0], measures.Boundary)
    assert made.figures[0]["kind"] == "moons"


def test_crc_figure_2():
    made = full("crc.fig2")
    assert made.seeds == (0, 1, 2)
    assert list(methods(made)) == ["random", "entropy", "confidence", "egl", "crc"]
    plan = one((r.start, r.counts, r.other_init, r.trials) for r in made.rows)
    assert plan == (0, (50, 100, 150, 200, 250, 300), True, None)
    assert methods(made)["egl"] == EGL(layers="all")
    assert [f["kind"] for f in made.figures[:2]] == ["curves", "gains"], "the figure's two panels"
    assert one(cifar_of_crc(r) for r in made.rows) == CIFAR_OF_CRC


def test_crc_figure_3():
    (r,) = full("crc.fig3").rows
    assert (r.strategy, r.start, r.counts) == (CRC(), 50, (50, 100, 150, 200, 250, 300))
    assert cifar_of_crc(r) == CIFAR_OF_CRC
    assert r.along == (measures.TestNumbers(),)
    assert [type(m) for m in r.measures] == [
        measures.EpochsToMinimum, measures.ScoredEigenvalues, measures.GroupEigenvalues,
    ]  # fmt: skip
    assert r.measures[2].group == 5
    left, right = full("crc.fig3").figures[:2]
    assert (left["x_metric"], left["y_metric"]) == ("epochs_to_minimum", "scored_lambda_min")
    assert right["metric"] == "group_lambda_min"


@pytest.mark.parametrize(
    ("name", "smoke", "small", "whole"),
    [
        (
            "crc.fig3",
            ["10 steps", "Q = 10.", "every 5 steps"],
            ["600 steps of 64 + 448", "Q = 50.", "every 20 steps"],
            ["Q = 50.", "every 1,024 steps"],
        ),
        (
            "dal.fig2",
            ["|S| = 20 and 20 random Q of 10, drawn from 40 items (digits, for CIFAR-10 + CNN-GAP)"],
            [
                "|S| = 500 and 150 random Q of 250, drawn from 500 items (CIFAR-10 (5,000) + CNN, for CNN-GAP)",
                "|S| = 100 and 150 random Q of 50, drawn from 100 items (digits + CNN-GAP, for CIFAR-10)",
            ],
            ["|S| = 500 and 150 random Q of 250, drawn from 20,000 items (CIFAR-10 + CNN-GAP)"],
        ),
        ("crc.table1", ["the small CNN, 3 steps"], ["250 steps of 16 + 64"], ["WRN-28-2"]),
        ("crc.fig2", ["the small CNN, 3 steps"], ["250 steps of 16 + 64"], ["WRN-28-2"]),
        ("crc.table4", ["Mean Teacher, 5 steps", "10 steps"], ["under Mean Teacher"], ["512 epochs"]),
        ("dal.fig4", ["the 20 items"], ["the 500 items"], ["the 500 items"]),
        ("dal.table1", ["60 labels"], ["1,500 labels (digits: 300)"], ["1,500 labels;"]),
        ("npc.table3", ["One query of 10 or 20."], ["One query of 30 or 50."], ["One query of 30 or 50."]),
    ],
)
def test_protocols_say_what_is_run_at_each_scale(name, smoke, small, whole):
    for scale, wanted in (("smoke", smoke), ("small", small), ("full", whole)):
        said = preset(name, scale).protocol
        assert [w for w in wanted if w not in said] == []
        if scale == "smoke":
            assert not re.search(r"\b(500|150|250|50)\b", said)


EIGHT = {
    "random": Random(),
    "margin": Margin(on="logit"),
    "entropy": Entropy(),
    "coreset": Coreset(),
    "confidence": Confidence(),
    "albl": ALBL(mode="badge"),
    "badge": BADGE(),
    "dynamical": DynamicAL(),
}
SEVEN = {name: s for name, s in EIGHT.items() if name != "badge"}


def of_dynamical(r, fresh=False, stop=0.97, epochs=10):
    """Data and network, of a row that is trained as the paper says."""
    learner = r.learner
    assert isinstance(learner, Supervised)
    assert (learner.optimiser, learner.lr, learner.schedule, learner.weight_decay) == ("adam", 0.001, "constant", 0.0)
    assert (learner.batch, learner.ema, learner.stop_accuracy, learner.stop_epochs) == (128, None, stop, epochs)
    assert (r.start, r.start_by, r.fresh, r.validation, r.trials) == (500, "random", fresh, 0, None)
    assert r.augment == (r.data.name == "caltech101")
    assert (r.data.items, r.data.test) == (None, None)
    return r.data.name, r.net


C10_CNN, C10_RESNET = ("cifar10", "tutorial-cnn"), ("cifar10", "resnet-18")
SVHN_VGG, CALTECH = ("svhn", "vgg-11"), ("caltech101", "resnet-18-imagenet")


@pytest.mark.parametrize(
    ("number", "where", "b", "last", "strategies"),
    [
        (2, C10_CNN, 250, 9, EIGHT),
        (3, C10_CNN, 500, 9, EIGHT),
        (4, C10_RESNET, 500, 9, EIGHT),
        (5, C10_RESNET, 1000, 9, EIGHT),
        (6, SVHN_VGG, 500, 9, EIGHT),
        (7, SVHN_VGG, 1000, 9, EIGHT),
        (8, CALTECH, 500, 9, SEVEN),
        (9, CALTECH, 1000, 4, SEVEN),
    ],
)
def test_dynamical_tables_2_to_9(number, where, b, last, strategies):
    made = full(f"dal.table{number}")
    assert made.seeds == (0, 1, 2, 3, 4)
    assert methods(made) == strategies
    assert one(of_dynamical(r) for r in made.rows) == where
    assert one(r.counts for r in made.rows) == tuple(500 + b * i for i in range(last + 1))
    assert all(r.measures == (measures.MaxInRound(),) for r in made.rows)


BUDGETS = {
    f"R = {R}, b = {b}": tuple(500 + b * i for i in range(R + 1)) for R, b in ((10, 100), (4, 250), (2, 500), (1, 1000))
}


def test_dynamical_table_1():
    made = full("dal.table1")
    assert made.seeds == (0, 1, 2, 3, 4)
    groups = by_group(made)
    assert [one(of_dynamical(r) for r in rows) for rows in groups.values()] == [C10_CNN, C10_RESNET, SVHN_VGG, CALTECH]
    for rows in groups.values():
        assert {r.method: r.counts for r in rows} == BUDGETS
        assert one(r.strategy for r in rows) == DynamicAL()
    assert all(counts[-1] == 1500 for counts in BUDGETS.values())


@pytest.mark.parametrize(
    ("name", "plans"),
    [
        ("dal.table10", BUDGETS),
        ("dal.fig1", {f"b = {b}": (500, 500 + b) for b in (250, 500, 1000)}),
        ("dal.fig7", {f"b = {b}": tuple(500 + b * i for i in range(6)) for b in (250, 500, 1000)}),
    ],
)
def test_dynamical_drift(name, plans):
    made = full(name)
    assert {r.method: r.counts for r in made.rows} == plans
    for r in made.rows:
        assert of_dynamical(r) == ("cifar10", "cnn-gap")
        assert r.strategy == DynamicAL()
        assert measures.MMDAndBound(start=500) in r.measures
    assert made.metrics[0] == "mmd_over_bound"


@pytest.mark.parametrize(("number", "where"), [(11, C10_RESNET), (12, SVHN_VGG)])
def test_dynamical_tables_11_and_12_are_retrained_and_asked_at_once_above_99_per_cent(number, where):
    made = full(f"dal.table{number}")
    assert methods(made) == {"random": Random(), "coreset": Coreset(), "dynamical": DynamicAL()}
    assert one(of_dynamical(r, fresh="new", stop=0.99, epochs=0) for r in made.rows) == where
    assert one(r.counts for r in made.rows) == tuple(500 * i for i in range(1, 11))


def test_dynamical_figure_2():
    made = full("dal.fig2")
    for r in made.rows:
        assert of_dynamical(r) == ("cifar10", "cnn-gap")
        assert r.counts == (500,)
        (measure,) = r.measures
        assert (measure.draws, measure.size) == (150, 250)
    assert {r.measures[0].trained for r in made.rows} == {True, False}


@pytest.mark.parametrize(
    ("name", "panels"),
    [
        ("dal.fig3", [(C10_CNN, 500, 9, EIGHT), (SVHN_VGG, 500, 9, EIGHT), (CALTECH, 500, 9, SEVEN)]),
        (
            "dal.fig6",
            [
                (C10_CNN, 250, 9, EIGHT),
                (C10_RESNET, 500, 9, EIGHT),
                (C10_RESNET, 1000, 9, EIGHT),
                (SVHN_VGG, 1000, 9, EIGHT),
                (CALTECH, 1000, 4, SEVEN),
            ],
        ),
    ],
)
def test_dynamical_figures_3_and_6_are_the_tables(name, panels):
    groups = by_group(full(name))
    for rows, (where, b, last, strategies) in zip(groups.values(), panels, strict=True):
        assert {r.method: r.strategy for r in rows} == strategies
        assert one(of_dynamical(r) for r in rows) == where
        assert one(r.counts for r in rows) == tuple(500 + b * i for i in range(last + 1))


def test_dynamical_figure_4():
    groups = by_group(full("dal.fig4"))
    assert [one(of_dynamical(r, stop=None) for r in rows) for rows in groups.values()] == [C10_RESNET, SVHN_VGG]
    for rows in groups.values():
        assert {r.method: r.along[0].size for r in rows} == {"b = 250": 250, "b = 500": 500, "b = 1000": 1000}
        assert one(r.counts for r in rows) == (500,)
        assert all(isinstance(r.along[0], measures.ApproximationRatio) for r in rows)


def test_dynamical_figure_5():
    groups = by_group(full("dal.fig5"))
    assert [one(of_dynamical(r) for r in rows) for rows in groups.values()] == [C10_CNN, SVHN_VGG, C10_RESNET]
    for rows in groups.values():
        assert [r.strategy.gamma for r in rows] == [0.0, 1.0, 2.0, math.inf]
        assert one(r.counts for r in rows) == (500, 1000, 1500, 2000, 2500, 3000)


def paper_tables_of(name, scale="full"):
    made = preset(name, scale)
    records = [
        Record(r.group, r.method, seed, r.learner_name, n, None, made.metrics[0], 0.5)
        for r in made.rows
        for seed in made.seeds
        for n in r.counts
    ]
    results = Results(describe(made, 1, ()), records)
    return tables.accuracy_tables(results, made.metrics[0]), tables.paper_tables(results)


@pytest.mark.parametrize("number", [*range(2, 10), 11, 12])
def test_tables_of_dynamical_are_by_round_with_the_printed_digits(number):
    (ours,), (printed,) = paper_tables_of(f"dal.table{number}")
    last = 4 if number == 9 else 9
    assert [row[0].text.partition(" (")[0] for row in ours.rows] == [f"round {k}" for k in range(last + 1)]
    assert [row[0].text for row in printed.rows] == [f"round {k}" for k in range(last + 1)]
    assert ours.head == printed.head
    digits = {re.search(r"± \d+\.(\d+)", c.text)[1] for row in printed.rows for c in row[1:]}
    assert {len(d) for d in digits} == {3 if number < 10 else 2}
    if number == 2:
        assert printed.rows[7][1].text.startswith("37.29 ± 1.605")


def test_tables_that_compare_ends_are_one_table_as_in_the_papers():
    ours, printed = paper_tables_of("npc.table3")
    four = [f"{shot}, {n}" for shot in ("zero-shot", "single-shot") for n in (40, 60)]
    assert [t.head for t in printed] == [("method", *four)]
    assert [t.head for t in ours] == [("method", *(f"{head} labels" for head in four))]
    ours, printed = paper_tables_of("dal.table10")
    assert [(len(t.rows), len(t.head)) for t in (*ours, *printed)] == [(4, 2), (4, 2)]
    ours, printed = paper_tables_of("dal.table1")
    assert [(len(t.rows), len(t.head)) for t in (*ours, *printed)] == [(4, 5), (4, 5)]
    (ours,), _ = paper_tables_of("crc.table2")
    assert ours.head[1:3] == ("step 0 (100 labels)", "step 1 (200 labels)")


@pytest.mark.parametrize(
    ("name", "references"),
    [
        *((f"crc.table{i}", ["87.33 % with 25 balanced labels per class"]) for i in (1, 2, 3)),
        ("crc.table4", ["93.52 % on SVHN (100 per class)", "48.96 % on CIFAR-100"]),
        ("npc.table3", ["FixMatch without DARP is reported to have 86.19 % with 40 balanced labels"]),
    ],
)
def test_what_the_papers_say_of_balanced_labels_stands_below_their_tables(name, references):
    for scale in SCALES:
        for table in paper_tables_of(name, scale)[1]:
            assert [r for r in references if r not in table.note] == []


def test_minimum_epochs_of_the_authors_are_an_open_point():
    for number in range(1, 10):
        assert any("at least 140, 100, 80, 80" in point for point in full(f"dal.table{number}").open_points)


# --- and it runs ----------------------------------------------------------------------------------------------------


def test_small_networks_are_frozen_features_or_small():
    nets = {r.net if isinstance(r.net, str) else "frozen" for name in NAMES for r in preset(name, "smoke").rows}
    assert nets <= {"small-cnn", "mlp", "frozen"}
    for name in NAMES:
        assert {r.net.backbone for r in preset(name, "smoke").rows if isinstance(r.net, Frozen)} <= {"raw"}


@pytest.mark.parametrize(
    "name", [name if name == "npc.table1" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_at_smoke_scale_it_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("askless.bench.runner.cores", lambda: 1)
    out = tmp_path / "out"
    code = run("bench", "run", name, "--scale", "smoke", "--workers", 1, "--out", out)
    said = capsys.readouterr()
    assert code == 0, said.err
    made = preset(name, "smoke")
    assert str(out / "report.html") in said.out
    page = (out / "report.html").read_text()
    assert "Scaled down: not comparable with the paper&#x27;s numbers" in page
    with (out / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(r["group"], r["method"], int(r["seed"])) for r in rows} == {
        (r.group, r.method, seed) for r in made.rows for seed in made.seeds
    }
    assert set(made.metrics) <= {r["metric"] for r in rows}
    about = json.loads((out / "benchmark.json").read_text())
    assert (about["name"], about["scale"], about["comparable"]) == (name, "smoke", False)
    assert page.count("<figure>") == len(made.figures), "every picture is drawn"


@pytest.mark.parametrize("name", [n for n in papers.SOURCES if n != "dal.table10"])
def test_every_printed_number_finds_ours_at_full_scale(name):
    made = full(name)
    metric = made.metrics[0]
    records = [
        Record(r.group, r.method, seed, r.learner_name, n, None, metric, 0.5)
        for r in made.rows
        for seed in made.seeds
        for n in r.counts
    ]
    results = Results(describe(made, 1, ()), records)
    cells = [c.text for table in tables.paper_tables(results) for row in table.rows for c in row[1:]]
    assert len(cells) >= len(made.paper)
    assert [text for text in cells if "(ours 50.0" not in text and text != "–"] == []


def test_where_an_untrained_network_with_batch_norm_asks_it_is_said_how():
    """Networks by name have BatchNorm, but for these and the heads of frozen backbones."""
    without = ("linear", "waves", "mlp", "tutorial-cnn", "cnn-gap")
    for name, made in PRESETS.items():
        for scale in ("small", "full"):
            plan = made.make(scale)
            asks = [r for r in plan.rows if r.start < r.counts[0] and isinstance(r.net, str) and r.net not in without]
            assert all(r.calibrate for r in asks)
            assert not asks or CALIBRATED in plan.open_points, (name, scale)
