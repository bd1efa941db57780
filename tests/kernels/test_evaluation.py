import random

import numpy as np
import pytest
import torch
from torch import nn

from askless.base.errors import ModelError
from askless.kernels import features, find_head, gradient_features, gradient_sq_by_class, gradient_stats, look, ntk
from askless.kernels.evaluation import evaluating

FUNCTIONS = {
    "find_head": find_head,
    "features": features,
    "look": look,
    "ntk last": ntk,
    "ntk all": lambda model, x: ntk(model, x, layers="all"),
    "gradient_stats": lambda model, x: gradient_stats(model, x, against=(x, None)),
    "gradient_sq_by_class": gradient_sq_by_class,
    "gradient_features": lambda model, x: gradient_features(model, x, 6),
}


class Dropping(nn.Module):
    """Dropout, batch norm and a draw from the global generator that is never switched off."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        torch.rand(1)
        return self.head(self.body(x))


class Counting(Dropping):
    """Writes to buffers whether it trains or not, in place and by replacement."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.tensor(3))
        self.register_buffer("replaced", torch.tensor(3))
        self.register_buffer("mean", torch.ones(4), persistent=False)

    def forward(self, x):
        self.runs += 1
        self.replaced = self.replaced + 1
        self.mean.mul_(0.9)
        return super().forward(x)


class TwoNames(Dropping):
    """Calls its body's first layer by a second name too."""

    def __init__(self):
        super().__init__()
        self.again = self.body
        self.head = nn.Linear(5, 3)
        self.body[0] = nn.Linear(5, 5)
        self.first = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.again(self.body(self.first(x))))


class Breaks(Dropping):
    def forward(self, x):
        assert not any(module.training for module in self.modules())
        raise RuntimeError("the model broke")


def state(model):
    return {
        "flags": [module.training for module in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()],
        "grad": [None if p.grad is None else p.grad.tolist() for p in model.parameters()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "values": [tensor.tolist() for tensor in model.state_dict().values()],
        "identity": [id(p) for p in (*model.parameters(), *model.buffers())],
        "buffers": [buffer.tolist() for buffer in model.buffers()],
        "generators": (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()),  # noqa: NPY002
        "attention": torch.backends.mha.get_fastpath_enabled(),
        "math only": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()),
        "grad mode": torch.is_grad_enabled(),
    }


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [Dropping, Breaks, Counting, TwoNames])
def test_a_network_is_left_as_it_was_found(name, kind):
    model = kind()
    model.body[1].eval()  # a mixture of flags
    model.head.weight.grad = torch.ones(3, 5)
    model.head.bias.requires_grad_(False)
    before = state(model)
    if kind is Breaks:
        with pytest.raises(RuntimeError, match="the model broke"):
            FUNCTIONS[name](model, torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    else:
        FUNCTIONS[name](model, torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    assert state(model) == before


@pytest.mark.parametrize("name", list(FUNCTIONS)[1:])
def test_the_training_flag_makes_no_difference(net, name):
    case = net("conv and batch norm")
    training = FUNCTIONS[name](case.model.train(), case.x)
    evaluation = FUNCTIONS[name](case.model.eval(), case.x)
    torch.testing.assert_close(training, evaluation, rtol=0, atol=0)


@pytest.mark.parametrize("name", list(FUNCTIONS)[1:])
@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_switched_off_outside_make_no_difference(net, name, off):
    case = net("residual")
    on = FUNCTIONS[name](case.model, case.x)
    with off():
        off = FUNCTIONS[name](case.model, case.x.clone())
    torch.testing.assert_close(on, off, rtol=0, atol=0)


def test_buffers_nobody_wrote_to_are_not_touched_and_caches_may_grow():
    class Caches(nn.Linear):
        def forward(self, x):
            self.cache, self.reach = torch.zeros(len(x)), len(x)
            return super().forward(x)

    model = Caches(2, 2)
    model.register_buffer("cache", torch.zeros(1))
    model.register_buffer("idle", torch.zeros(3))
    features(model, torch.zeros(5, 2))
    assert len(model.cache) == model.reach == 5
    assert model.idle._version == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_buffers_are_kept_in_inference_mode_too(name):
    model, x = Counting(), torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    before = state(model)
    with torch.inference_mode():
        FUNCTIONS[name](model, x)
    assert state(model) == before


def test_buffers_written_behind_the_back_of_autograd_are_restored():
    class Hidden(nn.Linear):
        def forward(self, x):
            self.runs.data += 1
            return super().forward(x)

    model = Hidden(2, 2)
    model.register_buffer("runs", torch.tensor(3))
    for function in (features, gradient_stats):
        function(model, torch.ones(5, 2))
        assert model.runs == 3


def test_an_overridden_eval_is_not_called():
    class Merges(nn.Linear):
        def train(self, mode=True):
            pytest.fail("train() was called")

    with evaluating(model := Merges(2, 2)):
        assert not model.training
    assert model.training


def test_batch_norm_by_batch_statistics_is_refused():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 3))
    with pytest.raises(ModelError, match=r"running statistics, got layer '1' with track_running_stats=False"):
        features(model, torch.randn(4, 4))
