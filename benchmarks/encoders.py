"""Which encoder to take: images or texts per second on one core, and accuracy from a few random labels, of each encoder.

    python benchmarks/encoders.py --data cifar10_subset.npz --data digits --data r8 --out results.json
    python benchmarks/encoders.py --data photos --encoders efficientnet-lite2@192,raw@16     # CLASS/*.jpg: your own
    python benchmarks/encoders.py --quick                                   # small: shows that it works
    python benchmarks/encoders.py --docs    # only write the tables into docs/evidence/encoders.md

A pool is anything that `al.data.load` reads with labels in it. Some of its items, drawn at random, are embedded with one
torch thread; the time is that of the process (CPU), so other work on the machine counts little. Then a logistic head is
fitted on random labels, several times, and scored on all the other embedded items. Every encoder has the same draws.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from suite import HERE, PACKAGES, RESULTS, cpu

import askless as al
from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.features.frozen import Frozen, make_backbone, outside_bytes
from askless.features.text_backbone import text_backbone

PAGE = HERE.parent / "docs" / "evidence" / "encoders.md"
LITE = tuple(f"efficientnet-lite{n}@{size}" for n in range(3) for size in (128, 192, 224))
IMAGES = ("raw@16", *LITE)
TEXTS = ("tfidf", "minilm", "tfidf+minilm")
LABELS = (50, 100, 200)
C = 10.0  # of the head, on features of mean squared length 100; of 0.01, 0.1, 1 and 10 the best on CIFAR-10
PIECE = 64  # items that are embedded together, as in a pool
MARKS = {"image": "<!-- table: images -->", "text": "<!-- table: texts -->"}


def load(data: str) -> al.Pool:
    """The pool that a name or path stands for; the folders of images are their classes."""
    return al.data.load(data, **({"labels_from_folders": True, "size": 224} if Path(data).is_dir() else {}))


def drawn(pool: al.Pool, n: int) -> np.ndarray:
    """Positions of items with a label, at random, the same ones for every encoder."""
    known = np.flatnonzero(pool.labels >= 0)
    if len(known) <= max(LABELS):
        raise InputError(f"{pool}: expected more than {max(LABELS)} items with a label; give a larger pool")
    return np.sort(np.random.default_rng(0).permutation(known)[:n])


def embedding(pool: al.Pool, encoder: str, at: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The function from positions to features (n, d), ready and fitted."""
    name, _, size = encoder.partition("@")
    if pool.kind == "text":
        backbone = text_backbone(name, [pool.x[i] for i in at])
        return lambda some: backbone.embed([pool.x[i] for i in some])
    eye = make_backbone(Frozen(backbone=name, size=int(size) if size else None), pool)
    return lambda some: eye.embed(outside_bytes(pool.take(some), pool)).numpy()


def embedded(pool: al.Pool, encoder: str, at: np.ndarray) -> tuple[np.ndarray, float]:
    """Features (n, d) of the items, and how many of them a second of one core embeds."""
    embed = embedding(pool, encoder, at)
    embed(at[:8])  # warms up
    start = time.process_time()
    rows = np.concatenate([embed(at[i : i + PIECE]) for i in range(0, len(at), PIECE)])
    return rows, len(at) / (time.process_time() - start)


def evened(x: np.ndarray) -> np.ndarray:
    """As a run takes features: around their mean, all by one number."""
    x = x - x.mean(axis=0)
    return x * (10 / np.sqrt(np.square(x).sum(axis=1).mean()))


def accuracies(x: np.ndarray, y: np.ndarray, labels: int, draws: int) -> list[float]:
    """Of a logistic head on random labels, on the other items: once for each draw."""
    found = []
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(y))
        known, other = order[:labels], order[labels:]
        head = LogisticRegression(C=C, max_iter=1000).fit(x[known], y[known])
        found.append(float(head.score(x[other], y[other])))
    return found


