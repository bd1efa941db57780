"""DIRECT: around the border of each class among items in the order of its probability (Nuggehalli et al., 2023)."""

import numpy as np

from askless.acquire.strategy import Selection, View
from askless.base.options import Share, options


@options
class DIRECT:
    """Made for rare classes: every class k has the same share of the batch, at the border between k and the others.

    For each class the pool is put in order by p_k - max_c p_c, equals by max_c p_c, so that items of k come first. The
    labels say where they end, in two ways:
    - the threshold with the fewest labels on the wrong side (the first of several): items next to it are chosen, one to the
      left and one to the right in turn;
    - the region where the border may lie, from the last label of the leading k's to the first label of the trailing others:
      a part `explore` of the class's share is drawn there at random, so that labels that are wrong do not fix the border.
    Regions come first, the rarest class among the labels first; then the thresholds, classes in random order.

    The paper asks in several rounds inside a batch and narrows the region by the labels that come back. This is one such
    round: with its labels, select again. (GALAXY, Zhang et al., ICML 2022, which DIRECT follows, needs a label after every
    pick.) A class without labels has its threshold at the front: the likeliest items come first. Without scores: picks of
    different classes are not comparable. Cost and memory: C sortings of N numbers, one at a time.

    >>> p = [[0.9, 0.1], [0.7, 0.3], [0.45, 0.55], [0.2, 0.8]]
    >>> al.select(al.DIRECT(explore=0), 1, probs=p, labelled=[0, 3], labels=[0, 1]).indices
    array([2])
    """

    explore: Share = 0.5
    name = "direct"
    needs = ("probs", "labels")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0])
        C = view["probs"].shape[1]
        ties = rng.random(view.N)
        taken = np.zeros(view.N, dtype=bool)
        taken[view.labelled] = True
        label = np.full(view.N, -1)
        label[view.labelled] = view["labels"]
        counts = np.bincount(view["labels"][view["labels"] < C], minlength=C)
        picks: list[np.ndarray] = []
        done = 0
        each = int(self.explore * n / C)
        for k in np.argsort(counts, kind="stable") if each else ():
            order = in_order_of_class(view, int(k), ties)
            low, high = uncertain_region(sides(label[order], int(k)))
            region = order[low : high + 1]
            region = region[~taken[region]]
            picks.append(rng.permutation(region)[:each])
            taken[picks[-1]] = True
            done += len(picks[-1])
            view.report(done, n)
        rest = n - done
        for i, k in enumerate(rng.permutation(C)):
            share = rest * (i + 1) // C - rest * i // C
            if share:
                order = in_order_of_class(view, int(k), ties)
                around = alternating(order, threshold(sides(label[order], int(k))))
                picks.append(around[~taken[around]][:share])
                taken[picks[-1]] = True
                done += len(picks[-1])
                view.report(done, n)
        return Selection(np.concatenate(picks))


def in_order_of_class(view: View, k: int, ties: np.ndarray) -> np.ndarray:
    """All positions (N,), those that look most like class k first."""
    above = view.by_rows(lambda p: p[:, k] - p.max(axis=1), "probs")
    most = view.by_rows(lambda p: p.max(axis=1), "probs")
    return np.lexsort((ties, -most, -above))


def sides(labels: np.ndarray, k: int) -> np.ndarray:
    """1 for a label k, -1 for another one, 0 for no label (-1).

    >>> sides(np.array([2, -1, 0]), 2)
    array([ 1,  0, -1])
    """
    return np.where(labels < 0, 0, np.where(labels == k, 1, -1))


def threshold(w: np.ndarray) -> int:
    """How many of the first items should be of the class, so that most labels agree; the fewest, where several do.

    >>> threshold(np.array([1, 0, 1, -1, 1, 0, -1, -1]))  # one label, the last 1, is on the wrong side
    3
    """
    right = np.concatenate([[0], np.cumsum(w)])  # ones before, minus others before, but for a constant
    return int(right.argmax())


def uncertain_region(w: np.ndarray) -> tuple[int, int]:
    """First and last position between which the border may lie: the last 1 before any -1, the first -1 after any 1.

    >>> uncertain_region(np.array([0, 1, 0, 0, -1, 0]))
    (1, 4)
    """
    ones, others = np.flatnonzero(w > 0), np.flatnonzero(w < 0)
    leading = ones[ones < others[0]] if len(others) else ones
    trailing = others[others > ones[-1]] if len(ones) else others
    low = int(leading[-1]) if len(leading) else 0
    high = int(trailing[0]) if len(trailing) else len(w) - 1
    return low, high


def alternating(order: np.ndarray, at: int) -> np.ndarray:
    """Those next to the border before position `at`, the left one first, then outwards.

    >>> alternating(np.arange(6), 2)
    array([1, 2, 0, 3, 4, 5])
    """
    left, right = np.arange(at - 1, -1, -1), np.arange(at, len(order))
    distance = np.concatenate([2 * np.arange(len(left)), 2 * np.arange(len(right)) + 1])
    return order[np.concatenate([left, right])[np.argsort(distance)]]
