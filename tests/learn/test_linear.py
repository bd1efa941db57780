import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax

from askless.learn.linear import fit_head, logits, one_hot


@pytest.mark.parametrize("weighed", [False, True])
def test_a_head_is_the_minimum_that_scipy_finds(weighed):
    rng = np.random.default_rng(0)
    z, targets = rng.normal(size=(30, 3)), rng.dirichlet(np.ones(4), 30)
    each = rng.dirichlet(np.ones(30)) * 30 if weighed else np.ones(30)

    def loss(w):
        slope = w[:12].reshape(3, 4)
        rows = (targets * log_softmax(z @ slope + w[12:], axis=1)).sum(axis=1)
        return -(each * rows).mean() + 0.05 * (slope**2).sum()

    best = minimize(loss, np.zeros(16), method="BFGS", options={"gtol": 1e-9})
    given = torch.from_numpy(each).float() if weighed else None
    found = fit_head(torch.from_numpy(z).float(), torch.from_numpy(targets).float(), 0.1, given)
    assert found.slope.numpy() == pytest.approx(best.x[:12].reshape(3, 4), abs=1e-3)
    assert found.offset.numpy() == pytest.approx(best.x[12:], abs=1e-3)
    assert logits(torch.from_numpy(z).float(), found) == pytest.approx(
        z @ found.slope.numpy() + found.offset.numpy(), abs=1e-5
    )


def test_one_hot_rows():
    assert one_hot(np.array([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]
