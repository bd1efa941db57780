"""CRC: convergence rate control (2021). Groups of items whose Gram matrix with the labelled set is best conditioned."""

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch

from askless.acquire.npc import smallest_positive, spectrum_info
from askless.acquire.strategy import Selection, View
from askless.linalg import Rows
from askless.linalg.bordered import scores_beside
from askless.linalg.gram import BatchScores, rank_tolerance, score_batches, spectra
from askless.options import check_choice, check_count, check_flag, options

DIRECTIONS = 32  # tried before all columns are


@options
class CRC:
    """The unlabelled pool is split at random into groups of `group`; those with the largest smallest eigenvalue win.

    Every group is judged once, together with the labelled items, by K = [phi, 1] [phi, 1]^T, and the best n / group of
    them are taken without judging them again (so two groups may repeat each other). `group=None` is n // 10, as in the
    paper's main tables. The remainder of the split joins only when everything else is taken; where n is no multiple of
    the group, the last group is cut. `score` as in NPC. Give all-layer gradient features to judge by all layers.
    `scores` are the groups' eigenvalues.
    """

    group: int | None = None
    bias: bool = True
    normalize: bool = False
    score: Literal["rank-aware", "positive"] = "rank-aware"
    name = "crc"
    needs = ("features",)

    def __post_init__(self) -> None:
        if self.group is not None:
            check_count("CRC", "group", self.group)
        check_flag("CRC", "bias", self.bias)
        check_flag("CRC", "normalize", self.normalize)
        check_choice("CRC", "score", self.score, ("rank-aware", "positive"))

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        rows = Rows(view["features"], self.bias, self.normalize)
        size = min(self.group or max(1, n // 10), max(1, len(view.unlabelled)))
        order = rng.permutation(view.unlabelled)
        whole = len(order) // size * size
        groups = order[:whole].reshape(-1, size)
        take = -(-n // size)
        rank, value = self._judge(rows, view, groups, take)
        best = np.lexsort((-value, -rank))[:take]
        picks = np.concatenate([groups[best].reshape(-1), order[whole:]])[:n]
        rest = np.full(max(0, n - len(best) * size), np.nan)
        scores = np.concatenate([np.repeat(value[best], size), rest])[:n]
        info = {"groups": len(groups), "group": size} | spectrum_info(rows, view.labelled, picks)
        return Selection(picks, scores, info)

    def _judge(self, rows: Rows, view: View, groups: np.ndarray, take: int) -> tuple[np.ndarray, np.ndarray]:
        """Rank and eigenvalue of each group (m, size) with the labelled items; rank 0 for all where it does not count, and
        -1 for a group that cannot be among the best `take`."""
        n, p = len(view.labelled) + groups.shape[1], rows.width
        rank, value = np.zeros(len(groups), dtype=np.int64), np.empty(len(groups))
        if self.score == "positive":
            for where, eigenvalues in spectra(rows, view.labelled, groups, view.max_memory):
                value[where] = smallest_positive(eigenvalues, n, p)
                view.report(min(where.stop, len(groups)), len(groups))
            return rank, value
        rank[:], value[:] = -1, -np.inf
        full, screen = min(n, p), None
        done, block = 0, max(2 * take, 32)
        while done < len(groups):
            some = np.arange(done, min(done + block, len(groups)))
            done, block = done + len(some), 2 * block
            if screen is not None:
                least = np.partition(np.where(rank == full, value, -np.inf), -take)[-take]
                some = some[screen.passes(groups[some], float(least))]
            if len(some):
                for where, scores in score(rows, view.labelled, groups[some], view.max_memory):
                    rank[some[where]], value[some[where]] = scores.rank, scores.value
            if screen is None and (rank == full).sum() >= take:
                screen = Screen(rows, view.labelled, groups.shape[1], view.max_memory)
            view.report(done, len(groups))
        return rank, value


def score(rows: Rows, labelled: np.ndarray, groups: np.ndarray, max_memory: int) -> Iterable[tuple[slice, BatchScores]]:
    """(where, scores) of the groups; with more items than columns the labelled ones' own eigenvalues are of no use."""
    if len(labelled) + groups.shape[1] <= rows.width:
        return scores_beside(rows, labelled, groups, max_memory)
    return [(slice(None), score_batches(rows, labelled, groups, max_memory))]


class Screen:
    """Which groups can have a smallest eigenvalue above s, once enough of full rank are known: those for which K - s I has a
    Cholesky factor, a tenth of the work of its eigenvalues.

    Up to p items in all it is enough to factorise the group's Schur complement in K - s I. Beyond that phi^T phi - s I over
    the p columns is taken, first in the few directions that the labelled items know least: it must be definite there, too.
    """

    def __init__(self, rows: Rows, labelled: np.ndarray, q: int, max_memory: int) -> None:
        self.rows, self.n = rows, len(labelled) + q
        phi, p = rows.take(labelled), rows.width
        self.trace = phi.square().sum()
        self.primal = self.n <= p
        if self.primal:
            self.values, vectors = torch.linalg.eigh(phi @ phi.T)
            self.basis = phi.T @ vectors  # (p, l)
            each = 4 * q * p + 4 * q * (q + len(labelled))
        else:
            self.gram = phi.T @ phi
            self.values, vectors = torch.linalg.eigh(self.gram)
            self.basis = vectors[:, : min(DIRECTIONS, p)]
            each = 4 * q * p + 3 * p * p
        self.step = max(1, max_memory // (8 * each))

    def passes(self, groups: np.ndarray, s: float) -> np.ndarray:
        """For each group (m, q), whether its eigenvalue may exceed s; never False for one that does."""
        parts = [
            self._may_exceed(self.rows.take(groups[i : i + self.step]), s) for i in range(0, len(groups), self.step)
        ]
        return np.concatenate(parts)

    def _may_exceed(self, batch: torch.Tensor, s: float) -> np.ndarray:
        # What rounding could do is taken off s, so that it loses no group.
        rounding = 8 * rank_tolerance(self.n, self.rows.width) * (batch.square().sum(dim=(1, 2)) + self.trace)  # (m,)
        return self._schur(batch, s, rounding) if self.primal else self._columns(batch, s - rounding)

    def _schur(self, batch: torch.Tensor, s: float, rounding: torch.Tensor) -> np.ndarray:
        cap = float(self.values[0]) if len(self.values) else float("inf")  # of every group: interlacing
        rounding = rounding * (1 + s / (cap - s) if s < cap else float("inf"))
        if bool((rounding >= s).any()):
            return np.ones(len(batch), dtype=bool)  # so near to the cap that only the eigenvalues tell
        shift = s - rounding
        cross = batch @ self.basis  # (m, q, l)
        schur = batch @ batch.mT - (cross / (self.values - shift[:, None])[:, None, :]) @ cross.mT
        return definite(schur, shift)

    def _columns(self, batch: torch.Tensor, shift: torch.Tensor) -> np.ndarray:
        z = batch @ self.basis  # (m, q, directions)
        alive = definite(torch.diag(self.values[: z.shape[2]]) + z.mT @ z, shift)
        if alive.any():
            some = torch.from_numpy(np.flatnonzero(alive))
            alive[alive] = definite((batch[some].mT @ batch[some]).add_(self.gram), shift[some])
        return alive


def definite(matrices: torch.Tensor, shift: torch.Tensor) -> np.ndarray:
    """Whether each of the matrices (m, k, k) minus its shift (m,) on the diagonal is positive definite; changes them."""
    matrices.diagonal(dim1=1, dim2=2).sub_(shift[:, None])
    return (torch.linalg.cholesky_ex(matrices).info == 0).numpy()
