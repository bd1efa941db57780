"""k-means clusters of a pool that is read a few rows at a time: scikit-learn's, from the same seed, in less time and memory.

Mini-batch k-means (Sculley, 2010) as `sklearn.cluster.MiniBatchKMeans` does it, draw for draw, so that both find the same
clusters up to rounding. Here the features are not copied (theirs is on one centred float32 copy), distances are one product
per batch, and the seeding and the drawing of batches do not repeat what can be done once.
"""

import warnings

import numpy as np
import torch
from torch import Tensor

from askless.acquire.covering import main_directions
from askless.acquire.strategy import drawn, filled, working_type
from askless.base.rng import stream

BATCH = 4096
PATIENCE = 10  # batches without a better smoothed inertia
EPOCHS = 100
TOO_SMALL = 0.01  # clusters with a smaller share than this of the largest one's count start again elsewhere
LARGE, SMALL = 1e15, 1e-15  # of larger numbers float32 could not sum the squares, and of smaller ones they are nothing


class Centred:
    """Rows of the features around their mean, of unit length before that with `normalize`, in float32.

    The mean is taken away in the features' own precision (float32 at least): a large offset costs no digits. Rows
    whose squares float32 could not hold are divided, all by one number: `unit`. All rows are held where they fit in a
    quarter of `max_memory`, and else computed again on each access.
    """

    def __init__(self, features: "np.ndarray | Subset", normalize: bool, max_memory: int) -> None:
        self.features, self.normalize = features, normalize
        self.dtype = np.float64 if normalize else working_type(features)
        self.step = max(1, min(max_memory // 4, 2**23) // (8 * features.shape[1]))
        total, largest = np.zeros(features.shape[1]), 0.0
        for i in range(0, len(features), self.step):
            rows = self._rows(slice(i, i + self.step))
            total += rows.sum(axis=0, dtype=np.float64)
            largest = max(largest, float(rows.max(initial=0)), -float(rows.min(initial=0)))
        self.mean = (total / len(features)).astype(self.dtype)
        self.unit = self.dtype(largest) if largest and not SMALL <= largest <= LARGE else None
        self.max_memory = max_memory
        self.main: np.ndarray | None = None
        self._hold(features.shape[1])

    def turn(self, directions: int, rng: np.random.Generator) -> None:
        """From now on the rows (k, d) are in their main directions, (k, directions), where they are wider."""
        N, d = self.features.shape
        if d > directions:
            sample = torch.from_numpy(self[drawn(N, min(4096, max(64, 2**22 // d)), rng)])
            self.main = main_directions(sample, min(directions, len(sample)), rng).numpy()
            self._hold(self.main.shape[1])

    def _hold(self, width: int) -> None:
        self.width, self.held = width, None
        if 16 * len(self) * width <= self.max_memory:
            self.held = self.everything()

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, positions: np.ndarray | slice) -> np.ndarray:
        """The rows at `positions` (k,) -> (k, width)."""
        if self.held is not None:
            return self.held[positions]
        rows = self._rows(positions)
        rows = rows - self.mean if self.unit is None else rows / self.unit - self.mean / self.unit
        rows = rows.astype(np.float32, copy=False)
        return rows if self.main is None else rows @ self.main

    def everything(self) -> np.ndarray:
        """All rows in float32, a tile at a time; not to be written to."""
        if self.held is not None:
            return self.held
        return filled(np.empty((len(self), self.width), dtype=np.float32), self.step, self.__getitem__)

    def _rows(self, positions: np.ndarray | slice) -> np.ndarray:
        x = self.features[positions].astype(self.dtype, copy=False)
        return unit_length(x) if self.normalize else x


class Subset:
    """Some rows of an array, read when they are asked for; as much of an array as `Centred` looks at."""

    def __init__(self, array: np.ndarray, positions: np.ndarray) -> None:
        self.array, self.positions = array, positions
        self.shape, self.dtype = (len(positions), array.shape[1]), array.dtype

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, at: np.ndarray | slice) -> np.ndarray:
        return self.array[self.positions[at]]


def unit_length(x: np.ndarray) -> np.ndarray:
    """The rows (k, d) by their lengths; those of zeros stay."""
    norm = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    return x / np.where(norm > 0, norm, 1.0)


def k_means_seed(rng: np.random.Generator) -> int:
    """For `cluster_of_each`."""
    return int(stream(rng, "k-means").integers(2**31 - 1))


def cluster_of_each(x: Centred, k: int, state: int) -> np.ndarray:
    """The k-means cluster of each row, (N,); by mini-batches beyond 50 clusters or 50,000 rows, as TypiClust's do."""
    if k > 50 or len(x) > 50_000:
        centres = mini_batch_centres(x, k, np.random.RandomState(state))
        return filled(
            np.empty(len(x), dtype=np.int64),
            x.step,
            lambda some: nearest(torch.from_numpy(x[some]), centres)[0].numpy(),
        )
    from sklearn.cluster import KMeans  # a second to import, which most uses of askless do without
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: some stay empty
        return KMeans(k, n_init=1, random_state=state).fit_predict(x.everything()).astype(np.int64)


def nearest_to_centres(x: Centred, k: int, state: int) -> np.ndarray:
    """k positions: of each of k clusters the row nearest to its mean, large clusters first; where some stayed empty, the
    second nearest of the others, and so on."""
    if k == len(x):
        return np.arange(k)
    cluster = cluster_of_each(x, k, state)
    size = np.bincount(cluster, minlength=k)
    mean = np.zeros((k, x.width))
    for i in range(0, len(x), x.step):
        part = slice(i, i + x.step)
        torch.from_numpy(mean).index_add_(0, torch.from_numpy(cluster[part]), torch.from_numpy(x[part]).double())
    mean /= np.maximum(size, 1)[:, None]
    sq = filled(np.empty(len(x)), x.step, lambda part: np.square(x[part] - mean[cluster[part]]).sum(axis=1))
    return round_robin(cluster, sq, -size)[:k]


def round_robin(cluster: np.ndarray, within: np.ndarray, among: np.ndarray) -> np.ndarray:
    """All positions of `cluster` (m,), whole numbers below c: one of each cluster, then a second of each that has one, and
    so on. The smallest of `within` (m,) comes first inside a cluster, and of `among` (c,) in each round; equals as they are.

    >>> round_robin(np.array([0, 0, 0, 1, 1]), np.array([3, 2, 1, 2, 1]), np.array([3, 2])).tolist()
    [4, 2, 3, 1, 0]
    """
    size = np.bincount(cluster, minlength=len(among))
    turn = np.empty(len(cluster), dtype=np.int64)  # the round in which each is taken
    turn[np.lexsort((within, cluster))] = np.arange(len(cluster)) - np.repeat(np.cumsum(size) - size, size)
    place = np.argsort(np.argsort(among, kind="stable"))
    return np.lexsort((place[cluster], turn))


def mini_batch_centres(x: Centred, k: int, random_state: np.random.RandomState) -> Tensor:
    """k centres (k, d) in float32."""
    N, batch = len(x), min(BATCH, len(x))
    some = min(N, 3 * batch if 3 * batch >= k else 3 * k)
    random_state.randint(0, N, some)  # theirs draws rows here to compare several seedings by; there is one
    centres = torch.from_numpy(
        seeds(x[random_state.randint(0, N, some)] if some < N else x.everything(), k, random_state)
    )
    counts = torch.zeros(k)
    # As random_state.choice(N, batch, p=...) draws, which would sum up its N probabilities for every batch.
    ends = np.cumsum(np.full(N, np.float32(1) / np.float32(N), dtype=np.float64))
    ends /= ends[-1]
    smoothed, best, waited, since = None, np.inf, 0, 0
    for i in range(EPOCHS * N // batch):
        points = torch.from_numpy(x[np.searchsorted(ends, random_state.random_sample(batch), side="right")])
        since += batch
        restart = bool((counts == 0).any()) or since >= 10 * k
        since = 0 if restart else since
        label, least = nearest(points, centres)
        arrived = torch.bincount(label, minlength=k).float()
        moved = (centres * counts[:, None]).index_add_(0, label, points)
        counts = counts + arrived
        centres = torch.where(arrived[:, None] > 0, moved / counts.clamp(min=1)[:, None], centres)
        if restart:
            _restart_small(centres, counts, points, random_state)
        length = torch.linalg.vector_norm(points, dim=1).double()
        inertia = float((least.double() + length.square()).clamp_(min=0).sum()) / batch
        if i == 0:
            continue  # the inertia of the seeds
        share = min(2 * batch / (N + 1), 1.0)
        smoothed = inertia if smoothed is None else smoothed * (1 - share) + inertia * share
        waited = 0 if smoothed < best else waited + 1
        best = min(best, smoothed)
        if waited >= PATIENCE:
            break
    return centres


def _restart_small(centres: Tensor, counts: Tensor, points: Tensor, random_state: np.random.RandomState) -> None:
    """Puts the centres of clusters that hardly anything goes to on rows of the batch."""
    small = (counts < TOO_SMALL * counts.max()).numpy()
    most = int(0.5 * len(points))
    if small.sum() > 0.5 * len(points):
        small[np.argsort(counts.numpy())[most:]] = False
    at = torch.from_numpy(small)
    if small.any():
        centres[at] = points[torch.from_numpy(random_state.choice(len(points), replace=False, size=int(small.sum())))]
    counts[at] = counts[~at].min()


def nearest(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Of each point (m, d) the nearest of the centres (k, d), and its squared distance less the point's squared length."""
    least, label = torch.addmm(centres.square().sum(dim=1), points, centres.T, alpha=-2).min(dim=1)
    return label, least


def seeds(x: np.ndarray, k: int, random_state: np.random.RandomState) -> np.ndarray:
    """k rows of x (m, d) by greedy k-means++: those that scikit-learn finds from the same state, several times faster.

    Its own way converts float32 rows to float64 again in each of the k steps and takes longer than the clustering that
    follows. Here they are converted once and stored by columns, which suits products with a few rows; sums and draws are in
    the type of x, as there.
    """
    columns = np.ascontiguousarray(x.T, dtype=np.float64)  # (d, m)
    sq = np.einsum("ij,ij->j", columns, columns)
    one = np.ones(len(x), dtype=x.dtype)

    def sq_distances(some: np.ndarray) -> np.ndarray:
        distances = (-2 * x[some].astype(np.float64)) @ columns  # (s, m)
        distances += sq
        distances += sq[some, None]
        np.maximum(distances, 0, out=distances)
        distances[np.arange(len(some)), some] = 0
        return distances.astype(x.dtype)

    chosen = np.empty(k, dtype=np.int64)
    chosen[0] = random_state.choice(len(x), p=one / one.sum())
    nearest = sq_distances(chosen[:1])[0]
    potential = nearest @ one
    for i in range(1, k):
        draws = random_state.uniform(size=2 + int(np.log(k))) * potential
        tried = np.searchsorted(np.cumsum(nearest), draws).clip(max=len(x) - 1)
        distances = np.minimum(nearest, sq_distances(tried))  # (trials, m)
        potentials = distances @ one
        best = int(potentials.argmin())
        chosen[i], nearest, potential = tried[best], distances[best], potentials[best]
    return x[chosen]
