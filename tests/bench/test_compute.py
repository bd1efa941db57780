"""A benchmark worker: what it leaves in memory between cells."""

import gc
import weakref

import pytest

from askless.bench import Benchmark, Data, Row, compute
from askless.bench.compute import CellWorker, Task
from askless.learn import Supervised


@pytest.mark.parametrize("every", [0.0, 1e9])
def test_a_worker_collects_what_cells_leave_behind(tmp_path, monkeypatch, every):
    data = Data(name="digits", items=60, test=20)
    row = Row(method="random", strategy="random", data=data, net="linear", learner=Supervised(steps=1), counts=(10,))
    monkeypatch.setattr(compute, "COLLECT_EVERY", every)
    worker = CellWorker(Benchmark(name="b", title="b", rows=(row,), seeds=(0,)), tmp_path)

    class Circle:
        pass

    gc.disable()
    try:
        circle = Circle()
        circle.itself = circle
        gone = weakref.ref(circle)
        del circle
        assert worker(Task("", "random", 0, None), lambda news: None) is None
        assert (gone() is None) == (every == 0.0)
    finally:
        gc.enable()
