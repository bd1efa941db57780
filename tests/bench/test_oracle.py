"""The oracle: it takes the best of its candidates, and nobody but a benchmark can ask it."""

import numpy as np
import pytest

import askless as al
from askless.acquire import Margin, Random
from askless.base.errors import AsklessError
from askless.bench import Benchmark, Row, run
from askless.bench.cell import run_cell
from askless.bench.logistic import LogisticRegression
from askless.bench.oracle import Oracle

ORACLE = Oracle(strategies=(Random(), Margin()), batches=12)


def corners():
    """Two large classes and two rare ones in the corners of a square: who never meets the rare ones cannot be right."""
    rng = np.random.default_rng(0)
    sizes, middles = (60, 60, 6, 6), np.array([[0, 0], [9, 9], [0, 9], [9, 0]])
    labels = np.repeat(np.arange(4), sizes)
    x = (middles[labels] + rng.normal(size=(len(labels), 2))).astype(np.float32)
    test_labels = np.repeat(np.arange(4), 20)
    test = (middles[test_labels] + rng.normal(size=(80, 2))).astype(np.float32)
    return al.data.as_pool((x, labels), test=(test, test_labels))


def row(method, strategy):
    return Row(
        method=method,
        strategy=strategy,
        data=corners,
        net="linear",
        learner=LogisticRegression(),
        start=2,
        start_by="random",
        counts=(2, 6, 10),
    )


def test_it_beats_random_where_a_batch_can_miss_a_class(tmp_path):
    made = Benchmark(name="o", title="o", rows=(row("random", "random"), row("oracle", ORACLE)), seeds=(0, 1, 2))
    results = run(made, tmp_path)
    assert results.failures == []
    random, oracle = (results.curve("test_accuracy", "", name).table for name in ("random", "oracle"))
    assert (oracle[:, 0] == random[:, 0]).all()
    assert oracle[:, 1:].mean() > random[:, 1:].mean() + 0.1


def test_a_cell_that_was_killed_goes_on_with_it(tmp_path):
    def kill(numbers):
        raise KeyboardInterrupt

    oracle = row("oracle", ORACLE)
    run_cell(oracle, 0, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run_cell(oracle, 0, tmp_path / "killed", report=kill)
    run_cell(oracle, 0, tmp_path / "killed")
    whole, killed = ((tmp_path / name / "result.json").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


def test_it_takes_the_candidate_that_its_judge_likes_most():
    """The judge likes large positions, so of all candidates the one whose positions sum to most is taken."""
    seen = []

    def judge(batch):
        seen.append(batch)
        return (float(batch.sum()),)

    picks = al.select(ORACLE.judged_by(judge), 3, probs=np.full((40, 2), 0.5), labelled=[0], seed=1)
    assert len(seen) == ORACLE.batches
    assert picks.indices.sum() == max(batch.sum() for batch in seen)
    assert picks.info["by"] in ("random", "margin")
    assert 0 not in picks.indices


def test_only_a_benchmark_can_ask_it():
    with pytest.raises(AsklessError, match="the oracle looks at every label: only a benchmark can ask it"):
        al.select(ORACLE, 3, probs=np.full((40, 2), 0.5), seed=1)
    assert "oracle" not in al.acquire.STRATEGIES
