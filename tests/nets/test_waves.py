import pytest
import torch

from askless import nets


def test_features_are_the_input_and_cosines_of_one_length_each():
    net = nets.make("waves", classes=3, shape=(5,), waves=4000, seed=0)
    x = torch.randn(300, 5) * 7 + 3
    net.measure(x)
    plain, cosines = net.features(x).split([5, 4000], dim=1)
    assert net.head.in_features == 4005
    z = (x - net.middle) / net.reach
    assert torch.allclose(plain / plain.norm(), z / z.norm(), atol=1e-6)
    assert cosines.square().sum(dim=1).mean() == pytest.approx(500, rel=0.02)
    assert plain.square().sum(dim=1).mean() == pytest.approx(500, rel=0.2)


def test_cosines_are_alike_as_a_gaussian_says():
    """Rahimi & Recht: their products come to exp(-|x - y|^2 / (2 reach^2))."""
    net = nets.make("waves", classes=2, shape=(4,), waves=20_000, seed=1)
    x = torch.randn(20, 4)
    net.measure(x)
    cosines = net.features(x)[:, 4:]
    expected = 500 * torch.exp(-torch.cdist(x, x).square() / (2 * net.reach**2))
    assert torch.allclose(cosines @ cosines.T, expected, atol=25)
    assert net.reach == pytest.approx(float(torch.pdist(x).median()) / 2)


@pytest.mark.parametrize("rows", [torch.ones(1, 3), torch.ones(6, 3)])
def test_rows_that_do_not_differ_are_taken(rows):
    net = nets.make("waves", classes=2, shape=(3,), seed=0)
    net.measure(rows)
    assert torch.isfinite(net(rows)).all()
