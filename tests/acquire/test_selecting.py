"""`select`: what it promises of its result, and every message at the door."""

import subprocess
import sys
import tracemalloc
from typing import get_args

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse import random as sparse_random
from scipy.special import softmax

import askless as al

F = np.random.default_rng(0).normal(size=(50, 5))
P = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
PASSES = np.random.default_rng(1).dirichlet(np.ones(3), size=(50, 4))  # (N, K, C)


def test_npc_reports_the_smallest_eigenvalue_over_labelled_and_picks():
    picks = al.select("npc", 3, features=F, labelled=[4, 9], seed=0)
    rows = np.hstack([F, np.ones((50, 1))])[[4, 9, *picks.indices]]
    assert picks.info["lambda_min"] == pytest.approx(np.linalg.eigvalsh(rows @ rows.T)[0])
    assert picks.info["rank"] == 5
    assert picks.info["draws"] == 1000
    assert picks.info["seconds"] > 0
    assert picks.info["strategy"] == "npc"


def test_a_seed_and_its_generator_decide_everything():
    first = al.select("random", 5, pool=1000, seed=7).indices
    assert np.array_equal(first, al.select("random", 5, pool=1000, seed=7).indices)
    assert not np.array_equal(first, al.select("random", 5, pool=1000, seed=8).indices)
    generator = np.random.default_rng(0)
    one, two = (al.select("random", 5, pool=1000, seed=generator).indices for _ in range(2))
    assert not np.array_equal(one, two)


def test_nothing_touches_the_global_generators():
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    for name in al.acquire.STRATEGIES:
        al.select(
            name,
            5,
            features=F,
            probs=P,
            logits=np.log(P),
            grad_sq=F[:, 0] ** 2,
            grad_dot=F[:, 1],
            probs_by_pass=PASSES,
            labelled=[1],
            labels=[0],
        )
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(torch_state, torch.random.get_rng_state())


def test_progress_is_reported_up_to_the_end():
    seen = []
    al.select("badge", 6, features=F, probs=P, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 6) for i in range(1, 7)]


def test_half_precision_and_whole_numbers_are_numbers_too():
    for features in (F.astype(np.float16), (F * 10).astype(np.int32), torch.from_numpy(F).bfloat16()):
        for name in ("npc", "coreset", "typiclust"):
            assert len(al.select(name, 4, features=features).indices) == 4
    assert len(al.select("badge", 4, features=F.astype(np.float16), probs=P.astype(np.float16))) == 4


def test_probabilities_in_sixteen_bits_may_be_off_by_their_rounding():
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(1000, 10)))
    for dtype in (torch.bfloat16, torch.float16):
        assert len(al.select("margin", 3, probs=logits.to(dtype).softmax(dim=1))) == 3


def test_byte_order_and_long_doubles_change_nothing():
    for dtype in (">f8", "longdouble"):
        for name in ("npc", "coreset", "typiclust"):
            plain = al.select(name, 5, features=F).indices
            assert np.array_equal(plain, al.select(name, 5, features=F.astype(dtype)).indices)


def test_a_strategy_that_breaks_its_promise_is_stopped():
    class Wrong:
        name = "wrong"
        needs = ()

        def __init__(self, picks):
            self.picks = picks

        def select(self, view, n, rng):
            return al.Selection(self.picks)

    for picks, message in (
        (np.array([1.5, 2.5]), "must return int64 positions"),
        ([1, 2], "must return int64 positions of shape"),
        (np.array([3, 3]), "distinct unlabelled"),
        (np.array([0, 3]), "distinct unlabelled"),
        (np.array([3, 70]), "distinct unlabelled"),
    ):
        with pytest.raises(al.AsklessError, match=message):
            al.select(Wrong(picks), 2, pool=10, labelled=[0])


def test_arrays_that_are_not_needed_are_not_looked_at():
    broken = np.full((50, 5), np.nan)
    assert len(al.select("margin", 4, probs=P, features=broken)) == 4


