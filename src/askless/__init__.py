"""askless: ask for fewer labels. Give it a pool of unlabelled examples; it says which ones a person should label next,
and trains a classifier on the labelled and the unlabelled data."""

from askless import acquire, data, kernels, learn, linalg, nets, theory
from askless.acquire import (
    ALBL,
    BADGE,
    CRC,
    EGL,
    NPC,
    Confidence,
    Coreset,
    DynamicAL,
    Entropy,
    Margin,
    Random,
    Selection,
    Strategy,
    TypiClust,
    View,
    select,
)
from askless.active import ActiveLearner
from askless.data import Pool
from askless.errors import AsklessError, InputError, ModelError, OptionError
from askless.frozen import Frozen
from askless.learn import DARP, FixMatch, LabelPropagation, MeanTeacher, PiModel, Supervised, darp

__version__ = "0.1.0"

__all__ = [
    # choosing from arrays
    "select",
    "Selection",
    "Strategy",
    "View",
    # the loop: ask, tell, fit
    "ActiveLearner",
    "Pool",
    "Frozen",
    # learners
    "Supervised",
    "FixMatch",
    "DARP",
    "MeanTeacher",
    "PiModel",
    "LabelPropagation",
    "darp",
    # strategies
    "ALBL",
    "BADGE",
    "CRC",
    "EGL",
    "NPC",
    "Confidence",
    "Coreset",
    "DynamicAL",
    "Entropy",
    "Margin",
    "Random",
    "TypiClust",
    # packages
    "acquire",
    "data",
    "kernels",
    "learn",
    "linalg",
    "nets",
    "theory",
    # errors
    "AsklessError",
    "InputError",
    "ModelError",
    "OptionError",
]
