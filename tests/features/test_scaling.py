import pytest
import torch

from askless.features.scaling import SQ_LENGTH, evened, standardisation


def test_evened_rows_keep_the_proportions_of_their_columns():
    x = torch.tensor([[3.0, 0.1], [-3.0, 0.3], [1.0, -0.4]])
    mean, scale = evened(x)
    ready = (x - mean) / scale
    assert torch.allclose(ready.square().sum(dim=1).mean(), torch.tensor(1000.0))
    assert torch.allclose(ready.std(dim=0)[0] / ready.std(dim=0)[1], x.std(dim=0)[0] / x.std(dim=0)[1])


def test_measured_numbers_are_brought_to_one_deviation_each():
    x = torch.randn(500, 3) * torch.tensor([1e-3, 1.0, 1e4]) + 5
    mean, scale = standardisation(x)
    z = (x - mean) / scale
    assert z.mean(dim=0).numpy() == pytest.approx(0, abs=1e-2)
    assert z.square().sum(dim=1).mean() == pytest.approx(SQ_LENGTH[False], rel=0.01)
    assert float(z.std(dim=0).max() / z.std(dim=0).min()) == pytest.approx(1, abs=1e-4)


def test_a_column_that_does_not_vary_is_measured_by_the_others():
    x = torch.cat([torch.randn(50, 2), torch.full((50, 1), 7.0)], dim=1)
    mean, scale = standardisation(x)
    assert scale[2] == pytest.approx(float(scale[:2].mean() * 2 / 3), rel=0.2)
    assert mean[2] == 7
