"""Every strategy on ten million rows in a hundred shards: the command, its seconds and its peak memory.

    python benchmarks/scale.py              # 10,000,000 x 128 float16 in 100 shards, 1,000 labelled, 1,000 picks
    python benchmarks/scale.py --quick
    python benchmarks/scale.py --keep FOLDER    # shards and measurements stay there, to resume after a stop
    python benchmarks/scale.py --but dal    # without these strategies
    python benchmarks/scale.py --docs       # only write the existing results into docs/evidence/scale.md

Each strategy is `askless select --features SHARDS --max-memory 4GB` in a process of its own. Peak memory is all that the
process held at once (VmHWM), Python, torch and the pages of the mapped shards included. Before that, on the first tenth of
the shards, its picks are held against those of the same strategy on arrays in memory.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from suite import HERE, RESULTS, Line, Other, arguments, finish, number, own_process, peak_gb

import askless as al
from askless.acquire import STRATEGIES, looks_at, make
from askless.base.files import write_whole
from askless.cli import main as askless_command
from askless.sources.shards import write_shard

LIMIT = 4 * 2**30 / 1e9  # GB: what --max-memory 4GB declares
PAGE = HERE.parent / "docs" / "evidence" / "scale.md"
MARK = "<!-- table: ten million rows -->"
NAMES = ("features", "probs", "grad_sq", "grad_dot")


def make_shards(folder: Path, rows: int, shards: int, d: int, C: int, labelled: int) -> None:
    """Classes around their centres, positive like features after a ReLU, and a model's probabilities."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(C, d)).astype(np.float32) / 2
    for k in range(shards):
        truth = rng.integers(C, size=rows)
        x = np.maximum(centres[truth] + rng.standard_normal((rows, d), dtype=np.float32), 0)
        logits = x @ centres.T / np.float32(d**0.5 / 4) + rng.standard_normal((rows, C), dtype=np.float32)
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        columns = {
            "features": x.astype(np.float16),
            "probs": (e / e.sum(axis=1, keepdims=True)).astype(np.float16),
            "grad_sq": rng.exponential(size=rows).astype(np.float32),
            "grad_dot": rng.normal(size=rows).astype(np.float32),
        }
        write_shard(folder / "all" / f"shard-{k:05d}.arrow", columns)
    (folder / "tenth").mkdir(exist_ok=True)
    for k in range(max(1, shards // 10)):
        (folder / "tenth" / f"shard-{k:05d}.arrow").unlink(missing_ok=True)
        (folder / "tenth" / f"shard-{k:05d}.arrow").symlink_to(Path("..", "all", f"shard-{k:05d}.arrow"))
    some = rng.choice(rows * max(1, shards // 10), labelled, replace=False)
    np.save(folder / "labelled.npy", some)
    np.save(folder / "labels.npy", rng.integers(C, size=labelled))


def by_command(name: str, shards: Path, picks: int) -> dict[str, object]:
    """Seconds, peak memory and picks of the command, in this process."""
    given = ["select", "--strategy", name, "-n", str(picks), "--features", str(shards), "--max-memory", "4GB"]
    given += ["--labelled", str(shards.parent / "labelled.npy"), "--labels", str(shards.parent / "labels.npy")]
    start, printed = time.perf_counter(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        askless_command(given)
    found = [int(row.split(",")[1]) for row in printed.getvalue().splitlines()[1:]]
    assert len(found) == picks, f"{name}: expected {picks} picks, got {len(found)}"
    return {"seconds": time.perf_counter() - start, "gb": peak_gb(), "picks": found}


def in_memory(name: str, shards: Path, picks: int) -> dict[str, object]:
    """The picks of the same strategy with the arrays in memory, and the same working memory."""
    from askless.cli.files import working_memory

    opened = al.open_shards(shards)
    arrays = {n: np.asarray(opened[n]) for n in looks_at(make(name)) if n in NAMES}
    given = {n: np.load(shards.parent / f"{n}.npy") for n in ("labelled", "labels")}
    memory = working_memory(4 * 2**30, len(opened))
    found = al.select(name, picks, pool=len(opened), max_memory=memory, **arrays, **given)
    return {"picks": found.indices.tolist()}


def whole_table(record: dict[str, Any]) -> str:
    """Seconds and memory of each strategy, and an estimate for a billion rows on a hundred machines.

    A hundred machines with ten million rows each choose at the same time; then one of them chooses among their winners, 100
    times the picks, which are fewer than the million rows that were measured. So at most the sum of the two times.
    """
    seconds = [line for line in record["lines"] if line["unit"] == "s"]
    memory = [line for line in record["lines"] if line["unit"] == "GB"]
    rows = [
        "| strategy | a million rows, s | ten million, s | peak memory, GB | a billion on 100 machines, at most s |"
    ]
    rows.append("|---|---:|---:|---:|---:|")
    for time_, peak in zip(seconds, memory, strict=True):
        few, many = time_["reference"]["value"], time_["ours"]
        name = time_["what"].split(",")[0]
        rows.append(f"| {name} | {number(few)} | {number(many)} | {number(peak['ours'])} | {number(few + many)} |")
    machine = record["machine"]
    made = f"`python benchmarks/scale.py`, {record['date']}: {machine['processor']}, {record['threads']} torch thread"
    return "\n".join([f"{made}, load {machine['load']} at the end.", "", *rows])


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    start, end = page.index(MARK) + len(MARK), page.index("<!-- end -->", page.index(MARK))
    return f"{page[:start]}\n\n{whole_table(record)}\n\n{page[end:]}"


def measured(name: str, folder: Path, picks: int) -> dict[str, float]:
    """Seconds on a tenth and on all of the shards, and peak memory; kept in the folder, and measured once."""
    kept = folder / f"{name}.json"
    if not kept.exists():
        small = own_process("scale.py", "--work", "by_command", name, str(folder / "tenth"), str(picks))
        plain = own_process("scale.py", "--work", "in_memory", name, str(folder / "tenth"), str(picks))
        if small["picks"] != plain["picks"]:
            raise SystemExit(f"{name}: from shards it chose other items than in memory")
        large = own_process("scale.py", "--work", "by_command", name, str(folder / "all"), str(picks), timeout=4 * 3600)
        found = {"tenth": small["seconds"], "seconds": large["seconds"], "gb": large["gb"]}
        write_whole(kept, lambda file: file.write(json.dumps(found).encode()))
    found = json.loads(kept.read_text())
    print(f"  {name}: {found['seconds']:.1f} s, {found['gb']:.2f} GB", file=sys.stderr, flush=True)
    return found


def keeping(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=Path, help="folder that keeps shards and measurements, to resume")
    parser.add_argument("--but", default="", help="strategies to leave out, such as dal,typiclust")


def main() -> None:
    given = arguments(__doc__, keeping)
    quick, full = (2_000, 10, 16, 5, 20, 20), (100_000, 100, 128, 10, 1_000, 1_000)
    rows, shards, d, C, labelled, picks = quick if given.quick else full
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        if not (folder / "labels.npy").exists():  # the last thing written
            make_shards(folder, rows, shards, d, C, labelled)
        size = f"N = {rows * shards:,}, d = {d}, C = {C}, {picks:,} picks"
        left_out = given.but.split(",")
        for name in (name for name in STRATEGIES if {*make(name).needs} <= {*NAMES} and name not in left_out):
            found = measured(name, folder, picks)
            tenth = Other("a tenth of the shards", found["tenth"])
            lines.append(Line(f"{name}, {size}", found["seconds"], reference=tenth))
            lines.append(Line(f"{name}, peak memory", found["gb"], "GB", most=LIMIT))
    finish("scale", lines, given)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work = {"by_command": by_command, "in_memory": in_memory}[sys.argv[2]]
        print(json.dumps(work(sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))))
    elif sys.argv[1:] == ["--docs"]:
        page = renewed(PAGE.read_text(), json.loads((RESULTS / "scale.json").read_text()))
        write_whole(PAGE, lambda file: file.write(page.encode()))
    else:
        main()
