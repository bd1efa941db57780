"""Does what a run says of itself hold? Simulated runs on real items, whose accuracy on thousands of others is known.

    python benchmarks/honest.py --runs 500 --out benchmarks/results/honest.json                      # scikit-learn's digits
    python benchmarks/honest.py --runs 500 --data cifar=FEATURES.npz --out benchmarks/results/honest.json
    python benchmarks/honest.py --docs    # only write the table into docs/evidence/labelling.md

FEATURES.npz has features and labels as X and y, or as f_train, y_train, f_test and y_test. Every run draws its own check
items, reserve and pool, labels 20 at a time up to 160 (drawn at random, or those of the smallest margin), trains a ridge
classifier each time, and says what a run would: the interval of each round, and the forecast after the last. Its
confidence is calibrated by the labels left out one at a time, or made too large or too small on purpose. The truth is the
accuracy on all items that may not be chosen, of which the check items are a random sample.
"""

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from suite import HERE, PACKAGES, RESULTS, cpu

from askless.base.files import write_whole
from askless.base.intervals import wilson
from askless.base.machine import cores, versions
from askless.run.steps.estimate import estimate, level_of_look
from askless.run.steps.forecast import AHEAD, forecast

PAGE = HERE.parent / "docs" / "evidence" / "labelling.md"
MARK, END = "<!-- table: honest -->", "<!-- end -->"
BATCH, LABELS, LOOKS = 20, 160, 8
SIZES = (*range(BATCH, LABELS + 1, BATCH), 185, 210, 235, 260, 310, 360)  # labels of each training
CHECKS = (20, 40, 100)
OTHERS = 300  # at least, beside the held-out items, to know the truth by
RIDGES, HEATS = (0.01, 0.1, 1.0, 10.0), (0.05, 0.1, 0.2, 0.4)
CONFIDENCE = {"calibrated": 1.0, "too sure": 0.3, "too modest": 3.0}


@dataclass(frozen=True)
class Items:
    """`x` (N, d) of unit length, `y` (N,) from 0."""

    name: str
    x: np.ndarray
    y: np.ndarray


def digits() -> Items:
    found = load_digits()
    return Items("digits", unit(found.data), found.target)


def from_file(name: str, path: Path) -> Items:
    with np.load(path, allow_pickle=False) as file:
        if "X" in file:
            return Items(name, unit(file["X"]), np.unique(file["y"], return_inverse=True)[1])
        x, y = (np.concatenate([file[f"{kind}_{part}"] for part in ("train", "test")]) for kind in "fy")
        return Items(name, unit(x), np.unique(y, return_inverse=True)[1])


