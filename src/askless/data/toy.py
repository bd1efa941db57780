"""Data that needs no files: the digits inside scikit-learn, and two moons."""

import numpy as np
import torch

from askless.base.errors import InputError
from askless.base.rng import Seed, stream
from askless.data.idx import DIGIT_CLASSES
from askless.data.pool import Pool
from askless.data.variants import without

# Hand-picked labelled points, three on each moon.
PIVOTS = np.array([[1.1, 1.0], [2.0, 1.0], [2.9, 0.3], [-0.8, -0.5], [0.0, -0.8], [1.0, -0.5]], np.float32)
PIVOT_SETS = {0: [], 4: [0, 2, 3, 5], 6: [0, 1, 2, 3, 4, 5]}


def digits(seed: Seed = 0, test: int = 400) -> Pool:
    """1,797 handwritten digits, (1, 8, 8) uint8, `test` of them held out by a permutation that depends on the seed.

    >>> digits()
    <Pool digits: 1397 image items of 1 x 8 x 8, 1397 with a label, 10 classes, 400 for test>
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]  # levels 0..16 -> 0..255
    labels = bunch.target.astype(np.int64)
    if not 0 <= test < len(labels):
        raise InputError(f"test: expected 0 to {len(labels) - 1} images, got {test}")
    ids = tuple(f"digit-{i}" for i in range(len(labels)))
    pool = Pool(torch.from_numpy(images), labels, ids, DIGIT_CLASSES, None, "digits", "image", flip=False)
    return without(pool, np.sort(stream(seed, "digits").permutation(len(labels))[:test])) if test else pool


def two_moons(n: int = 1000, noise: float = 0.15, pivots: int = 0, test: int = 1000, seed: Seed = 0) -> Pool:
    """Two interleaving half circles with `n` points each, (2 n, 2) float32, and a test set of `test` points each.

    Moon 0 is (t, sin t) for t on a grid of [0, pi]; moon 1 is its negative, shifted by (pi/2 + .1, .15); both with
    Gaussian noise. With `pivots` = 4 or 6, the hand-picked labelled points of CRC's figure 1 come first in the pool.

    >>> two_moons(pivots=4).labels[:4].tolist()
    [0, 0, 1, 1]
    """
    if n < 1 or test < 1 or noise < 0:
        raise InputError(f"two moons: expected n and test >= 1 and noise >= 0, got n={n}, test={test}, noise={noise}")
    if pivots not in PIVOT_SETS:
        raise InputError(f"pivots: expected 0, 4 or 6, got {pivots}")
    x, y = moons(n, noise, stream(seed, "two moons"))
    test_x, test_y = moons(test, noise, stream(seed, "two moons test"))
    picked = PIVOT_SETS[pivots]
    x = np.concatenate([PIVOTS[picked], x])
    y = np.concatenate([np.array(picked, np.int64) // 3, y])
    held_out = (torch.from_numpy(test_x), test_y)
    return Pool(torch.from_numpy(x), y, None, ("upper", "lower"), held_out, "two-moons", "features", flip=False)


def moons(n: int, noise: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(0, np.pi, n)
    upper = np.stack([t, np.sin(t)], axis=1)  # (n, 2)
    lower = -upper + np.array([np.pi / 2 + 0.1, 0.15])
    x = np.concatenate([upper, lower])
    return (x + noise * rng.standard_normal(x.shape)).astype(np.float32), np.repeat(np.arange(2), n)