def measured(data: str, encoders: list[str], n: int, draws: int) -> list[dict[str, Any]]:
    """A row for each encoder that is for such items."""
    pool = load(data)
    at = drawn(pool, n)
    rows = []
    for encoder in encoders:
        if (encoder in TEXTS) != (pool.kind == "text"):
            continue
        x, per_second = embedded(pool, encoder, at)
        ready = evened(x.astype(np.float64))
        scores = {labels: accuracies(ready, pool.labels[at], labels, draws) for labels in LABELS}
        row = {"data": pool.name, "kind": pool.kind, "encoder": encoder, "items": len(at), "per_second": per_second}
        rows.append(row | {"accuracy": {str(labels): float(np.mean(found)) for labels, found in scores.items()}})
        rows[-1]["error"] = {
            str(labels): float(np.std(found, ddof=1) / len(found) ** 0.5) for labels, found in scores.items()
        }
        told = " / ".join(f"{100 * value:.1f}" for value in rows[-1]["accuracy"].values())
        print(f"{pool.name} {encoder}: {per_second:.1f} per second, {told}", flush=True)
    return rows


# --- into the docs ---------------------------------------------------------------------------------------------------


def table(record: dict[str, Any], kind: str) -> str:
    """Markdown: a row for each encoder, with its speed and its accuracy on each pool."""
    rows = [row for row in record["rows"] if row["kind"] == kind]
    pools = list(dict.fromkeys(row["data"] for row in rows))
    noun = "images" if kind == "image" else "texts"
    labels = " / ".join(map(str, LABELS))
    head = ["encoder", f"{noun} a second: {' / '.join(pools)}", *(f"{pool}: {labels} labels" for pool in pools)]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for encoder in dict.fromkeys(row["encoder"] for row in rows):
        name, _, size = encoder.partition("@")
        of_pools = [row for row in rows if row["encoder"] == encoder]
        cells = [f"`frozen:{name}`{f', {size} px' if size else ''}"]
        cells.append(" / ".join(f"{row['per_second']:,.0f}" for row in of_pools))
        cells += [" / ".join(f"{100 * value:.1f}" for value in row["accuracy"].values()) for row in of_pools]
        lines.append("| " + " | ".join(cells) + " |")
    worst = 100 * max(value for row in rows for value in row["error"].values())
    counts = sorted({row["items"] for row in rows})
    about = (
        f"{' and '.join(f'{n:,}' for n in counts)} {noun} of each pool, {record['draws']} draws of labels, one thread"
    )
    machine = record["machine"]
    where = f"{machine['processor']}, {machine['cores']} cores, load {machine['load']}, {record['date']}"
    return "\n".join(lines) + f"\n\n{about}; standard errors up to {worst:.1f} points. {where}."


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the tables between their marks."""
    for kind, mark in MARKS.items():
        start, end = page.index(mark) + len(mark), page.index("<!-- end -->", page.index(mark))
        page = f"{page[:start]}\n\n{table(record, kind)}\n\n{page[end:]}"
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=[], help="a data set's name, a file or a folder; repeatable")
    parser.add_argument(
        "--encoders", default=",".join((*IMAGES, *TEXTS)), help="comma-separated; NAME@PIXELS for images"
    )
    parser.add_argument("--items", type=int, default=1000, help="items per pool, drawn at random")
    parser.add_argument("--draws", type=int, default=10, help="draws of random labels")
    parser.add_argument("--quick", action="store_true", help="only pixels and words, few items: shows that it works")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--docs", action="store_true", help="only write the tables into docs/evidence")
    given = parser.parse_args()
    if given.docs:
        text = renewed(PAGE.read_text(encoding="utf-8"), json.loads((RESULTS / "encoders.json").read_text()))
        write_whole(PAGE, lambda file: file.write(text.encode()))
        return
    torch.set_num_threads(1)
    if given.quick:
        given.data, given.encoders, given.items, given.draws = ["digits"], "raw@8,raw@4", 300, 2
    record = {
        "benchmark": "encoders",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "quick": given.quick,
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "versions": versions((*PACKAGES, "transformers")),
        "draws": given.draws,
        "rows": [
            row for data in given.data for row in measured(data, given.encoders.split(","), given.items, given.draws)
        ],
    }
    print(table(record, record["rows"][0]["kind"]))
    if given.out is not None:
        text = json.dumps(record, indent=1) + "\n"
        write_whole(given.out, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