def test_small_memory_gives_the_same_picks():
    arrays = {"features": F, "probs": P, "logits": np.log(P), "grad_sq": F[:, 0] ** 2, "grad_dot": F[:, 1]}
    arrays["probs_by_pass"] = PASSES
    needed = {"batchbald": 60_000, "bait": 200_000, "lookahead": 20_000}  # for labellings, and matrices of d x d
    for name in al.acquire.STRATEGIES:
        plenty = al.select(name, 6, labelled=[1, 2], labels=[0, 0], **arrays)
        least = needed.get(name, 1000)  # with less they leave something out or refuse, and say so
        scarce = al.select(name, 6, labelled=[1, 2], labels=[0, 0], max_memory=least, **arrays)
        assert np.array_equal(plenty.indices, scarce.indices), name


OF_LOGITS = [
    al.Confidence(),
    al.Margin(),
    al.Entropy(),
    al.BADGE(),
    al.EGL(),
    al.EGL(layers="all"),
    al.ALBL(),
    al.Askless(),
    al.acquire.TwoLevel(of=al.Margin(), parts=3),
]


@pytest.mark.parametrize("strategy", OF_LOGITS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_logits_stand_in_for_probabilities(strategy, dtype):
    logits = (4 * np.random.default_rng(2).normal(size=(50, 3))).astype(dtype)
    probs = softmax(logits.astype(np.float64 if dtype == np.float64 else np.float32), axis=1)
    others = {"features": F, "grad_sq_by_class": P, "labelled": [1, 2], "labels": [0, 2]}
    expected = al.select(strategy, 6, probs=probs, **others)
    for max_memory in (2**28, 100):  # once as an array, once row by row
        for given in (logits, torch.from_numpy(logits)):
            picks = al.select(strategy, 6, logits=given, max_memory=max_memory, **others)
            assert np.array_equal(picks.indices, expected.indices)
    assert np.array_equal(al.select(strategy, 6, probs=probs, logits=-logits, **others).indices, expected.indices)


def test_a_strategy_of_ones_own_gets_an_array_of_probabilities_whatever_the_memory():
    class Doubt:
        name, needs = "doubt", ("probs",)

        def select(self, view, n, rng):
            order = view["probs"].max(axis=1)[view.unlabelled].argsort(kind="stable")
            return al.Selection(view.unlabelled[order[:n]], None, {})

    logits = np.log(P)
    expected = al.select("confidence", 6, probs=P).indices
    for max_memory in (2**28, 100):
        assert np.array_equal(al.select(Doubt(), 6, logits=logits, max_memory=max_memory).indices, expected)


def test_a_bandit_is_rewarded_by_logits_as_by_probabilities():
    others = {"features": F, "labelled": [1, *FIRST.indices], "labels": [0, 1], "history": [FIRST]}
    one, two = (al.select("albl", 4, **others, **given) for given in ({"probs": P}, {"logits": np.log(P)}))
    assert np.array_equal(one.indices, two.indices)
    np.testing.assert_allclose(one.info["log_weights"], two.info["log_weights"])


def test_logits_of_any_size_have_probabilities():
    logits = np.array([[1e4, 0.0, 0.0], [-1e4, 1.0, 1.1], [1e-3, 0.0, -1e4]])
    for dtype in (np.float32, np.float64):
        picks = al.select("margin", 3, logits=logits.astype(dtype))
        assert picks.indices.tolist() == [2, 1, 0]
        assert np.isfinite(picks.scores).all()
    with pytest.raises(al.InputError, match="logits: expected finite numbers, got nan in row 1"):
        al.select("margin", 2, logits=with_row(logits, 1, np.nan))


def test_probabilities_of_mapped_logits_are_never_whole_in_memory(tmp_path):
    logits = np.random.default_rng(0).normal(size=(200_000, 20)).astype(np.float32)  # 16 MB
    np.save(tmp_path / "logits.npy", logits)
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    tracemalloc.start()
    picks = al.select("margin", 5, logits=mapped, max_memory=2**21)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(picks.indices, al.select("margin", 5, probs=softmax(logits, axis=1)).indices)
    assert most < logits.nbytes  # a few numbers for each item, and tiles


def test_sparse_features_are_chosen_from_as_dense_ones_are():
    X = sparse_random(50, 20, density=0.3, rng=np.random.default_rng(0))
    for name in ("npc", "coreset", "typiclust", "askless"):
        for features in (X.tocsr(), X.tocoo(), X.astype(np.float32).tocsc()):
            expected = al.select(name, 4, features=features.toarray()).indices
            assert np.array_equal(al.select(name, 4, features=features).indices, expected)


def test_sparse_features_that_do_not_fit_are_chosen_from_by_their_main_directions(monkeypatch):
    """They are of rank 5 here, so the directions lose nothing."""
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.normal(size=(50, 5)) @ rng.normal(size=(5, 300)))
    monkeypatch.setattr("askless.base.plain.DENSE", 1000)
    picks = al.select("coreset", 6, features=X, labelled=[3])
    assert picks.info["features"] == "300 sparse columns in 50 directions (SVD)"
    assert np.array_equal(picks.indices, al.select("coreset", 6, features=X.toarray(), labelled=[3]).indices)
    X.data[7] = np.nan
    with pytest.raises(al.InputError, match="features: expected finite numbers, got nan in row 0"):
        al.select("coreset", 6, features=X)


