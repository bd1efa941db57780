import numpy as np
import pytest

from askless.acquire import furthest as module
from askless.acquire.furthest import Furthest
from askless.acquire.strategy import largest


def naive(features, centres, allowed, n):
    """Picks and squared distances by differences in float64, every row against every centre."""
    x = features.astype(np.float64)
    nearest = np.full(len(x), -np.inf)
    nearest[allowed] = np.inf
    for c in centres:
        nearest = np.minimum(nearest, ((x - x[c]) ** 2).sum(axis=1))
    picks, values = [], []
    for _ in range(n):
        picks.append(int(nearest.argmax()))
        values.append(nearest[picks[-1]])
        nearest = np.minimum(nearest, ((x - x[picks[-1]]) ** 2).sum(axis=1))
        nearest[picks[-1]] = -np.inf
    return picks, values


def lazy(features, centres, allowed, n, max_memory=2**28):
    furthest = Furthest(features, np.array(centres, dtype=np.int64), allowed, max_memory)
    picks, values = [], []
    for _ in range(n):
        pick, value = furthest.find()
        furthest.add(pick)
        picks.append(pick)
        values.append(value)
    return picks, values


def pools():
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(600, 5))
    yield "plain", plain
    yield "float32", plain.astype(np.float32)
    yield "half", plain.astype(np.float16)
    yield "line", rng.normal(size=(600, 1))
    yield "wide", rng.normal(size=(300, 80)).astype(np.float32)
    yield "clusters", (20 * rng.normal(size=(6, 5)))[rng.integers(6, size=600)] + rng.normal(size=(600, 5))
    yield "far away", (1e4 + plain).astype(np.float32)
    yield "copies", np.repeat(rng.integers(4, size=(60, 3)).astype(np.float32), 10, axis=0)
    yield "constant", np.ones((50, 3), dtype=np.float32)
    yield "outlier", np.vstack([1e-3 * plain, [[1e6] * 5]])
    yield "huge", (1e18 * rng.uniform(-1, 1, size=(200, 300))).astype(np.float32)  # squares beyond float32


@pytest.mark.parametrize(("kind", "features"), list(pools()), ids=lambda given: given if isinstance(given, str) else "")
@pytest.mark.parametrize("n_labelled", [1, 30])
@pytest.mark.parametrize("kept", [1, 64, 2**18])
def test_the_lazy_search_finds_what_looking_at_every_row_finds(kind, features, n_labelled, kept, monkeypatch):
    monkeypatch.setattr(module, "KEPT", kept)  # how many numbers are kept exact: one row, a few, all
    monkeypatch.setattr(module, "CENTRES", 7)
    monkeypatch.setattr(module, "FIRST", 5)
    rng = np.random.default_rng(1)
    labelled = rng.permutation(len(features))[:n_labelled]
    allowed = np.setdiff1d(np.arange(len(features)), labelled)
    n = min(40, len(allowed))
    picks, values = lazy(features, labelled, allowed, n)
    expected, expected_values = naive(features, labelled, allowed, n)
    assert picks == expected
    assert np.allclose(values, expected_values, rtol=1e-12, atol=0)


@pytest.mark.parametrize("memory", [1, 3000, 2**16])
def test_any_memory_gives_the_same(memory):
    rng = np.random.default_rng(2)
    features = rng.normal(size=(400, 6)).astype(np.float32)
    allowed = np.arange(3, 400)
    assert lazy(features, [0, 1, 2], allowed, 30, memory) == lazy(features, [0, 1, 2], allowed, 30)


def test_most_rows_are_not_looked_at(monkeypatch):
    looked_at = []
    tighten = Furthest._tighten

    def counted(self, positions, upto):
        looked_at.append(int((upto - self.seen[positions]).sum()))
        tighten(self, positions, upto)

    monkeypatch.setattr(Furthest, "_tighten", counted)
    monkeypatch.setattr(module, "KEPT", 2**10)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20_000, 16)).astype(np.float32)
    lazy(features, range(200), np.arange(200, 20_000), 300)
    assert (
        sum(looked_at) < 0.4 * 20_000 * 500
    )  # pairs of a row and a centre, 128 of the 500 for every row to begin with


def test_largest_are_the_largest():
    values = np.array([3.0, -np.inf, 7.0, 5.0, 5.0])
    assert sorted(values[largest(values, 3)]) == [5.0, 5.0, 7.0]
