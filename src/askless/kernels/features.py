"""Features: what the head sees."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from askless.kernels.evaluation import evaluating
from askless.kernels.head import find_head, listening
from askless.kernels.inputs import Examples, batches, count, place_of


class FeaturesAndLogits(NamedTuple):
    """One pass over the pool."""

    features: Tensor  # (N, d)
    logits: Tensor  # (N, C)


def features(model: nn.Module, x: Examples, *, head: str | nn.Module | None = None, batch_size: int = 256) -> Tensor:
    """phi(x), the input of the head, (N, d) in the model's dtype. `head` as in `find_head`.

    >>> net = nn.Sequential(nn.ReLU(), nn.Linear(2, 3))
    >>> features(net, torch.tensor([[1.0, -1.0], [-2.0, 3.0]]))
    tensor([[1., 0.],
            [0., 3.]])
    """
    return look(model, x, head=head, batch_size=batch_size).features


def look(
    model: nn.Module, x: Examples, *, head: str | nn.Module | None = None, batch_size: int = 256
) -> FeaturesAndLogits:
    """phi(x) and f(x) = W phi(x) + b of every example, in one pass.

    The logits are the output of the head, even if the model ends in a softmax and `head` was given.

    >>> net, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> seen = al.kernels.look(net, x)
    >>> seen.features.shape, seen.logits.shape
    (torch.Size([4, 2]), torch.Size([4, 3]))
    """
    pieces = batches(x, batch_size, place_of(model))
    _, layer = find_head(model, x, head)
    found: FeaturesAndLogits | None = None
    done = 0
    with evaluating(model), torch.no_grad(), listening(model, only=layer) as calls:
        for batch in pieces:
            model(batch)
            _, *both = calls.pop()
            if found is None:  # written into at once: a list of pieces would need the room twice
                found = FeaturesAndLogits(*(part.new_empty(count(x), *part.shape[1:]) for part in both))
            for whole, part in zip(found, both, strict=True):
                whole[done : done + len(batch)] = part
            done += len(batch)
    assert found is not None
    return found
