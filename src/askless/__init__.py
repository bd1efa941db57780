"""askless: ask for fewer labels. Give it a pool of unlabelled examples: it picks those that a person should label next,
and trains a classifier on the labelled and the unlabelled data.

The names below are imported on first use: torch takes seconds to import, and the labelling page and `askless --help` do
not need it.
"""

from typing import TYPE_CHECKING

from askless.base.lazy import lazily

if TYPE_CHECKING:
    from askless import acquire, data, kernels, learn, linalg, nets, theory, track
    from askless.acquire import (
        ALBL,
        BADGE,
        BAIT,
        BALD,
        CRC,
        DAL,
        DIRECT,
        EGL,
        NPC,
        TCM,
        ALFAMix,
        Askless,
        BatchBALD,
        ClusterMargin,
        Confidence,
        Coreset,
        DCoM,
        DropQuery,
        DynamicAL,
        Entropy,
        LookAhead,
        Margin,
        MaxHerding,
        ProbCover,
        Random,
        Refine,
        Selection,
        Strategy,
        Stream,
        TwoLevel,
        TypiClust,
        UHerding,
        View,
        select,
        testing,
    )
    from askless.active.classifier import ActiveClassifier
    from askless.active.embedding import embed
    from askless.active.learner import ActiveLearner
    from askless.base.errors import AsklessError, InputError, ModelError, OptionError
    from askless.data import Pool
    from askless.features.frozen import Frozen
    from askless.features.text_backbone import embed_texts
    from askless.learn import DARP, Auto, FixMatch, LabelPropagation, MeanTeacher, PiModel, Supervised
    from askless.learn.darp import darp
    from askless.models import load
    from askless.run import Run
    from askless.sources.shards import open_shards

__version__ = "0.2.0"

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
    "Auto",
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
    # items that are seen once
    "Stream",
    # strategies
    "ALBL",
    "BADGE",
    "BAIT",
    "BALD",
    "CRC",
    "DAL",
    "DIRECT",
    "EGL",
    "NPC",
    "TCM",
    "ALFAMix",
    "Askless",
    "BatchBALD",
    "ClusterMargin",
    "Confidence",
    "Coreset",
    "DCoM",
    "DropQuery",
    "DynamicAL",
    "Entropy",
    "LookAhead",
    "Margin",
    "MaxHerding",
    "ProbCover",
    "Random",
    "Refine",
    "TwoLevel",
    "TypiClust",
    "UHerding",
    # packages
    "acquire",
    "data",
    "kernels",
    "learn",
    "linalg",
    "nets",
    "testing",
    "theory",
    "track",
    # errors
    "AsklessError",
    "InputError",
    "ModelError",
    "OptionError",
]

__getattr__, __dir__ = lazily(  # where each name lives
    __name__,
    {
        **dict.fromkeys(__all__, "acquire"),
        **{name: name for name in ("acquire", "data", "kernels", "learn", "linalg", "nets", "theory", "track")},
        **dict.fromkeys(("AsklessError", "InputError", "ModelError", "OptionError"), "base.errors"),
        **dict.fromkeys(
            ("Auto", "DARP", "FixMatch", "LabelPropagation", "MeanTeacher", "PiModel", "Supervised", "darp"), "learn"
        ),
        "ActiveClassifier": "active.classifier",
        "ActiveLearner": "active.learner",
        "Frozen": "features.frozen",
        "Pool": "data",
        "Run": "run",
        "embed": "active.embedding",
        "embed_texts": "features.text_backbone",
        "load": "models",
        "open_shards": "sources.shards",
        "testing": "acquire.testing",
    },
)
