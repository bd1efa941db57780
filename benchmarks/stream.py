"""A stream with a memory of 1,000 items against choosing from the whole pool: coverage, and accuracy of a logistic head.

    python benchmarks/stream.py --out benchmarks/results/stream.json     # about an hour of one core
    python benchmarks/stream.py --quick                                  # small: that it works
    python benchmarks/stream.py --docs                                   # nothing run: the table into docs/scale.md

Pools: 50,000 of the 60,000 training images of Fashion-MNIST, as 50 main directions of their pixels, and the 11,293 training
texts of 20 Newsgroups, as TF-IDF; the seed draws them and their order. Each way chooses 100 items: the first ones, without
any model, or 100 more when 100 random items are labelled and a logistic head says how unsure it is. What they cover is
measured on all items, with the weights and the reach of the pool's own selection. Shares are (way - random) / (pool -
random), of means over the seeds, with a 95 % bootstrap interval.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from suite import HERE, PACKAGES, RESULTS, cpu

import askless as al
from askless.acquire.covering import Cover, Space, greedy
from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.data.tfidf import fit_tfidf

PAGE = HERE.parent / "docs" / "scale.md"
MARK = "<!-- table: streams -->"
PICKS, MEMORY, BLOCK = 100, 1000, 500
DRAWS = 10  # of random, in each seed
EPSILON = 0.1  # of the sieve
WAYS = {
    "random": "random",
    "pool": "askless, the whole pool",
    "stream": "askless, a stream",
    "sorted": "the same, one class after the other",
    "sample": "askless, 1,000 items drawn at random",
    "sieve": "Sieve-Streaming++",
}


class Data(NamedTuple):
    title: str
    x: np.ndarray  # (n, d) float32
    y: np.ndarray
    test: tuple[np.ndarray, np.ndarray]
    N: int  # of each seed's pool


def fashion(quick: bool) -> Data:
    source = al.data.load("fashion-mnist")
    assert source.test is not None
    pixels, test = (np.asarray(x).reshape(len(x), -1).astype(np.float32) / 255 for x in (source.x, source.test[0]))
    middle = pixels.mean(axis=0)
    _, directions = np.linalg.eigh((pixels - middle).T @ (pixels - middle))
    main = directions[:, ::-1][:, :50]
    x, test = ((rows - middle) @ main for rows in (pixels, test))
    return Data(
        "Fashion-MNIST", x, np.asarray(source.labels), (test, np.asarray(source.test[1])), 3000 if quick else 50_000
    )


def newsgroups(quick: bool) -> Data:
    source = al.data.load("20newsgroups")
    assert source.test is not None
    some = 2000 if quick else len(source)
    seen = fit_tfidf(source.x[:some])
    x, test = seen.embed(source.x[:some]), seen.embed(source.test[0])
    return Data("20 Newsgroups", x, np.asarray(source.labels)[:some], (test, np.asarray(source.test[1])), some)


def head(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A logistic head on features around 0 of deviation 1 over all columns: rows -> probabilities."""
    scale = x.std()
    model = LogisticRegression(max_iter=1000).fit(x / scale, y)
    return lambda rows: model.predict_proba(rows / scale)


