"""The papers' tables: complete, and with the numbers that were read out of the papers a second time."""

import csv
from importlib.resources import files
from itertools import product

import pytest

from askless.bench.papers import SOURCES, rows

NPC = ["random", "margin", "albl", "badge", "npc"]
CRC = ["random", "entropy", "confidence", "egl", "crc"]
LAYERS = ["crc last layer", "crc all layers"]
GROUPS = ["G = 2", "G = 5", "G = 10", "G = 100"]
DAL = ["random", "margin", "entropy", "coreset", "confidence", "albl", "badge", "dynamical"]
CALTECH = [m for m in DAL if m != "badge"]  # its memory grows with the number of classes, here 101
RETRAINED = ["random", "coreset", "dynamical"]
SPLITS = ["R = 10, b = 100", "R = 4, b = 250", "R = 2, b = 500", "R = 1, b = 1000"]
ROUNDS = [f"round {k}" for k in range(10)]


def labels(first, last, step):
    return [str(n) for n in range(first, last + 1, step)]


# preset -> panel -> (methods, columns)
GRIDS = {
    "npc.table1": {"": (NPC, labels(30, 70, 20))},
    "npc.table2": {"": (NPC, labels(300, 900, 200))},
    "npc.table3": {"zero-shot": (["badge", "npc"], ["40", "60"]), "single-shot": (["badge", "npc"], ["40", "60"])},
    "crc.table1": {
        "random-init first query": (LAYERS, labels(50, 150, 50)),
        "random first query": (LAYERS, labels(100, 200, 50)),
    },
    "crc.table2": {"": (GROUPS, [f"step {k}" for k in range(1, 6)])},
    "crc.table3": {"Q = 50": (CRC, labels(100, 300, 50)), "Q = 100": (CRC, labels(200, 600, 100))},
    "crc.table4": {
        "SVHN": (["random", "crc"], labels(140, 220, 20)),
        "CIFAR-100": (["random", "crc"], labels(250, 400, 50)),
    },
    "dal.table1": {
        pair: (SPLITS, ["1000 labels"])
        for pair in ("CIFAR-10 + CNN", "CIFAR-10 + ResNet", "SVHN + VGG", "Caltech-101 + ResNet")
    },
    **{f"dal.table{t}": {"": (DAL, ROUNDS)} for t in range(2, 8)},
    "dal.table8": {"": (CALTECH, ROUNDS)},
    "dal.table9": {"": (CALTECH, ROUNDS[:5])},
    "dal.table10": {"": (SPLITS, ["MMD/B"])},
    "dal.table11": {"": (RETRAINED, ROUNDS)},
    "dal.table12": {"": (RETRAINED, ROUNDS)},
}
SIZES = {
    "npc.table1": 15, "npc.table2": 20, "npc.table3": 8,
    "crc.table1": 12, "crc.table2": 20, "crc.table3": 50, "crc.table4": 18,
    "dal.table1": 16, "dal.table2": 80, "dal.table3": 80, "dal.table4": 80, "dal.table5": 80, "dal.table6": 80,
    "dal.table7": 80, "dal.table8": 70, "dal.table9": 35, "dal.table10": 4, "dal.table11": 30, "dal.table12": 30,
}  # fmt: skip

# Whole rows, written down apart from the data file: preset, group, method, "mean±sd" (or a mean alone) by column.
ROWS = [
    ("npc.table1", "", "random", "78.08±5.48 91.82±2.30 91.00±2.78"),
    ("npc.table1", "", "margin", "87.36±5.01 90.85±3.64 90.85±3.64"),
    ("npc.table1", "", "albl", "80.61±12.5 89.62±6.66 94.45±.20"),
    ("npc.table1", "", "badge", "80.60±4.46 86.43±1.22 80.32±7.76"),
    ("npc.table1", "", "npc", "85.09±9.61 94.63±.07 94.85±.02"),
    ("npc.table2", "", "random", "37.98±1.89 47.11±1.41 52.69±1.16 57.97±1.43"),
    ("npc.table2", "", "margin", "37.41±1.22 48.21±3.76 52.53±.75 57.03±.39"),
    ("npc.table2", "", "albl", "39.05±.62 49.88±.92 54.23±1.78 56.65±.86"),
    ("npc.table2", "", "badge", "24.55±1.13 25.21±1.86 28.03±1.74 29.81±1.72"),
    ("npc.table2", "", "npc", "40.92±1.65 48.16±.77 55.76±1.45 58.58±.52"),
    ("npc.table3", "zero-shot", "badge", "92.13±3.24 94.42±.41"),
    ("npc.table3", "zero-shot", "npc", "93.14±1.42 93.16±2.34"),
    ("npc.table3", "single-shot", "badge", "86.70±5.42 70.28±13.22"),
    ("npc.table3", "single-shot", "npc", "92.26±3.26 93.76±.58"),
    ("crc.table1", "random-init first query", "crc last layer", "53.12±5.50 67.14±4.28 71.98±4.04"),
    ("crc.table1", "random-init first query", "crc all layers", "50.47 68.25 74.03"),
    ("crc.table1", "random first query", "crc last layer", "78.41±3.16 83.67±3.24 85.67±1.31"),
    ("crc.table1", "random first query", "crc all layers", "71.26±3.92 78.13±4.32 79.10±3.64"),
]

