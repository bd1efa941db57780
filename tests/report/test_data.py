import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from askless.report.data import as_data, json_text, write_files


@dataclass
class Fact:
    name: str
    value: float


class Pair(NamedTuple):
    low: float
    high: float


def test_facts_are_what_json_knows():
    found = as_data(
        {"a": math.nan, "b": np.float32(0.5), "c": np.array([1, 2]), "d": (math.inf, True), 5: Fact("x", -math.inf)}
    )
    assert found == {"a": None, "b": 0.5, "c": [1, 2], "d": ["inf", True], "5": {"name": "x", "value": "-inf"}}
    assert json.loads(json_text(found)) == found


def test_more_may_be_told_of_a_record_wherever_it_stands():
    found = as_data([Fact("x", 1.0), (Pair(1, 2),)], lambda v: {"wide": v.high - v.low} if isinstance(v, Pair) else {})
    assert found == [{"name": "x", "value": 1.0}, [{"low": 1, "high": 2, "wide": 1}]]


def test_files_are_written_into_a_new_folder(tmp_path):
    write_files(tmp_path / "new", {"a.txt": "ä", "b.txt": "b"})
    assert (tmp_path / "new" / "a.txt").read_bytes() == "ä".encode()
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["a.txt", "b.txt"]
