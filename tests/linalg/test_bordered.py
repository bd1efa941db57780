"""Halving an interval against the spectrum of every batch."""

import numpy as np
import pytest
import torch

from askless.linalg import Blocks, GramRows, score_batches
from askless.linalg.bordered import scores_beside


def both(rows, fixed, batches, **options):
    parts = [scores for _, scores in scores_beside(rows, fixed, batches, **options)]
    fast = [torch.cat(column) for column in zip(*parts, strict=True)]
    return fast, score_batches(rows, fixed, batches)


def draw(rng, N, l, m, q):
    order = rng.permutation(N)
    return order[:l], order[l : l + m * q].reshape(m, q)


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_spectrum_of_every_batch(seed):
    rng = np.random.default_rng(seed)
    d, l, q = int(rng.integers(5, 40)), int(rng.integers(0, 30)), int(rng.integers(1, 6))
    F = rng.normal(size=(400, d)) * 10.0 ** rng.uniform(-3, 3)
    if seed % 3 == 0:
        F[rng.integers(400, size=60)] = F[0]  # copies, in the fixed set and in the batches
    if seed % 4 == 0:
        F = F[:, : max(1, d // 2)] @ rng.normal(size=(max(1, d // 2), d))  # low rank
    fixed, batches = draw(rng, 400, l, 40, q)
    fast, slow = both(GramRows(F, bias=bool(seed % 2)), fixed, batches, max_memory=2**16)
    assert torch.equal(fast[0], slow.rank)
    size = float((F**2).sum(1).max()) * (l + q) + (l + q)
    assert torch.allclose(fast[1], slow.value, rtol=1e-7, atol=1e-12 * size)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_a_kernel_are_judged_as_its_rows(seed):
    rng = np.random.default_rng(seed)
    d, l, q = int(rng.integers(5, 40)), int(rng.integers(0, 30)), int(rng.integers(1, 6))
    F = rng.normal(size=(400, d))
    if seed % 3 == 0:
        F[rng.integers(400, size=60)] = F[0]
    fixed, batches = draw(rng, 400, l, 40, q)
    for normalize in (False, True):
        rows = GramRows(F, normalize=normalize)
        L, G = (GramRows(F).take(at) for at in (fixed, batches))
        K = Blocks(L @ L.T, G @ L.T, G @ G.mT)
        K = K.normalized() if normalize else K
        parts = [scores for _, scores in K.scores(max_memory=2**16)]
        rank, value, _ = (torch.cat(column) for column in zip(*parts, strict=True))
        slow = score_batches(rows, fixed, batches)
        assert torch.equal(rank, slow.rank)
        assert torch.allclose(value, slow.value, rtol=1e-7, atol=1e-9)


def test_the_fast_way_is_the_one_that_runs_and_ranks_alike(monkeypatch):
    from askless.linalg import bordered

    rng = np.random.default_rng(0)
    F = rng.normal(size=(3000, 128)).astype(np.float32)
    fixed, batches = draw(rng, 3000, 90, 500, 5)
    _, slow = both(GramRows(F), fixed, batches)
    monkeypatch.setattr(bordered, "batch_spectra", None)  # not one eigendecomposition of a union
    fast, _ = both(GramRows(F), fixed, batches)
    assert torch.allclose(fast[1], slow.value, rtol=1e-9)
    assert torch.equal(fast[1].argsort(), slow.value.argsort())


def test_the_smallest_eigenvalue_is_zero_for_a_batch_that_repeats_a_fixed_row():
    F = np.eye(6)
    rows = GramRows(np.vstack([F, F]), bias=False)
    ((_, scores),) = scores_beside(rows, np.array([0, 1]), np.array([[2, 6], [2, 3]]))
    assert scores.rank.tolist() == [3, 4]
    assert scores.value.tolist() == pytest.approx([1.0, 1.0])
