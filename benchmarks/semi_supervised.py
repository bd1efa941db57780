"""What training on the unlabelled data is worth at 40 balanced labels: supervised against FixMatch, 5 paired seeds.

    python benchmarks/semi_supervised.py                              # digits, the small CNN from scratch
    python benchmarks/semi_supervised.py --frozen cifar10 --pool 4000 --test 1000   # EfficientNet-Lite0 and a linear head

--frozen takes a data set's name (`askless data fetch cifar10` gets it), or a file such as an .npz with x_train, y_train,
x_test, y_test. Images are embedded once, some 28 ms an image and view on one core, and cached.
"""

import argparse
import dataclasses

import numpy as np
import torch
from rich.console import Console
from scipy.stats import t as student_t

from askless import ActiveLearner, Frozen, LabelPropagation, Supervised
from askless.base.terminal import progress_bar
from askless.data import digits, load, subset
from askless.learn import DARP, FixMatch

PER_CLASS = 4
ON_DIGITS = {
    "supervised": Supervised(steps=300),
    "FixMatch": FixMatch(steps=600, batch=32, mu=4),
    "FixMatch + DARP": FixMatch(steps=600, batch=32, mu=4, darp=DARP()),
}
ON_FROZEN = {
    "supervised": Supervised(steps=300),
    "FixMatch": FixMatch(steps=600),
    "FixMatch + DARP": FixMatch(steps=600, darp=DARP(every=20)),
    "label propagation": LabelPropagation(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--frozen", metavar="DATA", help="images for a frozen backbone; without it: digits from scratch"
    )
    parser.add_argument("--pool", type=int, help="number of images of the pool, drawn at random")
    parser.add_argument("--test", type=int, help="number of test images, from the first")
    parser.add_argument("--cache", help="folder for embeddings")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(stderr=True)
    pool = load(given.frozen) if given.frozen else digits()
    if given.pool:
        pool = subset(pool, given.pool)
    if given.test:
        pool = dataclasses.replace(pool, test=(pool.test[0][: given.test], pool.test[1][: given.test]))
    learners = ON_FROZEN if given.frozen else ON_DIGITS
    views, net = None, "small-cnn"
    if given.frozen:
        net = Frozen(weak=1, strong=2, cache=given.cache)
        with progress_bar("embedding", console) as progress:
            views = ActiveLearner(pool, net=net, progress=progress).views
    accuracy: dict[str, list[float]] = {name: [] for name in learners}
    test = None
    with progress_bar("training", console) as progress:
        for seed in range(given.seeds):
            for name, learner in learners.items():
                active = ActiveLearner(pool, net=net, learner=learner, seed=seed, views=views)
                active.start_balanced(PER_CLASS)
                active.fit()
                if given.frozen:  # embed the test images once for all
                    test = active.views.of(pool.test[0]) if test is None else test
                    active.views = _Ready(active.views)
                    accuracy[name].append(100 * active.score(test, pool.test[1]))
                else:
                    accuracy[name].append(100 * active.score())
                progress(sum(map(len, accuracy.values())), given.seeds * len(learners))
    labels = PER_CLASS * active.classes
    print(f"{pool.name}, {labels} balanced labels, {given.seeds} seeds: test accuracy in %, mean ± standard deviation")
    print("\n| learner | accuracy | minus supervised, paired [95 %] |\n|---|---|---|")
    for name, values in accuracy.items():
        difference = np.array(values) - np.array(accuracy["supervised"])
        half = student_t.ppf(0.975, len(values) - 1) * difference.std(ddof=1) / np.sqrt(len(values))
        over = "" if name == "supervised" else f"{difference.mean():+.1f} ± {half:.1f}"
        print(f"| {name} | {np.mean(values):.1f} ± {np.std(values, ddof=1):.1f} | {over} |")


class _Ready:
    """Views whose outside items are embedded already."""

    def __init__(self, views: object) -> None:
        self._views = views

    def __getattr__(self, name: str) -> object:
        return getattr(self._views, name)

    def of(self, x: torch.Tensor) -> torch.Tensor:
        return x


if __name__ == "__main__":
    main()
