"""The numbers that the papers print, as they print them: every table of NPC, CRC and dynamicAL."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_SD = "accuracy in % ± standard deviation"
_CIFAR10 = "CRC, table {}: CIFAR-10, WRN-28-2, FixMatch ({}), " + _SD + " over 3 trials"
_C10_BALANCED = "; for reference, the implementation has 87.33 % with 25 balanced labels per class"
_ROUNDS = "dynamicAL, table {}: {} (initial set 500, b = {}), " + _SD

SOURCES = {
    "npc.table1": f"NPC, table 1: CIFAR-10 (Q0 = 10, Q = 20), {_SD}, initial model 57.64 %",
    "npc.table2": f"NPC, table 2: CIFAR-100 (Q0 = 100, Q = 200), {_SD}, initial model 21.29 %",
    "npc.table3": f"NPC, table 3: CIFAR-10, a single query of Q = 30 or 50, {_SD}; for reference, FixMatch without DARP is "
    "reported to have 86.19 % with 40 balanced labels",
    "crc.table1": _CIFAR10.format(1, "Q = 50, G = 5")
    + ", one trial for all layers after a random-init first query"
    + _C10_BALANCED,
    "crc.table2": _CIFAR10.format(2, "Q = 100, random first query") + _C10_BALANCED,
    "crc.table3": _CIFAR10.format(3, "random first query, G = Q/10") + _C10_BALANCED,
    "crc.table4": "CRC, table 4: SVHN with Mean Teacher (Q = 20), CIFAR-100 with FixMatch (Q = 50), "
    f"{_SD} over 3 trials; for reference, with balanced labels the implementations have 93.52 % on SVHN (100 per class) and "
    "48.96 % on CIFAR-100 (the paper: 40 per class; LeeDoYup's number for 4 per class)",
    "dal.table1": "dynamicAL, table 1: a budget of 1000 labels in R rounds of b, accuracy in %",
    "dal.table2": _ROUNDS.format(2, "CIFAR-10, CNN", 250) + " over 5 runs",
    "dal.table3": _ROUNDS.format(3, "CIFAR-10, CNN", 500) + " over 5 runs",
    "dal.table4": _ROUNDS.format(4, "CIFAR-10, ResNet-18", 500) + " over 5 runs",
    "dal.table5": _ROUNDS.format(5, "CIFAR-10, ResNet-18", 1000) + " over 5 runs",
    "dal.table6": _ROUNDS.format(6, "SVHN, VGG-11", 500) + " over 5 runs",
    "dal.table7": _ROUNDS.format(7, "SVHN, VGG-11", 1000) + " over 5 runs",
    "dal.table8": _ROUNDS.format(8, "Caltech-101, ResNet-18", 500) + " over 5 runs",
    "dal.table9": _ROUNDS.format(9, "Caltech-101, ResNet-18", 1000) + " over 5 runs",
    "dal.table10": "dynamicAL, table 10: MMD/B for a budget of 1000 labels in R rounds of b",
    "dal.table11": _ROUNDS.format(11, "CIFAR-10, ResNet-18, retrained from scratch", 500),
    "dal.table12": _ROUNDS.format(12, "SVHN, VGG-11, retrained from scratch", 500),
}


class PaperRow(NamedTuple):
    """One printed number: of `method`, under the heading `column` of the panel `group`; `sd` is None where the paper gives
    none."""

    group: str
    method: str
    column: str
    mean: float
    sd: float | None


def rows(preset: str) -> tuple[PaperRow, ...]:
    """The table of a preset, in the order of the paper: by group, then method, then column; empty where none is printed.

    >>> rows("npc.table1")[-1]
    PaperRow(group='', method='npc', column='70', mean=94.85, sd=0.02)
    """
    return tuple(
        PaperRow(r["group"], r["method"], r["column"], float(r["mean"]), float(r["sd"]) if r["sd"] else None)
        for r in _lines()
        if r["preset"] == preset
    )


@cache
def _lines() -> list[dict[str, str]]:
    text = files("askless.bench").joinpath("paper_numbers.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