# Columns likewise: preset, group, column, then one cell per method in the order of the table, most without deviation.
COLUMNS = [
    ("crc.table2", "", "step 1", "84.72 82.55 83.38 83.31"),
    ("crc.table2", "", "step 5", "89.44±.59 88.63±.60 89.35±.79 88.63±1.67"),
    ("crc.table3", "Q = 50", "100", "69.81 72.43 52.54 57.18 78.41"),
    ("crc.table3", "Q = 50", "300", "84.92 86.42 53.44 76.67 87.01"),
    ("crc.table3", "Q = 100", "200", "85.04 85.51 77.05 79.95 83.38"),
    ("crc.table3", "Q = 100", "600", "87.37 88.44 75.98 83.55 89.35"),
    ("crc.table4", "SVHN", "140", "56.03 55.01"),
    ("crc.table4", "SVHN", "160", "66.48 64.02"),
    ("crc.table4", "SVHN", "180", "73.46 85.14"),
    ("crc.table4", "SVHN", "200", "89.20 89.89"),
    ("crc.table4", "SVHN", "220", "91.01 91.44"),
    ("crc.table4", "CIFAR-100", "250", "41.45 41.87"),
    ("crc.table4", "CIFAR-100", "300", "44.57 45.27"),
    ("crc.table4", "CIFAR-100", "350", "45.19 47.04"),
    ("crc.table4", "CIFAR-100", "400", "49.35 50.16"),
    ("dal.table1", "CIFAR-10 + CNN", "1000 labels", "36.84 36.72 36.71 36.67"),
    ("dal.table1", "CIFAR-10 + ResNet", "1000 labels", "40.92 40.78 40.46 40.09"),
    ("dal.table1", "SVHN + VGG", "1000 labels", "76.34 75.26 74.10 70.04"),
    ("dal.table1", "Caltech-101 + ResNet", "1000 labels", "37.06 36.48 35.91 33.82"),
    ("dal.table2", "", "round 9", "37.85 38.75 38.29 37.25 38.91 37.57 38.78 38.91"),
    ("dal.table3", "", "round 9", "40.17 41.64 40.71 39.43 41.55 39.95 41.41 41.78"),
    ("dal.table4", "", "round 9", "48.84 49.75 49.46 48.07 49.35 49.45 49.06 50.50"),
    ("dal.table5", "", "round 9", "56.84 57.73 57.29 55.42 57.70 56.67 56.02 58.56"),
    ("dal.table6", "", "round 9", "84.42 88.23 87.11 86.18 87.87 87.89 87.29 88.52"),
    ("dal.table7", "", "round 9", "88.28 91.59 91.25 90.64 91.66 91.41 91.76 91.67"),
    ("dal.table8", "", "round 9", "54.04 55.92 53.05 56.93 54.96 57.99 58.81"),
    ("dal.table9", "", "round 4", "52.77 54.52 54.11 56.15 53.76 56.96 57.52"),
    ("dal.table10", "", "MMD/B", ".004999 .005253 .005367 .005455"),
    ("dal.table11", "", "round 9", "58.08 59.62 60.35"),
    ("dal.table12", "", "round 9", "85.75 85.62 86.57"),
]


def test_every_table_has_a_source_and_the_number_of_its_rows():
    assert {preset: len(rows(preset)) for preset in SOURCES} == SIZES


@pytest.mark.parametrize("preset", SOURCES)
def test_every_table_is_a_complete_grid_in_the_order_of_the_paper(preset):
    grid = [(g, m, c) for g, (methods, columns) in GRIDS[preset].items() for m, c in product(methods, columns)]
    assert [(r.group, r.method, r.column) for r in rows(preset)] == grid


def numbers(cells):
    return [(float(mean), float(sd) if sd else None) for mean, _, sd in (c.partition("±") for c in cells.split())]


@pytest.mark.parametrize(("preset", "group", "method", "cells"), ROWS)
def test_rows_have_the_printed_numbers(preset, group, method, cells):
    assert [(r.mean, r.sd) for r in rows(preset) if (r.group, r.method) == (group, method)] == numbers(cells)


@pytest.mark.parametrize(("preset", "group", "column", "cells"), COLUMNS)
def test_columns_have_the_printed_numbers(preset, group, column, cells):
    ours = [r for r in rows(preset) if (r.group, r.column) == (group, column)]
    for row, (mean, sd) in zip(ours, numbers(cells), strict=True):
        assert row.mean == mean
        assert sd is None or row.sd == sd


