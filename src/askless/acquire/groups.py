"""Many items as few groups: each keeps one of its items, and the mean, the weight and the number of all of them."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array

from askless.acquire.covering import SAME, TILE, Space, sq_distances

OFTEN = 2048  # positions in a sample that says where the items are
ROOM = 2**28  # bytes for rows while groups are merged


class Groups(NamedTuple):
    """k groups of items."""

    mean: np.ndarray  # (k, d) float64: the mean of their features, by weight
    weight: np.ndarray  # (k,): the sum of their weights
    size: np.ndarray  # (k,): how many they are

    def joined(self, other: "Groups") -> "Groups":
        return Groups(*(np.concatenate(both) for both in zip(self, other, strict=True)))

    def merged_by(self, into: np.ndarray) -> "Groups":
        """Fewer groups: `into` (k,) is the number of the one that takes each of these."""
        weight, size = (np.bincount(into, old) for old in (self.weight, self.size))
        return Groups(weighted_means(self.mean, self.weight, into), weight, size)


def alone(features: np.ndarray, weight: np.ndarray) -> Groups:
    """Every item as a group of its own, from rows (k, d) and weights (k,) > 0."""
    return Groups(features.astype(np.float64), weight.astype(np.float64), np.ones(len(weight)))


def as_often(size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions below k, each in proportion to its `size` (k,).

    >>> np.bincount(as_often(np.array([3.0, 1.0]), np.random.default_rng(0))).tolist()
    [1536, 512]
    """
    ends = np.cumsum(size)
    at = (np.arange(OFTEN) + rng.random()) * (ends[-1] / OFTEN)
    return np.searchsorted(ends, at, side="right").clip(max=len(size) - 1)


def merged(
    groups: Groups, items: np.ndarray, fixed: np.ndarray, keep: int, directions: int, rng: np.random.Generator
) -> tuple[Groups, np.ndarray]:
    """The groups, merged until `keep` are left beside the `fixed` ones, and which of the items (k,) they keep, ascending.

    `items` (k, d): features of the item that each group has kept so far. Of a merged group the item nearest to the middle
    stays. Groups that are `fixed` (k,) keep theirs, and so are never merged with each other. Distances are those of `Space`.
    """
    k = len(items)
    space = Space(np.concatenate([groups.mean, items]), directions, ROOM, rng, as_often(groups.size, rng))
    mean, row = space(np.arange(k)).numpy(), space(np.arange(k, 2 * k)).numpy()
    weight, bound, into = groups.weight, fixed, np.arange(k)
    while (most := np.count_nonzero(~bound) - keep) > 0:
        stay, to = np.unique(absorbed(*least_costs(mean, weight), bound, most), return_inverse=True)
        mean, weight, bound, into = weighted_means(mean, weight, to), np.bincount(to, weight), bound[stay], to[into]
    off = np.where(fixed, -1.0, np.square(row - mean[into]).sum(axis=1))
    order = np.lexsort((off, into))
    kept = order[np.flatnonzero(np.diff(into[order], prepend=-1))]  # the first of each group
    again = np.argsort(kept)
    return Groups(*(part[again] for part in groups.merged_by(into))), kept[again]


def least_costs(mean: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(k,), (k,): what it costs to merge each group with the one where that costs least, and which one that is.

    The cost is Ward's (1963): w_i w_j / (w_i + w_j) |mean_i - mean_j|^2, by which the summed squared distance of all items
    from the means of their groups grows.
    """
    x, light = torch.from_numpy(mean).float(), torch.from_numpy(1 / weight).float()
    costs, partners = torch.empty(len(x)), torch.empty(len(x), dtype=torch.int64)
    step = max(1, TILE // (4 * len(x)))
    for i in range(0, len(x), step):
        part = slice(i, i + step)
        cost = sq_distances(x[part], x)
        cost.masked_fill_(cost <= SAME, 0.0).div_(light[part, None] + light).diagonal(offset=i).fill_(torch.inf)
        costs[part], partners[part] = cost.min(dim=1)
    return costs.numpy(), partners.numpy()


def absorbed(costs: np.ndarray, partners: np.ndarray, fixed: np.ndarray, most: int) -> np.ndarray:
    """(k,): the group that takes each group, itself where it stays; the cheapest go first, `most` of them at most.

    A group takes one other at most, because a second then costs more than was computed; copies, of cost 0, are all taken.
    """
    into, takes = np.arange(len(costs)), np.zeros(len(costs), dtype=bool)
    order = np.argsort(costs, kind="stable")
    for i in order[~fixed[order]]:
        j = partners[i]
        if into[j] == j and not takes[i] and (not takes[j] or costs[i] == 0):
            into[i], takes[j] = j, True
            most -= 1
            if most == 0:
                break
    return into


def weighted_means(rows: np.ndarray, weight: np.ndarray, into: np.ndarray) -> np.ndarray:
    """(k, d): of the rows (m, d) that go `into` (m,) each of k groups, by their weights (m,)."""
    total = np.bincount(into, weight)
    shares = csr_array((weight / total[into], (into, np.arange(len(into)))), shape=(len(total), len(into)))
    return shares @ rows.astype(np.float64)
