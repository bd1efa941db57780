"""Makes what every later version must open and repeat: `PYTHONPATH=src python tests/bench/golden/make.py`.

`bench`: the folder of a small benchmark. `learner`: an `ActiveLearner` in the middle of its loop, by `save`. `model`: what
it exports. A folder that is there is never replaced: it was made by the askless of that time, which is the point of it.
"""

import shutil
from pathlib import Path

import numpy as np

import askless as al
from askless.bench import Benchmark, Data, Row, run

HERE = Path(__file__).parent
STRATEGIES = {"random": al.Random(), "askless": al.Askless(settle=0), "npc": al.NPC(draws=200), "albl": al.ALBL()}
LEARNERS = {
    "supervised": al.Supervised(steps=8),
    "fixmatch": al.FixMatch(steps=8),
    "propagation": al.LabelPropagation(),
}


def benchmark() -> Benchmark:
    rows = tuple(
        Row(
            method=method,
            group=group,
            strategy=strategy,
            data=Data(name="digits", items=80, test=40),
            net="linear" if group == "supervised" else "frozen:raw",
            learner=learner,
            start=10,
            counts=(10, 14, 18),
        )
        for method, strategy in STRATEGIES.items()
        for group, learner in LEARNERS.items()
    )
    return Benchmark(name="golden", title="What every later version repeats", rows=rows, seeds=(0, 1))


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Sixty rows of four features, three classes."""
    y = np.arange(60) % 3
    return (np.eye(3, 4)[y] * 2 + np.random.default_rng(0).normal(size=(60, 4))).astype(np.float32), y


def learner() -> al.ActiveLearner:
    X, y = rows()
    made = al.ActiveLearner(
        X, net="linear", learner=al.FixMatch(steps=10), strategy=al.ALBL(), classes=["a", "b", "c"], seed=3
    )
    for _ in range(2):
        batch = made.ask(6)
        made.tell(batch.indices, y[batch.indices])
        made.fit()
    return made


if __name__ == "__main__":
    if any((HERE / name).exists() for name in ("bench", "learner", "model")):
        raise SystemExit(f"{HERE} has its folders already, and they are not replaced")
    run(benchmark(), HERE / "bench", workers=1)
    made = learner()
    made.save(HERE / "learner")
    made.export(HERE / "model")
    next_batch = made.ask(5)
    np.savez(HERE / "learner" / "expected.npz", probs=made.predict_pool(), next=next_batch.indices)
    for path in HERE.rglob("*.lock"):
        path.unlink()
    shutil.rmtree(HERE / "__pycache__", ignore_errors=True)
