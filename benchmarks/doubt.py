"""How many wrong labels are found among the first suspects: labels flipped on purpose, on pools of several kinds.

    python benchmarks/doubt.py --data cifar10_subset_efflite0_feats.npz --data digits --data r8 --data spambase \
        --out benchmarks/results/doubt.json
    python benchmarks/doubt.py --docs    # only write the table into docs/evidence/labelling.md

Of 2,000 items of each pool 200 are labelled, drawn at random or chosen by askless in batches of 50; 5 % of the labels are
then flipped, to any other class or to the most similar one (the class whose mean is nearest). Reported is the share of the
flips among the first 2 x as many suspects, by

    others    askless.run.steps.doubt: each label by the other labels, in the order of its probability
    model     askless.run.steps.measure.doubtful: what a model trained on all the labels, the wrong ones too, says of them
    logistic  scikit-learn's logistic regression in 10 stratified folds, in the same order: an independent version
    joint     confident learning's own suspects of `others`: another class reaches its mean self-confidence, by margin

and `knows`: how often the other labels predict the true class, for nothing finds flips on a pool that it cannot tell apart.
Texts are seen as TF-IDF, which needs no download. With --out finished rows are kept and not computed again.
"""

import argparse
import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from suite import HERE, PACKAGES, RESULTS, cpu

import askless as al
from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.data import Pool, as_pool, subset
from askless.features.scaling import evened, scaling
from askless.features.text_backbone import rows_of, text_backbone
from askless.run.steps.doubt import Suspects, compared, left_out, suspects
from askless.run.steps.measure import doubtful

PAGE = HERE.parent / "docs" / "evidence" / "labelling.md"
MARK, END = "<!-- table: doubt -->", "<!-- end: doubt -->"
ITEMS, LABELS, FLIPPED, BATCH = 2000, 200, 0.05, 50
WAYS = ("others", "model", "logistic", "joint")


def read(data: str) -> tuple[str, Pool, np.ndarray, np.ndarray]:
    """Its name, items as a run's model takes them, their features as a run keeps them, and their labels."""
    if data.endswith(".npz") and "f_train" in (arrays := np.load(data)):
        name, x, y = Path(data).stem, arrays["f_train"].astype(np.float32), arrays["y_train"]
        at = np.sort(np.random.default_rng(0).permutation(len(y))[:ITEMS])
        x, y = x[at], y[at].astype(np.int64)
    else:
        pool = al.data.load(data)
        pool = subset(pool, ITEMS) if len(pool) > ITEMS else pool
        name, y = pool.name.partition(",")[0], np.asarray(pool.labels, np.int64)
        if pool.kind == "text":
            texts = [str(text) for text in pool.x]
            x = rows_of(texts, text_backbone("tfidf", texts), al.Frozen(backbone="tfidf"))
        else:
            x = np.asarray(pool.x, dtype=np.float32).reshape(len(pool), -1)
    mean, scale = (evened if x.shape[1] > 64 else scaling)(torch.from_numpy(x))
    return name, as_pool((torch.from_numpy(x) - mean) / scale, kind="features"), x, y


def learner_of(pool: Pool, classes: int, seed: int, labels: dict[int, int]) -> al.ActiveLearner:
    learner = al.ActiveLearner(pool, strategy="askless", classes=classes, seed=seed)
    learner.tell(list(labels), list(labels.values()))
    return learner


def labelled(choice: str, pool: Pool, y: np.ndarray, seed: int) -> np.ndarray:
    """The items that are labelled."""
    if choice == "random":
        return np.random.default_rng(seed).permutation(len(y))[:LABELS]
    learner = learner_of(pool, int(y.max()) + 1, seed, {})
    while True:
        at = learner.ask(BATCH).indices
        learner.tell(at, y[at])
        if len(learner.labels) >= LABELS:
            return np.array(sorted(learner.labels))
        learner.fit()


