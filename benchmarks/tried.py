"""What else a run's labels might tell, tried in simulated runs and left out: none of it tells enough to be shown.

    python benchmarks/tried.py --out benchmarks/results/tried.json                                  # scikit-learn's digits
    python benchmarks/tried.py --data cifar10=FEATURES.npz --out benchmarks/results/tried.json

The runs are those of `honest.py` with labels of the smallest margin. Three questions:

- Does it narrow the interval of the accuracy to stratify the check items by the model's confidence (post-stratification),
  instead of the regression on it that `estimate` uses?
- Does it improve the forecast to train on random quarters, halves and three quarters of the labels, instead of taking the
  models of earlier rounds?
- How many random labels would have brought the same accuracy? The check items are random and have labels: models trained on
  parts of them and tried on the rest are an unbiased curve of random labels up to 0.9 n, which `random_cost` extends by the
  power law of the forecast. The truth is the mean curve of all runs.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from honest import BATCH, LABELS, LOOKS, OTHERS, SIZES, Items, digits, fitted, from_file, keep, share, softmax

from askless.base.intervals import exact
from askless.run.steps.estimate import estimate
from askless.run.steps.forecast import AHEAD, DRAWS, POWERS, SHARES, curve_weights, forecast

CHECKS = (40, 100, 200)
STRATA = 5  # 2, 3 and 4 are wider
GIVEN = (40, 80, 160, 360)  # labels, after which random ones are compared
RANDOM = (20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 800)
PARTS = {0.25: 3, 0.5: 4, 0.75: 2, 0.9: 1}  # of the check items, to train on: how often all of them are tried
SUBSETS = 8
BESIDE, OF_ERROR = 0.03, 0.1  # how far a model of few random labels lies from the mean of many


def right(items: Items, train: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(n,) which of these items a model of those has right."""
    weights, _ = fitted(items.x[train], items.y[train], int(items.y.max()) + 1)
    return np.asarray((np.c_[items.x[at], np.ones(len(at))] @ weights).argmax(1) == items.y[at])


def stratified(hit: np.ndarray, sure: np.ndarray, others: np.ndarray, level: float = 0.95) -> dict[str, float]:
    """As `estimate`, by the mean in each of STRATA quantiles of the confidence instead of a slope on it."""
    n, everything = len(hit), np.r_[sure, others]
    edges = np.quantile(everything, np.arange(1, STRATA) / STRATA)
    of, all_of = (np.searchsorted(edges, p, side="right") for p in (sure, everything))
    counts = np.bincount(of, minlength=STRATA)
    theta, worth = hit.mean(), float(n)
    if counts.min() >= 3 and min(hit.sum(), n - hit.sum()) >= 2:
        means = np.bincount(of, hit, STRATA) / counts
        left_out = (hit - means[of]) * counts[of] / (counts[of] - 1)
        r2 = 1 - np.sum(left_out**2) / np.sum(((hit - theta) * n / (n - 1)) ** 2)
        if r2 > 0:
            theta = np.bincount(all_of, minlength=STRATA) @ means / len(everything)
            worth = n / (1 - r2 * len(others) / len(everything))
    low, high = exact(float(theta) * worth, worth, level)
    return {"low": low, "high": high, "worth": worth}


