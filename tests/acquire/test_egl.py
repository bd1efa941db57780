import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import askless as al
from askless.acquire.egl import expected_gradient_length


def expected_length_by_autograd(net, x, parameters):
    out = []
    for row in x:
        p = net(row[None]).softmax(dim=1)[0].detach()
        total = 0.0
        for y in range(len(p)):
            loss = F.cross_entropy(net(row[None]), torch.tensor([y]))
            grads = torch.autograd.grad(loss, parameters)
            total += float(p[y]) * float(torch.cat([g.ravel() for g in grads]).norm())
        out.append(total)
    return np.array(out)


def network():
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4)).double()
    for p in net.parameters():
        p.data = torch.randn(p.shape, generator=generator, dtype=torch.float64)
    return net, torch.randn(12, 5, generator=generator, dtype=torch.float64)


def test_closed_form_equals_the_gradient_norms_of_the_head():
    net, x = network()
    look = al.kernels.look(net, x)
    probs = look.logits.softmax(dim=1).numpy()
    expected = expected_length_by_autograd(net, x, list(net[2].parameters()))
    assert np.allclose(expected_gradient_length(look.features.numpy(), probs), expected, rtol=1e-10)
    weights_only = expected_length_by_autograd(net, x, [net[2].weight])
    assert np.allclose(expected_gradient_length(look.features.numpy(), probs, bias=False), weights_only, rtol=1e-10)
    picks = al.select("egl", 12, features=look.features, probs=probs)
    assert picks.indices.tolist() == np.argsort(-expected).tolist()
    assert np.allclose(picks.scores, np.sort(expected)[::-1])


def test_all_layers_equal_the_gradient_norms_of_the_network():
    net, x = network()
    probs = al.kernels.look(net, x).logits.softmax(dim=1)
    picks = al.select(al.EGL(layers="all"), 12, probs=probs, grad_sq_by_class=al.kernels.gradient_sq_by_class(net, x))
    expected = expected_length_by_autograd(net, x, list(net.parameters()))
    assert np.allclose(picks.scores, np.sort(expected)[::-1], rtol=1e-10)
    assert picks.indices.tolist() == np.argsort(-expected).tolist()
