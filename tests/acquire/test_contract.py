"""The contract on every strategy, by name and with its options; on arrays that are in order, and on any."""

import dataclasses
import os
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import askless as al
from askless.acquire import STRATEGIES, Selection, Strategy, make
from askless.acquire.table import PER_ITEM
from askless.acquire.testing import check_selection, check_strategy

INF = float("inf")
WITH_OPTIONS = [
    al.NPC(draws=40, score="positive"),
    al.NPC(draws=40, bias=False, normalize=True),
    al.NPC(search="greedy"),
    al.NPC(search="swap"),
    al.CRC(group=3),
    al.CRC(group=4, score="positive", normalize=True),
    al.CRC(group=3, by="kernel"),
    al.CRC(group=4, by="kernel", score="positive", normalize=True),
    al.TwoLevel(of=al.CRC(group=2, by="kernel"), parts=3),
    al.EGL(layers="all"),
    al.EGL(bias=False),
    al.DynamicAL(gamma=0),
    al.DynamicAL(gamma=INF),
    al.DynamicAL(redundancy="exact"),
    al.DynamicAL(redundancy="penalise"),
    al.DynamicAL(redundancy="penalise", chunk=4),
    al.ALBL(mode="exp4p", arms=(al.Random(), al.Margin())),
    al.Confidence(on="logit"),
    al.Margin(on="logit"),
    al.Entropy(on="logit"),
    al.TypiClust(max_clusters=3, max_members=4, neighbours=2, normalize=True),
    al.BatchBALD(configurations=20, candidates=10),
    al.ProbCover(delta=0.5, targets=20, normalize=False),
    al.DAL(classifier="logistic", sub_batches=3),
    al.BAIT(lam=1e-6, weights="equal", bias=True, directions=2),
    al.DIRECT(explore=1.0),
    al.Refine(strategies=("margin", "random"), final=al.Coreset(), depth=3, batches=4, alpha=0.1, subset=12, most=15),
    al.DCoM(delta=0.5, targets=20, normalize=False, centre=0.1),
    al.LookAhead(batch="top", ridge=1e-6, directions=2),
    al.MaxHerding(lengthscale=0.1, targets=20),
    al.UHerding(lengthscale=0.5, temperature=2.0, targets=20),
    al.TCM(per_class=0),
    al.ClusterMargin(candidates=2, members=3, max_rows=7),
    al.DropQuery(by="passes", rho=0.2),
    al.DropQuery(passes=5, drop=0.3, rho=0.0),
    al.ALFAMix(cap=5.0),
]


