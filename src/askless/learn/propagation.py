r"""Label propagation on a graph of nearest neighbours: one linear system, no network to train.

With symmetric affinities W (N, N), degrees D, S = D^{-1/2} W D^{-1/2} and labels Y (N, C), one-hot where known and 0
elsewhere, labels spread as (Zhou et al., NeurIPS 2003)

    F = (I - alpha S)^{-1} (Y - q q^T Y),    q = D^{1/2} 1 / |D^{1/2} 1|.

q is where every walk ends up, whatever its start. At 1 label per 1,000 items nearly all of (I - alpha S)^{-1} Y lies along
it, in proportion to how many labels a class happens to have; what tells the classes apart is the rest, so the sources are
centred first (the idea of Poisson learning, Calder et al., ICML 2020). Each class is then scaled to unit deviation.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sparse
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import softmax

from askless.base.errors import InputError
from askless.base.options import check_count
from askless.linalg.scale import FAR, divisor

Metric = Literal["cosine", "euclidean"]

TILE = 2**25  # distances held at a time
SCALE_OF = 7  # the neighbour whose distance is the local scale (Zelnik-Manor & Perona, NeurIPS 2004)
SHARPNESS = 2.0  # of the softmax; measured: probabilities are then right about as often as they say


def neighbour_graph(features: Any, k: int = 15, *, metric: Metric = "cosine") -> sparse.csr_array:
    """Affinities (N, N), sparse and symmetric, between each of the rows of `features` (N, d) and its k nearest ones:

        W = A + A^T,    A_ij = exp(-d_ij^2 / (s_i s_j)) where j is one of the k nearest of i,

    with s_i the distance of i to its 7th neighbour, so that dense and sparse regions hold together alike. "cosine" suits
    the features of networks; "euclidean" suits a few measured numbers.
    """
    check_count("neighbour_graph", "k", k)
    X = prepared("features", features, metric)
    return graph_of(neighbours(X, X, min(k, len(X) - 1), itself=0))


class Nearest(NamedTuple):
    """The k nearest rows of each of n rows, nearest first: `distances` and `positions`, both (n, k)."""

    distances: np.ndarray
    positions: np.ndarray


def graph_of(nearest: Nearest) -> sparse.csr_array:
    """The affinities of `neighbour_graph` between N rows, of which each one's nearest are known."""
    distance, position = nearest
    N, k = position.shape
    if k == 0:
        return sparse.csr_array((N, N))
    scale = distance[:, min(SCALE_OF, k) - 1]
    scale = np.maximum(scale, max(1e-6 * scale.max(), 1e-150))  # copies have neighbours at distance 0
    affinity = np.exp(-(distance**2) / (scale[:, None] * scale[position]))
    rows = np.repeat(np.arange(N), k)
    A = sparse.csr_array((affinity.ravel(), (rows, position.ravel())), shape=(N, N))
    return sparse.csr_array(A + A.T)


def propagate(
    W: sparse.csr_array,
    labelled: np.ndarray,
    labels: np.ndarray,
    classes: int,
    alpha: float = 0.99,
    *,
    tol: float = 1e-8,
) -> np.ndarray:
    """Class probabilities (N, classes) of every item of the graph W (N, N), from the labels (L,) of the items at distinct
    positions `labelled` (L,).

    softmax(2 F_c / std F_c) over the classes that have a label; the others get 0. The deviation is that of the unlabelled
    items, so that classes with many labels have no advantage. Items that no label reaches get equal probabilities. `tol`
    is the relative residual at which conjugate gradients stop.
    """
    if len(np.unique(labelled)) < len(labelled):
        raise InputError("labelled: expected each position once, got one twice; keep one label per item")
    N = W.shape[0]
    seen, column = np.unique(labels, return_inverse=True)

    part = connected_components(W, directed=False)[1]
    reached = np.isin(part, part[labelled])
    degree = W.sum(axis=1)
    root = np.sqrt(np.where(degree > 0, degree, 1))
    S = sparse.csr_array(W.multiply(1 / root[:, None]).multiply(1 / root))
    q = np.where(reached, np.sqrt(degree), 0)
    q = q / max(float(np.linalg.norm(q)), 1e-300)

    Y = np.zeros((N, len(seen)))
    Y[labelled, column] = 1
    F = spread_labels(S, Y - np.outer(q, q @ Y), alpha, tol)
    unlabelled = reached.copy()
    unlabelled[labelled] = False
    deviation = F[unlabelled if unlabelled.any() else reached].std(axis=0)
    z = F / np.where(deviation > 0, deviation, 1)
    probs = np.zeros((N, classes))
    probs[:, seen] = np.where(reached[:, None], softmax(SHARPNESS * z, axis=1), 1 / len(seen))
    return probs


