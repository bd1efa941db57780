"""The 15 nearest neighbours of every row, which label propagation and `auto` build their graph from: the product in blocks
that askless computes, beside the libraries of the field.

    python benchmarks/graph.py --features FEATURES.npz --out benchmarks/results/graph.json     # an hour
    python benchmarks/graph.py --quick

Rows around ten centres, 1,280 columns, as in benchmarks/frozen_round.py; with --features also real ones, the array f_train
of an .npz. Each as it is and in its 256 main directions, where `auto` looks for neighbours; of unit length, so that cosines
are meant. Each way runs in a process of its own, with one thread and, up to the 20,000 rows that `auto` learns from, all:
the least seconds of up to three calls after a small one that imports and compiles, the share of the 15 that it finds, and
how many GB the process grew by at its peak. The libraries are those of the peers' environment (`make peers`; hnswlib has no
wheels, so `.venv-peers/bin/pip install hnswlib` compiles it); missing ones are named.
"""

import argparse
import json
import os
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from frozen_round import clustered
from suite import PACKAGES, arguments, cpu, own_process, peak_gb, peer, seconds

from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.learn.ground import Space
from askless.learn.propagation import neighbours

K = 15
OURS = "product in blocks"
MANY = 20_000  # rows above which one thread is enough to see: `auto` learns from no more
LIBRARIES = ("faiss, exact", "faiss, cells", "faiss, HNSW", "hnswlib", "pynndescent")


def both(rows: torch.Tensor, directions: int) -> dict[int, np.ndarray]:
    """By their width: the rows and what they are in their main directions, of unit length."""
    rows = rows - rows.mean(dim=0)
    found = (Space.of(rows, directions).into(rows), rows)
    return {x.shape[1]: torch.nn.functional.normalize(x).numpy() for x in found}


def work(source: str, out: str, k: int, threads: int) -> dict[str, float]:
    """Ours, in this process."""
    torch.set_num_threads(threads)
    rows = torch.from_numpy(np.load(source))
    neighbours(rows[:500], rows[:500], k, itself=0)
    before = peak_gb()
    took: list[float] = []
    while len(took) < 3 and sum(took) < 10:
        one, (_, positions) = seconds(lambda: neighbours(rows, rows, k, itself=0))
        took.append(one)
    np.save(out, positions)
    return {"seconds": min(took), "gb": peak_gb() - before}


def recall(found: np.ndarray, exact: np.ndarray) -> float:
    """The share of the exact neighbours (n, k) that were found."""
    return float((found[:, :, None] == exact[:, None, :]).any(axis=1).mean())


def measured(folder: Path, rows: np.ndarray, threads: int, missing: set[str]) -> list[dict[str, Any]]:
    """Each way on these rows."""
    np.save(folder / "rows.npy", rows)
    given, results = (str(folder / "rows.npy"), str(folder / "found.npy"), str(K), str(threads)), []
    exact = None
    for way in (OURS, *LIBRARIES):
        one = own_process("graph.py", "--work", *given) if way == OURS else peer("graph_libraries.py", way, *given)
        if one is None or "missing" in one:
            missing.add(way)
            continue
        found = np.load(folder / "found.npy")
        exact = found if way == OURS else exact
        results.append({"way": way, **one, "recall": recall(found, exact)})
        print(f"  {way}: {one['seconds']:.2f} s, {results[-1]['recall']:.4f}", file=sys.stderr, flush=True)
    return results


def shown(record: dict[str, Any]) -> str:
    """The results as Markdown: a row for each way, by data and width."""
    rows = [
        "| rows | columns | way | one thread, s | all, s | recall@15 | memory, GB |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    cases: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for line in record["lines"]:
        cases.setdefault((line["rows"], line["columns"], line["way"]), []).append(line)
    for (what, columns, way), lines in cases.items():
        took = [f"{line['seconds']:.3g}" for line in lines] + [""]
        rest = f"{lines[0]['recall']:.3f} | {max(line['gb'] for line in lines):.2g}"
        rows.append(f"| {what} | {columns:,} | {way} | {took[0]} | {took[1]} | {rest} |")
    return "\n".join(rows)


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--features", type=Path, help=".npz with real features as f_train")

    given = arguments(__doc__, more)
    sizes, width, directions = ((500,), 64, 16) if given.quick else ((10_000, 20_000, 100_000), 1_280, 256)
    data = {f"{n:,} around ten centres": lambda n=n: clustered(n, width)[0] for n in sizes}
    if given.features is not None:
        real = np.load(given.features)["f_train"]
        data = {f"{len(real):,} of CIFAR-10": lambda: torch.from_numpy(real).float()} | data
    lines: list[dict[str, Any]] = []
    missing: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for what, make in data.items():
            for columns, rows in both(make(), directions).items():
                for threads in [1] if given.quick or len(rows) > MANY else sorted({1, cores()}):
                    print(f"{what}, {columns} columns, {threads} threads", file=sys.stderr)
                    of_all = {"rows": what, "columns": columns, "threads": threads}
                    lines += [of_all | line for line in measured(Path(folder), rows, threads, missing)]
    record = {
        "benchmark": "graph",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "quick": given.quick,
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "versions": versions(PACKAGES) | {line["way"]: line["version"] for line in lines if "version" in line},
        "missing": sorted(missing),
        "lines": lines,
    }
    print(shown(record))
    if missing:
        print(f"not installed in .venv-peers: {', '.join(sorted(missing))}")
    if given.out is not None:
        text = json.dumps(record, indent=1) + "\n"
        write_whole(given.out, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(*sys.argv[2:4], *map(int, sys.argv[4:]))))
    else:
        main()
