"""A network and inputs in; features, gradient numbers and kernels out. Nothing else differentiates for selection."""

# Parts of a kernel, for groups of items
from askless.kernels.blocks import group_blocks

# Passes that differ, by dropout
from askless.kernels.dropout import check_dropout, probs_by_pass

# What the head sees
from askless.kernels.features import FeaturesAndLogits, features, look

# Gradients over the whole network, per example
from askless.kernels.gradients import GradientStats, gradient_sq_by_class, gradient_stats
from askless.kernels.head import find_head

# Kernels of infinitely wide networks, without a network
from askless.kernels.infinite import infinite
from askless.kernels.infinite_features import infinite_features
from askless.kernels.infinite_nets import InfiniteCNN, InfiniteMLP

# Kernels, exact and sketched
from askless.kernels.ntk import ntk
from askless.kernels.projection import gradient_features

# Slow and obviously right
from askless.kernels.reference import jacobian, loss_gradients

__all__ = [
    "FeaturesAndLogits",
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
