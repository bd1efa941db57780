"""What does it gain that picks settle? askless with and without (`settle=0`), from no label, with logistic regression.

    python benchmarks/settle.py [--draws 10]

Each draw is four fifths of a pool, drawn at random; labels come in batches up to 10, 20, 40 and 80. Accuracy is that on the
pool's test items, in %; the gain is paired by draw, with its 95 % t interval. CIFAR-10: 3,000 images by EfficientNet-Lite0.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from suite import RESULTS, record

import askless as al
from askless.bench.plan import Data
from askless.bench.presets.pools import Embedded, Measured
from askless.bench.statistics import paired

COUNTS = (10, 20, 40, 80)
POOLS = {
    "digits": Measured(data=Data(name="digits")),
    "letter": Measured(data=Data(name="letter", items=3000, test=1000)),
    "spambase": Measured(data=Data(name="spambase", items=3000, test=1000)),
    "CIFAR-10": Embedded(data=Data(name="cifar10", items=3000, test=1000)),
}


def curve(strategy: al.Askless, x: np.ndarray, y: np.ndarray, test: tuple[np.ndarray, np.ndarray]) -> list[float]:
    """Accuracies in % after each batch."""
    labelled, probs, out = np.empty(0, dtype=np.int64), None, []
    for count in COUNTS:
        more = {} if probs is None else {"probs": probs}
        picks = al.select(
            strategy, count - len(labelled), features=x, labelled=labelled, labels=y[labelled], seed=0, **more
        )
        labelled = np.append(labelled, picks.indices)
        model = LogisticRegression().fit(x[labelled], y[labelled])
        probs = np.zeros((len(x), y.max() + 1))
        probs[:, model.classes_] = model.predict_proba(x)
        out.append(100 * float((model.predict(test[0]) == test[1]).mean()))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS / "settle.json")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn's, about 100 iterations and classes with few labels
    rows = []
    for name, load in POOLS.items():
        pool = load()
        x, y = np.asarray(pool.x), np.asarray(pool.labels)
        test = np.asarray(pool.test[0]), np.asarray(pool.test[1])
        curves: dict[str, list[list[float]]] = {"greedy": [], "settled": []}
        for draw in range(given.draws):
            some = np.random.default_rng(draw).permutation(len(x))[: len(x) * 4 // 5]
            curves["greedy"].append(curve(al.Askless(settle=0), x[some], y[some], test))
            curves["settled"].append(curve(al.Askless(), x[some], y[some], test))
        greedy, settled = (np.array(curves[k]) for k in ("greedy", "settled"))
        for i, count in enumerate(COUNTS):
            gain = paired(settled[:, i], greedy[:, i])
            rows.append(
                {
                    "pool": name,
                    "labels": count,
                    "greedy": round(float(greedy[:, i].mean()), 2),
                    "settled": round(float(settled[:, i].mean()), 2),
                    "gain": round(gain.mean, 2),
                    "half_interval": round(gain.half, 2),
                }
            )
            print(f"{name:9} {count:3}  {greedy[:, i].mean():5.1f} -> {settled[:, i].mean():5.1f}", end="")
            print(f"  {gain.mean:+.1f} ± {gain.half:.1f}", flush=True)
    record(given.out, "settle", draws=given.draws, rows=rows)


if __name__ == "__main__":
    main()
