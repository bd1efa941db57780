"""Refine where every step can be followed: strategies that score each item by itself, on parts that are the whole pool."""

import numpy as np
import pytest
from scipy.special import softmax

import askless as al
from askless.acquire.uncertainty import entropy, margin


def pool(N=200, C=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, 6)), softmax(2 * rng.normal(size=(N, C)), axis=1)


def best(score, among, n):
    return among[np.argsort(-score[among])[:n]]


@pytest.mark.parametrize("labelled", [[], [1, 5, 60]])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_what_nobody_asks_for_is_gone(depth, labelled):
    _, p = pool()
    strategy = al.Refine(strategies=("margin", "confidence"), final="entropy", depth=depth, batches=2, alpha=1.0)
    picks = al.select(strategy, 9, probs=p, labelled=labelled)
    left, sizes = np.setdiff1d(np.arange(200), labelled), []
    for _ in range(depth):
        left = np.union1d(best(-margin(p), left, 9), best(-p.max(axis=1), left, 9))
        sizes.append(len(left))
    assert picks.indices.tolist() == best(entropy(p), left, 9).tolist()
    assert picks.info["pools"] == sizes
    assert picks.info["final"] == {"strategy": "entropy"}
    np.testing.assert_allclose(picks.scores, entropy(p)[picks.indices])


def test_an_item_that_only_the_last_one_likes_is_not_chosen():
    # Entropy alone would take item 0 (three classes alike); by margin and confidence items 1 and 2 are ahead of it.
    p = np.array([[0.45, 0.275, 0.275], [0.44, 0.44, 0.12], [0.42, 0.4, 0.18], [0.9, 0.05, 0.05]])
    assert al.select("entropy", 1, probs=p).indices.tolist() == [0]
    strategy = al.Refine(strategies=("margin",), final="entropy", depth=1, batches=1)
    assert al.select(strategy, 1, probs=p).indices.tolist() == [1]
    both = al.Refine(strategies=("margin", "confidence"), final="entropy", depth=1, batches=2)
    assert al.select(both, 1, probs=p).indices.tolist() == [2]


def test_parts_shrink_with_the_pool():
    seen = []

    class Watched(al.Random):
        def select(self, view, n, rng):
            seen.append(len(view.unlabelled))
            return super().select(view, n, rng)

    strategy = al.Refine(strategies=(Watched(), "random"), final="random", depth=3, batches=20, subset=300, most=120)
    sizes = al.select(strategy, 10, pool=1000).info["pools"]
    assert seen == [300] * 10 + [max(10, int(0.4 * sizes[0]))] * 10 + [max(10, int(0.4 * sizes[1]))] * 10
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 120  # of 20 random batches of 10
    assert sizes[-1] >= 10


def test_it_needs_what_its_strategies_need():
    assert al.Refine().needs == ("probs", "features")
    assert al.Refine().wants == ("labels",)
    assert al.Refine(strategies=(al.Coreset(), "margin"), final="random").needs == ("features", "probs")
    assert al.Refine(final="margin", depth=0).needs == ("probs",)


def test_names_and_objects_give_the_same_picks():
    x, p = pool()
    options = {"depth": 2, "batches": 8, "subset": 80}
    names = al.Refine(strategies=("margin", "badge"), final="coreset", **options)
    objects = al.Refine(strategies=(al.Margin(), al.BADGE()), final=al.Coreset(), **options)
    first, second = (al.select(one, 7, features=x, probs=p, seed=3) for one in (names, objects))
    assert first.indices.tolist() == second.indices.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategies": ()}, r"expected strategies such as .*, got \(\)"),
        ({"strategies": "margin"}, "expected strategies such as"),
        ({"strategies": (al.Margin,)}, r"expected a strategy's name or an object such as Margin\(\)"),
        ({"final": 3}, "got 3"),
        ({"strategies": ("albl", "margin")}, "albl remembers earlier picks"),
        ({"final": "margn"}, "margin"),
    ],
)
def test_wrong_strategies_are_named(options, message):
    with pytest.raises(al.AsklessError, match=message):
        al.Refine(**options)


def test_it_is_saved_with_its_strategies():
    from askless.active.saving import from_plain, to_plain

    strategy = al.Refine(strategies=("margin", al.NPC(draws=50)), final=al.BADGE())
    assert from_plain(to_plain(strategy)) == strategy
