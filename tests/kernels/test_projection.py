import numpy as np
import pytest
import torch
from torch import nn

from askless.base.errors import InputError, ModelError
from askless.kernels import gradient_features, gradient_stats, jacobian, loss_gradients, ntk
from askless.kernels.projection import direction
from askless.kernels.reference import trainable


def flat_directions(model, seed, k):
    """v_1..v_k as rows, (k, P)."""
    start = int(np.random.default_rng(seed).integers(2**62))
    vs = [direction(trainable(model), start, j) for j in range(k)]
    return torch.stack([torch.cat([p.flatten() for p in v.values()]) for v in vs])


def test_features_are_jacobians_times_the_directions(case):
    V = flat_directions(case.model, 3, 2)
    z = gradient_features(case.model, case.x, 5, seed=np.random.default_rng(3), batch_size=4)
    expected = torch.einsum("ncp,kp->nkc", jacobian(case.model, case.x), V).flatten(1) / 2**0.5
    torch.testing.assert_close(z, expected, rtol=1e-8, atol=1e-10)


def test_loss_features_are_loss_gradients_times_the_directions(case):
    V = flat_directions(case.model, 3, 4)
    for labels in (None, case.labels):
        z = gradient_features(case.model, case.x, 4, seed=np.random.default_rng(3), of="loss", labels=labels)
        torch.testing.assert_close(z, loss_gradients(case.model, case.x, labels) @ V.T / 2, rtol=1e-8, atol=1e-10)


def test_inner_products_converge_to_the_kernel(net):
    case = net("mlp")
    K = ntk(case.model, case.x, layers="all")
    errors = []
    for dim in (30, 300, 3000):
        z = gradient_features(case.model, case.x, dim)
        errors.append(float((z @ z.T - K).norm() / K.norm()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1


def test_inner_products_of_loss_features_are_unbiased(net):
    case = net("conv1d")
    g = loss_gradients(case.model, case.x)
    z = [gradient_features(case.model, case.x, 50, of="loss", seed=seed) for seed in range(20)]
    mean = torch.stack([one @ one.T for one in z]).mean(0)
    assert (mean - g @ g.T).norm() < 0.1 * (g @ g.T).norm()


def test_the_same_seed_gives_the_same_features_in_batches_of_any_size(net):
    case = net("conv and batch norm")
    z = gradient_features(case.model, case.x, 9, seed=1)
    assert torch.equal(z, gradient_features(case.model, case.x, 9, seed=1))
    torch.testing.assert_close(gradient_features(case.model, case.x, 9, seed=1, batch_size=1), z)
    assert not torch.allclose(gradient_features(case.model, case.x, 9, seed=2), z)


def test_the_width_is_rounded_up_to_whole_directions(net):
    case = net("mlp")
    assert gradient_features(case.model, case.x, 7).shape == (6, 9)  # 3 classes
    assert gradient_features(case.model, case.x, 7, of="loss").shape == (6, 7)


def test_a_coarse_network_with_fine_logits_is_held_to_the_coarse_tolerance(caplog):
    class Fine(nn.Sequential):
        def forward(self, x):
            return super().forward(x).float()

    torch.manual_seed(0)
    model = Fine(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)).bfloat16()
    x = torch.randn(20, 16)
    V = flat_directions(model, 3, 10).float()
    z = gradient_features(model, x, 30, seed=np.random.default_rng(3))
    sq = gradient_stats(model, x, labels := torch.arange(20) % 3).sq
    expected = torch.einsum("ncp,kp->nkc", jacobian(model.float(), x), V).flatten(1) / 10**0.5
    assert z.dtype == torch.float32
    assert (z - expected).norm() < 0.05 * expected.norm()
    torch.testing.assert_close(sq, gradient_stats(model, x, labels).sq, rtol=0.1, atol=0)
    assert not caplog.records


def test_a_model_without_forward_mode_is_refused():
    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    class Net(nn.Linear):
        def forward(self, x):
            return Odd.apply(super().forward(x))

    with pytest.raises(ModelError, match=r"torch can differentiate in forward mode, got: .*use ntk"):
        gradient_features(Net(3, 2), torch.randn(2, 3), 4)


def test_a_gradient_that_forward_mode_sees_differently_is_refused():
    class Padded(nn.Linear):
        def forward(self, x):
            return nn.functional.embedding(x, self.weight, padding_idx=0).sum(1)

    with pytest.raises(ModelError, match="forward and backward mode to agree"):
        gradient_features(Padded(2, 5), torch.tensor([[0, 1], [2, 0]]), 4)


def test_options_that_do_not_fit_are_refused(net):
    case = net("mlp")
    with pytest.raises(InputError, match='of must be "logits" or "loss", got'):
        gradient_features(case.model, case.x, of="features")
    with pytest.raises(InputError, match='labels only with of="loss"'):
        gradient_features(case.model, case.x, labels=case.labels)
    with pytest.raises(InputError, match="dim must be a whole number >= 1, got 0"):
        gradient_features(case.model, case.x, 0)
