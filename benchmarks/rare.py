"""How many classes of a skewed pool have a label soon? askless and random from no label, in batches of 20.

askless bench run benchmarks/rare.py
"""

from askless.acquire import Askless, Random
from askless.bench import Benchmark, Data, Row
from askless.bench.presets.pools import Embedded, Written
from askless.learn import Supervised

POOLS = {
    "CIFAR-10, long-tailed": Embedded(data=Data(name="cifar10", items=5000, test=1000), tail=50),
    "MNIST, long-tailed": Embedded(data=Data(name="mnist", items=5000, test=1000), tail=50),
    "R8": Written(data=Data(name="r8"), backbone="tfidf"),
}
rows = tuple(
    Row(
        group=group,
        method=name,
        strategy=strategy,
        data=pool,
        net="linear",
        learner=Supervised(steps=200, batch=32),
        counts=(20, 40),
    )
    for group, pool in POOLS.items()
    for name, strategy in {"askless": Askless(), "random": Random()}.items()
)
benchmark = Benchmark(
    name="rare",
    title="Classes that have a label, on skewed pools",
    rows=rows,
    seeds=tuple(range(10)),
    metrics=("class_coverage", "test_accuracy"),
)
