"""BatchBALD against the sum over all labellings of the batch."""

import itertools
import re
import tracemalloc

import numpy as np
import pytest

import askless as al
from askless.acquire.bald import mutual_information
from askless.acquire.batchbald import Joint, most_labellings


def passes(N, K, C, seed=0, sharp=2.0):
    f = sharp * np.random.default_rng(seed).normal(size=(N, K, C))
    e = np.exp(f - f.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True)


def joint_information(p):
    """I(y_1..y_n; w) of a batch (n, K, C): the entropy of all C^n labellings less the conditional entropies."""
    n, K, C = p.shape
    H = 0.0
    for labels in itertools.product(range(C), repeat=n):
        q = np.mean([np.prod([p[i, k, y] for i, y in enumerate(labels)]) for k in range(K)])
        H -= q * np.log(q) if q > 0 else 0
    given = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=2).mean(axis=1).sum()
    return H - given


def greedy(p, n):
    chosen = []
    for _ in range(n):
        rest = [i for i in range(len(p)) if i not in chosen]
        chosen.append(max(rest, key=lambda i: joint_information(p[[*chosen, i]])))
    return chosen


@pytest.mark.parametrize(("K", "C", "n", "sharp"), [(3, 2, 5, 2.0), (5, 3, 4, 1.0), (8, 2, 6, 4.0), (4, 4, 3, 10.0)])
def test_it_is_greedy_on_the_joint_information(K, C, n, sharp):
    p = passes(12, K, C, sharp=sharp)
    picks = al.select("batchbald", n, probs_by_pass=p)
    assert picks.indices.tolist() == greedy(p, n)
    assert picks.info["information"] == pytest.approx(joint_information(p[picks.indices]), abs=1e-10)
    assert picks.info["exact"] == n
    assert picks.scores[0] == pytest.approx(mutual_information(p).max())
    assert (np.diff(picks.scores) <= 1e-12).all(), "the information of one more label only falls"


def test_a_copy_tells_little_where_passes_are_sure():
    """Passes that are sure: the label of an item tells all that its copy would. BALD asks for both, BatchBALD does not."""
    sure = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    other = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]])
    p = np.stack([sure, sure, other])
    assert set(al.select("bald", 2, probs_by_pass=p).indices) == {0, 1}
    picks = al.select("batchbald", 3, probs_by_pass=p)
    assert set(picks.indices[:2]) in ({0, 2}, {1, 2})
    assert picks.scores[0] == pytest.approx(np.log(2))
    assert picks.scores[2] == pytest.approx(0, abs=1e-12)


def test_drawn_labellings_come_near_all_of_them():
    p = passes(6, 10, 3, sharp=1.5)
    exact = joint_information(p)
    all_of_them = al.select(al.BatchBALD(configurations=243), 6, probs_by_pass=p)  # 3^5
    assert all_of_them.info["exact"] == 6
    assert all_of_them.info["information"] == pytest.approx(exact)
    few = [al.select(al.BatchBALD(configurations=200), 6, probs_by_pass=p, seed=s) for s in range(20)]
    assert {f.info["exact"] for f in few} == {5}
    values = np.array([f.info["information"] for f in few])
    assert abs(values.mean() - exact) < 4 * values.std() / np.sqrt(20) + 1e-3
    assert values.std() < 0.05


def test_gains_from_drawn_labellings_are_unbiased():
    p = passes(9, 6, 4, sharp=1.5)
    exact = joint_information(p[:6]) - joint_information(p[:5])
    values = []
    for seed in range(200):
        joint = Joint(6, 4, 60, np.random.default_rng(seed))
        for i in range(5):
            joint.add(p[i])
        assert not joint.is_exact
        values.append(joint.gains(p, np.array([5]), 2**20)[0])
    assert np.mean(values) == pytest.approx(exact, abs=4 * np.std(values) / np.sqrt(200))
    assert min(values) >= 0


@pytest.mark.parametrize(("K", "C", "most"), [(6, 4, 60), (5, 1, 10), (7, 3, 1), (7, 3, 27)])
def test_labellings_are_never_more_than_were_counted_on(K, C, most):
    joint, p, seen = Joint(K, C, most, np.random.default_rng(0)), passes(7, K, C), []
    for n in range(7):
        seen.append(len(joint.weight))
        assert max(seen) == most_labellings(K, C, n, most)
        joint.add(p[n])


def test_a_little_memory_gives_the_same_gains():
    p = passes(40, 6, 4)
    joint = Joint(6, 4, 5000, np.random.default_rng(0))
    for i in range(5):
        joint.add(p[i])
    at = np.arange(5, 40)
    assert joint.gains(p, at, 2**28) == pytest.approx(joint.gains(p, at, 500), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "K", "C", "configurations"), [(2, 10, 3, 10_000), (6, 40, 5, 4000), (9, 60, 3, 500), (4, 30, 2, 1)]
)
def test_too_little_memory_is_refused_with_what_is_enough_and_that_is_kept(n, K, C, configurations):
    p, strategy = passes(60, K, C, sharp=1.5), al.BatchBALD(configurations=configurations)
    with pytest.raises(al.InputError, match="expected max_memory of at least") as refused:
        al.select(strategy, n, probs_by_pass=p, max_memory=1000)
    text = str(refused.value)
    assert f"got 1000; raise it, or lower configurations, now {configurations}" in text
    enough = int(re.search(r"at least (\d+) bytes", text)[1])
    with pytest.raises(al.InputError):
        al.select(strategy, n, probs_by_pass=p, max_memory=enough - 1)
    tracemalloc.start()
    picks = al.select(strategy, n, probs_by_pass=p, max_memory=enough)
    peak = tracemalloc.get_traced_memory()[1]  # of numpy; torch has a quarter of what the labellings leave, thrice
    tracemalloc.stop()
    assert peak < enough + 60 * 500  # a few numbers per item
    assert picks.indices.tolist() == al.select(strategy, n, probs_by_pass=p).indices.tolist()


def test_one_item_needs_no_labellings_and_hardly_any_memory():
    assert len(al.select("batchbald", 1, probs_by_pass=passes(40, 10, 3), max_memory=1)) == 1


def test_probabilities_of_zero_and_one_and_long_batches_stay_finite():
    rng = np.random.default_rng(0)
    p = np.eye(3)[rng.integers(3, size=(300, 5))]
    picks = al.select(al.BatchBALD(configurations=100), 200, probs_by_pass=p)
    assert np.isfinite(picks.scores).all()
    assert picks.info["information"] == pytest.approx(np.log(5), rel=1e-6)
    assert "arbitrary" in picks.info["note"]
    soft = al.select(al.BatchBALD(configurations=100), 200, probs_by_pass=passes(300, 5, 3))
    assert np.isfinite(soft.scores).all()


def test_only_the_candidates_are_looked_at():
    p = passes(100, 6, 3)
    best = set(np.argsort(-mutual_information(p))[:12])
    picks = al.select(al.BatchBALD(candidates=12), 8, probs_by_pass=p)
    assert set(picks.indices) <= best
    assert len(al.select(al.BatchBALD(candidates=3), 8, probs_by_pass=p)) == 8  # never fewer than are asked for
