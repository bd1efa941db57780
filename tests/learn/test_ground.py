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
