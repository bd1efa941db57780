"""Strategies: arrays in, selection out. One method per file, named by its paper.

As in `askless` itself, a name is imported when it is first used: who only asks which strategies there are does not wait for
torch.
"""

from typing import TYPE_CHECKING

from askless.acquire.table import STRATEGIES, Info, make
from askless.base.lazy import importer

if TYPE_CHECKING:
    from askless.acquire.albl import ALBL
    from askless.acquire.askless import Askless
    from askless.acquire.badge import BADGE
    from askless.acquire.bald import BALD
    from askless.acquire.batchbald import BatchBALD
    from askless.acquire.coreset import Coreset
    from askless.acquire.crc import CRC
    from askless.acquire.dal import DAL
    from askless.acquire.dynamical import DynamicAL
    from askless.acquire.egl import EGL
    from askless.acquire.npc import NPC
    from askless.acquire.probcover import ProbCover
    from askless.acquire.random import Random
    from askless.acquire.selecting import select
    from askless.acquire.strategy import Selection, Strategy, View, looks_at
    from askless.acquire.two_level import TwoLevel
    from askless.acquire.typiclust import TypiClust
    from askless.acquire.uncertainty import Confidence, Entropy, Margin

__all__ = [
    # the call
    "select",
    "make",
    "STRATEGIES",
    "Info",
    # what goes in and out
    "Selection",
    "Strategy",
    "View",
    "looks_at",
    # the strategies
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
]

__getattr__ = importer(
    __name__,
    {
        "select": "selecting",
        **dict.fromkeys(("Selection", "Strategy", "View", "looks_at"), "strategy"),
        "TwoLevel": "two_level",
        **{row.home.partition(".")[2]: row.home.partition(".")[0] for row in STRATEGIES.values()},
    },
)
