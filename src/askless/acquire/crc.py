"""CRC: convergence rate control (2021). Groups of items whose Gram matrix with the labelled set is best conditioned."""

from collections.abc import Iterable
from dataclasses import field
from typing import Literal

import numpy as np
import torch

from askless.acquire.npc import smallest_positive, spectrum_info, spectrum_numbers
from askless.acquire.strategy import Selection, View
from askless.base.options import LATER, Count, options
from askless.linalg import Blocks, Rows
from askless.linalg.bordered import scores_beside
from askless.linalg.gram import BatchScores, rank_tolerance, score_batches, spectra, spectrum_scores

DIRECTIONS = 32  # tried before all columns are


@options
class CRC:
    """The unlabelled pool is split at random into groups of `group`; those with the largest smallest eigenvalue win.

    Every group is judged once, together with the labelled items, by K = [phi, 1] [phi, 1]^T, and the best n / group of
    them are taken without judging them again (so two groups may repeat each other). `group=None` is n // 10, as in the
    paper's main tables. The remainder of the split joins only when everything else is taken; where n is no multiple of
    the group, the last group is cut. `score` as in NPC. `scores` are the groups' eigenvalues; the remainder, which is not
    judged, has the lowest of them.

    `by="kernel"` judges by `kernel` in place of `features`: that of all layers, say, exactly. Only its parts over the
    labelled items and inside each group are asked for. `bias` is ignored then: the kernel includes it or does not.
    """

    group: Count | None = None
    bias: bool = True
    normalize: bool = False
    score: Literal["rank-aware", "positive"] = "rank-aware"
    by: Literal["features", "kernel"] = field(default="features", metadata=LATER)
    name = "crc"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.by,)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        size = min(self.group or max(1, n // 10), max(1, len(view.unlabelled)))
        order = rng.permutation(view.unlabelled)
        whole = len(order) // size * size
        groups = order[:whole].reshape(-1, size)
        take = -(-n // size)
        if self.by == "kernel":
            rank, value = self._judge_by_kernel(view, groups, take)
        else:
            rank, value = self._judge(self._rows(view), view, groups, take)
        best = np.lexsort((-value, -rank))[:take]
        picks = np.concatenate([groups[best].reshape(-1), order[whole:]])[:n]
        rest = np.full(max(0, n - len(best) * size), value[best].min(initial=np.inf))
        scores = np.concatenate([np.repeat(value[best], size), rest])[:n]
        of_union = (
            self._kernel_info(view, picks)
            if self.by == "kernel"
            else spectrum_info(self._rows(view), view.labelled, picks)
        )
        return Selection(picks, scores, {"groups": len(groups), "group": size} | of_union)

    def _rows(self, view: View) -> Rows:
        return Rows(view["features"], self.bias, self.normalize)

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

    def _blocks(self, view: View, fixed: np.ndarray, groups: np.ndarray) -> Blocks:
        assert view.kernel is not None
        K = view.kernel.blocks(fixed, groups, view.max_memory, view.progress)
        return K.normalized() if self.normalize else K

    def _judge_by_kernel(self, view: View, groups: np.ndarray, take: int) -> tuple[np.ndarray, np.ndarray]:
        """The same by the kernel; every group is judged."""
        rank, value = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups))
        if take == 0:  # nothing is asked for: skip the kernel, which may take long
            return rank, value
        K = self._blocks(view, view.labelled, groups)
        if self.score == "positive":
            for where, eigenvalues in K.spectra(view.max_memory):
                value[where] = smallest_positive(eigenvalues, K.n, K.p)
            return rank, value
        for where, scores in K.scores(view.max_memory):
            rank[where], value[where] = scores.rank, scores.value
        return rank, value

    def _kernel_info(self, view: View, picks: np.ndarray) -> dict[str, object]:
        """As `spectrum_info`, where the number of columns is unknown."""
        l, n = len(view.labelled), len(view.labelled) + len(picks)
        K = self._blocks(view, np.concatenate([view.labelled, picks]), np.empty((0, 0), dtype=np.int64))
        union, labelled = (
            spectrum_scores(torch.linalg.eigvalsh(part)[None], n, K.p).at(0) for part in (K.LL, K.LL[:l, :l])
        )
        info = spectrum_numbers(union, labelled if l else None)
        if union.rank < n:
            info["note"] = (
                f"the {n} items span only {union.rank} directions of the kernel (as far as its digits tell): there are "
                "copies among them, or it has no higher rank; its smallest non-zero eigenvalue is compared"
            )
        return info


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