def unit(x: np.ndarray, most: int = 96) -> np.ndarray:
    """Rows of unit length, without their mean, in their `most` main directions: hundreds of runs then take minutes."""
    x = np.asarray(x, dtype=np.float64)
    x = x - x.mean(axis=0)
    if x.shape[1] > most:
        x = x @ np.linalg.eigh(x.T @ x)[1][:, -most:]
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def fitted(x: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[np.ndarray, float]:
    """Ridge regression of the classes, (d + 1, C), and the heat of the softmax: both by leaving each label out."""
    rows, hot = np.c_[x, np.ones(len(x))], np.eye(n_classes)[y]
    best: tuple[float, np.ndarray, float] | None = None
    for ridge in RIDGES:
        solve = np.linalg.inv(rows.T @ rows + ridge * np.eye(rows.shape[1])) @ rows.T
        hat = np.einsum("nd,dn->n", rows, solve)
        weights = solve @ hot
        left_out = hot - (hot - rows @ weights) / (1 - hat)[:, None]
        for heat in HEATS:
            loss = -np.log(softmax(left_out / heat)[np.arange(len(y)), y] + 1e-9).mean()
            if best is None or loss < best[0]:
                best = loss, weights, heat
    assert best is not None
    return best[1], best[2]


def one_run(items: Items, by_margin: bool, seed: int, checks: tuple[int, ...] = CHECKS) -> list[dict[str, Any]]:
    """What a run says, look by look and of what comes next, beside what is true: for each number of check items and each
    kind of confidence, on the same models."""
    rng = np.random.default_rng([seed, by_margin])
    order, n_classes, most = rng.permutation(len(items.y)), int(items.y.max()) + 1, max(checks)
    held, rest = np.split(order, [3 * most])
    pool, others = np.split(rest, [min(len(rest) - OTHERS, 2000)])
    unseen = np.r_[held, others]  # what the run never trains on: the collection that its check items are a sample of
    x, y, labelled = items.x, items.y, list(pool[:BATCH])
    scores, truths = [], {}  # of the held-out items, over the heat; the accuracy
    for now, following in zip(SIZES, (*SIZES[1:], 0), strict=True):
        weights, heat = fitted(x[labelled], y[labelled], n_classes)
        of_all = np.c_[x, np.ones(len(x))] @ weights / heat
        truths[now] = float((of_all[unseen].argmax(1) == y[unseen]).mean())
        if now <= LABELS:
            scores.append(of_all[held])
        left = np.setdiff1d(pool, labelled)
        ranks = rng.random(len(left))
        if by_margin:
            two = np.sort(softmax(of_all[left]), axis=1)[:, -2:]
            ranks = two[:, 1] - two[:, 0]
        labelled += left[np.argsort(ranks, kind="stable")[: max(0, following - now)]].tolist()
    return [
        {"check": n, "confidence": name, "true": truths, **told(scores, y[held], n, factor)}
        for n in checks
        for name, factor in CONFIDENCE.items()
    ]


def told(scores: list[np.ndarray], y: np.ndarray, n: int, factor: float) -> dict[str, Any]:
    """What a run with n check items would say of these models: `shown` at each look, `once` at the last one if it were the
    only one, and the forecast after it."""
    hits = np.array([of.argmax(1)[:n] == y[:n] for of in scores])
    sure = [softmax(of / factor).max(1)[: 3 * n] for of in scores]
    shown = [
        estimate(hit, p[:n], p[n:], level_of_look(t, LOOKS))
        for t, (hit, p) in enumerate(zip(hits, sure, strict=True), 1)
    ]
    once = estimate(hits[-1], sure[-1][:n], sure[-1][n:])
    assert once is not None
    coming = forecast(SIZES[:LOOKS], hits, once["accuracy"], once["worth"])
    return {"shown": shown, "once": once, "forecast": coming}


# --- what 500 of them come to ----------------------------------------------------------------------------------------


def holds(found: dict[str, Any], truth: float) -> bool:
    return bool(found["low"] <= truth <= found["high"])


def summary(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """How often what the runs said was true, and what the model's confidence was worth in check labels."""
    last = [run["true"][LABELS] for run in runs]
    plain = [wilson(run["once"]["correct"], run["check"]) for run in runs]
    width = np.mean([run["once"]["high"] - run["once"]["low"] for run in runs])
    accuracy = float(np.mean(last))
    row: dict[str, Any] = {
        "data": name,
        "check": runs[0]["check"],
        "confidence": runs[0]["confidence"],
        "runs": len(runs),
        "accuracy": accuracy,
        "all_looks": share([all(map(holds, run["shown"], run["true"].values())) for run in runs]),
        "last_look": share([holds(run["once"], truth) for run, truth in zip(runs, last, strict=True)]),
        "wilson_last_look": share([low <= t <= high for (low, high), t in zip(plain, last, strict=True)]),
        "wilson_all_looks": share(
            [
                all(low <= t <= high for (low, high), t in zip(naive(run), run["true"].values(), strict=False))
                for run in runs
            ]
        ),
        "width": float(width),
        "shown_worth": float(np.mean([run["shown"][-1]["worth"] for run in runs])),
        "wilson_width": float(np.mean([high - low for low, high in plain])),
        "shown_width": float(np.mean([run["shown"][-1]["high"] - run["shown"][-1]["low"] for run in runs])),
        "worth": float(np.mean([run["once"]["worth"] for run in runs])),
    }
    for place, more in enumerate(AHEAD):
        ahead = [run["forecast"][place] for run in runs]
        then = [run["true"][LABELS + more] for run in runs]
        row[f"gain_{more}"] = {
            "true": float(np.mean(np.array(then) - last)),
            "said": float(np.mean([a.gain for a in ahead])),
            "width": float(np.mean([a.gain_high - a.gain_low for a in ahead])),
            "holds": share([a.gain_low <= t - now <= a.gain_high for a, t, now in zip(ahead, then, last, strict=True)]),
            "accuracy_holds": share([a.low <= t <= a.high for a, t in zip(ahead, then, strict=True)]),
        }
    return row


def naive(run: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """What is customary: Wilson's 95 % interval at every look."""
    return (wilson(found["correct"], found["n"]) for found in run["shown"])


def share(said: list[bool]) -> float:
    return float(np.mean(said))


def measure(items: Items, n_runs: int, checks: tuple[int, ...] = CHECKS) -> list[dict[str, Any]]:
    """A row for each number of check items and kind of confidence; in every other run the labels are chosen."""
    runs = [one_run(items, bool(seed % 2), seed, checks) for seed in range(n_runs)]
    return [summary(items.name, list(same)) for same in zip(*runs, strict=True)]


def keep(rows: list[dict[str, Any]], out: Path) -> None:
    """Writes the rows in place of earlier ones of the same items."""
    before = json.loads(out.read_text())["rows"] if out.exists() else []
    new = {row["data"] for row in rows}
    record = {
        "benchmark": out.stem,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "versions": versions(PACKAGES),
        "rows": [*(row for row in before if row["data"] not in new), *rows],
    }
    text = json.dumps(record, indent=1) + "\n"
    write_whole(out, lambda file: file.write(text.encode()))


# --- into the docs ---------------------------------------------------------------------------------------------------


def table(record: dict[str, Any]) -> str:
    """Markdown: a row for each data set, number of check items and kind of confidence."""
    lines = [
        "| items | check items | confidence | all 8 looks hold | Wilson at every look | one look holds | Wilson, one look "
        "| check labels saved | against Wilson, one look | gain of 50 / 100 / 200 labels holds |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["rows"]:
        parts = [100 * row[name] for name in ("all_looks", "wilson_all_looks", "last_look", "wilson_last_look")]
        saved = 100 * (1 - row["check"] / row["worth"])
        against = 100 * (1 - (row["width"] / row["wilson_width"]) ** 2)  # labels go with the square of the width
        gains = " / ".join(f"{100 * row[f'gain_{more}']['holds']:.0f}" for more in AHEAD)
        cells = [row["data"], str(row["check"]), row["confidence"], *(f"{part:.1f} %" for part in parts)]
        lines.append(
            "| " + " | ".join([*cells, f"{saved:.0f} %", f"{against:.0f} %".replace("-", "−"), f"{gains} %"]) + " |"
        )
    runs = min(row["runs"] for row in record["rows"])
    then = [100 * row[f"gain_{more}"]["accuracy_holds"] for row in record["rows"] for more in AHEAD]
    return "\n".join(lines) + (
        f"\n\n{runs} simulated runs for each row; intervals of accuracies say 95 %, those of gains 90 %. The "
        f"90 % intervals of the accuracy after those labels hold in {min(then):.0f} to {max(then):.0f} %. {record['date']}."
    )


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    start, end = page.index(MARK) + len(MARK), page.index(END, page.index(MARK))
    return f"{page[:start]}\n\n{table(record)}\n\n{page[end:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", metavar="NAME=FILE", help="features and labels; default: digits")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--docs", action="store_true", help="only write the table into docs/evidence")
    given = parser.parse_args()
    if given.docs:
        text = renewed(PAGE.read_text(encoding="utf-8"), json.loads((RESULTS / "honest.json").read_text()))
        write_whole(PAGE, lambda file: file.write(text.encode()))
        return
    name, _, path = given.data.partition("=")
    rows = measure(from_file(name, Path(path)) if path else digits(), given.runs)
    for row in rows:
        print(json.dumps(row))
    if given.out is not None:
        keep(rows, given.out)


if __name__ == "__main__":
    main()
