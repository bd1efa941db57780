"""BALD, BatchBALD, ProbCover and DAL beside random, margin and askless: digits, 5 paired seeds.

    askless bench run benchmarks/neighbours.py --out FOLDER [--workers 2]

The digits' 1,397 images as rows of 64 pixels and their 400 test images; a network with one hidden layer of 64 units and
dropout 0.25, retrained after every query; one label per class, then 20 a round. A few minutes of one core.
"""

import dataclasses

from askless import data
from askless.acquire import DAL, BatchBALD
from askless.bench import Benchmark, Row
from askless.learn import Supervised

STRATEGIES = {
    **{name: name for name in ("askless", "random", "margin", "bald", "probcover")},
    "batchbald": BatchBALD(passes=50, configurations=1000),
    "dal": DAL(width=64, epochs=50),
}


def rows_of_pixels() -> data.Pool:
    """The digits as a pool of features, 64 numbers from 0 to 1 each."""
    pool = data.digits()
    assert pool.test is not None
    x, test_x = (images.flatten(1).float() / 255 for images in (pool.x, pool.test[0]))
    return dataclasses.replace(pool, x=x, kind="features", test=(test_x, pool.test[1]))


benchmark = Benchmark(
    name="neighbours",
    title="Digits: dropout, coverage and discrimination beside askless",
    protocol="1,397 digits of 8 x 8 pixels as the pool, 400 as the test. One hidden layer of 64 units with dropout 0.25, "
    "100 steps of supervised training from the first weights after every question. One label per class at the start, then "
    "20 a round. Start and first weights of a seed are the same for every strategy.",
    rows=tuple(
        Row(
            method=name,
            strategy=strategy,
            data=rows_of_pixels,
            net="mlp",
            net_options=(("hidden", (64,)), ("dropout", 0.25)),
            learner=Supervised(steps=100, batch=32),
            start=10,
            counts=(10, 30, 50),
        )
        for name, strategy in STRATEGIES.items()
    ),
    seeds=(0, 1, 2, 3, 4),
)
