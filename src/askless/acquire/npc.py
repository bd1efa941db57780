"""NPC: neural pre-conditioning (Kong et al., 2023). The batch with the best-conditioned gradient Gram matrix."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from askless.acquire.strategy import Selection, View
from askless.base.errors import InputError
from askless.base.options import Count, options
from askless.linalg import GramRows, Score, add_best, best_batch, gram_score, swap_until_stable
from askless.linalg.gram import rank_tolerance, spectra

BLOCK = 2**20  # positions per block of random batches: fixed, so that the draws do not depend on memory settings


@options
class NPC:
    """The batch that maximises the smallest eigenvalue of K over the labelled items and itself (NPC, eq. 3).

    K = [phi, 1] [phi, 1]^T: the last layer's tangent kernel up to a factor C (`bias=False` leaves the 1 out,
    `normalize` makes every row a unit vector). Features whose inner product is another kernel work as well.

    `search`: "random" takes the best of `draws` random batches, as the paper does; "greedy" adds one item at a time,
    "swap" then exchanges items while that helps. The last two reach a far larger eigenvalue; whether accuracy follows is
    another matter.
    `score`: "rank-aware" compares (rank, smallest non-zero eigenvalue), so it stays meaningful beyond d + 1 items;
    "schur" judges the batch by what the labelled items do not span already, for when a near-duplicate pair among them
    caps every candidate; "positive" is the smallest positive eigenvalue, for replication only: it rewards duplicates.

    `info` has lambda_min and rank of the union, cap (lambda_min of the labelled items alone: no batch can exceed it while
    the union has at most d + 1 items) and draws.

    >>> F = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]  # item 1 repeats item 0
    >>> al.select(al.NPC(draws=20), 1, features=F, labelled=[0]).indices
    array([2])
    """

    draws: Count = 1000
    bias: bool = True
    normalize: bool = False
    score: Literal["rank-aware", "positive", "schur"] = "rank-aware"
    search: Literal["random", "greedy", "swap"] = "random"
    name = "npc"
    needs = ("features",)

    def __post_init__(self) -> None:
        if self.search != "random" and self.score != "rank-aware":
            raise InputError(
                f"NPC: search={self.search!r} works with score='rank-aware' only, got score={self.score!r}; "
                "use search='random'"
            )

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        rows = GramRows(view["features"], self.bias, self.normalize)
        info = {"draws": 0}
        if n == 0 or n == len(view.unlabelled):
            batch = view.unlabelled[:n]
        elif self.search == "random":
            batch, info = self._random_search(rows, view, n, rng)
        else:
            batch = self._greedy_search(rows, view, n, rng)
        if self.search == "random" and n:
            batch = most_new_first(rows, view.labelled, batch)
        return Selection(batch, None, info | spectrum_info(rows, view.labelled, batch))

    def _random_search(self, rows: GramRows, view: View, n: int, rng: np.random.Generator) -> tuple[np.ndarray, dict]:
        candidates = draw_batches(view.unlabelled, n, self.draws, rng)
        if self.score == "positive":
            batch = best_by_smallest_positive(rows, view, candidates, self.draws)
            return batch, {"draws": self.draws}
        labelled = view.labelled
        if self.score == "schur":
            rows, labelled = outside_span(rows, view), view.labelled[:0]
        found = best_batch(rows, labelled, candidates, self.draws, view.max_memory, view.report)
        return found.batch, {"draws": self.draws, "eigendecompositions": found.scored}

    def _greedy_search(self, rows: GramRows, view: View, n: int, rng: np.random.Generator) -> np.ndarray:
        chosen, allowed = view.labelled, view.unlabelled
        for i in range(n):
            pick = add_best(rows, chosen, allowed, rng, view.max_memory)
            chosen, allowed = np.append(chosen, pick), allowed[allowed != pick]
            view.report(i + 1, n)
        batch = chosen[len(view.labelled) :]
        if self.search == "swap":
            batch = swap_until_stable(rows, view.labelled, batch, view.unlabelled, rng, view.max_memory, view.report)
        return batch


def draw_batches(unlabelled: np.ndarray, size: int, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Blocks (k, size) of uniformly drawn batches without repeats inside a batch, `count` batches in all."""
    per_block = max(1, BLOCK // max(size, 1))
    for done in range(0, count, per_block):
        k = min(per_block, count - done)
        yield unlabelled[_distinct_rows(len(unlabelled), size, k, rng)]


def _distinct_rows(N: int, size: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """(k, size) numbers below N, distinct in each row, every subset equally likely."""
    if 2 * size > N:
        return np.stack([rng.permutation(N)[:size] for _ in range(k)])
    # Drawing until `size` distinct values have come gives every subset the same chance; so repeats are drawn again.
    rows = rng.integers(N, size=(k, size))
    todo = np.arange(k)
    while len(todo):
        part = np.sort(rows[todo], axis=1)
        repeat = np.zeros_like(part, dtype=bool)
        repeat[:, 1:] = part[:, 1:] == part[:, :-1]
        part[repeat] = rng.integers(N, size=int(repeat.sum()))
        rows[todo] = part
        todo = todo[repeat.any(axis=1)]
    return rows


def spectrum_info(rows: GramRows, labelled: np.ndarray, batch: np.ndarray) -> dict[str, object]:
    """lambda_min and rank of the union, the cap that the labelled items set, and a note where the rank is limited."""
    union = gram_score(rows.take(np.concatenate([labelled, batch])))
    info = spectrum_numbers(union, gram_score(rows.take(labelled)) if len(labelled) else None)
    n = len(labelled) + len(batch)
    if union.rank < min(n, rows.width):
        info["note"] = (
            f"the {n} items span only {union.rank} directions (in float64): there are copies among them, or "
            "the features are dependent, or tiny beside the bias; scaling the features, or normalize=True, may help"
        )
    elif n > rows.width:
        info["note"] = (
            f"{n} items exceed the {rows.width} columns of the kernel's features: the Gram matrix is singular for every "
            "batch, so NPC compares its smallest non-zero eigenvalue; a wider layer or gradient features avoid this"
        )
    return info


def spectrum_numbers(union: Score, labelled: Score | None) -> dict[str, object]:
    numbers: dict[str, object] = {"lambda_min": union.value, "rank": union.rank}
    return numbers if labelled is None else numbers | {"cap": labelled.value}


def most_new_first(rows: GramRows, labelled: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """The batch in the order in which each next item has most outside the span of the labelled and of those before it
    (pivoted Gram-Schmidt), so that whoever labels only its beginning loses least."""
    phi = rows.take(np.concatenate([labelled, batch]))
    basis = torch.linalg.qr(phi[: len(labelled)].T)[0]  # (p, min(L, p))
    left = phi[len(labelled) :]
    for _ in range(2):  # twice is enough for orthogonality in float64
        left = left - (left @ basis) @ basis.T
    order: list[int] = []
    free = torch.ones(len(batch), dtype=torch.bool)
    largest = phi.square().sum(1).max()
    for _ in range(len(batch)):
        sq = left.square().sum(1)
        # Rounded, so that what is equal but for rounding keeps the order in which it was drawn.
        pick = int((sq / largest).round(decimals=9).masked_fill(~free, -1).argmax())
        order.append(pick)
        free[pick] = False
        if sq[pick] > 1e-9 * largest:
            axis = left[pick] / sq[pick].sqrt()
            left = left - torch.outer(left @ axis, axis)
    return batch[order]


def best_by_smallest_positive(rows: GramRows, view: View, candidates: Iterable[np.ndarray], draws: int) -> np.ndarray:
    """The first candidate with the largest smallest eigenvalue above rounding, whatever the rank (CRC's way)."""
    best, best_value, done = None, -np.inf, 0
    for batches in candidates:
        for where, eigenvalues in spectra(rows, view.labelled, batches, view.max_memory):
            values = smallest_positive(eigenvalues, len(view.labelled) + batches.shape[1], rows.width)
            j = int(values.argmax())
            if float(values[j]) > best_value:
                best, best_value = batches[where][j], float(values[j])
        done += len(batches)
        view.report(done, draws)
    assert best is not None
    return best


def smallest_positive(eigenvalues: torch.Tensor, n: int, p: int) -> torch.Tensor:
    """The smallest eigenvalue above max(n, p) * eps * largest in each row (m, k) -> (m,)."""
    tol = rank_tolerance(n, p) * eigenvalues[:, -1:]
    return torch.where(eigenvalues > tol, eigenvalues, torch.inf).amin(dim=1)


def outside_span(rows: GramRows, view: View) -> GramRows:
    """The rows minus their projection on the span of the labelled rows: their Gram matrix is the Schur complement
    K_uu - K_uL K_LL^-1 K_Lu (with the pseudo-inverse where K_LL is singular)."""
    phi = rows.take(view.labelled)
    _, sigma, vh = torch.linalg.svd(phi, full_matrices=False)
    sq = sigma.square()
    v = vh[sq > rank_tolerance(*phi.shape) * sq.max()] if len(sq) else vh  # (r, p)
    outside = replace(rows, outside=v)
    if outside.largest_sq(view.max_memory) <= rank_tolerance(*phi.shape) * rows.largest_sq(view.max_memory):
        raise InputError(
            f"NPC(score='schur'): the {len(view.labelled)} labelled items already span every direction of the pool's "
            "features, so no batch adds anything; use score='rank-aware'"
        )
    return outside
