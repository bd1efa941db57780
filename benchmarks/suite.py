"""What the speed benchmarks share: timing ways against each other, memory of a process of its own, and their results.

Every line of the suite compares ours with what bounds it from below (the floor), with the short obvious way that the tests
hold ours against (the reference) and with what people use instead (the peer), all in one run on the same numbers. Ratios
are what counts: the machine and what else it does change the seconds.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from askless.base.files import write_whole
from askless.base.machine import cores, versions

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Other:
    """What ours is held against: its name, its value in the line's unit, and the limit of ours / value, if there is one."""

    name: str
    value: float
    limit: float | None = None


@dataclass(frozen=True)
class Line:
    """One row of the table. `most` is an absolute limit of ours; `note` says what a number alone would not."""

    what: str
    ours: float
    unit: str = "s"  # less is better in every unit
    floor: Other | None = None
    reference: Other | None = None
    peer: Other | None = None
    most: float | None = None
    note: str = ""

    def others(self) -> list[tuple[str, Other]]:
        named = [("floor", self.floor), ("reference", self.reference), ("peer", self.peer)]
        return [(kind, other) for kind, other in named if other is not None]

    def holds(self) -> bool | None:
        """Whether every limit is kept; None where there is none."""
        limits = [self.ours <= other.limit * other.value for _, other in self.others() if other.limit is not None]
        if self.most is not None:
            limits.append(self.ours <= self.most)
        return all(limits) if limits else None


def compare(ways: Mapping[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each way: each once to warm up, then all in turn, `repeats` times."""
    for way in ways.values():
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """One call, for what is too long to repeat: its seconds and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def peak_gb() -> float:
    """The most memory that this process has held, in GB (10^9 bytes)."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child begins at what its parent held when it was started
        found = [row.split()[1] for row in status.read_text().splitlines() if row.startswith("VmHWM")]
        return int(found[0]) * 1024 / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9  # macOS counts bytes


def own_process(script: str, *given: str, python: Path | str = sys.executable, timeout: float = 3600) -> Any:
    """Runs a script beside this file in a process of its own; what its last line of output says as JSON."""
    command = [str(python), str(HERE / script), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"{script} {' '.join(given)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def peer(script: str, *given: str, timeout: float = 3600) -> Any | None:
    """The same in the peers' environment; None, with a word on how to get it, where that is not there."""
    if not PEERS.exists():
        print("  no peers here: `make peers` installs them", file=sys.stderr)
        return None
    return own_process(f"peers/{script}", *given, python=PEERS, timeout=timeout)


def cpu() -> str:
    """The processor's name."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for row in listing.read_text().splitlines():
            if row.startswith("model name"):
                return row.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def arguments(
    doc: str | None, more: Callable[[argparse.ArgumentParser], None] = lambda parser: None
) -> argparse.Namespace:
    """--quick and --out, which every benchmark of the suite takes, and what `more` adds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works, not how fast")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    more(parser)
    return parser.parse_args()


def finish(name: str, lines: list[Line], given: argparse.Namespace, packages: tuple[str, ...] = PACKAGES) -> None:
    """Prints the lines and, if asked, writes them with machine and date."""
    print("\n".join(table([asdict(line) | {"holds": line.holds()} for line in lines])))
    if given.out is None:
        return
    record(
        given.out, name, packages, quick=given.quick, lines=[asdict(line) | {"holds": line.holds()} for line in lines]
    )


def record(out: Path, name: str, packages: tuple[str, ...] = PACKAGES, **numbers: Any) -> None:
    """Writes numbers with machine and date."""
    made = {
        "benchmark": name,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")) or cores(),
        "versions": versions(packages),
    }
    text = json.dumps(made | numbers, indent=1) + "\n"
    write_whole(out, lambda file: file.write(text.encode()))


def number(value: float) -> str:
    """Three digits that matter."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(lines: list[dict[str, Any]]) -> list[str]:
    """A Markdown table of lines as dictionaries: ours, then each other with ours / it and the limit."""
    rows = ["| what | ours | ours / floor | ours / reference | ours / peer | kept |", "|---|---:|---|---|---|---|"]
    for line in lines:
        cells = [line["what"], f"{number(line['ours'])} {line['unit']}"]
        if line["most"] is not None:
            cells[-1] += f" (≤ {number(line['most'])})"
        for kind in ("floor", "reference", "peer"):
            other = line[kind]
            if other is None:
                cells.append("")
                continue
            limit = "" if other["limit"] is None else f" (≤ {number(other['limit'])})"
            cells.append(
                f"**{number(line['ours'] / other['value'])}**{limit} × {other['name']} {number(other['value'])}"
            )
        cells.append({True: "yes", False: "**no**", None: ""}[line["holds"]])
        rows.append("| " + " | ".join(cells) + " |")
        if line["note"]:
            rows.append(f"| ↳ {line['note']} | | | | | |")
    return rows
