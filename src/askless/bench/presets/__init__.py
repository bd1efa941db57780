"""Every table and figure of the three papers, the tables of our own strategy and learner, the race of all strategies, and
outlooks of papers, as benchmarks that can be run at three scales."""

from askless.base.errors import OptionError, unknown
from askless.bench.plan import Benchmark
from askless.bench.presets import crc, dynamical, learners, npc, outlooks, own, race
from askless.bench.presets.common import Preset

PRESETS: dict[str, Preset] = {
    p.name: p
    for p in (
        *npc.PRESETS,
        *crc.PRESETS,
        *dynamical.PRESETS,
        *own.PRESETS,
        *learners.PRESETS,
        *race.PRESETS,
        *outlooks.PRESETS,
    )
}


def preset(name: str, scale: str = "small") -> Benchmark:
    """The benchmark of a table or figure, such as "npc.table1", at a scale: "full" (the paper's own protocol), "small"
    (minutes to an hour on 2 cores, hours for "race.*" and ablations) or "smoke" (seconds to minutes).

    An unknown name raises OptionError.

    >>> len(preset("npc.table1", "smoke").rows)
    5
    """
    if name not in PRESETS:
        raise OptionError(unknown("preset", name, PRESETS))
    return PRESETS[name].make(scale)


__all__ = ["PRESETS", "Preset", "preset"]
