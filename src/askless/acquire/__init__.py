"""Strategies: arrays in, selection out. One method per file, named by its paper."""

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
from askless.acquire.strategy import Selection, Strategy, View, looks_at, uses_history
from askless.acquire.table import STRATEGIES, Info, make
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
    "uses_history",
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
