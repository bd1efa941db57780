"""Random kernels of many kinds; fixtures, since importlib mode has no sibling imports."""

from collections.abc import Iterator

import numpy as np
import pytest


def kernel(rng: np.random.Generator, n: int, condition: float) -> np.ndarray:
    """A kernel of full rank whose eigenvalues spread over `condition`, at a random scale."""
    Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    values = condition ** rng.random(n)
    values[0] = 1.0
    values[-1] = condition
    K = (Q * (values * 10.0 ** rng.integers(-3, 4))) @ Q.T
    return (K + K.T) / 2


def labels(rng: np.random.Generator, K: np.ndarray, kind: int) -> np.ndarray:
    """Real targets, one-hot labels, signs, or single and mixed eigenvectors, where bounds are reached."""
    n = len(K)
    V = np.linalg.eigh(K)[1]
    return [
        rng.normal(size=(n, 3)),
        np.eye(4)[rng.integers(0, 4, n)],
        np.sign(rng.normal(size=n)),
        V[:, rng.integers(0, n)],
        V[:, 0] + V[:, -1],
    ][kind]


@pytest.fixture(scope="session")
def kernels_and_labels() -> list[tuple[np.ndarray, np.ndarray]]:
    """Five hundred pairs (K, Y), the kernels' conditions from 1 to 1e10."""

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for seed in range(500):
            rng = np.random.default_rng(seed)
            K = kernel(rng, n=int(rng.integers(2, 13)), condition=10.0 ** (seed % 11))
            yield K, labels(rng, K, kind=seed % 5)

    return list(pairs())
