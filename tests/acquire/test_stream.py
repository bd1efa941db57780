import itertools
import json
import re

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.metrics.pairwise import rbf_kernel

import askless as al
from askless.acquire import STRATEGIES, looks_at, make
from askless.acquire.table import BY_ROWS
from askless.acquire.testing import check_selection, example_arrays
from askless.base.errors import InputError, OptionError

QUICK = {
    "npc": {"draws": 30},
    "batchbald": {"configurations": 20},
    "dal": {"epochs": 1, "width": 8},
    "refine": {"depth": 1, "batches": 5},
}
EVERY = [name for name in STRATEGIES if name != "albl"]
BY_ITEM = ("confidence", "margin", "entropy", "egl", "dynamical", "bald")
N, LABELLED = 150, 6


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def arrays_of(strategy, kind="ordinary"):
    """A pool of 150, of which the first six are labelled, as rows that the strategy looks at."""
    arrays = example_arrays(N, LABELLED, kind=kind)
    rows = {name: arrays[name] for name in looks_at(strategy) if name in BY_ROWS} or {"features": arrays["features"]}
    return rows, np.r_[arrays["labels"], np.full(N - LABELLED, -1)]


def streamed(strategy, rows, labels, cuts=(), budget=7, memory=40, seed=0):
    stream = al.Stream(strategy, budget, memory, seed=seed)
    for start, end in itertools.pairwise([0, *cuts, len(labels)]):
        stream.add(labels=labels[start:end], **{name: array[start:end] for name, array in rows.items()})
        assert np.count_nonzero(stream._rows["label"] < 0) <= memory
    return stream


@pytest.mark.parametrize("kind", ["ordinary", "duplicated", "constant"])
@pytest.mark.parametrize("name", EVERY)
def test_every_strategy_keeps_the_contract_on_a_stream(name, kind):
    strategy = make(name, **QUICK.get(name, {}))
    rows, labels = arrays_of(strategy, kind)
    stream = streamed(strategy, rows, labels, cuts=(1, 6, 60, 61))
    picks = stream.picks()
    check_selection(picks, 7, N, np.arange(LABELLED), f"{kind} stream")
    assert stream.picks().indices.tolist() == picks.indices.tolist()
    tensors = {name: torch.from_numpy(array) for name, array in rows.items()}
    again = streamed(strategy, tensors, torch.from_numpy(labels))
    assert again.picks().indices.tolist() == picks.indices.tolist(), "blocks were cut elsewhere"
    narrow = {name: array.astype(np.float32) for name, array in rows.items()}
    check_selection(streamed(strategy, narrow, labels).picks(3), 3, N, np.arange(LABELLED), "float32")


@pytest.mark.parametrize("name", [name for name in EVERY if name != "random"])
def test_a_stream_that_fits_in_memory_is_a_pool(name):
    strategy = make(name, **QUICK.get(name, {}))
    rows, labels = arrays_of(strategy)
    picks = streamed(strategy, rows, labels, cuts=(50,), memory=N - LABELLED).picks()
    pool = al.select(strategy, 7, labelled=np.arange(LABELLED), labels=labels[:LABELLED], **rows)
    assert picks.indices.tolist() == pool.indices.tolist()
    assert picks.scores is None or picks.scores == pytest.approx(pool.scores)


@pytest.mark.parametrize("name", BY_ITEM)
def test_scores_of_single_items_are_exact(name):
    rows, labels = arrays_of(make(name))
    picks = streamed(name, rows, labels, memory=14).picks()
    pool = al.select(name, 7, labelled=np.arange(LABELLED), labels=labels[:LABELLED], **rows)
    assert picks.indices.tolist() == pool.indices.tolist()
    assert picks.scores == pytest.approx(pool.scores)


