"""Strategies: arrays in, selection out. One method per file, named by its paper.

As in `askless` itself, a name is imported when it is first used: who only asks which strategies there are does not wait for
torch.
"""

from typing import TYPE_CHECKING

from askless.acquire.table import STRATEGIES, Info, Name, as_strategy, make
from askless.base.lazy import lazily

if TYPE_CHECKING:
    from askless.acquire.albl import ALBL as ALBL
    from askless.acquire.alfamix import ALFAMix as ALFAMix
    from askless.acquire.askless import Askless as Askless
    from askless.acquire.badge import BADGE as BADGE
    from askless.acquire.bait import BAIT as BAIT
    from askless.acquire.bald import BALD as BALD
    from askless.acquire.batchbald import BatchBALD as BatchBALD
    from askless.acquire.clustermargin import ClusterMargin as ClusterMargin
    from askless.acquire.coreset import Coreset as Coreset
    from askless.acquire.crc import CRC as CRC
    from askless.acquire.dal import DAL as DAL
    from askless.acquire.dcom import DCoM as DCoM
    from askless.acquire.direct import DIRECT as DIRECT
    from askless.acquire.dropquery import DropQuery as DropQuery
    from askless.acquire.dynamical import DynamicAL as DynamicAL
    from askless.acquire.egl import EGL as EGL
    from askless.acquire.lookahead import LookAhead as LookAhead
    from askless.acquire.maxherding import MaxHerding as MaxHerding
    from askless.acquire.npc import NPC as NPC
    from askless.acquire.probcover import ProbCover as ProbCover
    from askless.acquire.random import Random as Random
    from askless.acquire.refine import Refine as Refine
    from askless.acquire.selecting import select as select
    from askless.acquire.strategy import Selection as Selection
    from askless.acquire.strategy import Strategy as Strategy
    from askless.acquire.strategy import View as View
    from askless.acquire.strategy import looks_at as looks_at
    from askless.acquire.strategy import uses_history as uses_history
    from askless.acquire.stream import Stream as Stream
    from askless.acquire.tcm import TCM as TCM
    from askless.acquire.two_level import TwoLevel as TwoLevel
    from askless.acquire.typiclust import TypiClust as TypiClust
    from askless.acquire.uherding import UHerding as UHerding
    from askless.acquire.uncertainty import Confidence as Confidence
    from askless.acquire.uncertainty import Entropy as Entropy
    from askless.acquire.uncertainty import Margin as Margin

_HOMES = {  # where each name lives
    "select": "selecting",
    **dict.fromkeys(("Selection", "Strategy", "View", "looks_at", "uses_history"), "strategy"),
    "Stream": "stream",
    "TwoLevel": "two_level",
    **{row.home.partition(".")[2]: row.home.partition(".")[0] for row in STRATEGIES.values()},
}
__all__ = ["STRATEGIES", "Info", "Name", "as_strategy", "make", *_HOMES]
__getattr__, __dir__ = lazily(__name__, _HOMES)