def nearest_class(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows, classes = compared(x), range(int(y.max()) + 1)
    means = np.stack([rows[y == c].mean(axis=0) for c in classes])
    sq_dist = np.square(means[:, None] - means).sum(axis=2)
    np.fill_diagonal(sq_dist, np.inf)
    return sq_dist.argmin(axis=1)


def share_found(order: np.ndarray, flips: np.ndarray) -> float:
    return len(set(order[: 2 * len(flips)].tolist()) & set(flips.tolist())) / len(flips)


def joint(labels: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """The off-diagonal entries of confident learning's joint, by normalised margin (Northcutt et al. 2021, Eq. 1)."""
    own = probs[np.arange(len(labels)), labels]
    least = np.full(probs.shape[1], np.inf)
    for c in np.unique(labels[~np.isnan(own)]):
        least[c] = np.nanmean(own[labels == c])
    confident = np.where(probs >= least - 1e-12, probs, -np.inf)
    off = np.isfinite(confident.max(axis=1)) & (confident.argmax(axis=1) != labels)
    others = probs.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    order = np.argsort(own - others.max(axis=1), kind="stable")
    return order[off[order]]


def by_logistic(rows: np.ndarray, labels: np.ndarray, classes: int) -> Suspects:
    """scikit-learn's, with its defaults, on rows of mean squared length 1000 (as askless' linear heads have them)."""
    z = rows * np.sqrt(1000 / np.square(rows).sum(axis=1).mean())
    seen = np.unique(labels)
    probs = np.zeros((len(labels), classes))
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    made = LogisticRegression(C=0.01, max_iter=300)
    probs[:, seen] = cross_val_predict(made, z, labels, cv=folds, method="predict_proba")
    return suspects(labels, probs)


def one(data: tuple[str, Pool, np.ndarray, np.ndarray], choice: str, seed: int) -> list[dict[str, Any]]:
    """The rows of both kinds of flips, on the same labels."""
    name, pool, x, y = data
    classes, near, rows = int(y.max()) + 1, nearest_class(x, y), []
    at = labelled(choice, pool, y, seed)
    for kind in ("any", "nearest") if classes > 2 else ("any",):
        rng = np.random.default_rng((seed, 1))
        flips = rng.permutation(len(at))[: round(FLIPPED * len(at))]
        given = y[at].copy()
        given[flips] = (
            near[given[flips]] if kind == "nearest" else (given[flips] + rng.integers(1, classes, len(flips))) % classes
        )
        ready = compared(x[at])
        probs = left_out(ready, given, classes)
        others = suspects(given, probs)
        model = learner_of(pool, classes, seed, dict(zip(at.tolist(), given.tolist(), strict=True)))
        model.fit()
        said = doubtful(given, model.predict_pool()[at])
        orders = {
            "others": others.order,
            "model": said.order[said.suspect[said.order]],
            "logistic": by_logistic(ready, given, classes).order,
            "joint": joint(given, probs),
        }
        found = {way: share_found(order, flips) for way, order in orders.items()}
        known = float((np.nan_to_num(probs).argmax(axis=1) == y[at]).mean())
        rows.append(
            {"data": name, "choice": choice, "flips": kind, "seed": seed, "labels": len(at)}
            | {"found": found, "suspects": {way: len(order) for way, order in orders.items()}, "knows": known}
        )
    return rows


def keep(rows: list[dict[str, Any]], out: Path) -> None:
    record = {
        "benchmark": "doubt",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "versions": versions(PACKAGES),
        "rows": rows,
    }
    text = json.dumps(record, indent=1) + "\n"
    write_whole(out, lambda file: file.write(text.encode()))


def table(record: dict[str, Any]) -> str:
    """Markdown: a row for each pool and kind of flips, means over the seeds."""
    ways = "the other labels | the model | logistic, 10 folds | confident joint"
    lines = [
        f"| pool | labels | flipped to | seeds | {ways} | others right |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for key in dict.fromkeys((row["data"], row["choice"], row["flips"]) for row in record["rows"]):
        rows = [row for row in record["rows"] if (row["data"], row["choice"], row["flips"]) == key]
        data, choice, flips = key
        found = [f"{100 * np.mean([row['found'][way] for row in rows]):.0f}" for way in WAYS]
        chosen = "chosen" if choice == "askless" else choice
        to = "any class" if flips == "any" else "the nearest class"
        known = f"{100 * np.mean([row['knows'] for row in rows]):.0f}"
        lines.append("| " + " | ".join([f"`{data}`", chosen, to, str(len(rows)), *found, known]) + " |")
    machine = record["machine"]
    about = f"In %, means over the seeds. {machine['processor']}, {machine['cores']} cores, {record['date']}."
    return "\n".join(lines) + f"\n\n{about}"


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    start, end = page.index(MARK) + len(MARK), page.index(END)
    return f"{page[:start]}\n\n{table(record)}\n\n{page[end:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", action="append", default=[], help="a data set's name, or a file of features; repeatable"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--docs", action="store_true", help="only write the table into docs/evidence")
    given = parser.parse_args()
    if given.docs:
        text = renewed(PAGE.read_text(encoding="utf-8"), json.loads((RESULTS / "doubt.json").read_text()))
        write_whole(PAGE, lambda file: file.write(text.encode()))
        return
    torch.set_num_threads(1)
    rows = json.loads(given.out.read_text())["rows"] if given.out and given.out.exists() else []
    done = {(row["data"], row["choice"], row["seed"]) for row in rows}
    pools = [read(data) for data in given.data]
    for choice in ("random", "askless"):
        for seed in range(given.seeds):
            for data in pools:
                if (data[0], choice, seed) in done:
                    continue
                rows += one(data, choice, seed)
                print(data[0], choice, seed, rows[-1]["found"], flush=True)
                if given.out:
                    keep(rows, given.out)


if __name__ == "__main__":
    main()
