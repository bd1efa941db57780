"""CRC: convergence rate control (2021). Groups of items whose Gram matrix with the labelled set is best conditioned."""

from typing import Literal

import numpy as np

from askless.acquire.npc import smallest_positive, spectrum_info
from askless.acquire.strategy import Selection, View
from askless.linalg import Rows
from askless.linalg.bordered import scores_beside
from askless.linalg.gram import spectra
from askless.options import check_choice, check_count, options


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
        check_choice("CRC", "score", self.score, ("rank-aware", "positive"))

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        rows = Rows(view["features"], self.bias, self.normalize)
        size = min(self.group or max(1, n // 10), max(1, len(view.unlabelled)))
        order = rng.permutation(view.unlabelled)
        whole = len(order) // size * size
        groups = order[:whole].reshape(-1, size)
        rank, value = self._judge(rows, view, groups)
        best = np.lexsort((-value, -rank))[: -(-n // size)]
        picks = np.concatenate([groups[best].reshape(-1), order[whole:]])[:n]
        rest = np.full(max(0, n - len(best) * size), np.nan)
        scores = np.concatenate([np.repeat(value[best], size), rest])[:n]
        info = {"groups": len(groups), "group": size} | spectrum_info(rows, view.labelled, picks)
        return Selection(picks, scores, info)

    def _judge(self, rows: Rows, view: View, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rank and eigenvalue of each group (m, size) with the labelled items; rank 0 for all where it does not count."""
        n, p = len(view.labelled) + groups.shape[1], rows.width
        rank, value = np.zeros(len(groups), dtype=np.int64), np.empty(len(groups))
        if self.score == "positive":
            for where, eigenvalues in spectra(rows, view.labelled, groups, view.max_memory):
                value[where] = smallest_positive(eigenvalues, n, p)
                view.report(min(where.stop, len(groups)), len(groups))
        else:
            for where, scores in scores_beside(rows, view.labelled, groups, view.max_memory):
                rank[where], value[where] = scores.rank, scores.value
                view.report(min(where.stop, len(groups)), len(groups))
        return rank, value
