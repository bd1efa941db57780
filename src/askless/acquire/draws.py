"""Random candidate batches, drawn in blocks."""

from collections.abc import Iterator

import numpy as np

BLOCK = 2**20  # positions per block: fixed, so that the draws do not depend on memory settings


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