def test_a_deviation_is_missing_only_where_the_paper_gives_none():
    missing = {(preset, r.group, r.method) for preset in SOURCES for r in rows(preset) if r.sd is None}
    assert {preset for preset, _, _ in missing} == {"crc.table1", "dal.table1", "dal.table10"}
    assert [key for key in missing if key[0] == "crc.table1"] == [
        ("crc.table1", "random-init first query", "crc all layers")
    ]


def test_the_same_run_printed_twice_has_the_same_numbers():
    """CRC with Q = 50 and G = 5 stands in tables 1 and 3; dynamicAL with R = 4, b = 250 in tables 1 and 2."""
    last = [(r.column, r.mean, r.sd) for r in rows("crc.table1")
            if (r.group, r.method) == ("random first query", "crc last layer")]  # fmt: skip
    crc = [(r.column, r.mean, r.sd) for r in rows("crc.table3") if (r.group, r.method) == ("Q = 50", "crc")]
    assert last == crc[:3]
    [split] = [r.mean for r in rows("dal.table1") if (r.group, r.method) == ("CIFAR-10 + CNN", "R = 4, b = 250")]
    [round_4] = [r.mean for r in rows("dal.table2") if (r.method, r.column) == ("dynamical", "round 4")]
    assert split == round_4


def test_the_data_file_is_part_of_the_package():
    file = files("askless.bench").joinpath("paper_numbers.csv")
    assert file.is_file()
    lines = list(csv.reader(file.read_text(encoding="utf-8").splitlines()))
    assert lines[0] == ["preset", "group", "method", "column", "mean", "sd"]
    assert len(lines) == 1 + sum(SIZES.values())
    assert list(dict.fromkeys(line[0] for line in lines[1:])) == list(SOURCES)


def test_a_figure_has_no_printed_table():
    assert rows("npc.fig1") == ()


# --- what the papers print against themselves; docs/evidence/claims.md tells of it


def mean(preset, group, method, column):
    [found] = [r.mean for r in rows(preset) if (r.group, r.method, r.column) == (group, method, column)]
    return found


def test_margin_of_npc_has_the_same_numbers_at_50_and_at_70_labels():
    cells = {r.column: (r.mean, r.sd) for r in rows("npc.table1") if r.method == "margin"}
    assert cells["50"] == cells["70"] == (90.85, 3.64)


def test_the_chance_of_missing_the_best_batches_is_printed_for_that_of_finding_one():
    """NPC, section 3.4: of 1,000 random batches none is among the best hundredth with probability .99^1000."""
    found = 0.99**1000
    assert found == pytest.approx(4.3e-5, rel=0.01)  # printed as the probability that one is


def test_three_plans_of_dynamical_have_other_numbers_in_its_table_1_than_in_tables_3_8_and_9():
    printed = {
        ("CIFAR-10 + CNN", "R = 2, b = 500"): ("dal.table3", "round 2", 36.71, 36.78),
        ("Caltech-101 + ResNet", "R = 2, b = 500"): ("dal.table8", "round 2", 35.91, 36.14),
        ("Caltech-101 + ResNet", "R = 1, b = 1000"): ("dal.table9", "round 1", 33.82, 33.83),
        ("CIFAR-10 + ResNet", "R = 2, b = 500"): ("dal.table4", "round 2", 40.46, 40.46),  # and these agree
        ("CIFAR-10 + ResNet", "R = 1, b = 1000"): ("dal.table5", "round 1", 40.09, 40.09),
        ("SVHN + VGG", "R = 2, b = 500"): ("dal.table6", "round 2", 74.10, 74.10),
        ("SVHN + VGG", "R = 1, b = 1000"): ("dal.table7", "round 1", 70.04, 70.04),
    }
    for (group, plan), (table, column, here, there) in printed.items():
        assert mean("dal.table1", group, plan, "1000 labels") == here
        assert mean(table, "", "dynamical", column) == there


def test_dynamical_leads_in_51_of_its_67_rounds_and_not_in_all():
    lead = {}
    for n in range(2, 10):
        table = [r for r in rows(f"dal.table{n}") if r.column != "round 0"]
        for column in dict.fromkeys(r.column for r in table):
            others = max(r.mean for r in table if r.column == column and r.method != "dynamical")
            lead[n, column] = mean(f"dal.table{n}", "", "dynamical", column) > others
    assert (sum(lead.values()), len(lead)) == (51, 67)
    assert not any(led for (table, _), led in lead.items() if table == 7)


def test_crc_has_its_runs_of_table_2_a_hundredth_higher_in_table_3():
    ten = [r.mean for r in rows("crc.table2") if r.method == "G = 10"]
    again = [r.mean for r in rows("crc.table3") if (r.group, r.method) == ("Q = 100", "crc")]
    assert [round(b - a, 2) for a, b in zip(ten, again, strict=True)] == [0.0, 0.0, 0.01, 0.01, 0.0]