def test_random_draws_from_the_whole_stream_alike():
    counts = np.zeros(60)
    for seed in range(400):
        stream = streamed("random", {"features": np.zeros((60, 1))}, np.full(60, -1), budget=3, memory=6, seed=seed)
        counts[stream.picks().indices] += 1
    assert counts.sum() == 1200
    by_sixth = counts.reshape(6, 10).sum(axis=1)  # 200 each, with a deviation of 13
    assert np.abs(by_sixth - 200).max() < 60


def kernel_of(features, reach):
    rows = features - features.mean(axis=0)
    return rbf_kernel(rows / np.linalg.norm(rows, axis=1, keepdims=True), gamma=1 / reach**2)


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_a_stream_covers_at_least_half_of_what_the_best_batch_covers(order):
    """Against every batch of three, with a memory of six for eighteen items."""
    shares = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        group = rng.integers(4, size=18)
        x = rng.normal(size=(4, 3))[np.sort(group) if order == "sorted" else group] + 0.4 * rng.normal(size=(18, 3))
        picks = streamed("askless", {"features": x}, np.full(18, -1), budget=3, memory=6, seed=seed).picks()
        kernel = kernel_of(x, al.select("askless", 3, features=x).info["reach"])
        best = max(kernel[list(batch)].max(axis=0).sum() for batch in itertools.combinations(range(18), 3))
        shares.append(kernel[picks.indices].max(axis=0).sum() / best)
    assert min(shares) > 0.5
    assert np.mean(shares) > 0.9


def test_next_to_nothing_is_lost_where_only_copies_are_forgotten(rng):
    x = rng.normal(size=(12, 4))[rng.permutation(np.repeat(np.arange(12), rng.integers(5, 30, 12)))]
    pool = al.select("askless", 4, features=x)
    picks = streamed("askless", {"features": x}, np.full(len(x), -1), budget=4, memory=24).picks()
    kernel = kernel_of(x, pool.info["reach"])
    ours, theirs = (kernel[batch].max(axis=0).mean() for batch in (picks.indices, pool.indices))
    assert ours > 0.95 * theirs  # the reach, a distance between places, may be another one
    assert sum(picks.info["stands_for"]) == len(x)


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_a_small_memory_keeps_most_of_what_the_pool_gains_over_random(order):
    kept = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        group = rng.integers(30, size=3000)
        group = np.sort(group) if order == "sorted" else group
        x = rng.normal(size=(30, 8))[group] + 0.5 * rng.normal(size=(3000, 8))
        pool = al.select("askless", 20, features=x)
        picks = streamed("askless", {"features": x}, np.full(3000, -1), budget=20, memory=200).picks()
        chance = np.mean([covered(x, rng.choice(3000, 20, replace=False), pool.info["reach"]) for _ in range(5)])
        ours, theirs = (covered(x, batch.indices, pool.info["reach"]) for batch in (picks, pool))
        kept.append((ours - chance) / (theirs - chance))
    assert np.mean(kept) > 0.85


def covered(x, batch, reach):
    rows = x - x.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rbf_kernel(rows[batch], rows, gamma=1 / reach**2).max(axis=0).mean()


def two_heaps(rng, n=100):
    """Items around two places, in turn; the second place has three of five."""
    place = (np.arange(n) % 5 > 1).astype(int)
    return np.array([[5.0, 0, 0], [0, 5.0, 0]])[place] + 0.1 * rng.normal(size=(n, 3)), place


def test_what_is_labelled_before_the_stream_is_covered(rng):
    x, place = two_heaps(rng)
    stream = al.Stream("askless", 1, 10)
    stream.add(features=x)
    assert place[stream.picks().indices] == [1]
    labelled = np.flatnonzero(place == 1)[:1]
    stream = al.Stream("askless", 1, 10)
    stream.add(features=x[labelled], labels=[0])
    stream.add(features=x)
    picks = stream.picks()
    assert place[picks.indices - 1] == [0]
    assert picks.info["covered_before"] > 0.5


