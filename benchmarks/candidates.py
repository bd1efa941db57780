"""What does it cost that askless picks from some of a large pool only? All items against some of them.

    python benchmarks/candidates.py [--draws 10]

Pools of more than 65,536 items have 65,536 candidates. No real pool here is that large, so this takes an eighth of them,
8,192, from the training images of MNIST; that is harder, for the fewer candidates, the farther they are from the best
places. Each draw has its own 50,000 images and candidates; labels come from none in batches up to 40, 160 and 640,
under logistic regression on 128 principal directions. Accuracy is that on 5,000 test images, in %; the loss is paired by
draw, with its 95 % t interval.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from suite import RESULTS, record

import askless as al
from askless.acquire import covering
from askless.bench.statistics import paired

COUNTS = (40, 160, 640)
POOL, SOME = 50_000, 2**13


def curve(x: np.ndarray, y: np.ndarray, test: tuple[np.ndarray, np.ndarray], candidates: int, seed: int) -> list[float]:
    """Accuracies in % after each batch, where picks come from at most so many candidates."""
    covering.CANDIDATES = candidates
    labelled, probs, out = np.empty(0, dtype=np.int64), None, []
    for count in COUNTS:
        more = {} if probs is None else {"probs": probs}
        picks = al.select(
            "askless", count - len(labelled), features=x, labelled=labelled, labels=y[labelled], seed=seed, **more
        )
        labelled = np.append(labelled, picks.indices)
        model = LogisticRegression(max_iter=200).fit(x[labelled], y[labelled])
        probs = np.zeros((len(x), 10))
        probs[:, model.classes_] = model.predict_proba(x)
        out.append(100 * float((model.predict(test[0]) == test[1]).mean()))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS / "candidates.json")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn's, about iterations and classes with few labels
    pool = al.data.load("mnist")
    images = np.asarray(pool.x).reshape(len(pool), -1) / np.float32(255)
    held_out = np.asarray(pool.test[0]).reshape(len(pool.test[1]), -1)[:5000] / np.float32(255)
    pca = PCA(128, random_state=0).fit(images)
    x, y = pca.transform(images).astype(np.float32), np.asarray(pool.labels)
    test = pca.transform(held_out).astype(np.float32), np.asarray(pool.test[1])[:5000]
    curves: dict[str, list[list[float]]] = {"all": [], "some": []}
    for draw in range(given.draws):
        of = np.random.default_rng(draw).permutation(len(x))[:POOL]
        curves["all"].append(curve(x[of], y[of], test, POOL, draw))
        curves["some"].append(curve(x[of], y[of], test, SOME, draw))
        print(draw, curves["all"][-1], curves["some"][-1], flush=True)
    rows = []
    every, some = (np.array(curves[k]) for k in ("all", "some"))
    for i, count in enumerate(COUNTS):
        loss = paired(every[:, i], some[:, i])
        means = {"all": round(float(every[:, i].mean()), 2), "some": round(float(some[:, i].mean()), 2)}
        rows.append({"labels": count, **means, "loss": round(loss.mean, 2), "half_interval": round(loss.half, 2)})
        print(f"{count:4}  {means['all']:5.1f} -> {means['some']:5.1f}, loss {loss.mean:+.2f} ± {loss.half:.2f}")
    total = paired(every.mean(axis=1), some.mean(axis=1))
    print(f"mean of the three: loss {total.mean:+.2f} ± {total.half:.2f}")
    record(
        given.out,
        "candidates",
        draws=given.draws,
        pool=POOL,
        candidates=SOME,
        rows=rows,
        mean_loss=round(total.mean, 2),
        mean_half_interval=round(total.half, 2),
    )


if __name__ == "__main__":
    main()
