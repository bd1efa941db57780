"""A network and inputs in; features, gradient numbers and kernels out. Nothing else differentiates for selection."""

from askless.kernels.blocks import group_blocks
from askless.kernels.dropout import check_dropout, probs_by_pass
from askless.kernels.features import features, look
from askless.kernels.gradients import GradientStats, gradient_sq_by_class, gradient_stats
from askless.kernels.head import find_head
from askless.kernels.infinite import infinite
from askless.kernels.infinite_features import infinite_features
from askless.kernels.infinite_nets import InfiniteCNN, InfiniteMLP
from askless.kernels.ntk import ntk
from askless.kernels.projection import gradient_features
from askless.kernels.reference import jacobian, loss_gradients

__all__ = [
    "GradientStats",
    "InfiniteCNN",
    "InfiniteMLP",
    "check_dropout",
    "features",
    "find_head",
    "gradient_features",
    "gradient_sq_by_class",
    "gradient_stats",
    "group_blocks",
    "infinite",
    "infinite_features",
    "jacobian",
    "look",
    "loss_gradients",
    "ntk",
    "probs_by_pass",
]