def test_asking_as_it_goes(rng):
    x, place = two_heaps(rng)
    stream = al.Stream("askless", 2, 10)
    stream.add(features=x)
    first = stream.picks(1).indices
    stream.tell(first, [1])
    stream.add(features=x)
    second = stream.picks().indices
    assert (place[first % 100].item(), place[second % 100].item()) == (1, 0)
    stream.tell(second, [0])
    assert len(stream.picks()) == 0


def test_the_uncertainty_of_forgotten_items_still_counts(rng):
    """The model is sure of most items; the memory has room for a few of each kind."""
    x, place = two_heaps(rng, 200)
    probs = np.where(place[:, None] == 1, [0.99, 0.01], [0.5, 0.5])
    stream = al.Stream("askless", 1, 10)
    stream.add(features=-x[:20], probs=np.full((20, 2), 0.5), labels=np.arange(20) % 2)
    stream.add(features=x, probs=probs)
    assert place[stream.picks().indices - 20] == [0]


def test_renewed_probabilities_weigh_what_was_forgotten_too(rng):
    """The first half comes before there is a model; the model then is sure of the larger heap."""
    x, place = two_heaps(rng, 200)
    stream = al.Stream("askless", 1, 10)
    stream.add(features=-x[:20], probs=np.full((20, 2), 0.5), labels=np.arange(20) % 2)
    stream.add(features=x, probs=np.full((200, 2), 0.5))
    assert place[stream.picks().indices - 20] == [1]
    held = stream.held()
    assert set(held) == {"features", "probs", "labels", "positions"}
    new = held["positions"] >= 20
    assert held["features"][new] == pytest.approx(x[held["positions"][new] - 20])
    sure = np.where(held["features"][:, 1:2] > 2, [0.99, 0.01], [0.5, 0.5])
    stream.renew(probs=sure)
    assert place[stream.picks().indices - 20] == [0]
    assert stream.held()["probs"] == pytest.approx(sure)


def test_renewing_with_the_same_probabilities_changes_no_pick_before_anything_is_forgotten(rng):
    for given in ({"probs": rng.dirichlet(np.ones(3), 30)}, {"logits": rng.normal(size=(30, 3))}):
        stream = al.Stream("askless", 3, 30)
        stream.add(features=rng.normal(size=(30, 4)), labels=np.r_[0, 1, np.full(28, -1)], **given)
        picks = stream.picks().indices.tolist()
        stream.renew(**given)
        assert stream.picks().indices.tolist() == picks


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_the_picks_cover_what_they_are_said_to_cover_at_least(order):
    """Against what they cover of all items, and against the best pair of them."""
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        group = rng.integers(3, size=300)
        group = np.sort(group) if order == "sorted" else group
        x = rng.normal(size=(3, 4))[group] + 0.3 * rng.normal(size=(300, 4))
        picks = streamed("askless", {"features": x}, np.full(300, -1), budget=2, memory=160, seed=seed).picks()
        kernel = kernel_of(x, picks.info["reach"])
        best = max(np.maximum(kernel[i], kernel[i:]).mean(axis=1).max() for i in range(300))
        ours = kernel[picks.indices].max(axis=0).mean()
        shares.append((picks.info["covered_at_least"], ours, ours / best))
    bound, covered_by_all, of_best = np.array(shares).T
    assert np.mean(bound <= covered_by_all) >= 0.95
    assert np.mean(bound <= of_best) >= 0.95
    assert bound.mean() > 0.2  # 20 draws say that much


def test_what_vouches_for_the_picks_is_part_of_the_memory_and_of_no_pick(rng):
    x = rng.normal(size=(400, 4))
    stream = al.Stream("askless", 5, 40)
    for i in range(0, 400, 10):
        stream.add(features=x[i : i + 10])
        assert len(stream.held()["labels"]) + (0 if stream._draws is None else len(stream._draws.rows)) <= 40
    assert stream._draws.shown + len(stream.held()["labels"]) - len(stream._groups.size) == 400
    picks = stream.picks()
    stream._draws = stream._draws._replace(rows=stream._draws.rows[::-1] * 0 + 9.0)
    assert stream.picks().indices.tolist() == picks.indices.tolist()
    assert "covered_at_least" in picks.info
    tight = streamed("askless", {"features": x}, np.full(400, -1), budget=20, memory=40).picks()
    assert "covered_at_least" not in tight.info  # no room for draws


