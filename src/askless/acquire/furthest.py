"""The row furthest from a growing set of centres, again and again, without looking at every row each time.

Distances to the nearest centre only fall as centres are added, so an old value is an upper bound. The few hundred rows with
the largest bounds are kept exact; while the furthest of them lies beyond every other row's bound it is the furthest of all,
and the other rows need not be touched. When it no longer does, only the rows whose bounds are in the way are brought up to
date, by one matrix product with all the centres that they have missed (the lazy greedy of Minoux, 1978, in blocks).

Bounds come from |x|^2 + |c|^2 - 2 x.c around a middle row, in the features' own float type (half precision in float32), with
a margin that covers their rounding. What is compared and returned is computed by differences in float64: nothing cancels.
"""

import numpy as np
import torch
from torch import Tensor

from askless.acquire.strategy import largest, working_type

KEPT = 2**18  # numbers in the rows that are kept exact, to begin with: they stay in the processor's cache
CENTRES = 512  # in one product
FIRST = 128  # of the given centres that every row is held against; of the others only rows that are in the way


class Furthest:
    """`find()` says which of the allowed rows is furthest from all centres; `add()` makes a row a centre."""

    def __init__(self, features: np.ndarray, centres: np.ndarray, allowed: np.ndarray, max_memory: int) -> None:
        N, d = features.shape
        self.features, self.max_memory = features, max_memory
        self.dtype = working_type(features)
        self.slack = (d + 16) * float(np.finfo(self.dtype).eps)
        self.middle = np.asarray(features[:: max(1, N // 1024)], dtype=np.float64).mean(axis=0).astype(self.dtype)
        # Those that every row is held against come first, spread over the centres as they were given.
        spread = np.unique(np.linspace(0, max(0, len(centres) - 1), min(FIRST, len(centres))).astype(np.int64))
        self.centres = np.concatenate([centres[spread], np.delete(centres, spread)])
        self.bound = np.full(N, -np.inf)  # at least the squared distance to the nearest centre; -inf where not allowed
        self.bound[allowed] = np.inf
        self.seen = np.zeros(N, dtype=np.int32)  # how many of the centres the bound knows
        self.room = max_memory // (4 * 8 * d)  # how many rows there is room to keep exact
        self.near = np.empty(0, dtype=np.int64)  # which ones, ascending
        self.rows = np.empty((0, d))  # they themselves
        self.exact = np.empty(0)  # their squared distances
        self.beyond = np.inf  # the largest bound of the others
        if len(centres):
            self._tighten(allowed, len(spread))

    def add(self, centre: int) -> None:
        """One more centre, itself no longer allowed."""
        self.centres = np.append(self.centres, centre)
        self.bound[centre] = -np.inf
        c = np.asarray(self.features[centre], dtype=np.float64)
        step = max(1, min(self.max_memory // 2, 8 * KEPT) // (8 * len(c)))
        for i in range(0, len(self.near), step):
            difference = self.rows[i : i + step] - c
            part = self.exact[i : i + step]
            np.minimum(part, np.einsum("ij,ij->i", difference, difference), out=part)
        self.exact[np.searchsorted(self.near, centre) : np.searchsorted(self.near, centre, side="right")] = -np.inf

    def find(self) -> tuple[int, float]:
        """The allowed row furthest from its nearest centre, the first of several, and its squared distance."""
        many = max(1, min(KEPT // self.features.shape[1], self.room))
        while True:
            if len(self.near):
                best = int(self.exact.argmax())
                if self.exact[best] > self.beyond or len(self.near) == len(self.bound):
                    return int(self.near[best]), float(self.exact[best])
                self.bound[self.near] = self.exact
                self.seen[self.near] = len(self.centres)
            # Where rows are equally far but for rounding, more and more of them are made exact, in the end all.
            self._renew(many)
            many *= 2

    def _renew(self, many: int) -> None:
        """Keeps those rows exact, `many` of them, that have the largest bounds once these know all centres."""
        N = len(self.bound)
        if many > self.room or 2 * many > N:
            self.near, self.rows, self.beyond = np.arange(N), self.features, -np.inf
            self.exact = self.bound.copy()
            allowed = np.flatnonzero(self.bound > -np.inf)
            self.exact[allowed] = self._nearest(allowed)
            return
        take = many
        while True:
            top = largest(self.bound, many + 1)
            if len(self._behind(top)) == 0:
                break
            self._tighten(self._behind(largest(self.bound, take + 1)), len(self.centres))
            take = min(2 * take, N - 1)
        last = int(self.bound[top].argmin())
        self.beyond = float(self.bound[top[last]])
        top = np.delete(top, last)
        self.near = np.sort(top[self.bound[top] > -np.inf])
        self.exact = self._nearest(self.near)
        self.rows = np.asarray(self.features[self.near], dtype=np.float64)

    def _behind(self, positions: np.ndarray) -> np.ndarray:
        """Those of the allowed rows at `positions` whose bounds do not know all centres."""
        return positions[(self.seen[positions] < len(self.centres)) & (self.bound[positions] > -np.inf)]

    def _tighten(self, positions: np.ndarray, upto: int) -> None:
        """Bounds of these rows from their products with the centres before `upto` that they do not know yet."""
        positions = positions[np.lexsort((positions, self.seen[positions]))]  # alike in what they know, then by place
        d = self.features.shape[1]
        step = max(1, min(self.max_memory // 2, 2**24) // (8 * (d + CENTRES)))
        for i in range(0, len(positions), step):
            some = positions[i : i + step]
            x, sq_x = self._around_middle(some)
            least = torch.full((len(some),), torch.inf, dtype=x.dtype)
            for j in range(int(self.seen[some[0]]), upto, CENTRES):
                c, sq_c = self._around_middle(self.centres[j : min(j + CENTRES, upto)])
                terms = torch.addmm(sq_c * (1 + self.slack), x, c.T, alpha=-2)  # (rows, centres)
                torch.minimum(least, terms.amin(dim=1), out=least)
            new = (least + sq_x * (1 + self.slack)).clamp_(min=0).double().numpy()
            new[~np.isfinite(least.numpy())] = np.inf  # squares beyond the float type's range bound nothing
            self.bound[some] = np.minimum(self.bound[some], new)
            self.seen[some] = upto

    def _nearest(self, positions: np.ndarray) -> np.ndarray:
        """Squared distances to the nearest centre by differences, (k,): to those that can be nearest by their products."""
        d, t = self.features.shape[1], len(self.centres)
        out = np.full(len(positions), np.inf)
        step = max(1, self.max_memory // (8 * (d + 4 * t)))
        for i in range(0, len(positions), step):
            some = positions[i : i + step]
            x, sq_x = self._around_middle(some)
            low, high = x.new_empty(len(some), t), torch.full((len(some),), torch.inf, dtype=x.dtype)
            for j in range(0, t, CENTRES):
                c, sq_c = self._around_middle(self.centres[j : j + CENTRES])
                terms = torch.addmm(sq_c * (1 + self.slack), x, c.T, alpha=-2)
                torch.minimum(high, terms.amin(dim=1), out=high)
                low[:, j : j + CENTRES] = terms.sub_(2 * self.slack * sq_c)
            high = torch.where(high.isfinite(), high + 2 * self.slack * sq_x, torch.inf)
            rivals = ~(low > high[:, None])
            self._by_differences(some, rivals, out[i : i + step])
        return out

    def _by_differences(self, positions: np.ndarray, rivals: Tensor, out: np.ndarray) -> None:
        """out (k,) = the least squared distance of each row to the centres marked in its row of `rivals` (k, t)."""
        row, centre = (where.numpy() for where in rivals.nonzero(as_tuple=True))
        step = max(1, min(self.max_memory // 2, 8 * KEPT) // (8 * 3 * self.features.shape[1]))
        for i in range(0, len(row), step):
            at = row[i : i + step]
            difference = self.features[positions[at]].astype(np.float64)
            difference -= self.features[self.centres[centre[i : i + step]]]
            np.minimum.at(out, at, np.einsum("ij,ij->i", difference, difference))

    def _around_middle(self, positions: np.ndarray) -> tuple[Tensor, Tensor]:
        """The rows minus the middle, and their squared lengths."""
        x = self.features[positions].astype(self.dtype, copy=False)  # indexing by positions has copied them
        x -= self.middle
        return torch.from_numpy(x), torch.from_numpy(np.einsum("ij,ij->i", x, x))
