"""Layers by their rules and everything else by whole gradients, chosen so that the numbers are right."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from askless.base.errors import ModelError, first_line
from askless.kernels import reference
from askless.kernels.inputs import Examples, place_of, spread
from askless.kernels.layer_rules import given
from askless.kernels.logits import Labelling, count_classes, cross_entropy, least_likely, logits_of
from askless.kernels.one_pass import Irregular, Sums, one_pass
from askless.kernels.per_example import GradientRows, gradient_rows
from askless.kernels.reference import tolerance, trainable
from askless.kernels.survey import Site, survey

logger = logging.getLogger(__name__)

ROOM = 2**24  # numbers in the whole gradients held at a time
CHECKED = 6  # examples that a route is compared with autograd on


@dataclass(frozen=True)
class Route:
    """How the parameters of one model are taken."""

    classes: int
    sites: tuple[Site, ...]  # layers with rules
    other: dict[str, nn.Parameter]  # the rest
    whole: GradientRows | None  # gradients over the rest
    channels_last: bool = False  # whether the layers with rules get the batch in this layout


def choose_route(model: nn.Module, x: Examples) -> Route:
    """The rules wherever they can be used, if they then reproduce plain autograd on a few examples from all over x."""
    few = spread(x, CHECKED, place_of(model))  # (k, ...)
    # The first two come again at the end: such rows are not in order by any key, nor the same from the back, so that a
    # network that sorts or turns its rows inside cannot leave these as they are.
    turn = torch.arange(len(few) + 2) % len(few)
    trial = few[turn]  # (k + 2, ...)
    classes = count_classes(model, trial[:2])
    if classes < 2:
        raise ModelError("expected a model with a logit for each class, got a single one; give a binary model two")
    # Two lengths tell the axis of the examples from one that happens to be as long.
    sites, other = survey(model, [trial[:2], trial[:3]])
    route = _route(model, sites, other, trial[:2])
    if in_channels_last(model, route, few, turn):
        return replace(route, channels_last=True)
    if not sites or agrees(model, route, few, turn):
        return route
    logger.warning("the layer rules disagree with autograd on this model; using whole gradients, exact but slower")
    return _route(model, (), tuple(trainable(model)), trial[:2])


def sums_by_batch(
    model: nn.Module, route: Route, batches: Iterable[tuple[Tensor, Labelling]], along: Mapping[str, Tensor] | None
) -> Iterator[Sums]:
    """`all_sums` of each batch; by whole gradients from the first batch on that a layer does not take as a whole."""
    for batch, labelling in batches:
        try:
            sums = all_sums(model, route, batch, labelling, along)
        except Irregular as reason:
            logger.warning("%s; using whole gradients, exact but slower", reason)
            route = _route(model, (), tuple(trainable(model)), batch[:2])
            sums = all_sums(model, route, batch, labelling, along)
        yield sums


def all_sums(
    model: nn.Module, route: Route, batch: Tensor, labelling: Labelling, along: Mapping[str, Tensor] | None
) -> Sums:
    """||g||^2 and g . G over all trainable parameters, for the labels that `labelling` gives."""
    sums = one_pass(model, route.sites, arranged(route, batch), labelling, along)
    if route.whole is None:
        return sums
    G = None if along is None else torch.cat([along[name].flatten() for name in route.other])  # (P,)
    few = max(1, ROOM // sum(p.numel() for p in route.other.values()))
    for column in range(sums.labels.shape[1]):
        for start in range(0, len(batch), few):
            at = slice(start, start + few)
            sq, dot = given(route.whole(batch[at], sums.labels[at, column]), G)
            sums.sq[at, column] += sq
            if sums.dot is not None and dot is not None:
                sums.dot[at, column] += dot
    return sums


def arranged(route: Route, batch: Tensor) -> Tensor:
    """The batch in the layout of the route; a ReLU near zero may turn with the rounding of another layout."""
    return batch.contiguous(memory_format=torch.channels_last) if route.channels_last else batch


def agrees(model: nn.Module, route: Route, few: Tensor, turn: Tensor) -> bool:
    """Whether the route's numbers for the batch few[turn] are those of plain autograd on each of the few alone."""
    parameters, few = trainable(model), arranged(route, few)
    logits = logits_of(model, few)
    labels = least_likely(logits)  # (k, 1)
    # One at a time, to hold two at most.
    gradient = partial(reference.gradient_by_name, model, parameters, cross_entropy)
    along = gradient(few[0], labels[0, 0])
    try:
        sums = all_sums(model, route, few[turn], lambda _: labels[turn], along)
    except Irregular:
        return False
    exact = [_numbers(gradient(x, label), along) for x, label in zip(few, labels[:, 0], strict=True)]
    sq, dot = (torch.stack(column)[turn] for column in zip(*exact, strict=True))  # (k,) -> (k + 2,)
    assert sums.dot is not None
    near = tolerance(model, logits)
    right_sq = (sums.sq[:, 0] - sq).abs() <= near * sq
    right_dot = (sums.dot[:, 0] - dot).abs() <= near * (sq * sq[0]).sqrt()  # ||g|| ||G||, G that of the first
    return bool((right_sq & right_dot).all())


def _numbers(g: Mapping[str, Tensor], G: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """||g||^2 and g . G over all of these tensors, without making one of them."""
    pieces = [given(g[name][None], G[name]) for name in G]
    return torch.cat([sq for sq, _ in pieces]).sum(), torch.cat([dot for _, dot in pieces if dot is not None]).sum()


def in_channels_last(model: nn.Module, route: Route, few: Tensor, turn: Tensor) -> bool:
    """Whether `route` agrees also with images laid out pixel by pixel, all channels of a pixel together.

    On a processor convolutions are then a fifth faster on the way there and back, and patches are copied in long pieces.
    Some networks cannot take it: `x.view(n, -1)` refuses what `x.flatten(1)` copies.
    """
    convolves = any(isinstance(site.layer, nn.Conv2d) for site in route.sites)
    if few.ndim != 4 or few.device.type != "cpu" or not convolves:
        return False
    route = replace(route, channels_last=True)
    try:
        there, here = logits_of(model, arranged(route, few)), logits_of(model, few)
        same = bool((there - here).norm() <= tolerance(model, here) * here.norm())
        return same and agrees(model, route, few, turn)
    except RuntimeError as error:
        logger.info("this model cannot take channels last (%s)", first_line(error))
        return False


def _route(model: nn.Module, sites: tuple[Site, ...], other: tuple[str, ...], first: Tensor) -> Route:
    """The route over these, its whole gradients by the way that is right for the `first` examples."""
    logits = logits_of(model, first)
    chosen = {name: p for name, p in trainable(model).items() if name in other}
    labels = least_likely(logits)[:, 0]
    whole = gradient_rows(model, chosen, cross_entropy, first, labels) if chosen else None
    return Route(logits.shape[1], sites, chosen, whole)
