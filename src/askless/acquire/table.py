"""The strategies by name."""

from typing import Any, NamedTuple

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
from askless.acquire.strategy import Strategy
from askless.acquire.typiclust import TypiClust
from askless.acquire.uncertainty import Confidence, Entropy, Margin
from askless.base.errors import OptionError, unknown


class Info(NamedTuple):
    """A row of the table that `askless strategies` prints."""

    make: type
    paper: str
    cost: str


# N items of which L are labelled, n picks, d features, C classes, K passes with dropout, m draws, r = min(L + n, d + 1)
STRATEGIES: dict[str, Info] = {
    "askless": Info(Askless, "this project; herding, Bae et al. 2024, 2025", "N T d, T = min(N, 8192)"),
    "random": Info(Random, "-", "n"),
    "confidence": Info(Confidence, "Lewis & Gale 1994", "N C"),
    "margin": Info(Margin, "Scheffer et al. 2001", "N C"),
    "entropy": Info(Entropy, "Shannon; Settles 2009", "N C"),
    "coreset": Info(Coreset, "Sener & Savarese 2018", "N d (L + n)"),
    "badge": Info(BADGE, "Ash et al. 2020", "N (C + d) n"),
    "egl": Info(EGL, "Settles et al. 2008", "N (C + d)"),
    "npc": Info(NPC, "Kong et al. 2023", "m d n^2, and ln m times r^3"),
    "crc": Info(CRC, "CRC, ICLR 2021 submission", "(N / group) r^3"),
    "dynamical": Info(DynamicAL, "Wang et al. 2022", "N"),
    "albl": Info(ALBL, "Hsu & Lin 2015", "that of its arms"),
    "typiclust": Info(TypiClust, "Hacohen et al. 2022", "N d (L + n), and neighbours inside clusters"),
    "probcover": Info(ProbCover, "Yehuda et al. 2022", "N T d, T = min(N, 8192)"),
    "bald": Info(BALD, "Houlsby et al. 2011; Gal et al. 2017", "N K C, and K passes"),
    "batchbald": Info(BatchBALD, "Kirsch et al. 2019", "N K C, n m K C, and K passes"),
    "dal": Info(DAL, "Gissin & Shalev-Shwartz 2019", "N d, and some trainings of a small classifier"),
}


def make(name: str, /, **options: Any) -> Strategy:
    """The strategy called `name` with these options.

    >>> make("npc", draws=500).draws
    500
    """
    if name not in STRATEGIES:
        raise OptionError(unknown("strategy", name, STRATEGIES))
    return STRATEGIES[name].make(**options)
