import numpy as np
import pytest
import torch

from askless.base.errors import InputError
from askless.data import digits, two_moons


def test_digits_are_split_once_and_for_all():
    pool = digits()
    assert (len(pool), len(pool.test[1]), pool.shape, pool.flip) == (1397, 400, (1, 8, 8), False)
    assert pool.x.dtype == torch.uint8
    assert (int(pool.x.min()), int(pool.x.max())) == (0, 255)
    assert torch.equal(pool.x, digits().x)
    assert not torch.equal(pool.x, digits(seed=1).x)
    assert len(set(pool.ids)) == 1397
    counts = np.bincount(np.concatenate([pool.labels, pool.test[1]]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_without_a_test_set():
    assert len(digits(test=0)) == 1797
    assert digits(test=0).test is None
    with pytest.raises(InputError, match="test: expected 0 to 1796 images, got 1797"):
        digits(test=1797)


def test_two_moons_follow_the_formula_without_noise():
    pool = two_moons(n=3, noise=0.0)
    expected = np.array([[0, 0], [np.pi / 2, 1], [np.pi, 0]])
    shift = np.array([np.pi / 2 + 0.1, 0.15])
    assert np.allclose(pool.x[:3], expected, atol=1e-6)
    assert np.allclose(pool.x[3:], -expected + shift, atol=1e-6)
    assert pool.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert (pool.kind, pool.shape) == ("features", (2,))


def test_noise_has_the_stated_size_and_the_seed_decides():
    clean, noisy = two_moons(noise=0.0), two_moons(seed=3)
    assert float((noisy.x - clean.x).std()) == pytest.approx(0.15, rel=0.05)
    assert torch.equal(noisy.x, two_moons(seed=3).x)
    assert not torch.equal(noisy.x[:1000], noisy.test[0][:1000])


def test_pivots_come_first_and_lie_near_their_moon():
    pool = two_moons(noise=0.0, pivots=6)
    assert len(pool) == 2006
    assert pool.labels[:6].tolist() == [0, 0, 0, 1, 1, 1]
    assert two_moons(pivots=4).x[:4].tolist() == pool.x[[0, 2, 3, 5]].tolist()
    nearest = torch.cdist(pool.x[:6], pool.x[6:]).argmin(dim=1).numpy()
    assert pool.labels[6:][nearest].tolist() == pool.labels[:6].tolist()


def test_impossible_moons_are_refused():
    with pytest.raises(InputError, match="pivots: expected 0, 4 or 6, got 5"):
        two_moons(pivots=5)
    with pytest.raises(InputError, match="expected n and test >= 1 and noise >= 0, got n=0"):
        two_moons(n=0)