def test_type_checkers_know_the_names_of_all_strategies():
    assert get_args(al.acquire.Name) == tuple(al.acquire.STRATEGIES)


@pytest.mark.entropy
def test_without_a_seed_one_is_drawn_and_told():
    picks = al.select("random", 5, pool=1000, seed=None)
    again = al.select("random", 5, pool=1000, seed=picks.info["seed"])
    assert np.array_equal(picks, again)
    assert "seed" not in again.info


def with_row(array, row, value):
    array = array.copy()
    array[row, 0] = value
    return array


FIRST = al.select("albl", 1, features=F, probs=P)
BAD = [
    # (strategy, n, arrays, what the message must say)
    ("margin", 51, {"probs": P}, "n = 51 exceeds the 50 unlabelled items; lower n or add data"),
    ("margin", 49, {"probs": P, "labelled": [0, 1]}, "n = 49 exceeds the 48 unlabelled items"),
    ("margin", -1, {"probs": P}, "n must be a whole number >= 0, got -1"),
    ("margin", 2.5, {"probs": P}, "n must be a whole number >= 0, got 2.5"),
    ("npc", 2, {"features": with_row(F, 17, np.nan)}, "features: expected finite numbers, got nan in row 17"),
    ("npc", 2, {"features": with_row(F, 3, np.inf)}, "features: expected finite numbers, got inf in row 3"),
    ("dynamical", 2, {"grad_sq": np.ones(50), "grad_dot": np.full(50, -np.inf)}, "grad_dot: .* got -inf in row 0"),
    (
        "dynamical",
        2,
        {"grad_sq": -np.ones(50), "grad_dot": np.ones(50)},
        "grad_sq: expected squared norms >= 0, got -1",
    ),
    ("badge", 2, {"features": F, "probs": P[:40]}, "got features 50, probs 40; compute all of them for the same items"),
    ("npc", 2, {"features": F, "pool": 49}, "same number of rows, got features 50, pool 49"),
    ("npc", 2, {"features": F, "labelled": [50]}, "labelled: expected positions from 0 to 49, got 50 at place 0"),
    ("npc", 2, {"features": F, "labelled": [3, -1]}, "labelled: expected positions from 0 to 49, got -1 at place 1"),
    ("npc", 2, {"features": F, "labelled": [3, 4, 3]}, "each position once, got position 3 twice; keep one"),
    ("npc", 2, {"features": F, "labelled": [3, 3, 3]}, "got position 3 3 times"),
    (
        "npc",
        2,
        {"features": F, "labelled": [5.0]},
        r"whole numbers, got .* float64; pass np.array\(labelled, dtype=int\)",
    ),
    (
        "npc",
        2,
        {"features": F, "labelled": [5], "labels": ["cat"]},
        r"labels: .* got .* <U3; number the classes, as np.unique\(labels, return_inverse=True\)\[1\] does",
    ),
    ("npc", 2, {"features": F, "labelled": np.ones(50, bool)}, "use np.flatnonzero"),
    (
        "npc",
        2,
        {"features": F, "labelled": np.zeros(1, "M8[s]")},
        "labelled: expected whole numbers, got .* datetime64",
    ),
    ("npc", 2, {"features": F, "labelled": [[1], [2]]}, r"labelled: expected one axis, got shape \(2, 1\)"),
    ("npc", 2, {"features": F, "labelled": [1], "labels": [1, 2]}, "labels: expected one per labelled item, 1, got 2"),
    ("npc", 2, {"features": F, "labelled": [1], "labels": [-1]}, "labels: expected whole numbers >= 0, got -1"),
    ("margin", 2, {"probs": 2 * P}, "probs: expected rows >= 0 that sum to 1, got row 0 with sum 2"),
    ("margin", 2, {"probs": P - 0.5}, "pass logits= if these are not probabilities"),
    (
        "nonsense",
        2,
        {"features": F},
        "unknown strategy 'nonsense'; the known ones are askless, random, confidence, margin",
    ),
    (
        "bagde",
        2,
        {"features": F},
        r"unknown strategy 'bagde'; did you mean 'badge'\? the known ones are askless, random",
    ),
    ("BADGE", 2, {"features": F}, r"unknown strategy 'BADGE'; did you mean 'badge'\?"),
    ("npc", 2, {"feature": F}, r"unknown argument feature; did you mean 'features'\? it takes .* features, probs"),
    ("npc", 2, {"features": F, "labeled": [1]}, r"unknown argument labeled; did you mean 'labelled'\?"),
    (
        "npc",
        2,
        {"features": F, "draws": 500},
        r"unknown argument draws; it takes .*; options of a strategy go into .* NPC\(draws=5000\)",
    ),
    (
        "badge",
        2,
        {"features": F},
        r"^badge needs probs \(N, C\), the model's class probabilities, which are missing; pass probs= \(--probs\) or "
        r"logits= \(--logits\), or choose a strategy that needs less, such as coreset$",
    ),
    (
        al.EGL(layers="all"),
        2,
        {"probs": P},
        r"^egl needs grad_sq_by_class \(N, C\), .* pass grad_sq_by_class= \(--grad-sq-by-class\), or .* such as random$",
    ),
    (
        "badge",
        2,
        {"pool": 50},
        r"badge needs features \(N, d\), one vector per item, and probs .* pass features= .* and probs",
    ),
    (
        al.CRC(by="kernel"),
        2,
        {"features": F},
        r"^crc needs kernel \(N, N\), inner products of all items, .* pass kernel= \(--kernel\), or .* such as coreset$",
    ),
    (al.CRC(by="kernel"), 2, {"kernel": F}, r"kernel: expected one row and one column per item, .* shape \(50, 5\)"),
    (al.CRC(by="kernel"), 2, {"kernel": F[:, 0]}, r"kernel: expected shape \(N, N\), got \(50,\)"),
    (
        al.CRC(by="kernel"),
        2,
        {"kernel": with_row(F @ F.T, 7, np.nan)},
        "kernel: expected finite numbers, got nan in row 7",
    ),
    (
        al.CRC(by="kernel"),
        2,
        {"kernel": np.tril(np.ones((50, 50)))},
        r"kernel: expected a symmetric array, got 0 in row 0, column 1 and 1 in the mirrored place; pass \(K \+ K.T\) / 2",
    ),
    (
        al.CRC(by="kernel"),
        2,
        {"kernel": -F @ F.T},
        r"kernel: expected K\(x, x\) >= 0 on the diagonal, got -.* in row 0",
    ),
    ("npc", 2, {"features": np.empty((0, 4))}, "the pool is empty"),
    ("random", 0, {}, "expected at least one array of the pool, or pool=N"),
    ("random", 0, {"pool": 0}, "the pool is empty"),
    ("npc", 2, {"features": np.empty((5, 0))}, "features: expected at least one column"),
    ("npc", 2, {"features": F[:, 0]}, r"features: expected shape \(N, d\), got \(50,\)"),
    (
        "npc",
        2,
        {"features": F[:, :4].reshape(50, 1, 2, 2)},
        r"got \(50, 1, 2, 2\); pass features.reshape\(len\(features\), -1\)",
    ),
    (
        "badge",
        2,
        {"features": F, "probs": csr_matrix(P)},
        r"probs: expected a plain array, got a sparse one; pass probs.toarray\(\)",
    ),
    ("npc", 2, {"features": F.astype(object)}, "features: expected numbers, got an array of dtype object"),
    ("npc", 2, {"features": [[1.0], [1.0, 2.0]]}, "features: expected an array with rows of equal length"),
    (
        "npc",
        2,
        {"features": F * 1e-160},
        r"of at least 1e-150 \(float64\), whose squares .* above .*e-160; rescale the features",
    ),
    ("npc", 2, {"features": F * 1e160}, r"expected numbers up to 1e\+150 \(float64\).* in row 0; rescale"),
    ("npc", 2, {"features": np.ma.masked_less(F, 0)}, "features: expected a plain array, got a masked one"),
    ("npc", 2, {"features": torch.zeros(5, 2).to_sparse()}, r"got a sparse one; pass features.to_dense\(\)"),
    ("npc", 2, {"features": F, "labelled": [[1], [2, 3]]}, "labelled: expected an array"),
    ("npc", 2, {"features": F, "max_memory": "256MB"}, "max_memory must be a positive number of bytes"),
    ("random", 2, {"pool": "60"}, "pool: expected the number of items, got '60'"),
    ("npc", 2, {"features": F, "seed": -1}, "seed must be a whole number >= 0"),
    ("npc", 2, {"features": F, "max_memory": 0}, "max_memory must be a positive number of bytes"),
    (al.NPC, 2, {"features": F}, r"or an object such as NPC\(\), got the class NPC; write NPC\(\)"),
    (
        al.EGL(layers="all"),
        2,
        {"probs": P, "grad_sq_by_class": F**2},
        r"grad_sq_by_class: expected one column per class, shape \(50, 3\)",
    ),
    (
        "albl",
        2,
        {"features": F, "probs": P, "labelled": [1], "history": [FIRST]},
        r"albl needs labels \(L,\) of the 1 labelled items, which are missing; pass labels= \(--labels\)",
    ),
    (
        al.ALBL(arms=(al.Margin(), al.Random(), al.Coreset())),
        2,
        {"features": F, "probs": P, "history": [FIRST]},
        "the history has 2 arms, the strategy has 3",
    ),
    ("albl", 2, {"features": F, "probs": P, "history": FIRST}, "history: expected a list of the selections so far"),
    (al.NPC(score="schur"), 2, {"features": F, "labelled": range(9)}, "already span every direction"),
]