def test_logits_stand_in_for_probabilities(rng):
    x, logits = rng.normal(size=(N, 4)), rng.normal(size=(N, 3))
    labels = np.r_[np.arange(3), np.full(N - 3, -1)]
    for name in ("askless", "margin"):
        from_logits = streamed(name, {"features": x, "logits": logits}, labels).picks()
        from_probs = streamed(name, {"features": x, "probs": softmax(logits, axis=1)}, labels).picks()
        assert from_logits.indices.tolist() == from_probs.indices.tolist()


def test_picks_have_the_ids_that_the_items_came_with():
    stream = al.Stream("margin", 2, 4)
    for start in range(0, 12, 3):
        probs = [[0.5 + i / 100, 0.5 - i / 100] for i in range(start, start + 3)]
        stream.add(probs=probs, ids=[f"item-{i}" for i in range(start, start + 3)])
    picks = stream.picks()
    assert picks.indices.tolist() == [0, 1]
    assert picks.info["ids"] == ["item-0", "item-1"]
    assert picks.info["seen"] == 12
    json.dumps(picks.info)


def test_blocks_may_be_overwritten_once_they_were_added(rng):
    x = rng.normal(size=(60, 4))
    plain = streamed("askless", {"features": x}, np.full(60, -1), budget=3, memory=20).picks()
    stream, buffer = al.Stream("askless", 3, 20), np.empty((10, 4))
    for i in range(0, 60, 10):
        buffer[:] = x[i : i + 10]
        stream.add(features=buffer)
    buffer[:] = np.nan
    assert stream.picks().indices.tolist() == plain.indices.tolist()


def test_an_empty_block_changes_nothing():
    stream = al.Stream("askless", 2, 4)
    stream.add(features=np.empty((0, 3)))
    stream.add(features=np.eye(3))
    stream.add(features=torch.empty(0, 3), labels=[])
    assert stream.seen == 3
    assert len(stream.picks()) == 2


def fresh():
    stream = al.Stream("askless", 2, 4)
    stream.add(features=np.eye(3), probs=np.full((3, 2), 0.5), ids=["a", "b", "c"])
    return stream


