"""A stream with a memory of 1,000 items against choosing from the whole pool of 50,000: accuracy of a logistic head.

    askless data fetch mnist
    python benchmarks/stream.py --out benchmarks/results/stream.json     # about eight core minutes; resumes
    python benchmarks/stream.py --data fashion-mnist --out fashion.json  # the same on other images
    python benchmarks/stream.py --quick                                  # small: shows that it works
    python benchmarks/stream.py --docs                                   # only write the table into docs/evidence/scale.md

The pool: 50,000 of the 60,000 training images, as 50 main directions of their pixels; the seed draws them and their order.
From zero labels each way asks for five batches of 30, a logistic head is trained on the labels after each, and its
probabilities go into the next choice. Streams get the items in blocks of 500, shuffled or one class after the other: all of
them again for each batch (a pass per batch), or a fifth of them before each batch, so that every item is seen once (one
pass); there the held items get new probabilities when the head was trained. Accuracy is that on the 10,000 test images with
all 150 labels; random is the mean of 20 draws. The share of the gain is (way - random) / (pool - random) of means over the
seeds, with a 95 % bootstrap interval over seeds.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from suite import HERE, PACKAGES, RESULTS, cpu

import askless as al
from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.base.machine import cores, versions

PAGE = HERE.parent / "docs" / "evidence" / "scale.md"
MARK = "<!-- table: streams -->"
DATA = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
CLASSES, DIRECTIONS = 10, 50
DRAWS = 20  # of random, in each seed
WAYS = {
    "random": "random",
    "pool": "the whole pool",
    "passes": "stream, a pass per batch, shuffled",
    "passes, sorted": "stream, a pass per batch, class by class",
    "one pass": "stream, one pass, shuffled",
    "one pass, sorted": "stream, one pass, class by class",
}

Head = Callable[[np.ndarray], np.ndarray]  # rows -> probabilities


class Size(NamedTuple):
    """What a record was made with; one with another size is not resumed."""

    pool: int = 50_000
    memory: int = 1000
    block: int = 500
    batches: int = 5
    batch: int = 30


class Images(NamedTuple):
    x: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)


def images(name: str) -> tuple[Images, Images]:
    """Training and test images as the main directions of the pixels."""
    source = al.data.load(name)
    assert source.test is not None
    pixels, test = (np.asarray(x).reshape(len(x), -1).astype(np.float32) / 255 for x in (source.x, source.test[0]))
    middle = pixels.mean(axis=0)
    _, directions = np.linalg.eigh((pixels - middle).T @ (pixels - middle))
    main = directions[:, ::-1][:, :DIRECTIONS]
    labels = (np.asarray(source.labels), np.asarray(source.test[1]))
    return Images((pixels - middle) @ main, labels[0]), Images((test - middle) @ main, labels[1])


def no_head(rows: np.ndarray) -> np.ndarray:
    return np.full((len(rows), CLASSES), 1 / CLASSES)


def head(x: np.ndarray, y: np.ndarray) -> Head:
    """A logistic head; classes without labels get a thousandth together."""
    found = np.unique(y)
    scale = x.std()
    model = LogisticRegression(max_iter=1000).fit(x / scale, y) if len(found) > 1 else None

    def probs(rows: np.ndarray) -> np.ndarray:
        p = np.full((len(rows), CLASSES), 1e-3 / CLASSES)
        p[:, found] += (1 - 1e-3) * (1.0 if model is None else model.predict_proba(rows / scale))
        return p

    return probs


def from_pool(pool: Images, size: Size, seed: int) -> np.ndarray:
    labelled, trained = np.empty(0, dtype=np.int64), no_head
    for _ in range(size.batches):
        given = {"features": pool.x, "probs": trained(pool.x), "labelled": labelled, "labels": pool.y[labelled]}
        picks = al.select("askless", size.batch, seed=seed, **given)
        labelled = np.concatenate([labelled, picks.indices])
        trained = head(pool.x[labelled], pool.y[labelled])
    return labelled


def from_passes(pool: Images, size: Size, seed: int, order: np.ndarray) -> np.ndarray:
    """A new stream for each batch: what is labelled, then all others in this order."""
    labelled, trained = np.empty(0, dtype=np.int64), no_head
    for _ in range(size.batches):
        stream = al.Stream("askless", size.batch, size.memory, seed=seed, classes=CLASSES)
        others = order[~np.isin(order, labelled)]
        if len(labelled):
            stream.add(features=pool.x[labelled], probs=trained(pool.x[labelled]), labels=pool.y[labelled])
        for i in range(0, len(others), size.block):
            some = pool.x[others[i : i + size.block]]
            stream.add(features=some, probs=trained(some))
        picks = others[stream.picks().indices - len(labelled)]
        labelled = np.concatenate([labelled, picks])
        trained = head(pool.x[labelled], pool.y[labelled])
    return labelled


def from_one_pass(pool: Images, size: Size, seed: int, order: np.ndarray) -> np.ndarray:
    """One stream that is asked as it goes."""
    stream = al.Stream("askless", size.batches * size.batch, size.memory, seed=seed, classes=CLASSES)
    labelled, trained = np.empty(0, dtype=np.int64), no_head
    for part in np.array_split(order, size.batches):
        for i in range(0, len(part), size.block):
            some = pool.x[part[i : i + size.block]]
            stream.add(features=some, probs=trained(some))
        picks = stream.picks(size.batch).indices
        stream.tell(picks, pool.y[order[picks]])
        labelled = np.concatenate([labelled, order[picks]])
        trained = head(pool.x[labelled], pool.y[labelled])
        stream.renew(probs=trained(stream.held()["features"]))
    return labelled


def one_seed(train: Images, test: Images, size: Size, seed: int, done: Collection[str]) -> Iterator[dict[str, Any]]:
    """A row for each way that is not done yet."""
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(train.y))[: size.pool]
    pool = Images(train.x[drawn], train.y[drawn])
    shuffled, by_class = np.arange(len(pool.y)), np.argsort(pool.y, kind="stable")
    many = size.batches * size.batch

    def accuracy(picks: np.ndarray) -> float:
        assert len(np.unique(picks)) == many
        return float((head(pool.x[picks], pool.y[picks])(test.x).argmax(axis=1) == test.y).mean())

    if "random" not in done:
        chance = np.mean([accuracy(rng.choice(len(pool.y), many, replace=False)) for _ in range(DRAWS)])
        yield {"way": "random", "accuracy": float(chance), "seconds": 0.0}
    ways: dict[str, Callable[[], np.ndarray]] = {
        "pool": lambda: from_pool(pool, size, seed),
        "passes": lambda: from_passes(pool, size, seed, shuffled),
        "passes, sorted": lambda: from_passes(pool, size, seed, by_class),
        "one pass": lambda: from_one_pass(pool, size, seed, shuffled),
        "one pass, sorted": lambda: from_one_pass(pool, size, seed, by_class),
    }
    for way, choose in ways.items():
        if way not in done:
            start = time.process_time()
            picks = choose()
            seconds = round(time.process_time() - start, 1)
            yield {"way": way, "accuracy": accuracy(picks), "seconds": seconds}


def share(record: dict[str, Any], data: str, way: str) -> tuple[float, float, float]:
    """(way - random) / (pool - random) of the means over seeds, and its 95 % bootstrap interval."""
    values = [values_of(record, data, one, "accuracy") for one in (way, "pool", "random")]
    n = len(values[0])
    again = np.random.default_rng(0).integers(n, size=(5000, n))
    ours, pool, chance = (v[np.concatenate([np.arange(n)[None], again])].mean(axis=1) for v in values)
    shares = (ours - chance) / (pool - chance)
    low, high = np.quantile(shares[1:], [0.025, 0.975])
    return float(shares[0]), float(low), float(high)


def values_of(record: dict[str, Any], data: str, way: str, what: str) -> np.ndarray:
    return np.array([row[what] for row in record["rows"] if (row["data"], row["way"]) == (data, way)])


def table(record: dict[str, Any]) -> str:
    """A row for each way, of each data set."""
    lines = ["| data | chosen from | accuracy, % | share of the pool's gain | CPU s |", "|---|---|---:|---:|---:|"]
    for data in dict.fromkeys(row["data"] for row in record["rows"]):
        for way, title in WAYS.items():
            accuracy, seconds = (values_of(record, data, way, what).mean() for what in ("accuracy", "seconds"))
            got, low, high = (f"{100 * number:.0f}" for number in share(record, data, way))
            kept = "" if way in ("random", "pool") else f"{got} % ({low} to {high})"
            name = DATA[data] if way == "random" else ""
            lines.append(f"| {name} | {title} | {100 * accuracy:.1f} | {kept} | {seconds:.1f} |")
    return "\n".join(lines)


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    start, end = page.index(MARK) + len(MARK), page.index("<!-- end -->", page.index(MARK))
    seeds = len({row["seed"] for row in record["rows"]})
    made = f"`python benchmarks/stream.py`, {record['date']}, {seeds} seeds, {record['machine']['processor']}."
    return f"{page[:start]}\n\n{made}\n\n{table(record)}\n\n{page[end:]}"


def resumed(out: Path | None, size: Size) -> list[dict[str, Any]]:
    """The rows that are there already."""
    if out is None or not out.exists():
        return []
    record = json.loads(out.read_text())
    if record["size"] != size._asdict():
        raise InputError(f"{out} was made with {record['size']}, not {size._asdict()}; choose another --out")
    rows: list[dict[str, Any]] = record["rows"]
    return rows


def run(quick: bool, names: list[str], seeds: int, out: Path | None) -> None:
    torch.set_num_threads(1)
    size = Size(3000, 200, 100, 2, 15) if quick else Size()
    rows = resumed(out, size)
    for name in names:
        train, test = images(name)
        for seed in range(seeds):
            done = {row["way"] for row in rows if (row["data"], row["seed"]) == (name, seed)}
            for row in one_seed(train, test, size, seed, done):
                rows.append({"data": name, "seed": seed} | row)
                print(rows[-1], file=sys.stderr, flush=True)
                if out is not None:
                    write(record_of(rows, quick, size), out)
    print(table(record_of(rows, quick, size)))


def record_of(rows: list[dict[str, Any]], quick: bool, size: Size) -> dict[str, Any]:
    return {
        "benchmark": "stream",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "quick": quick,
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "threads": 1,
        "versions": versions(PACKAGES),
        "size": size._asdict(),
        "rows": rows,
    }


def write(record: dict[str, Any], out: Path) -> None:
    text = json.dumps(record).replace('{"data"', '\n{"data"') + "\n"
    write_whole(out, lambda file: file.write(text.encode()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works")
    parser.add_argument("--data", choices=DATA, nargs="+", default=["mnist"], help="names")
    parser.add_argument("--seeds", type=int, help="by default 5, with --quick 2")
    parser.add_argument("--out", type=Path, help="JSON file for the results; resumes an existing one")
    parser.add_argument("--docs", action="store_true", help="put the existing results into docs/evidence/scale.md")
    given = parser.parse_args()
    if given.docs:
        page = renewed(PAGE.read_text(), json.loads((RESULTS / "stream.json").read_text()))
        write_whole(PAGE, lambda file: file.write(page.encode()))
    else:
        run(given.quick, given.data, given.seeds or (2 if given.quick else 5), given.out)


if __name__ == "__main__":
    main()
