"""Fashion-MNIST: random, margin, BADGE and NPC under FixMatch + DARP from scratch, 10 to 70 labels, 3 seeds.

    askless data fetch fashion-mnist
    askless bench run benchmarks/fashion_mnist.py --out FOLDER [--seeds 3] [--workers 2]

A pool of 10,000 images and the 10,000 test images, the small CNN, a balanced start of one image per class. Under an hour on
2 cores; a stopped run resumes.
"""

from askless.bench import Benchmark, Data, Row
from askless.learn import DARP, FixMatch

benchmark = Benchmark(
    name="fashion-mnist",
    title="Fashion-MNIST, from scratch: which way of choosing?",
    protocol="10,000 images of Fashion-MNIST as the pool, and its 10,000 test images. The small CNN, trained from scratch "
    "after every question by FixMatch + DARP (400 steps of 16 labelled and 64 other images). One label per class at the "
    "start, then 20 a round. Start and first weights of a seed are the same for every strategy.",
    rows=tuple(
        Row(
            method=name,
            strategy=name,
            data=Data(name="fashion-mnist", items=10_000),
            net="small-cnn",
            learner=FixMatch(steps=400, batch=16, mu=4, darp=DARP(every=20)),
            start=10,
            counts=(10, 30, 50, 70),
        )
        for name in ("random", "margin", "badge", "npc")
    ),
    seeds=(0, 1, 2),
)