QUICK = {
    "npc": {"draws": 60},
    "batchbald": {"configurations": 100},
    "dal": {"epochs": 2, "width": 16},
    "refine": {"depth": 2, "batches": 5},
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_keeps_the_contract(name):
    check_strategy(make(name, **QUICK.get(name, {})))


@pytest.mark.parametrize("strategy", WITH_OPTIONS, ids=repr)
def test_every_option_keeps_the_contract(strategy):
    check_strategy(strategy)


@dataclasses.dataclass(frozen=True)
class Broken:
    """A strategy with one fault, to see that the contract test can fail."""

    fault: str
    name = "broken"
    needs = ("features",)

    @property
    def wants(self):
        return ("probs",) if self.fault == "wants" else ()

    @property
    def equivariant(self):
        return self.fault == "position"

    def select(self, view, n, rng):
        free = view.unlabelled
        match self.fault:
            case "repeats":
                return Selection(np.repeat(free[:1], n))
            case "labelled":
                return Selection(np.arange(n))
            case "local positions":
                return Selection(np.arange(n) + view.N - len(free) if n < len(free) else np.arange(n))
            case "too few":
                return Selection(free[: max(n - 1, 0)])
            case "global randomness":
                return Selection(np.random.default_rng().permutation(free)[:n])
            case "writes":
                view.features[0] += 1
                return Selection(free[:n])
            case "floats":
                return Selection(free[:n] + 0.0)
            case "scores":
                return Selection(free[:n], np.where(np.arange(n) == 1, np.nan, 1.0))
            case "info":
                return Selection(free[:n], None, {"array": np.zeros(2)})
            case "wants":
                return Selection(free[np.argsort(view["probs"][free, 0], kind="stable")][:n])
            case "position":
                return Selection(free[:n])
            case "one label needed":
                return Selection(free[np.argsort(view.features[free] @ view.features[view.labelled[0]])][:n])
        raise AssertionError(self.fault)


@pytest.mark.entropy  # one fault is to draw from it
@pytest.mark.parametrize(
    "fault",
    [
        *("repeats", "labelled", "local positions", "too few", "global randomness", "writes", "info", "position"),
        *("floats", "wants", "scores"),
    ],
)
def test_the_contract_finds(fault):
    with pytest.raises(AssertionError):
        check_strategy(Broken(fault))


def test_the_contract_finds_a_strategy_that_fails_without_labels():
    with pytest.raises(AssertionError, match=r"1\. select raised IndexError in line \d+: index 0 is out of bounds"):
        check_strategy(Broken("one label needed"))


# --- any arrays at all --------------------------------------------------------------------------------------------------

EVERY = [*(make(name, **QUICK.get(name, {})) for name in STRATEGIES), *WITH_OPTIONS]
SCALES = (1.0, 0.0, 5e-324, 1e-300, 1e-160, 1e-45, 1e-20, 1e-8, 1e8, 1e18, 1e100, 1e149, 1e300)


@dataclasses.dataclass(frozen=True)
class Asked:
    """One call of `select`, on a pool whose arrays may be anything that floats can hold."""

    strategy: Strategy
    N: int  # items
    d: int  # features
    C: int  # classes
    K: int  # passes
    copies: str  # of items
    scale: float
    sharp: float  # 0: every class is as likely; 1e4: each item has one
    dtype: Any
    poison: tuple[str, float] | None  # an array, and what one of its numbers is
    labelled: float  # the share
    kinds: int  # of labels
    n: str
    max_memory: int
    seed: int

    def arrays(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        N, C = self.N, self.C
        features, logits = rng.normal(size=(N, self.d)), self.sharp * rng.normal(size=(N, C))
        by_pass, grads = self.sharp * rng.normal(size=(N, self.K, C)), rng.normal(size=(N, C))
        at = {"none": np.arange(N), "pairs": np.arange(N) // 2, "constant": np.zeros(N, dtype=int)}[self.copies]
        features, logits, by_pass, grads = (self.scale * features)[at], logits[at], by_pass[at], grads[at]
        made = {
            "features": features,
            "probs": softmax(logits, axis=1),
            "probs_by_pass": softmax(by_pass, axis=2),
            "logits": logits,
            "grad_sq": self.scale * grads[:, 0] ** 2,
            "grad_dot": self.scale * grads[:, -1],
            "grad_sq_by_class": self.scale * grads**2,
            "kernel": features @ features.T + 1,
        }
        made = {name: array.astype(self.dtype) for name, array in made.items()}
        if self.poison is not None:
            name, value = self.poison
            made[name].flat[int(rng.integers(made[name].size))] = value
        L = round(self.labelled * N)
        return made | {"labelled": rng.permutation(N)[:L], "labels": rng.integers(self.kinds, size=L)}

    def how_many(self, free: int) -> int:
        return {"none": 0, "one": min(1, free), "some": free // 2, "all": free, "too many": free + 1}[self.n]


ANY = st.builds(
    Asked,
    strategy=st.sampled_from(EVERY),
    N=st.integers(1, 24),
    d=st.integers(1, 8),
    C=st.integers(1, 4),
    K=st.integers(1, 4),
    copies=st.sampled_from(("none", "pairs", "constant")),
    scale=st.sampled_from(SCALES),
    sharp=st.sampled_from((0.0, 1.0, 30.0, 1e4)),
    dtype=st.sampled_from((np.float64, np.float32, np.float16)),
    poison=st.none()
    | st.none()
    | st.tuples(st.sampled_from(PER_ITEM), st.sampled_from((np.nan, INF, -INF, -1.0, 0.0))),
    labelled=st.sampled_from((0.0, 0.1, 0.5, 0.9, 1.0)),
    kinds=st.sampled_from((1, 3, 50)),
    n=st.sampled_from(("some", "all", "one", "none", "too many")),
    max_memory=st.sampled_from((2**28, 2**28, 10**5, 1000, 1)),
    seed=st.integers(0, 2**16),
)


def check_asked(asked: Asked) -> int:
    """How many selections were made, of two; an error in words is as good, if it comes twice."""
    with np.errstate(over="ignore", invalid="ignore"):
        arrays = asked.arrays()
    free = asked.N - len(arrays["labelled"])
    n = asked.how_many(free)

    def once(given: dict[str, Any]) -> Selection | str:
        try:
            return al.select(asked.strategy, n, seed=asked.seed, max_memory=asked.max_memory, **given)
        except al.AsklessError as error:
            return str(error)

    first, again = once(arrays), once({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})
    if isinstance(first, str) or isinstance(again, str):
        assert first == again
        assert len(first) < 600
        assert not (n == 0 and asked.poison is None and asked.scale == 1), first
        return 0
    assert n <= free
    check_selection(first, n, asked.N, arrays["labelled"], repr(asked))
    assert first.indices.tolist() == again.indices.tolist()
    if first.scores is not None:
        np.testing.assert_array_equal(first.scores, again.scores)
    return 2


@settings(max_examples=300)
@given(ANY)
def test_any_arrays_give_a_selection_or_a_sentence(asked):
    check_asked(asked)


@pytest.mark.slow
def test_thousands_of_arrays_give_a_selection_or_a_sentence():
    wanted, made = int(os.environ.get("ASKLESS_SELECT_FUZZ", "4000")), 0

    @settings(max_examples=wanted)
    @given(ANY)
    def run(asked: Asked) -> None:
        nonlocal made
        made += check_asked(asked)

    run()
    print(f"selections {made}: 0 contract breaks")
