"""Benchmarks: strategies on data with known labels, paired by seed, with statistics and a report.

A benchmark is rows x seeds in plain Python; `run` computes its cells and `report.write` turns them into tables and pictures.
"""

from askless.bench.plan import Along, Benchmark, Data, Measure, Moment, Row, Sample, Successor
from askless.bench.presets import PRESETS, preset
from askless.bench.results import Record, Results, read
from askless.bench.runner import run
from askless.bench.tally import Progress

__all__ = [
    # what is run
    "Benchmark",
    "Row",
    "Successor",
    "Data",
    "preset",
    "PRESETS",
    # what is measured
    "Measure",
    "Along",
    "Moment",
    "Sample",
    # running, and what comes out
    "run",
    "Progress",
    "read",
    "Results",
    "Record",
]
