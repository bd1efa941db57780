"""Checks a finished run in as evidence: report, tables, numbers, and `method.json`, which says what they were made with.

    askless bench run crc.fig3 --out runs/crc.fig3
    python benchmarks/check_in.py runs/crc.fig3
    python benchmarks/check_in.py race.logistic --present     # of evidence whose settings are known to be today's

`method.json` has the settings of the rows, with the revisions of their strategies and learners, as the run noted them.
tests/test_evidence.py compares them with what the preset of that name is today.
"""

import argparse
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from askless import __version__
from askless.base import digest
from askless.bench import Benchmark, preset
from askless.bench.plan import default_settings, settings
from askless.bench.results import read_json

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
FILES = ("report.html", "results.csv", "tables.md")
Settings = dict[str, str]  # of a row


def summary(rows: Iterable[Settings]) -> dict[str, Any]:
    """For each setting its distinct texts, and a digest that also says which row has which."""
    listed = sorted(rows, key=lambda row: (row["group"], row["method"]))
    out = {}
    for name in listed[0]:
        given = [(row["group"], row["method"], row[name]) for row in listed]
        out[name] = {"digest": digest.of_text(*map(str, given))[:16], "texts": sorted({text for *_, text in given})}
    return out


def method_of(about: dict[str, Any]) -> dict[str, Any]:
    """Of a run, from its benchmark.json."""
    rows = {(cell["group"], cell["method"]): cell["settings"] for cell in about["cells"]}
    made = [{name: text for name, text in row.items() if name not in ("seed", "start_seed")} for row in rows.values()]
    return {"askless": about["versions"]["askless"], "settings": summary(made)}


def present(benchmark: Benchmark) -> dict[str, Any]:
    """What method.json would say of a run of today."""
    return {"askless": __version__, "settings": summary(map(settings, benchmark.rows))}


def changes(then: dict[str, Any], benchmark: Benchmark) -> list[str]:
    """What is different today, in words; a setting that there was not yet had its default."""
    rows = [settings(row) for row in benchmark.rows]
    before = [
        {name: default_settings().get(name, "") for name in row} | {k: row[k] for k in ("group", "method")}
        for row in rows
    ]
    lacked, now = summary(before), summary(rows)
    out = []
    for name, found in now.items():
        was = then["settings"].get(name, lacked[name])
        if was["digest"] != found["digest"]:
            gone, new = set(was["texts"]) - set(found["texts"]), set(found["texts"]) - set(was["texts"])
            out.append(f"{name}: {', '.join(sorted(gone)) or 'other rows'} -> {', '.join(sorted(new)) or 'other rows'}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a run; with --present the name of a preset")
    parser.add_argument("--present", action="store_true", help="note the settings of today for evidence that is there")
    options = parser.parse_args()
    if options.present:
        name, method = options.run.name, present(preset(options.run.name, "small"))
    else:
        about = read_json(options.run / "benchmark.json")
        name, method = about["name"], method_of(about)
        (EVIDENCE / name).mkdir(exist_ok=True)
        for file in FILES:
            shutil.copyfile(options.run / file, EVIDENCE / name / file)
    (EVIDENCE / name / "method.json").write_text(json.dumps(method, indent=1) + "\n", encoding="utf-8")
    print(f"docs/evidence/{name}: {', '.join((*(() if options.present else FILES), 'method.json'))}")


if __name__ == "__main__":
    main()
