"""Layers by their rules and everything else by whole gradients, chosen so that the numbers are right."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from askless.errors import ModelError
from askless.kernels import reference
from askless.kernels.inputs import Examples, place_of, rows, some
from askless.kernels.layer_rules import given
from askless.kernels.logits import Labelling, class_logits, cross_entropy, least_likely
from askless.kernels.one_pass import Sums, one_pass
from askless.kernels.per_example import GradientRows, gradient_rows
from askless.kernels.reference import tolerance, trainable
from askless.kernels.survey import Site, survey

logger = logging.getLogger(__name__)

ROOM = 2**24  # numbers in the whole gradients held at a time


@dataclass(frozen=True)
class Route:
    """How the parameters of one model are taken."""

    classes: int
    sites: tuple[Site, ...]  # layers with rules
    other: dict[str, nn.Parameter]  # the rest
    whole: GradientRows | None  # gradients over the rest


def choose_route(model: nn.Module, x: Examples) -> Route:
    """The rules wherever they can be used, if they then reproduce plain autograd on the first two examples."""
    first = rows(x, 0, min(2, some(x)), place_of(model))
    with torch.no_grad():
        logits = class_logits(model(first))
    if logits.shape[1] < 2:
        raise ModelError("expected a model with a logit for each class, got a single one; give a binary model two")
    # Two lengths tell the axis of the examples from one that happens to be as long.
    sites, other = survey(model, [first[:1].expand(k, *first.shape[1:]).contiguous() for k in (2, 3)])
    route = _route(model, sites, other, first, logits)
    if not sites or agrees(model, route, first, least_likely(logits)[:, 0]):
        return route
    logger.warning("the layer rules disagree with autograd on this model; using whole gradients, exact but slower")
    return _route(model, (), tuple(trainable(model)), first, logits)


def all_sums(
    model: nn.Module, route: Route, batch: Tensor, labelling: Labelling, along: Mapping[str, Tensor] | None
) -> Sums:
    """||g||^2 and g . G over all trainable parameters, for the labels that `labelling` gives."""
    sums = one_pass(model, route.sites, batch, labelling, along)
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


def agrees(model: nn.Module, route: Route, batch: Tensor, labels: Tensor) -> bool:
    """Whether the route's numbers are those of plain autograd on these few examples, with G the sum of their g."""
    parameters = trainable(model)
    g = reference.gradients(model, parameters, cross_entropy, batch, labels)  # (n, P)
    G = g.sum(0)  # (P,)
    pieces = G.split([p.numel() for p in parameters.values()])
    along = {name: piece.view_as(p) for (name, p), piece in zip(parameters.items(), pieces, strict=True)}
    sums = all_sums(model, route, batch, lambda _: labels[:, None], along)
    sq, dot = given(g, G)
    assert sums.dot is not None
    assert dot is not None
    near = tolerance(g.dtype)
    right_sq = (sums.sq[:, 0] - sq).abs() <= near * sq
    right_dot = (sums.dot[:, 0] - dot).abs() <= near * sq.sqrt() * G.norm()
    return bool((right_sq & right_dot).all())


def _route(model: nn.Module, sites: tuple[Site, ...], other: tuple[str, ...], first: Tensor, logits: Tensor) -> Route:
    chosen = {name: p for name, p in trainable(model).items() if name in other}
    labels = least_likely(logits)[:, 0]
    whole = gradient_rows(model, chosen, cross_entropy, first, labels) if chosen else None
    return Route(logits.shape[1], sites, chosen, whole)
