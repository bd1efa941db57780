import logging

import pytest
import torch
from torch import nn

from askless.base.errors import InputError, ModelError
from askless.kernels import features, find_head, jacobian, ntk
from askless.kernels.ntk import inner


def trace_kernel(J, J2):
    return torch.einsum("icp,jcp->ij", J, J2)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_all_layers_is_the_trace_over_whole_jacobians(case):
    J = jacobian(case.model, case.x)
    close(ntk(case.model, case.x, layers="all"), trace_kernel(J, J))
    close(ntk(case.model, case.x, case.x[4:], layers="all"), trace_kernel(J, J[4:]))


def test_tiles_of_any_size_give_the_same_kernel(net):
    case = net("residual")
    bytes_each = 8 * sum(p.numel() for p in case.model.parameters())
    K, K2 = ntk(case.model, case.x, layers="all"), ntk(case.model, case.x, case.x[1:], layers="all")
    for max_memory in (1, 4 * bytes_each, 20 * bytes_each):
        close(ntk(case.model, case.x, layers="all", max_memory=max_memory), K)
        close(ntk(case.model, case.x, case.x[1:], layers="all", max_memory=max_memory), K2)


def test_kernels_are_symmetric_and_positive_semidefinite(case):
    for layers in ("last", "all"):
        K = ntk(case.model, case.x, layers=layers, max_memory=1000)
        assert torch.equal(K, K.T)
        assert torch.linalg.eigvalsh(K)[0] > -1e-12 * K.diagonal().max() * len(K)
        assert K.dtype == torch.float64


def test_last_layer_is_the_closed_form_and_the_heads_share_of_the_jacobian(case):
    name, head = find_head(case.model, case.x)
    for parameter in head.parameters():
        parameter.requires_grad_(True)
    inside = [
        torch.full((p.numel(),), n.rpartition(".")[0] == name)
        for n, p in case.model.named_parameters()
        if p.requires_grad
    ]
    J = jacobian(case.model, case.x)[:, :, torch.cat(inside)]
    K = ntk(case.model, case.x)
    close(K, trace_kernel(J, J))
    Phi = features(case.model, case.x)
    close(K, 3 * (Phi @ Phi.T + (head.bias is not None)))
    close(ntk(case.model, case.x, case.x[:2], head=name, batch_size=4), K[:, :2])


def test_a_linear_model_has_one_kernel(net):
    case = net("linear")
    close(ntk(case.model, case.x), ntk(case.model, case.x, layers="all"))


def test_float32_gradients_are_multiplied_in_float64(net):
    A = torch.tensor([[1.0, 1e-5]]).repeat(1, 20000)
    assert inner(A, A).item() == pytest.approx(20000 * (1 + float(torch.tensor(1e-5)) ** 2), rel=1e-14)
    case = net("conv and batch norm")
    exact = ntk(case.model, case.x, layers="all")
    torch.testing.assert_close(ntk(case.model.float(), case.x, layers="all"), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["not for vmap", "gated"])
def test_a_model_that_vmap_refuses_is_looped_over(net, caplog, name):
    caplog.set_level(logging.INFO)
    case = net(name)
    ntk(case.model, case.x, layers="all")
    assert "looping over the examples" in caplog.text


def test_options_that_do_not_exist_are_refused():
    with pytest.raises(InputError, match=r'layers must be "last" or "all", got \'first\''):
        ntk(nn.Linear(2, 2), torch.zeros(1, 2), layers="first")
    with pytest.raises(InputError, match="max_memory must be a whole number >= 1, got 0"):
        ntk(nn.Linear(2, 2), torch.zeros(1, 2), layers="all", max_memory=0)
    with pytest.raises(ModelError, match="expected a model with trainable parameters, got none"):
        ntk(nn.Linear(2, 2).requires_grad_(False), torch.zeros(1, 2), layers="all")


def test_progress_counts_the_outputs():
    told = []
    ntk(nn.Linear(2, 3), torch.ones(4, 2), layers="all", progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
