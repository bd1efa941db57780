"""Kernel arrays in, numbers out: what the theory behind NPC, CRC and dynamicAL says about a set of items."""

# Labels against the kernel: convergence and generalisation
from askless.theory.alignment import (
    Bounds,
    alignment,
    convergence_bounds,
    generalisation_bound,
    generalisation_bounds,
    sharp_convergence_bounds,
    sharp_generalisation_bounds,
)

# How fast the loss falls, and what a query adds
from askless.theory.dynamics import (
    approximation_ratio,
    approximation_ratio_from_sums,
    softmax_residual,
    training_dynamics,
)
from askless.theory.inputs import one_hot
from askless.theory.kendall import Agreement, dynamics_alignment_tau

# Training in closed form
from askless.theory.linearised import (
    Curves,
    Minimum,
    linearised_predictions,
    linearised_residuals,
    loss_curves,
    steps_to_loss,
    steps_to_minimum,
)

# First items against all of them
from askless.theory.mmd import mmd, mmd_squared

# Which modes a batch learns
from askless.theory.modes import Modes, modes

# Eigenvalues and step sizes
from askless.theory.spectrum import DescentRate, Spectrum, descent_rate, spectrum

# A network wide enough for the theorems
from askless.theory.wide import Descent, WideReLU, check_descent, wide_relu, wide_relu_kernel

__all__ = [
    "Agreement",
    "Bounds",
    "Curves",
    "Descent",
    "DescentRate",
    "Minimum",
    "Modes",
    "Spectrum",
    "WideReLU",
    "alignment",
    "approximation_ratio",
    "approximation_ratio_from_sums",
    "check_descent",
    "convergence_bounds",
    "descent_rate",
    "dynamics_alignment_tau",
    "generalisation_bound",
    "generalisation_bounds",
    "loss_curves",
    "mmd",
    "mmd_squared",
    "modes",
    "one_hot",
    "sharp_convergence_bounds",
    "sharp_generalisation_bounds",
    "softmax_residual",
    "spectrum",
    "steps_to_loss",
    "steps_to_minimum",
    "linearised_predictions",
    "linearised_residuals",
    "training_dynamics",
    "wide_relu",
    "wide_relu_kernel",
]