@pytest.mark.parametrize(("strategy", "n", "arrays", "message"), BAD, ids=[b[3][:50] for b in BAD])
def test_bad_input_is_named(strategy, n, arrays, message):
    with pytest.raises(al.InputError, match=message) as caught:
        al.select(strategy, n, **arrays)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, al.AsklessError)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: al.NPC(drawz=3), "NPC: got drawz; its options are draws, bias, normalize, score, search"),
        (lambda: al.NPC(500), "NPC: got an option without a name"),
        (lambda: al.Random(x=1), "its options are none"),
        (lambda: al.NPC(score="best"), "NPC: score must be one of rank-aware, positive, schur, got 'best'"),
        (lambda: al.NPC(search="x"), "search must be one of random, greedy, swap"),
        (lambda: al.NPC(draws=0), "draws must be a whole number >= 1, got 0"),
        (lambda: al.NPC(search="greedy", score="schur"), "works with score='rank-aware' only"),
        (lambda: al.CRC(group=0), "CRC: group must be a whole number >= 1"),
        (lambda: al.CRC(score="schur"), "CRC: score must be one of rank-aware, positive"),
        (lambda: al.Margin(on="p"), "Margin: on must be one of prob, logit"),
        (lambda: al.EGL(layers="first"), "EGL: layers must be one of last, all"),
        (lambda: al.DynamicAL(gamma=-1), "gamma must be a number >= 0"),
        (lambda: al.DynamicAL(redundancy="some"), "redundancy must be one of none, penalise, exact"),
        (lambda: al.TypiClust(neighbours=0), "neighbours must be a whole number >= 1"),
        (lambda: al.ALBL(arms=(al.Random(),)), "expected at least two arms, got 1"),
        (lambda: al.ALBL(mode="ucb"), "mode must be one of badge, exp4p"),
        (lambda: al.ALBL(horizon=0), "horizon must be a whole number >= 1"),
        (
            lambda: al.ALBL(state={"log_weights": [0, 0]}),
            r"state= is no longer an option; pass .*history=\[first, second\]",
        ),
        (lambda: al.ALBL(arms=("margin", "coreset")), "expected arms that are strategies"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(al.InputError, match=message):
        make()


@pytest.mark.parametrize("strategy", [al.NPC, al.CRC, al.TypiClust, al.ProbCover])
def test_a_flag_is_true_or_false(strategy):
    for wrong in ("no", 7, None):
        with pytest.raises(al.InputError, match=f"normalize must be True or False, got {wrong!r}"):
            strategy(normalize=wrong)


@pytest.mark.parametrize(
    "name",
    ["coreset", "badge", "typiclust", "probcover", "askless", "maxherding", "uherding", "tcm", "clustermargin"],
)
@pytest.mark.parametrize(("dtype", "powers"), [(np.float64, (-480, -100, 480)), (np.float32, (-50, 50))])
def test_features_in_another_unit_give_the_same_picks_or_none(name, dtype, powers):
    """Those of 1e-200 were taken for zeros by all of these but askless: picks at random, and nothing said so."""
    rng = np.random.default_rng(0)
    x, probs = rng.normal(size=(60, 6)).astype(dtype), rng.dirichlet(np.ones(4), size=60)
    given = {"probs": probs, "labelled": [3, 50, 7], "labels": [0, 1, 0]}
    plain = al.select(name, 9, features=x, **given).indices.tolist()
    for power in powers:
        scaled = al.select(name, 9, features=np.ldexp(x, power), **given)
        assert scaled.indices.tolist() == plain, power
    with pytest.raises(al.InputError, match="rescale the features"):
        al.select(name, 9, features=np.ldexp(x, -700 if dtype == np.float64 else -100), **given)
    al.select(name, 9, features=np.zeros_like(x), **given)  # these are equal indeed


def test_choosing_waits_for_torch_only_where_the_strategy_computes_with_it():
    code = (
        "import sys, numpy as np, askless as al; P = np.full((9, 3), 1 / 3); g = np.ones(9)\n"
        "for name in ('random', 'margin', 'entropy', 'confidence'): al.select(name, 2, probs=P)\n"
        "al.select('dynamical', 2, grad_sq=g, grad_dot=g)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
