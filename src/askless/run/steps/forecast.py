"""What the next labels would bring: a learning curve fitted to the rounds so far, with what nobody can know left open."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

AHEAD = (50, 100, 200)
LEVEL = 0.9
FEWEST_CHECK, FEWEST_ROUNDS = 20, 3
DRAWS = 4000
# What is believed before a curve is seen: any share of the errors can be learnt away, by any power of the labels.
SHARES, POWERS = np.linspace(0.025, 0.975, 20), np.linspace(0.1, 2.0, 20)
# One model is not the mean of many: it lies beside its curve by a point, less where few errors are left
# (benchmarks/honest.py has the spread).
BESIDE, OF_ERROR = 0.01, 0.1


class Ahead(NamedTuple):
    """After `labels` more: the accuracy, and the gain on that of now, each with the ends of its 90 % interval."""

    labels: int
    accuracy: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float


def too_early(labels: ArrayLike, n_check: int, noun: str = "image") -> str | None:
    """Why there is no forecast yet; None where there can be one. `labels` (T,): those of each measured round."""
    rounds = len(set(np.asarray(labels).tolist()))
    if n_check < FEWEST_CHECK:
        return f"a forecast needs {FEWEST_CHECK} labelled check {noun}s, and this run has {n_check}"
    if rounds < FEWEST_ROUNDS:
        return f"a forecast needs {FEWEST_ROUNDS} measured rounds, and this run has {rounds}"
    return None


def curve_weights(labels: ArrayLike, right: ArrayLike) -> np.ndarray:
    r"""(S, P) how probable each share of `SHARES` and power of `POWERS` is, given what T rounds had right.

    The error after m labels is e (1 - u + u (m / M)^-c): a power law a - b m^-c in other words, by its error e at the last
    M labels and the share u of it that labels can remove. `labels` (T,) rise to M; `right` (T, n) are on the same n check
    items, so the gain from a round to the last is a mean of paired differences, from which what is hard about the items
    drops out. It is taken at the rounds next to a quarter, a half and three quarters of M, as Gaussian with the
    covariance of the differences.
    """
    m, hit = np.asarray(labels, dtype=np.float64), np.asarray(right, dtype=np.float64)
    n = hit.shape[1]
    at = sorted({int(np.abs(m[:-1] - part * m[-1]).argmin()) for part in (0.25, 0.5, 0.75)})
    gained = hit[-1] - hit[at]  # (k, n)
    error = (n - hit[-1].sum() + 1) / (n + 2)
    # one more item of no importance, as in Laplace's rule, and a model beside its curve
    spread = np.atleast_2d(np.cov(gained)) / n + np.eye(len(at)) * (1 / n**2 + 2 * min(BESIDE, OF_ERROR * error) ** 2)
    rise = (m[at] / m[-1])[:, None] ** -POWERS - 1  # (k, P)
    expected = error * SHARES[None, :, None] * rise[:, None, :]  # (k, S, P)
    off = gained.mean(axis=1)[:, None, None] - expected
    weights = np.exp(-0.5 * np.einsum("ksp,kl,lsp->sp", off, np.linalg.inv(spread), off))
    return np.asarray(weights / weights.sum())


def forecast(
    labels: ArrayLike, right: ArrayLike, accuracy: float, worth: float, ahead: Sequence[int] = AHEAD
) -> list[Ahead]:
    """What the next labels would bring, by draws from the posterior of the curve; `accuracy` is the last model's, as
    certain as that many check items are. `labels` (T,) and `right` (T, n) as in `curve_weights`."""
    rng, weights = np.random.default_rng(0), curve_weights(labels, right)
    share, power = np.divmod(rng.choice(weights.size, DRAWS, p=weights.ravel()), len(POWERS))
    error = rng.beta((1 - accuracy) * worth + 0.5, accuracy * worth + 0.5, DRAWS)
    beside = 2**0.5 * np.minimum(BESIDE, OF_ERROR * error) * rng.normal(size=DRAWS)
    m, ends = float(np.asarray(labels)[-1]), ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)
    found = []
    for more in ahead:
        gain = error * SHARES[share] * (1 - (m / (m + more)) ** POWERS[power]) + beside
        gain_low, gained, gain_high = np.quantile(gain, ends).tolist()
        low, then, high = np.clip(np.quantile(1 - error + gain, ends), 0, 1).tolist()
        found.append(Ahead(more, then, low, high, gained, gain_low, gain_high))
    return found
