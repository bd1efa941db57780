"""What comes out of a network: logits, and the labels they are compared with."""

from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from askless.base.errors import InputError, ModelError, first_line

Labelling = Callable[[Tensor], Tensor]  # logits (n, C) -> m labels for each example, (n, m)


def class_logits(output: Any) -> Tensor:
    """The model's output, once it is known to be logits (n, C)."""
    if not isinstance(output, Tensor):
        raise ModelError(
            f"expected the model to return logits (n, classes), got {described(output)}; "
            "wrap it in a module whose forward returns the logits only"
        )
    if output.ndim != 2:
        raise ModelError(
            f"expected the model to return logits (n, classes), got shape {tuple(output.shape)}; "
            "flatten or pool inside the model"
        )
    return output


def output_of(model: nn.Module, batch: Tensor) -> Any:
    """What the model makes of examples, or an error that says that a layer of torch cannot take them."""
    try:
        return model(batch)
    except RuntimeError as error:
        if not extract_tb(error.__traceback__)[-1].filename.startswith(str(Path(torch.__file__).parent)):
            raise  # the model's own
        raise ModelError(
            f"expected examples that the model can take, got {batch.dtype} of shape {tuple(batch.shape[1:])} each "
            f"({first_line(error)}); pass x as the model takes it"
        ) from error


@torch.no_grad()
def logits_of(model: nn.Module, batch: Tensor) -> Tensor:
    """f(x), (n, C), without a gradient."""
    return class_logits(model(batch))


@torch.no_grad()
def count_classes(model: nn.Module, batch: Tensor) -> int:
    """C, from the first look at a model: what is wrong with it or its examples comes out here."""
    return class_logits(output_of(model, batch)).shape[1]


def described(output: Any) -> str:
    """A type, and what it holds."""
    if isinstance(output, dict):
        return f"a dict with keys {sorted(map(str, output))}"
    if isinstance(output, tuple | list):
        return f"a {type(output).__name__} of {len(output)}"
    return f"an object of type {type(output).__name__}"


@torch.no_grad()
def probabilities(model: nn.Module, x: Tensor, batch_size: int = 512) -> np.ndarray:
    """softmax of the model's logits in eval mode, (n, C) float64, for inputs as the model takes them."""
    was = model.training
    model.eval()
    try:
        device = next(model.parameters()).device
        parts = [class_logits(model(part.to(device))).double().softmax(dim=1).cpu() for part in x.split(batch_size)]
    finally:
        model.train(was)
    return torch.cat(parts).numpy()


def cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """CE(f, y) = log sum_c exp f_c - f_y, summed over the examples. (n, C), (n,) or (C,), () -> ()."""
    return F.cross_entropy(logits, label, reduction="sum")


def one_logit(logits: Tensor, label: Tensor) -> Tensor:
    """f_y. (C,), () -> (); by gather, since indexing by a tensor would leave vmap."""
    return logits.gather(0, label[None])[0]


def as_labels(labels: Any, n: int, classes: int) -> Tensor:
    """Labels as (n,) int64, each in 0..classes-1."""
    y = labels.detach().cpu() if isinstance(labels, Tensor) else torch.from_numpy(np.array(labels))
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or y.shape != (n,):
        raise InputError(
            f"expected {n} whole-number labels, one per example, got {y.dtype} of shape {tuple(y.shape)}; "
            "pass class numbers, or None for pseudo labels"
        )
    if n and not (int(y.min()) >= 0 and int(y.max()) < classes):
        raise InputError(
            f"expected labels in 0..{classes - 1}, the model's classes, got {int(y.min())}..{int(y.max())}; "
            "renumber the classes or widen the head"
        )
    return y.long()


def pseudo_label(logits: Tensor) -> Tensor:
    """argmax f, (n, 1)."""
    return logits.argmax(1, keepdim=True)


def least_likely(logits: Tensor) -> Tensor:
    """argmin f, (n, 1): its loss gradient is never small, so that rounding does not blur a comparison."""
    return logits.argmin(1, keepdim=True)


def every_class(logits: Tensor) -> Tensor:
    """0..C-1 for each example, (n, C)."""
    return torch.arange(logits.shape[1], device=logits.device).expand(logits.shape)


def known(y: Tensor | None, start: int, n: int) -> Labelling:
    """y[start], ..., y[start + n - 1], (n, 1); the pseudo label where y is None."""
    if y is None:
        return pseudo_label
    return lambda logits: y[start : start + n, None].to(logits.device)