def spread_labels(S: sparse.csr_array, source: np.ndarray, alpha: float, tol: float) -> np.ndarray:
    """(I - alpha S)^{-1} source, (N, C), by conjugate gradients on all columns at once."""
    shape = source.shape
    if not source.any():
        return np.zeros(shape)

    def apply(f: np.ndarray) -> np.ndarray:
        F = f.reshape(shape)
        return (F - alpha * (S @ F)).ravel()

    system = LinearOperator((source.size, source.size), matvec=apply, dtype=np.float64)
    F, failed = cg(system, source.ravel(), rtol=tol, atol=0)
    if failed:
        raise InputError(
            f"expected the labels to converge to a residual of {tol:g}, they did not; lower alpha or raise tol"
        )
    return F.reshape(shape)


def predict_new(
    features_pool: Any, scores: np.ndarray, features_new: Any, k: int = 15, *, metric: Metric = "cosine"
) -> np.ndarray:
    """Scores (n, C) of new items (n, d): the mean over their k nearest items of the pool, the nearer the weightier.

    `scores` (N, C) are those of the pool, as `propagate` gives them. The weight of a neighbour at distance d is
    exp(-d^2 / r^2), r the distance of the furthest of the k.
    """
    check_count("predict_new", "k", k)
    X, new = prepared("features_pool", features_pool, metric), prepared("features_new", features_new, metric)
    if new.shape[1] != X.shape[1]:
        raise InputError(f"features_new: expected {X.shape[1]} columns, as in features_pool, got {new.shape[1]}")
    distance, nearest = neighbours(new, X, min(k, len(X)))
    furthest = distance[:, -1:]
    weight = np.exp(-((distance / np.where(furthest > 0, furthest, 1)) ** 2))
    weight /= weight.sum(axis=1, keepdims=True)
    out = np.zeros((len(new), scores.shape[1]))
    for j in range(nearest.shape[1]):
        out += weight[:, j, None] * scores[nearest[:, j]]
    return out


def neighbours(Q: torch.Tensor, X: torch.Tensor, k: int, *, itself: int | None = None) -> Nearest:
    """The k rows of X (N, d) nearest to each row of Q (n, d). With `itself`, row i of Q is row i + itself of X, and is not
    its own neighbour."""
    unit = divisor(X)  # of lengths: float32 holds no squares of 1e-25 or 1e20
    Q, X = (Q, X) if unit == 1 else (Q / unit, X / unit)
    sq = X.square().sum(dim=1)
    step = max(1, TILE // len(X))
    distances, positions = [np.empty((0, k))], [np.empty((0, k), dtype=np.int64)]
    for start in range(0, len(Q), step):
        part = Q[start : start + step]
        sq_dist = torch.addmm(sq, part, X.T, alpha=-2)  # |x|^2 - 2 q.x: without |q|^2, the same for all x
        if itself is not None:
            rows = torch.arange(len(part))
            sq_dist[rows, rows + start + itself] = torch.inf
        value, position = sq_dist.topk(k, dim=1, largest=False)
        sq_dist_k = (value + part.square().sum(dim=1, keepdim=True)).clamp_min(0)
        distances.append(sq_dist_k.double().sqrt().numpy() * unit)
        positions.append(position.numpy())
    return Nearest(np.concatenate(distances), np.concatenate(positions))


def with_more(nearest: Nearest, X: torch.Tensor, more: torch.Tensor) -> Nearest:
    """The nearest of the rows of X (N, d) and of m `more` (m, d) among all of them, from the nearest of X alone: what
    `neighbours` finds, but only the m rows are held against the others."""
    k = nearest.positions.shape[1]
    new = neighbours(more, torch.cat([X, more]), k, itself=len(X))
    to_more = neighbours(X, more, min(k, len(more)))
    distances = np.concatenate([nearest.distances, to_more.distances], axis=1)
    positions = np.concatenate([nearest.positions, to_more.positions + len(X)], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    old = Nearest(np.take_along_axis(distances, order, axis=1), np.take_along_axis(positions, order, axis=1))
    return Nearest(np.concatenate([old.distances, new.distances]), np.concatenate([old.positions, new.positions]))


# --- the door ---------------------------------------------------------------------------------------------------------


def prepared(name: str, given: Any, metric: Metric) -> torch.Tensor:
    """Rows in float32, of unit length for cosine distances."""
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu().float().numpy()
    rows: np.ndarray = np.asarray(given, dtype=np.float32)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"{name}: expected shape (N, d) with at least one row and one column, got {rows.shape}")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise InputError(
            f"{name}: expected finite numbers, got others in row {finite.argmin()}; remove or fix that row"
        )
    if metric == "cosine":
        with np.errstate(over="ignore"):
            norm = np.linalg.norm(rows, axis=1, keepdims=True)
        odd = ~((norm > 1 / FAR) & (norm < FAR))[:, 0]  # zero, or of squares that float32 does not hold
        if odd.any():
            exponent = np.frexp(np.abs(rows[odd]).max(axis=1, keepdims=True))[1]
            rows = rows.copy()
            rows[odd] = np.ldexp(rows[odd], -exponent)
            norm[odd] = np.linalg.norm(rows[odd], axis=1, keepdims=True)
        rows = rows / np.where(norm > 0, norm, 1)
    return torch.from_numpy(np.ascontiguousarray(rows))