def one_seed(data: Data, labels: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, labels])
    order = rng.permutation(len(data.y))[: data.N]
    x, y = data.x[order], data.y[order]
    classes = len(np.unique(data.y))
    labelled = np.arange(labels)  # the first of a pool in random order
    arrays: dict[str, np.ndarray] = {"features": x}
    if labels:
        arrays["probs"] = np.full((len(x), classes), 1e-3 / classes)
        arrays["probs"][:, np.unique(y[:labels])] += (1 - 1e-3) * head(x[:labels], y[:labels])(x)
    given = arrays | {"labelled": labelled, "labels": y[:labels]}
    pool, seconds = timed(lambda: al.select("askless", PICKS, seed=seed, **given))
    space = Space(x, 256, 2**28, np.random.default_rng(0))
    weight = weights(arrays, labelled, y[:labels])

    def covered(picks: np.ndarray) -> float:
        cover = Cover(space, np.arange(len(x)), weight, pool.info["reach"] ** 2, 0)
        cover.add(np.concatenate([labelled, picks]))
        return cover.share

    def accuracy(picks: np.ndarray) -> float:
        known = np.concatenate([labelled, picks])
        found = np.unique(y[known])[head(x[known], y[known])(data.test[0]).argmax(axis=1)]
        return float((found == data.test[1]).mean())

    free = np.arange(labels, len(x))
    found = {"pool": (pool.indices, seconds)}
    found["stream"] = timed(lambda: streamed(arrays, y, labels, free, seed))
    found["sorted"] = timed(lambda: streamed(arrays, y, labels, free[np.argsort(y[free], kind="stable")], seed))
    found["sample"] = timed(lambda: sampled(arrays, y, labels, free, seed))
    found["sieve"] = timed(lambda: by_sieve(space, weight, labelled, free, pool.info["reach"] ** 2, rng))
    draws = [rng.choice(free, PICKS, replace=False) for _ in range(DRAWS)]
    rows = [
        {"way": "random", "covered": mean(map(covered, draws)), "accuracy": mean(map(accuracy, draws)), "seconds": 0}
    ]
    for way, (picks, took) in found.items():
        assert len(np.unique(picks)) == PICKS
        assert picks.min() >= labels
        rows.append({"way": way, "covered": covered(picks), "accuracy": accuracy(picks), "seconds": round(took, 2)})
    return [{"data": data.title, "labels": labels, "seed": seed} | row for row in rows]


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and its seconds of processor time."""
    start = time.process_time()
    return call(), time.process_time() - start


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def weights(arrays: dict[str, np.ndarray], labelled: np.ndarray, labels: np.ndarray) -> np.ndarray:
    N = len(arrays["features"])
    return al.Askless().weights(al.View(N, labelled, np.delete(np.arange(N), labelled), labels, **arrays))


def streamed(arrays: dict[str, np.ndarray], y: np.ndarray, labels: int, order: np.ndarray, seed: int) -> np.ndarray:
    """Labelled items first, then the others in this order."""
    stream = al.Stream("askless", PICKS, MEMORY, seed=seed)
    if labels:
        stream.add(labels=y[:labels], **{name: rows[:labels] for name, rows in arrays.items()})
    for i in range(0, len(order), BLOCK):
        stream.add(**{name: rows[order[i : i + BLOCK]] for name, rows in arrays.items()})
    return order[stream.picks().indices - labels]


def sampled(arrays: dict[str, np.ndarray], y: np.ndarray, labels: int, free: np.ndarray, seed: int) -> np.ndarray:
    """The pool's strategy on what a reservoir of the same size would hold."""
    held = np.concatenate([np.arange(labels), np.random.default_rng(seed).choice(free, MEMORY, replace=False)])
    given = {name: rows[held] for name, rows in arrays.items()}
    picks = al.select("askless", PICKS, seed=seed, labelled=np.arange(labels), labels=y[:labels], **given)
    return held[picks.indices]