def random_curve(items: Items, check: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(k,) sizes, and (k, n) how often each check item is right by models of so many of the others."""
    n, sizes, rows = len(check), [], []
    for part, times in PARTS.items():
        folds, hits, tried = round(1 / min(part, 1 - part)), np.zeros(n), np.zeros(n)
        for _ in range(times):
            fold = rng.permutation(n) % folds
            for f in range(folds):
                inside = (fold == f) == (part < 0.5)
                hits[~inside] += right(items, check[inside], check[~inside])
                tried[~inside] += 1
        sizes.append(part * n)
        rows.append(hits / tried)
    return np.array(sizes), np.array(rows)


def random_cost(sizes: np.ndarray, rows: np.ndarray, hit: np.ndarray) -> list[float]:
    """The 5 %, 50 % and 95 % quantiles of the number of random labels that are as good as the model that has these `hit`:
    by draws from the posterior of the curve, its end and the paired difference to the model."""
    rng, n, weights = np.random.default_rng(0), len(hit), curve_weights(sizes, rows)
    at, power = np.divmod(rng.choice(weights.size, DRAWS, p=weights.ravel()), len(POWERS))
    wrong, ahead = (n - rows[-1].sum() + 1) / (n + 2), hit - rows[-1]
    error = rng.beta(wrong * n + 0.5, (1 - wrong) * n + 0.5, DRAWS)
    spread = ahead.var(ddof=1) / n + 1 / n**2 + 2 * min(BESIDE, OF_ERROR * wrong) ** 2
    part = np.clip(error - rng.normal(ahead.mean(), spread**0.5, DRAWS), 1e-4, 1) / error  # of the error is left
    left = (part - 1 + SHARES[at]) / SHARES[at]
    cost = np.where(left <= 0, np.inf, sizes[-1] * np.maximum(left, 1e-9) ** (-1 / POWERS[power]))
    return [float(q) for q in np.quantile(cost, (0.05, 0.5, 0.95), method="inverted_cdf")]


def one_run(items: Items, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([7, seed])
    held, rest = np.split(rng.permutation(len(items.y)), [3 * max(CHECKS)])
    pool, others = np.split(rest, [min(len(rest) - OTHERS, 2000)])
    unseen = np.r_[held, others[:2400]]
    labelled, scores, truths = list(pool[:BATCH]), {}, {}
    for now, following in zip(SIZES, (*SIZES[1:], 0), strict=True):
        weights, heat = fitted(items.x[labelled], items.y[labelled], int(items.y.max()) + 1)
        of_all = np.c_[items.x, np.ones(len(items.x))] @ weights / heat
        truths[now] = float((of_all[unseen].argmax(1) == items.y[unseen]).mean())
        scores[now] = of_all[held]
        if now == LABELS:
            chosen = np.array(labelled)
        left = np.setdiff1d(pool, labelled)
        two = np.sort(softmax(of_all[left]), axis=1)[:, -2:]
        labelled += left[np.argsort(two[:, 1] - two[:, 0], kind="stable")[: max(0, following - now)]].tolist()
    hits = {now: of.argmax(1) == items.y[held] for now, of in scores.items()}
    parts = [round(part * LABELS) for part in (0.25, 0.5, 0.75)]
    halves = [
        np.mean([right(items, rng.choice(chosen, m, replace=False), held) for _ in range(SUBSETS)], axis=0)
        for m in parts
    ]
    curve = {m: float(right(items, rng.permutation(pool)[:m], unseen).mean()) for m in RANDOM}
    said = [{"check": n, **told(items, held[:n], scores, hits, parts, halves, rng)} for n in CHECKS]
    return {"true": truths, "random": curve, "said": said}


def told(
    items: Items,
    check: np.ndarray,
    scores: dict[int, np.ndarray],
    hits: dict[int, np.ndarray],
    parts: list[int],
    halves: list[np.ndarray],
    rng: np.random.Generator,
) -> dict[str, Any]:
    n, hit, sure = len(check), hits[LABELS], softmax(scores[LABELS]).max(1)
    regression = estimate(hit[:n], sure[:n], sure[n : 3 * n])
    assert regression is not None
    now = regression["accuracy"], regression["worth"]
    rounds = [hits[m][:n] for m in SIZES[:LOOKS]]
    curve = random_curve(items, check, rng)
    return {
        "interval": {"regression": regression, "strata": stratified(hit[:n], sure[:n], sure[n : 3 * n])},
        "forecast": {
            "rounds": forecast(SIZES[:LOOKS], rounds, *now),
            "subsets": forecast([*parts, LABELS], [*(half[:n] for half in halves), hit[:n]], *now),
        },
        "random": {m: random_cost(*curve, hits[m][:n].astype(float)) for m in GIVEN},
    }


# --- what they come to -----------------------------------------------------------------------------------------------


def summary(items: Items, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each number of check items. A median of random labels is null where no number of them is enough."""
    sizes, curve = list(RANDOM), [float(np.mean([run["random"][m] for run in runs])) for m in RANDOM]

    def needed(accuracy: float) -> float:
        return np.inf if accuracy > curve[-1] else float(np.exp(np.interp(accuracy, curve, np.log(sizes))))

    def number(values: list[float]) -> float | None:
        middle = float(np.quantile(values, 0.5, method="inverted_cdf"))
        return round(middle) if np.isfinite(middle) else None

    rows = []
    for place, n in enumerate(CHECKS):
        said = [run["said"][place] for run in runs]
        row: dict[str, Any] = {"data": items.name, "check": n, "runs": len(runs)}
        for name in ("regression", "strata"):
            pairs = [(one["interval"][name], run["true"][LABELS]) for one, run in zip(said, runs, strict=True)]
            row[name] = {
                "width": float(np.mean([one["high"] - one["low"] for one, _ in pairs])),
                "worth": float(np.mean([one["worth"] for one, _ in pairs])),
                "holds": share([one["low"] <= t <= one["high"] for one, t in pairs]),
            }
        for name in ("rounds", "subsets"):
            for at, more in enumerate(AHEAD):
                gains = [run["true"][LABELS + more] - run["true"][LABELS] for run in runs]
                pairs = [(one["forecast"][name][at], gain) for one, gain in zip(said, gains, strict=True)]
                row[f"{name}_{more}"] = {
                    "width": float(np.mean([one.gain_high - one.gain_low for one, _ in pairs])),
                    "holds": share([one.gain_low <= gain <= one.gain_high for one, gain in pairs]),
                }
        for m in GIVEN:
            true = [needed(run["true"][m]) for run in runs]
            low, about, high = (list(one) for one in zip(*(one["random"][m] for one in said), strict=True))
            row[f"random_for_{m}"] = {
                "true": number(true),
                "low": number(low),
                "about": number(about),
                "high": number(high),
                "holds": share([a <= t <= b for a, t, b in zip(low, true, high, strict=True)]),
                "shows_a_saving": share([a > m for a in low]),
            }
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", metavar="NAME=FILE", help="features and labels; default: digits")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    given = parser.parse_args()
    name, _, path = given.data.partition("=")
    items = from_file(name, Path(path)) if path else digits()
    rows = summary(items, [one_run(items, seed) for seed in range(given.runs)])
    for row in rows:
        print(json.dumps(row))
    if given.out is not None:
        keep(rows, given.out)


if __name__ == "__main__":
    main()
