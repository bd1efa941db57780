"""askless: ask for fewer labels. Give it a pool of unlabelled examples; it says which ones a person should label next,
and trains a classifier on the labelled and the unlabelled data.

The names below are imported when they are first used: torch takes seconds, which the labelling page and `askless --help`
do without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from askless import acquire, data, kernels, learn, linalg, nets, theory, track
    from askless.acquire import (
        ALBL,
        BADGE,
        BALD,
        CRC,
        DAL,
        EGL,
        NPC,
        Askless,
        BatchBALD,
        Confidence,
        Coreset,
        DynamicAL,
        Entropy,
        Margin,
        ProbCover,
        Random,
        Selection,
        Strategy,
        TwoLevel,
        TypiClust,
        View,
        select,
    )
    from askless.active.classifier import ActiveClassifier
    from askless.active.embedding import embed
    from askless.active.learner import ActiveLearner
    from askless.base.errors import AsklessError, InputError, ModelError, OptionError
    from askless.data import Pool
    from askless.features.frozen import Frozen
    from askless.features.text_backbone import embed_texts
    from askless.learn import DARP, FixMatch, LabelPropagation, MeanTeacher, PiModel, Supervised
    from askless.learn.darp import darp
    from askless.run import Run, load
    from askless.sources.shards import open_shards

__version__ = "0.1.0"

__all__ = [
    # choosing from arrays
    "select",
    "Selection",
    "Strategy",
    "View",
    # the loop: ask, tell, fit
    "ActiveLearner",
    "ActiveClassifier",
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
    # a labelling project on disk, and its model
    "Run",
    "load",
    # texts, seen by a frozen backbone
    "embed_texts",
    # pools that do not fit in memory
    "embed",
    "open_shards",
    # strategies
    "ALBL",
    "BADGE",
    "BALD",
    "CRC",
    "DAL",
    "EGL",
    "NPC",
    "Askless",
    "BatchBALD",
    "Confidence",
    "Coreset",
    "DynamicAL",
    "Entropy",
    "Margin",
    "ProbCover",
    "Random",
    "TwoLevel",
    "TypiClust",
    # packages
    "acquire",
    "data",
    "kernels",
    "learn",
    "linalg",
    "nets",
    "theory",
    "track",
    # errors
    "AsklessError",
    "InputError",
    "ModelError",
    "OptionError",
]

_PACKAGES = ("acquire", "data", "kernels", "learn", "linalg", "nets", "theory", "track")
_HOME = {  # where a name lives
    **dict.fromkeys(("ActiveLearner",), "active.learner"),
    **dict.fromkeys(("ActiveClassifier",), "active.classifier"),
    **dict.fromkeys(("Pool",), "data"),
    **dict.fromkeys(("AsklessError", "InputError", "ModelError", "OptionError"), "base.errors"),
    "Frozen": "features.frozen",
    "embed_texts": "features.text_backbone",
    **dict.fromkeys(("embed",), "active.embedding"),
    **dict.fromkeys(("open_shards",), "sources.shards"),
    **dict.fromkeys(("Run", "load"), "run"),
    **dict.fromkeys(("DARP", "FixMatch", "LabelPropagation", "MeanTeacher", "PiModel", "Supervised", "darp"), "learn"),
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"askless.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'askless' has no attribute {name!r}")
    value = getattr(import_module(f"askless.{_HOME.get(name, 'acquire')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