def by_sieve(
    space: Space, weight: np.ndarray, labelled: np.ndarray, free: np.ndarray, h_sq: float, rng: np.random.Generator
) -> np.ndarray:
    """The best sieve, and what greedy adds to it from all that is held where it is not full. Half of the memory are targets;
    these, the space and the reach are known from the start, which is more than a stream knows."""
    targets = np.sort(rng.choice(free, MEMORY // 2, replace=False))
    cover = Cover(space, targets, weight[targets], h_sq, 0)
    cover.add(labelled)
    tiles = (cover.likeness(free[i : i + BLOCK]).numpy() for i in range(0, len(free), BLOCK))
    best, held = sieve(
        (row for tile in tiles for row in tile), cover.weight.numpy(), cover.best.numpy(), PICKS, EPSILON
    )
    assert len(held) <= MEMORY - len(targets)
    cover.add(free[best])
    left = np.setdiff1d(np.union1d(free[held], targets), free[best])
    return np.concatenate([free[best], greedy(cover, left, PICKS - len(best), rng, lambda done, total: None).items])


def sieve(
    likeness: Iterable[np.ndarray], weight: np.ndarray, before: np.ndarray, n: int, epsilon: float
) -> tuple[list[int], list[int]]:
    """Sieve-Streaming++ (Kazemi et al., ICML 2019): the numbers of at most n items, and of all that are held in the end.

    Rows of `likeness` (m,) to m targets come one by one; a set covers sum_x w(x) max(before(x), max_s k(x, s)), less what is
    covered `before`. For each threshold (1 + epsilon)^i a sieve takes an item that adds as much to it. The best of them
    covers 1/2 - epsilon of what the best n items do.
    """
    sieves: dict[int, tuple[np.ndarray, list[int]]] = {}
    most = reached = 0.0
    for number, row in enumerate(likeness):
        most = max(most, float(np.maximum(row - before, 0) @ weight))
        if most == 0:
            continue
        least = max(reached, most) / (2 * n)
        low = int(np.ceil(np.log(least) / np.log1p(epsilon) - 1))
        high = int(np.floor(np.log(most) / np.log1p(epsilon)))
        sieves = {i: sieves.get(i, (before, [])) for i in range(low, high + 1)}
        for i, (best, taken) in sieves.items():
            if len(taken) < n and np.maximum(row - best, 0) @ weight >= (1 + epsilon) ** i:
                sieves[i] = (np.maximum(best, row), [*taken, number])
                reached = max(reached, float((sieves[i][0] - before) @ weight))
    best_set = max(sieves.values(), key=lambda one: float(one[0] @ weight))[1] if sieves else []
    return best_set, sorted({number for _, taken in sieves.values() for number in taken})


def share(record: dict[str, Any], title: str, labels: int, way: str, what: str) -> tuple[float, float, float]:
    """(way - random) / (pool - random) of the means over seeds, and its 95 % bootstrap interval."""
    rows = [row for row in record["rows"] if (row["data"], row["labels"]) == (title, labels)]
    values = [np.array([row[what] for row in rows if row["way"] == one]) for one in (way, "pool", "random")]
    again = np.random.default_rng(0).integers(len(values[0]), size=(5000, len(values[0])))
    ours, pool, chance = (v[np.concatenate([np.arange(len(v))[None], again])].mean(axis=1) for v in values)
    shares = (ours - chance) / (pool - chance)
    return float(shares[0]), *np.quantile(shares[1:], [0.025, 0.975]).tolist()


def table(record: dict[str, Any]) -> str:
    """A row for each way, of each pool."""
    lines = ["| pool | chosen by | covered | of the pool's gain | accuracy | of the pool's gain | CPU s |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for title, labels in dict.fromkeys((row["data"], row["labels"]) for row in record["rows"]):
        for way, name in WAYS.items():
            rows = [r for r in record["rows"] if (r["data"], r["labels"], r["way"]) == (title, labels, way)]
            covered, accuracy, seconds = (mean(r[what] for r in rows) for what in ("covered", "accuracy", "seconds"))
            cells = []
            for number, what in ((covered, "covered"), (accuracy, "accuracy")):
                cells.append(f"{100 * number:.1f}")
                got, low, high = share(record, title, labels, way, what)
                cells.append(
                    "" if way in ("random", "pool") else f"{100 * got:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
                )
            pool = f"{title}, {'no label' if not labels else f'{labels} labels'}" if way == "random" else ""
            lines.append(f"| {pool} | {name} | {' | '.join(cells)} | {seconds:.1f} |")
    return "\n".join(lines)


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    start, end = page.index(MARK) + len(MARK), page.index("<!-- end -->", page.index(MARK))
    made = (
        f"`python benchmarks/stream.py`, {record['date']}, {record['seeds']} seeds, {record['machine']['processor']}."
    )
    return f"{page[:start]}\n\n{made}\n\n{table(record)}\n\n{page[end:]}"


def run(quick: bool, seeds: int, out: Path | None) -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for make in (fashion,) if quick else (fashion, newsgroups):
        data = make(quick)
        for labels in (0, 100):
            for seed in range(seeds):
                rows += one_seed(data, labels, seed)
                print(f"{data.title}, {labels} labels, seed {seed}", file=sys.stderr, flush=True)
    record = {
        "benchmark": "stream",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "quick": quick,
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "threads": 1,
        "versions": versions(PACKAGES),
        "seeds": seeds,
        "picks": PICKS,
        "memory": MEMORY,
        "rows": rows,
    }
    print(table(record))
    if out is not None:
        text = json.dumps(record).replace('{"data"', '\n{"data"') + "\n"
        write_whole(out, lambda file: file.write(text.encode()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: that it works")
    parser.add_argument("--seeds", type=int, help="by default 20, with --quick 2")
    parser.add_argument("--out", type=Path, help="write the results here as JSON")
    parser.add_argument("--docs", action="store_true", help="put the results that are there into docs/scale.md")
    given = parser.parse_args()
    if given.docs:
        page = renewed(PAGE.read_text(), json.loads((RESULTS / "stream.json").read_text()))
        write_whole(PAGE, lambda file: file.write(page.encode()))
    else:
        run(given.quick, given.seeds or (2 if given.quick else 20), given.out)


if __name__ == "__main__":
    main()
