import numpy as np
import pytest
import torch
from torch import nn


class FeatureViews:
    """Two clouds of points; weak views shift a little, strong views more."""

    def __init__(self, n=60, seed=0):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(2, size=n)
        self.x = torch.from_numpy((rng.normal(size=(n, 4)) + 5 * self.y[:, None]).astype(np.float32))

    def __len__(self):
        return len(self.x)

    def plain(self, indices):
        return self.x[indices]

    def weak(self, indices, generator):
        return self.x[indices] + 0.05 * torch.randn(len(indices), 4, generator=generator)

    def strong(self, indices, generator):
        return self.x[indices] + 0.5 * torch.randn(len(indices), 4, generator=generator)

    def of(self, x):
        return torch.as_tensor(x)


@pytest.fixture
def views():
    return FeatureViews()


@pytest.fixture
def labelled(views):
    """Two items of each class, and their labels."""
    positions = np.concatenate([np.flatnonzero(views.y == c)[:2] for c in (0, 1)])
    return positions, views.y[positions]


@pytest.fixture
def make_net():
    def make(seed=0, dropout=0.0):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 2))

    return make
