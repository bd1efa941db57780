"""The contract on every strategy, by name and with its options."""

import dataclasses

import numpy as np
import pytest

import askless as al
from askless.acquire import STRATEGIES, Selection, make
from askless.testing import check_strategy

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
]


QUICK = {"npc": {"draws": 60}, "batchbald": {"configurations": 100}, "dal": {"epochs": 2, "width": 16}}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_keeps_the_contract(name):
    check_strategy(make(name, **QUICK.get(name, {})))


@pytest.mark.parametrize("strategy", WITH_OPTIONS, ids=repr)
def test_every_option_keeps_the_contract(strategy):
    check_strategy(strategy)


def test_the_table_names_each_strategy_as_it_names_itself():
    for name, info in STRATEGIES.items():
        assert info.make().name == name
        assert info.make.__doc__


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
        *("floats", "wants"),
    ],
)
def test_the_contract_finds(fault):
    with pytest.raises(AssertionError):
        check_strategy(Broken(fault))


def test_the_contract_finds_a_strategy_that_fails_without_labels():
    with pytest.raises(IndexError):
        check_strategy(Broken("one label needed"))
