"""Monte-Carlo dropout: K passes of a network, each with its own units left out (Gal & Ghahramani, ICML 2016)."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from askless.base.errors import ModelError
from askless.base.options import check_count
from askless.base.rng import Seed, stream
from askless.kernels.evaluation import evaluating
from askless.kernels.head import find_head, listening
from askless.kernels.inputs import Examples, batches, count, place_of, rows, some

DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)


def probs_by_pass(
    model: nn.Module,
    x: Examples,
    *,
    passes: int = 20,
    seed: Seed = 0,
    head: str | nn.Module | None = None,
    batch_size: int = 256,
) -> Tensor:
    """Class probabilities of every example in each of `passes` passes, (N, K, C) in float32.

    Only dropout is as in training; everything else, batch norm too, is as in evaluation. A pass leaves out the same units
    for every example (consistent dropout, as BatchBALD needs it): pass k is one network, whatever the batches are. Which
    units depends on the seed only. Whatever calls torch's dropout counts, such as `nn.Dropout`, `nn.Dropout2d` or
    `F.dropout`; dropout inside torch's fused attention and recurrent layers does not. `head` as in `find_head`.

    >>> net = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 3))
    >>> probs_by_pass(net, torch.ones(4, 2), passes=5).shape
    torch.Size([4, 5, 3])
    """
    check_count("probs_by_pass", "passes", passes)
    check_dropout(model, x)
    _, layer = find_head(model, x, head)
    pieces = batches(x, batch_size, place_of(model))
    seeds = [int(s) for s in stream(seed, "dropout").integers(2**62, size=passes)]
    out, done = torch.empty(count(x), passes, layer.out_features), 0
    with evaluating(model), torch.no_grad(), listening(model, only=layer) as calls:
        for batch in pieces:
            for k, pass_seed in enumerate(seeds):
                with ConsistentDropout(pass_seed, len(batch)):
                    model(batch)
                out[done : done + len(batch), k] = calls.pop().output.double().softmax(dim=1)
            done += len(batch)
    return out


def check_dropout(model: nn.Module, x: Examples) -> None:
    """An error where no unit would be left out.

    >>> al.kernels.check_dropout(torch.nn.Linear(2, 3), torch.ones(4, 2))
    Traceback (most recent call last):
        ...
    askless.base.errors.ModelError: expected a network with dropout, whose passes differ,...
    """
    probe = rows(x, 0, min(2, some(x)), place_of(model))
    with evaluating(model), torch.no_grad(), ConsistentDropout(0, len(probe)) as dropout:
        model(probe)
    if dropout.calls == 0:
        raise ModelError(
            "expected a network with dropout, whose passes differ, got one without; add dropout such as nn.Dropout(0.25) "
            'before its last layers, or by name, as in nets.make("mlp", ..., dropout=0.25) or Frozen(dropout=0.25); '
            "or choose a strategy that needs none"
        )


class ConsistentDropout(TorchFunctionMode):
    """Inside, every call of torch's dropout with p > 0 leaves out units, the same ones for all `n` examples of a batch.

    Which ones is drawn from `seed` and the number of the call. Dropout is x -> a x + b in each unit: a and b are what
    torch's own function makes of one example of ones and of zeros.
    """

    def __init__(self, seed: int, n: int) -> None:
        super().__init__()
        self.seed, self.n, self.calls = seed, n, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in DROPOUTS:
            return func(*args, **kwargs)
        x, p = args[0], kwargs.get("p", 0.5)
        if p == 0:
            return x
        if len(x) != self.n:
            raise ModelError(
                f"expected dropout to see one row per example, {self.n} of them, got a tensor of shape {tuple(x.shape)}; "
                "use it where the first axis is the examples"
            )
        start = int(stream(self.seed, f"call {self.calls}").integers(2**62))
        self.calls += 1
        # On the CPU and in float32, so that the units do not depend on where the network is.
        zeros = torch.zeros(1, *x.shape[1:], device="cpu")
        shift, at_one = (_seeded(func, one, p, start) for one in (zeros, zeros + 1))
        scale, shift = (t.to(x.device, x.dtype) for t in (at_one - shift, shift))
        return x * scale + shift


def _seeded(dropout: Any, x: Tensor, p: float, start: int) -> Tensor:
    """Torch's dropout, drawn from `start`; `evaluating` puts torch's own generator back."""
    torch.default_generator.manual_seed(start)
    return dropout(x, p=p, training=True)
