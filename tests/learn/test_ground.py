import numpy as np
import pytest
import torch

from askless.learn.ground import Space
from askless.learn.linear import fit_head, logits, one_hot


def test_the_head_of_whole_rows_answers_as_the_one_in_the_space():
    rows = torch.randn(50, 9) * torch.linspace(0.1, 3, 9) + 2
    space = Space.of(rows, 4)
    z = space.into(rows)
    assert z.shape == (50, 4)
    weights = fit_head(z, one_hot(np.arange(50) % 3, 3), 1e-3)
    head = torch.nn.Linear(9, 3)
    space.put(weights, head)
    with torch.no_grad():
        assert head(rows).numpy() == pytest.approx(logits(z, weights), abs=1e-3)
    whole = Space.of(rows, 9).into(rows)
    assert whole.square().sum(dim=1).mean() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("n", [200, 5])
def test_main_directions_are_those_of_the_largest_eigenvalues(n):
    """Against all eigenvectors of the whole matrix; also of fewer rows than directions."""
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(n, 9)) * np.linspace(3, 0.1, 9)).float() + 1
    basis = Space.of(rows, 6).basis
    centred = (rows - rows.mean(dim=0)).double()
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    known = values[-6:] > 1e-6 * values[-1]  # others may be any that are left
    assert basis.shape == (9, 6)
    assert (basis.T @ basis).numpy() == pytest.approx(np.eye(6), abs=1e-5)
    together = (basis.double().T @ vectors[:, -6:]).abs().diagonal()
    assert together[known].numpy() == pytest.approx(1, abs=1e-4)
