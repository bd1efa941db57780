"""askless: ask for fewer labels. Give it a pool of unlabelled examples; it says which ones a person should label next."""

from askless import acquire, kernels, linalg
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
from askless.errors import AsklessError, InputError, ModelError, OptionError

__version__ = "0.1.0"

__all__ = [
    # choosing from arrays
    "select",
    "Selection",
    "Strategy",
    "View",
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
    "kernels",
    "linalg",
    # errors
    "AsklessError",
    "InputError",
    "ModelError",
    "OptionError",
]