def told_twice(stream):
    stream.tell([0], [1])
    stream.tell([0], [1])


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda: al.Stream(al.Margin, 2, 4), "an object such as NPC(), got the class Margin; write Margin()"),
        (lambda: al.Stream("albl", 2, 4), "albl learns from earlier picks, which a stream forgets"),
        (
            lambda: al.Stream(al.CRC(by="kernel"), 2, 4),
            "crc needs a kernel over all items, which a stream never has",
        ),
        (lambda: al.Stream("margin", 0, 4), "budget must be a whole number >= 1, got 0"),
        (
            lambda: al.Stream("margin", 2, 3),
            "memory must be a whole number >= 4, twice the budget, because the stream forgets up to half",
        ),
        (lambda: al.Stream("margin", 2, 4.5), "memory must be a whole number >= 4"),
        (lambda: al.Stream("margin", 2, 4, classes=0), "classes must be a whole number >= 1, got 0"),
        (lambda: al.Stream("margin", 2, 4).add(features=np.eye(3)), "margin needs probs (N, C)"),
        (lambda: al.Stream("margin", 2, 4).picks(), "n = 2 exceeds the 0 unlabelled items seen so far; lower n or add"),
        (lambda: fresh().picks(3), "n must be a whole number from 0 to 2, the rest of the budget, got 3"),
        (lambda: fresh().picks(1.0), "n must be a whole number from 0 to 2"),
        (
            lambda: fresh().add(features=[[np.nan] * 3], probs=[[0.5, 0.5]], ids="d"),
            "expected finite numbers, got nan in",
        ),
        (lambda: fresh().add(features=np.eye(4), probs=np.full((4, 2), 0.5), ids=list("abcd")), "in the first {'featu"),
        (lambda: fresh().renew(features=np.eye(3)), "cannot renew features; expected probs"),
        (lambda: al.Stream("askless", 2, 4).renew(probs=np.eye(3)), "cannot renew probs; expected nothing"),
        (
            lambda: fresh().renew(probs=np.full((3, 4), 0.25)),
            "expected rows for the held items, (3, 2), got probs (3, 4)",
        ),
        (lambda: fresh().renew(probs=np.full((2, 2), 0.5)), "got"),
        (lambda: fresh().add(features=np.eye(3)), "expected rows of the same shapes in every block, in the first"),
        (
            lambda: fresh().add(features=np.eye(3), labels=[0, 1]),
            "expected a class, or -1, for each of the 3 items, got 2",
        ),
        (lambda: fresh().add(features=np.eye(3), labels=[0, 1, -2]), "got 3 of them, the least -2"),
        (
            lambda: fresh().add(features=np.eye(3), ids=["a"]),
            "ids: expected one for each of the 3 items, got shape (1,)",
        ),
        (lambda: fresh().tell([0], [-1]), "labels: expected a whole number >= 0 for each of the 1 positions, got [-1]"),
        (lambda: fresh().tell([0, 1], [0]), "labels: expected a whole number >= 0 for each of the 2 positions"),
        (lambda: fresh().tell([3], [0]), "positions: expected distinct unlabelled items in memory, as picks() returns"),
        (lambda: fresh().tell([0, 0], [0, 0]), "positions: expected distinct unlabelled items in memory"),
        (lambda: fresh().tell([0, 1, 2], [0, 0, 0]), "as picks() returns them, 2 at most, got [0 1 2]"),
        (lambda: told_twice(fresh()), "positions: expected distinct unlabelled items in memory"),
        (lambda: al.Stream("margin", 2, 4).tell([0], [0]), "positions: expected distinct unlabelled items in memory"),
    ],
)
def test_errors_say_what_to_do(what, message):
    with pytest.raises(InputError, match=re.escape(message)):
        what()


def test_an_unknown_array_is_named():
    with pytest.raises(OptionError, match=r"unknown array label; a stream takes features, probs, .*, labels and ids"):
        al.Stream("margin", 2, 4).add(probs=[[0.5, 0.5]], label=[1])


def test_a_refused_block_leaves_no_trace():
    stream, clean = al.Stream("random", 2, 4), al.Stream("random", 2, 4)
    for one in (stream, clean):
        one.add(features=np.eye(3))
    with pytest.raises(InputError, match="same shapes"):
        stream.add(features=np.eye(3), ids=list("abc"))
    for one in (stream, clean):
        one.add(features=np.eye(3))
    assert stream.seen == clean.seen == 6
    assert stream.picks().indices.tolist() == clean.picks().indices.tolist()


@pytest.fixture
def ray_data(monkeypatch):
    """Ray with its data sets, on this machine, until the test ends."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("pandas")  # which ray[data] brings
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=2**27)
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray.data
    ray.shutdown()


@pytest.mark.ray
@pytest.mark.filterwarnings("default")
def test_batches_of_ray_data_are_blocks(ray_data):
    rng = np.random.default_rng(0)
    x, probs = rng.normal(size=(600, 4)), rng.dirichlet(np.ones(3), 600)
    rows = [{"id": i, "features": x[i], "probs": probs[i], "path": f"{i}.png"} for i in range(600)]
    data = ray_data.from_items(rows).sort("id")
    stream, plain = al.Stream("askless", 10, 60), al.Stream("askless", 10, 60)
    for batch in data.select_columns(["features", "probs"]).iter_batches(batch_size=77):
        stream.add(**batch)
    plain.add(features=x, probs=probs)
    assert stream.seen == 600
    assert stream.picks().indices.tolist() == plain.picks().indices.tolist()
