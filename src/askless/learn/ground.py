"""What `auto` knows about a pool without labels: its principal directions and its neighbour graph."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
import torch
from scipy.linalg import eigh
from scipy.linalg.blas import ssyrk
from torch import Tensor, nn

from askless.data import Views
from askless.kernels import features
from askless.learn.far import Reach
from askless.learn.learner import Task
from askless.learn.linear import Weights
from askless.learn.propagation import Metric, Nearest, graph_of, neighbours, prepared, with_more

TILE = 1024  # rows that are squared at a time
WIDE = 4096  # columns up to which main directions are exact: their matrix is as large as it is wide


class Ground(NamedTuple):
    """What does not depend on labels: the items `at` (n,) that are learnt from, the head's inputs `z` (n, k) in a `space`,
    and a `graph` (n, n) of the `nearest` among `rows` (n, d). Inputs of the items `far` lay out of `reach`."""

    at: np.ndarray
    reach: Reach
    far: np.ndarray
    space: "Space"
    z: Tensor
    rows: Tensor
    nearest: Nearest
    graph: sparse.csr_array

    @classmethod
    def of(cls, net: nn.Module, views: Views, at: np.ndarray, *, directions: int, k: int) -> "Ground":
        inputs, rows = looked_at(net, views, at)
        reach = Reach.of(inputs)
        inputs, far = reach.near(inputs, at)
        space = Space.of(inputs, directions)
        z = space.into(inputs)
        rows = compared(z, rows)
        nearest = neighbours(rows, rows, min(k, len(rows) - 1), itself=0)
        return cls(at, reach, far, space, z, rows, nearest, graph_of(nearest))

    def is_of(self, net: nn.Module, views: Views, at: np.ndarray) -> bool:
        """Whether it is of these items as this network sees them, by a look at a few."""
        if not np.array_equal(self.at, at):
            return False
        few = np.setdiff1d(at, self.far)[:8]
        inputs, _ = looked_at(net, views, few)
        return inputs.shape[1:] == self.space.middle.shape and torch.allclose(
            self.space.into(inputs), self.z[np.searchsorted(at, few)], rtol=0, atol=1e-4
        )

    def including(self, net: nn.Module, task: Task) -> "Ground":
        """One with all items that have a label; those that are missing come last."""
        more = np.setdiff1d(task.labelled, self.at)
        if len(more) == 0:
            return self
        inputs, rows = looked_at(net, task.views, more)
        inputs, far = self.reach.near(inputs, more)
        z = self.space.into(inputs)
        rows = compared(z, rows)
        nearest = with_more(self.nearest, self.rows, rows)
        both = torch.cat([self.z, z]), torch.cat([self.rows, rows])
        at, far = np.concatenate([self.at, more]), np.concatenate([self.far, far])
        return Ground(at, self.reach, far, self.space, *both, nearest, graph_of(nearest))


def looked_at(net: nn.Module, views: Views, at: np.ndarray) -> tuple[Tensor, Tensor | None]:
    """The head's inputs (n, d) of these items; and their own rows where a network makes more of them."""
    rows = views.plain(torch.from_numpy(at)).float().cpu()
    inputs, rows = features(net, rows), rows.flatten(1)
    return inputs, None if inputs.shape == rows.shape and torch.equal(inputs, rows) else rows


def compared(z: Tensor, rows: Tensor | None) -> Tensor:
    """What neighbours are found by. A network that makes more of its rows takes them for measured numbers, of which length
    tells as much as direction."""
    metric: Metric = "cosine" if rows is None else "euclidean"
    return prepared("features", z if rows is None else rows, metric)


class Space(NamedTuple):
    """The main directions `basis` (d, k) of rows around their `middle` (d,), divided by their mean `length`."""

    middle: Tensor
    basis: Tensor
    length: Tensor

    @classmethod
    def of(cls, rows: Tensor, directions: int) -> "Space":
        middle = rows.mean(dim=0)
        centred = rows - middle
        squares = torch.stack([part.double().square().sum() for part in centred.split(TILE)])
        length = (squares.sum() / len(rows)).sqrt().clamp_min(1e-37).float()
        if rows.shape[1] <= directions:
            return cls(middle, torch.eye(rows.shape[1]), length)
        centred /= length
        if rows.shape[1] <= WIDE:
            upper = ssyrk(1.0, centred.numpy().T).astype(np.float64)  # of centred.T @ centred, half of which is enough
            last = (rows.shape[1] - directions, rows.shape[1] - 1)
            basis = torch.from_numpy(eigh(upper, lower=False, subset_by_index=last)[1]).float()
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                basis = torch.pca_lowrank(centred, min(directions, len(rows)), center=False)[2]
        return cls(middle, basis, length)

    def into(self, rows: Tensor) -> Tensor:
        return (rows - self.middle) @ self.basis / self.length

    def put(self, weights: Weights, head: nn.Linear) -> None:
        """Gives the head of whole rows the answers that the weights give in this space."""
        slope = self.basis @ weights.slope / self.length
        with torch.no_grad():
            head.weight.copy_(slope.T)
            head.bias.copy_(weights.offset - self.middle @ slope)
