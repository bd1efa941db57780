r"""Doubtful labels, from features and labels alone: each label is judged by what the *other* labels say of its item.

A model that was trained on a wrong label has learnt it, and rarely doubts it. So each of n labels, one-hot T (n, C), is left
out once, and predicted by kernel ridge regression on the n - 1 others. All of them come from one decomposition of the kernel
K (n, n): with G = (K + lam I)^{-1} the prediction of label i without label i is exactly (Rasmussen & Williams 2006, 5.4.2)

    F_i = T_i - (G T)_i / G_ii.

lam, and the sharpness t that makes probabilities softmax(t F) of it, are those that find the labels most probable. Labels
are then ordered by the probability that the others give them: the self-confidence of confident learning (Northcutt, Jiang
& Chuang 2021). benchmarks/doubt.py compares this with logistic regression in ten folds, and with confident learning's joint.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

LEAST = 10  # labels that there must be before any is judged
MEASURED = 64  # columns up to which they are taken for measured numbers, each in its own unit; as in features.scaling
PART = 1000  # labels that are judged by each other; more are dealt into parts
TOGETHER = 5  # labels of a class that stay in one part
SMOOTHING = (0.01, 0.03, 0.1, 0.3, 1.0)  # lam, in mean diagonal entries of K
SHARPNESS = np.geomspace(0.5, 50, 30)  # t
ODDS = 2  # a label is suspect if another class is at least this much more probable


class Suspects(NamedTuple):
    """`score` (n,) 1 - the probability of the label, NaN where it was not judged; `said` (n,) the most probable class;
    `order`: the positions of the suspects, the most doubtful first."""

    score: np.ndarray
    said: np.ndarray
    order: np.ndarray


def suspects(labels: ArrayLike, probs: ArrayLike) -> Suspects:
    """Which labels (n,) are doubtful by probabilities (n, C) that were made without them; rows of NaN are not judged.

    >>> suspects([0, 0, 1], [[0.9, 0.1], [0.05, 0.95], [0.4, 0.6]]).order
    array([1])
    """
    y, P = np.asarray(labels, np.int64), np.asarray(probs, np.float64)
    if not len(y):
        return Suspects(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    judged = ~np.isnan(P[:, 0])
    own, said = P[np.arange(len(y)), y], np.where(judged, P.argmax(axis=1), y)
    doubted = judged & (said != y) & (P.max(axis=1) >= ODDS * own)
    order = np.argsort(own, kind="stable")
    return Suspects(1 - own, said, order[doubted[order]])


def left_out(rows: ArrayLike, labels: ArrayLike, classes: int) -> np.ndarray:
    """Probabilities (n, classes) of each item by the labels (n,) of the others; `rows` (n, d) are as `compared` gives them.

    NaN where a label cannot be judged: there are fewer than ten, all are of one class, or it is the only one of its class,
    which the others cannot know.
    """
    X, y = np.asarray(rows, np.float32), np.asarray(labels, np.int64)
    n, probs = len(y), np.full((len(y), classes), np.nan)
    by_class = np.argsort(y, kind="stable")
    part = np.arange(n) // TOGETHER % -(-n // PART) if n else np.zeros(0, np.int64)
    for k in np.unique(part):
        at = by_class[part == k]
        count = np.bincount(y[at], minlength=classes)
        if len(at) < LEAST or (count > 0).sum() < 2:
            continue
        found = left_out_of_all(gaussian_kernel(X[at]), y[at], classes)
        probs[at] = np.where(count[y[at], None] > 1, found, np.nan)
    return probs


def left_out_of_all(K: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities (n, classes) by the kernel K (n, n), each without its own label y (n,)."""
    from scipy.linalg import eigh  # here: the page starts without scipy
    from scipy.special import log_softmax, softmax

    n, T = len(y), np.eye(classes)[y]
    w, Q = eigh(K + 1, driver="evd", check_finite=False)  # + 1: an offset
    A, sq = Q.T @ T, Q**2  # (n, C), (n, n)
    best, probs = -np.inf, np.full((n, classes), 1 / classes)
    for lam in np.array(SMOOTHING) * (w.sum() / n):
        g = 1 / (w + lam)
        F = T - (Q @ (A * g[:, None])) / (sq @ g)[:, None]  # G = Q diag(g) Q^T
        for t in SHARPNESS:
            fit = log_softmax(t * F, axis=1)[np.arange(n), y].mean()
            if fit > best:
                best, probs = fit, softmax(t * F, axis=1)
    return probs


def gaussian_kernel(X: np.ndarray) -> np.ndarray:
    """exp(-|x - x'|^2 / s) with s the median squared distance between different rows of X (n, d)."""
    sq_dist = sq_distances(X, X)
    positive = sq_dist[sq_dist > 1e-6 * max(float(sq_dist.max()), 1e-30)]  # copies have none
    return np.exp(-sq_dist / (np.median(positive) if len(positive) else 1.0))


def sq_distances(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Between the rows of X (n, d) and of Y (m, d): (n, m), float64."""
    one, other = (np.square(Z, dtype=np.float64).sum(axis=1) for Z in (X, Y))
    return np.maximum(one[:, None] + other - 2.0 * (X @ Y.T), 0)


def compared(features: ArrayLike) -> np.ndarray:
    """Features (n, d) as distances are taken between them: around their mean, and a few measured numbers each by its own
    deviation. An encoder's directions stay as strong as they are."""
    X = np.array(features, dtype=np.float32)
    X -= X.mean(axis=0)
    if X.shape[1] <= MEASURED:
        std = X.std(axis=0)
        X /= np.where(std > 1e-6 * np.abs(X).max(axis=0, initial=0), std, 1)
    return X


def nearest(rows: np.ndarray, i: int, among: np.ndarray, k: int) -> np.ndarray:
    """The k of the positions `among` whose rows are nearest to row i, nearest first, itself left out.

    >>> nearest(np.array([[0.0], [3.0], [1.0], [9.0]]), 0, np.array([0, 1, 2, 3]), 2)
    array([2, 1])
    """
    others = among[among != i]
    return others[np.argsort(sq_distances(rows[[i]], rows[others])[0], kind="stable")[:k]]
