"""CRC: convergence rate control (2021). Groups of items whose Gram matrix with the labelled set is best conditioned."""

from dataclasses import field
from typing import Literal

import numpy as np
import torch

from askless.acquire.npc import smallest_positive, spectrum_info, spectrum_numbers
from askless.acquire.strategy import Selection, View
from askless.base.options import LATER, Count, options
from askless.linalg import Blocks, GramRows
from askless.linalg.bordered import scores_beside
from askless.linalg.gram import spectra, spectrum_scores
from askless.linalg.search import screen_for


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

    `normalize`: rows of unit length.

    >>> F = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]  # item 1 repeats item 0
    >>> al.select(al.CRC(group=1), 1, features=F, labelled=[0]).indices
    array([2])
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
        if take == 0:  # nothing is asked for: skip the kernel, which may take long
            rank = value = np.zeros(len(groups))
        elif self.by == "kernel":
            rank, value = self._judge_by_kernel(view, groups)
        else:
            rank, value = self._judge(view, groups, take)
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

    def _rows(self, view: View) -> GramRows:
        return GramRows(view["features"], self.bias, self.normalize)

    def _judge(self, view: View, groups: np.ndarray, take: int) -> tuple[np.ndarray, np.ndarray]:
        """Rank and eigenvalue of each group (m, size) with the labelled items; rank 0 for all where it does not count, and
        -1 for a group that cannot be among the best `take`."""
        rows = self._rows(view)
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
                least = float(np.partition(np.where(rank == full, value, -np.inf), -take)[-take])
                if least < screen.cap:  # at the cap only the eigenvalues tell
                    tiles = (some[i : i + screen.step] for i in range(0, len(some), screen.step))
                    some = np.concatenate([tile[screen.passes(groups[tile], least)] for tile in tiles])
            if len(some):
                for where, scores in scores_beside(rows, view.labelled, groups[some], view.max_memory):
                    rank[some[where]], value[some[where]] = scores.rank, scores.value
            if screen is None and (rank == full).sum() >= take:
                screen = screen_for(rows, view.labelled, groups.shape[1], full, len(groups), view.max_memory)
            view.report(done, len(groups))
        return rank, value

    def _blocks(self, view: View, fixed: np.ndarray, groups: np.ndarray) -> Blocks:
        assert view.kernel is not None
        K = view.kernel.blocks(fixed, groups, view.max_memory, view.progress)
        return K.normalized() if self.normalize else K

    def _judge_by_kernel(self, view: View, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same by the kernel; every group is judged."""
        rank, value = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups))
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
                f"the {n} items span only {union.rank} directions of the kernel (within its precision): there are "
                "copies among them, or it has no higher rank; CRC compares its smallest non-zero eigenvalue"
            )
        return info
