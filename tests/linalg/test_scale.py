import pytest
import torch

from askless.linalg.scale import divisor


@pytest.mark.parametrize("exponent", [-100, -60, 60, 120])
def test_rows_come_to_a_size_that_can_be_squared_without_a_change_of_digits(exponent):
    rows = torch.randn(50, 3)
    large = rows * 2.0**exponent
    unit = divisor(large)
    assert torch.equal(large / unit * (unit / 2.0**exponent), rows)
    assert 0.5 < float((large / unit).abs().amax(dim=1).median()) < 2


def test_ordinary_rows_and_zeros_stay_and_one_wild_row_decides_nothing():
    rows = torch.randn(50, 3)
    assert divisor(rows) == divisor(1e9 * rows) == divisor(torch.zeros(4, 2)) == 1
    rows[3] = 1e25
    assert divisor(rows) == 1
    assert divisor(torch.tensor([[0.0], [0.0], [2.0**-90]])) == 2.0**-90
