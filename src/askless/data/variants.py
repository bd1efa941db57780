"""Pools made from a pool: long-tailed, duplicated, with wrong labels, a part of it, or with some items held out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from askless.base.errors import InputError
from askless.base.options import is_whole_number
from askless.base.rng import Seed, stream
from askless.data.pool import Pool
from askless.data.rows import TILE, positions, rows_at


def subset(pool: Pool, which: int | Sequence[int] | np.ndarray | Tensor, seed: Seed = 0) -> Pool:
    """The items at the positions `which`, in that order; or, for a number n, n items drawn at random, in the pool's order.

    >>> from askless.data import two_moons
    >>> len(subset(two_moons(), 50)), subset(two_moons(), [7, 1500]).labels.tolist()
    (50, [0, 1])
    """
    if isinstance(which, int | np.integer):
        if not 1 <= which <= len(pool):
            raise InputError(f"subset: expected 1 to {len(pool)} items, got {which}")
        at = np.sort(stream(seed, "subset").permutation(len(pool))[:which])
        return at_places(pool, at, f"{pool.name}, {which} items")
    at = positions(which, len(pool))
    if len(at) == 0:
        raise InputError("subset: expected at least one position, got none")
    if len(np.unique(at)) < len(at):
        raise InputError("subset: expected each position once; use duplicated(pool, times) for copies")
    return at_places(pool, at, f"{pool.name}, {len(at)} items")


def hold_out(pool: Pool, n: int, seed: Seed = 0) -> Pool:
    """The pool less n of its labelled items, drawn at random, which become its test set.

    >>> from askless.data import as_pool
    >>> hold_out(as_pool((np.eye(6, dtype=np.float32), [0, 1, 0, 1, -1, 1])), 2)
    <Pool pool: 4 features items of 6, 3 with a label, 2 classes, 2 for test>
    """
    if pool.test is not None:
        raise InputError(f"hold_out: expected a pool without test items, got {pool}")
    known = np.flatnonzero(pool.labels >= 0)
    if not is_whole_number(n, 1, len(known) - 1):
        raise InputError(f"hold_out: expected 1 to {len(known) - 1} of {len(known)} labelled items for test, got {n!r}")
    return without(pool, np.sort(stream(seed, "hold out").permutation(known)[:n]))


def long_tailed(pool: Pool, ratio: float, seed: Seed = 0) -> Pool:
    """A part of the pool in which class k of K has n ratio^(-k / (K - 1)) items, n being those of the largest class.

    So class 0 is `ratio` times as frequent as the last one. A class that has fewer items keeps them all; every class
    keeps at least one. The test set stays as it is.

    >>> from askless.data import two_moons
    >>> np.bincount(long_tailed(two_moons(), ratio=10).labels).tolist()
    [1000, 100]
    """
    if not ratio >= 1:
        raise InputError(f"long_tailed: expected ratio >= 1, the largest class over the smallest, got {ratio}")
    unknown = int((pool.labels < 0).sum())
    if unknown:
        raise InputError(
            f"long_tailed: expected a label for every item, {unknown} of {len(pool)} have none; take a labelled subset"
        )
    counts = np.bincount(pool.labels)
    K, n = len(counts), counts.max()
    rng = stream(seed, "long tail")
    kept = []
    for k in range(K):
        n_k = max(1, round(n * ratio ** (-k / max(1, K - 1))))
        kept.append(rng.permutation(np.flatnonzero(pool.labels == k))[:n_k])
    return at_places(pool, np.sort(np.concatenate(kept)), f"{pool.name}, long-tailed {ratio:g}")


def duplicated(pool: Pool, times: int = 3, noise: float = 0.1, seed: Seed = 0) -> Pool:
    """Every item `times` over, each copy with its own Gaussian noise: "repeated MNIST" (Kirsch et al., 2019).

    `noise` is a standard deviation: of pixels in [0, 1] for images, in units of each column's own for features. Item i
    of copy c is at c N + i. Without noise any pool works, also tokens and Datasets.

    >>> al.data.duplicated(al.data.two_moons(n=50), times=3)
    <Pool two-moons, 3 times: 300 features items of 2, 300 with a label, 2 classes, 2000 for test>
    """
    if times < 1 or noise < 0:
        raise InputError(f"duplicated: expected times >= 1 and noise >= 0, got times={times}, noise={noise}")
    if noise and (pool.kind not in ("image", "features") or not isinstance(pool.x, Tensor | np.ndarray)):
        raise InputError(f"duplicated: noise needs images or features in memory, got {pool.kind} items; pass noise=0")
    copies = at_places(pool, np.tile(np.arange(len(pool)), times), f"{pool.name}, {times} times")
    return replace(copies, x=with_noise(copies, noise, stream(seed, "duplicates"))) if noise else copies


def noisy_labels(pool: Pool, share: float, seed: Seed = 0) -> Pool:
    """The pool with a share of its known labels replaced by another class, drawn uniformly; the test set stays right.

    >>> pool = al.data.two_moons(n=50)
    >>> int((al.data.noisy_labels(pool, 0.2).labels != pool.labels).sum())
    20
    """
    if not 0 <= share <= 1:
        raise InputError(f"noisy_labels: expected a share from 0 to 1, got {share}")
    known, K = np.flatnonzero(pool.labels >= 0), pool.n_classes or 0
    if K < 2:
        raise InputError(f"noisy_labels: expected at least two classes, got {K}")
    rng = stream(seed, "label noise")
    wrong = rng.permutation(known)[: round(share * len(known))]
    labels = pool.labels.copy()
    labels[wrong] = (labels[wrong] + rng.integers(1, K, size=len(wrong))) % K
    return replace(pool, labels=labels, name=f"{pool.name}, {share:g} wrong labels")


def without(pool: Pool, held: np.ndarray) -> Pool:
    """The pool less the items at these places, which become its test set."""
    x = rows_at(pool.x, held) if pool.kind == "text" else pool.take(held)
    rest = np.setdiff1d(np.arange(len(pool)), held)
    return at_places(replace(pool, test=(x, pool.labels[held])), rest, pool.name)


def at_places(pool: Pool, at: np.ndarray, name: str) -> Pool:
    """The pool of the items at these places; a place may come more than once, its later copies get new ids."""
    ids = None if pool.ids is None else numbered_copies([pool.ids[i] for i in at])
    return replace(
        pool,
        x=rows_at(pool.x, at),
        labels=pool.labels[at],
        ids=ids,
        name=name,
        columns={column: tuple(values[i] for i in at) for column, values in pool.columns.items()},
    )


def numbered_copies(names: Sequence[str]) -> tuple[str, ...]:
    """The names, where the second copy of a gets a~2, the third a~3."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name}~{seen[name]}")
    return tuple(numbered)


def with_noise(pool: Pool, noise: float, rng: np.random.Generator) -> Tensor:
    """The rows with noise added in tiles: uint8 images are rounded, images stay in their range."""
    x = pool.x if isinstance(pool.x, Tensor) else torch.from_numpy(np.array(pool.x))
    x = x.clone()
    is_uint8 = x.dtype == torch.uint8
    scale = noise * (column_std(x) if pool.kind == "features" else 255.0 if is_uint8 else 1.0)
    for start in range(0, len(x), TILE):
        part = x[start : start + TILE]
        drawn = torch.from_numpy(rng.standard_normal(part.shape, dtype=np.float32)).to(x.device)
        moved = part.float() + scale * drawn
        if pool.kind == "image":
            moved = moved.round_().clamp_(0, 255) if is_uint8 else moved.clamp_(0, 1)
        x[start : start + TILE] = moved.to(x.dtype)
    return x


def column_std(x: Tensor) -> Tensor:
    """(d,) standard deviation of each column, 1 for a constant one."""
    std = x.double().std(dim=0, correction=0).float()
    return torch.where(std > 0, std, torch.ones_like(std))
