import itertools

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import askless as al
from askless.acquire import covering
from askless.acquire.askless import scarce
from askless.acquire.testing import check_strategy
from askless.base.errors import InputError, OptionError


def unit_rows(features):
    rows = features.astype(np.float64) - features.astype(np.float64).mean(axis=0)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def covered(kernel, weight, chosen):
    """The objective, written out."""
    return float((weight * kernel[chosen].max(axis=0)).sum() / weight.sum()) if len(chosen) else 0.0


def naive(kernel, weight, labelled, n, allowed=None):
    """Greedy with nothing kept from one pick to the next."""
    chosen, picks, gains = list(labelled), [], []
    for _ in range(n):
        before = covered(kernel, weight, chosen)
        free = [i for i in (range(len(kernel)) if allowed is None else allowed) if i not in chosen]
        values = [covered(kernel, weight, [*chosen, i]) - before for i in free]
        picks.append(free[int(np.argmax(values))])
        gains.append(max(values))
        chosen.append(picks[-1])
    return picks, gains


def settled(kernel, weight, labelled, picks, rounds):
    """Each pick in turn moves to the item of its cell with which all cover most; again while any moves."""
    picks = list(picks)
    for _ in range(rounds):
        old = list(picks)
        for j in range(len(picks)):
            others = [*labelled, *picks[:j], *picks[j + 1 :]]
            best = kernel[others].max(axis=0) if others else np.zeros(len(kernel))
            cell = [i for i in range(len(kernel)) if kernel[picks[j], i] > best[i] and i not in others]
            without = covered(kernel, weight, others)
            values = [covered(kernel, weight, [*others, i]) - without for i in cell]
            if max(values) > (1 + 1e-4) * (covered(kernel, weight, [*others, picks[j]]) - without):
                picks[j] = cell[int(np.argmax(values))]
        if picks == old:
            break
    return picks


def probabilities(rng, N, C=4):
    return rng.dirichlet(np.full(C, 0.5), N)


def by_hand(features, probs, labelled, n, trust=10.0, labels=None, settle=3):
    """The strategy as its docstring has it, for pools small enough that nothing is drawn."""
    rows = unit_rows(features)
    squared = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    nearest = 1 + max(1, round(len(rows) / (len(labelled) + n)))
    h_sq = np.partition(squared, nearest - 1, axis=1)[:, nearest - 1].mean()
    weight = np.ones(len(rows))
    if len(labelled) and probs is not None:
        top = np.sort(probs, axis=1)
        t = min(1, len(labelled) / (trust * probs.shape[1]))
        weight = np.maximum(1 - (top[:, -1] - top[:, -2]), 0.01)
        if labels is not None:
            C = probs.shape[1]
            each = [(len(labels) / C + 1) / (np.count_nonzero(labels == c) + 1) for c in range(C)]
            weight = weight * np.array([sum(p * e for p, e in zip(row, each, strict=True)) for row in probs])
        weight = weight**t
    kernel = rbf_kernel(rows, gamma=1 / h_sq)
    picks, gains = naive(kernel, weight, labelled, n)
    if settle:
        picks, gains = naive(kernel, weight, labelled, n, sorted(settled(kernel, weight, labelled, picks, settle)))
    return picks, gains, kernel, weight, h_sq


@pytest.mark.parametrize("settle", [0, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_labelled", [0, 1, 12])
@pytest.mark.parametrize("seed", range(3))
def test_the_picks_are_those_of_a_naive_search(seed, n_labelled, dtype, settle):
    rng = np.random.default_rng(seed)
    features, probs = rng.normal(size=(90, 5)).astype(dtype), probabilities(rng, 90)
    labelled = rng.permutation(90)[:n_labelled]
    picks, gains, kernel, weight, h_sq = by_hand(features, probs, labelled, 8, settle=settle)
    got = al.select(al.Askless(settle=settle), 8, features=features, probs=probs, labelled=labelled)
    assert got.indices.tolist() == picks
    assert got.scores == pytest.approx(gains, abs=1e-5)
    assert got.info["reach"] == pytest.approx(h_sq**0.5, abs=1e-5)
    before, after = covered(kernel, weight, labelled.tolist()), covered(kernel, weight, [*labelled, *picks])
    assert (got.info["covered_before"], got.info["covered"]) == pytest.approx((before, after), abs=1e-5)
    assert got.scores.sum() == pytest.approx(after - before, abs=1e-4)


@pytest.mark.parametrize("trust", [0, 1, 10])
@pytest.mark.parametrize("seed", range(3))
def test_with_labels_too_the_picks_are_those_of_a_naive_search(seed, trust):
    rng = np.random.default_rng(seed)
    features, probs = rng.normal(size=(90, 5)), probabilities(rng, 90)
    labelled = rng.permutation(90)[:12]
    labels = np.minimum(rng.geometric(0.5, size=12) - 1, probs.shape[1] - 1)
    picks, gains, *_ = by_hand(features, probs, labelled, 8, trust=trust or 1e-9, labels=labels)
    got = al.select(al.Askless(trust=trust), 8, features=features, probs=probs, labelled=labelled, labels=labels)
    assert got.indices.tolist() == picks
    assert got.scores == pytest.approx(gains, abs=1e-5)
    each = [(12 / 4 + 1) / (np.count_nonzero(labels == c) + 1) for c in range(probs.shape[1])]
    assert got.info["scarce"] == pytest.approx(probs[picks] @ each)


def test_a_class_with_few_labels_is_asked_for_first():
    features = clusters(np.random.default_rng(0), [100, 100, 20])
    probs = np.repeat([[0.9, 0.1], [0.1, 0.9], [1, 0]], [100, 100, 20], axis=0)  # as unsure of one group as of the next
    labelled, labels = np.r_[0, 100, 200:208], np.r_[0, 1, np.zeros(8, int)]
    view = al.View(N=220, labelled=labelled, unlabelled=np.arange(0), labels=labels, probs=probs)
    assert scarce(view)[[0, 100]] == pytest.approx([0.9 * 6 / 10 + 0.1 * 6 / 2, 0.1 * 6 / 10 + 0.9 * 6 / 2])

    def of_the_second_class(strategy, labels):
        picks = al.select(strategy, 10, features=features, probs=probs, labelled=labelled, labels=labels)
        return np.count_nonzero((picks.indices >= 100) & (picks.indices < 200))

    even = of_the_second_class(al.Askless(trust=0), None)
    assert of_the_second_class(al.Askless(trust=0, balance=False), labels) == even
    assert (
        of_the_second_class(al.Askless(trust=0), 1 - labels) < even < of_the_second_class(al.Askless(trust=0), labels)
    )


def test_labels_outside_the_probabilities_count_for_none_of_the_classes():
    """A class that the model does not know yet: probabilities of two, a label of a third."""
    features, probs = np.random.default_rng(0).normal(size=(20, 3)), np.full((20, 2), 0.5)
    got = al.select("askless", 3, features=features, probs=probs, labelled=[0, 1, 2], labels=[0, 1, 2**40])
    assert len(set(got.indices.tolist())) == 3


def test_greedy_is_within_its_bound_of_the_best_batch():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(14, 3))
    picks, _, kernel, weight, _ = by_hand(features, None, [], 3)
    best = max(covered(kernel, weight, list(c)) for c in itertools.combinations(range(14), 3))
    mine = covered(kernel, weight, al.select("askless", 3, features=features).indices.tolist())
    assert mine == pytest.approx(covered(kernel, weight, picks), abs=1e-5)
    assert (1 - 1 / np.e) * best <= mine <= best + 1e-6
    greedy = covered(kernel, weight, by_hand(features, None, [], 3, settle=0)[0])
    assert mine >= greedy - 1e-6


def test_picks_leave_the_middle_of_everything_once_others_are_there():
    """A large ring of items and a few in its middle, which greedy takes first; two picks cover more at opposite sides."""
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = np.c_[np.cos(angle), np.sin(angle), np.full(40, 1.5)]
    features = np.vstack(
        [ring, [[0.0, 0.0, 1.5]] * 2, -ring]
    )  # the mean is 0, so that directions are those of the rows
    greedy, moved = (al.select(al.Askless(settle=settle), 4, features=features, seed=0) for settle in (0, 3))
    assert moved.info["covered"] > greedy.info["covered"]
    assert moved.scores.tolist() == sorted(moved.scores, reverse=True)


@pytest.mark.parametrize("nearby", [1, 4, 32])
def test_settling_never_covers_less_and_never_moves_to_a_labelled_item(monkeypatch, nearby):
    monkeypatch.setattr(covering, "NEARBY", nearby)
    features = clusters(np.random.default_rng(0), [120, 90, 60, 30], spread=1.0)
    labelled = np.arange(0, 300, 60)
    greedy, moved = (
        al.select(al.Askless(settle=settle), 6, features=features, labelled=labelled, seed=0) for settle in (0, 3)
    )
    assert moved.info["covered"] >= greedy.info["covered"] - 1e-6
    assert not set(moved.indices) & set(labelled)


def clusters(rng, sizes, spread=0.1):
    centres = 3 * np.eye(len(sizes))
    return np.vstack([c + spread * rng.normal(size=(k, len(sizes))) for c, k in zip(centres, sizes, strict=True)])


def test_without_labels_every_group_gets_a_pick_the_largest_first():
    rng = np.random.default_rng(0)
    features = clusters(rng, [200, 150, 100, 50])
    picks = al.select("askless", 4, features=features)
    assert np.digitize(picks.indices, [200, 350, 450]).tolist() == [0, 1, 2, 3]
    assert picks.info["stands_for"] == [200, 150, 100, 50]


def test_outliers_are_left_to_others():
    rng = np.random.default_rng(0)
    features = np.vstack([clusters(rng, [100, 100, 100]), 30 * rng.normal(size=(3, 3))])
    assert al.select("askless", 6, features=features).indices.max() < 300
    assert al.select("coreset", 6, features=features).indices.max() >= 300


def test_what_the_model_is_unsure_of_is_covered_first():
    rng = np.random.default_rng(0)
    features = clusters(rng, [100, 100, 100])
    probs = np.tile([0.98, 0.01, 0.01], (300, 1))
    probs[200:] = [0.36, 0.33, 0.31]  # unsure of the third group, where there is a label as in the others
    labelled = [0, 100, 200]
    picks = al.select(al.Askless(trust=0), 5, features=features, probs=probs, labelled=labelled)
    assert (picks.indices >= 200).all()
    assert picks.info["unsure"][0] == pytest.approx(0.97)
    even = al.select(al.Askless(trust=float("inf")), 6, features=features, probs=probs, labelled=labelled)
    assert set(np.digitize(even.indices, [100, 200])) == {0, 1, 2}


def test_the_model_is_trusted_more_the_more_labels_there_are():
    view = [
        al.View(N=50, labelled=np.arange(L), unlabelled=np.arange(L, 50), probs=np.full((50, 5), 0.2))
        for L in (0, 10, 40)
    ]
    assert [al.Askless().trusted(v) for v in view] == [0, 0.2, 0.8]
    assert [al.Askless(trust=4).trusted(v) for v in view] == [0, 0.5, 1]
    assert [al.Askless(trust=0).trusted(v) for v in view] == [0, 1, 1]
    assert [al.Askless(trust=float("inf")).trusted(v) for v in view] == [0, 0, 0]


def test_probabilities_are_used_where_they_are_and_not_asked_for():
    rng = np.random.default_rng(0)
    features, probs, labelled = rng.normal(size=(80, 4)), probabilities(rng, 80), np.arange(10)
    without = al.select("askless", 10, features=features, labelled=labelled)
    alone = al.select(al.Askless(trust=float("inf")), 10, features=features, probs=probs, labelled=labelled)
    both = al.select("askless", 10, features=features, probs=probs, labelled=labelled)
    assert without.indices.tolist() == alone.indices.tolist() != both.indices.tolist()
    assert without.info["unsure"] == [1.0] * 10
    with pytest.raises(InputError, match="probs: expected rows >= 0 that sum to 1"):
        al.select("askless", 10, features=features, probs=2 * probs, labelled=labelled)


def test_every_item_can_be_picked_also_where_few_are_targets():
    rng = np.random.default_rng(0)
    features = clusters(rng, [300, 300, 300])
    few = al.Askless(targets=50)
    picks = al.select(few, 3, features=features)
    assert sorted(np.digitize(picks.indices, [300, 600])) == [0, 1, 2]
    assert sum(picks.info["stands_for"]) == pytest.approx(900, abs=2)
    drawn = {tuple(al.select(few, 3, features=features, seed=s).indices) for s in range(4)}
    assert len(drawn) > 1
    assert len(al.select(few, 890, features=features)) == 890  # more labels than targets


def test_memory_does_not_change_the_picks():
    rng = np.random.default_rng(0)
    features, probs = rng.normal(size=(600, 40)).astype(np.float32), probabilities(rng, 600)
    given = {"features": features, "probs": probs, "labelled": np.arange(30)}
    strategy = al.Askless(directions=16)
    wide = al.select(strategy, 20, **given)
    assert wide.indices.tolist() == al.select(strategy, 20, max_memory=2**14, **given).indices.tolist()


def test_features_far_from_zero_and_of_any_scale_give_the_same_picks():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(100, 6))
    plain = al.select("askless", 10, features=features).indices.tolist()
    assert al.select("askless", 10, features=1e3 + features).indices.tolist() == plain
    assert al.select("askless", 10, features=1e-25 * features).indices.tolist() == plain
    assert al.select("askless", 10, features=1e100 * features).indices.tolist() == plain


@pytest.mark.parametrize("strategy", [al.Askless(), al.Askless(targets=50)])
def test_a_large_pool_of_equals_comes_to_an_end(strategy):
    features = np.repeat([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]], 200, axis=0)
    picks = al.select(strategy, 150, features=features)
    assert len(set(picks.indices)) == 150
    assert len(set(al.select(strategy, 150, features=np.ones((400, 3))).indices)) == 150


@pytest.mark.parametrize("jitter", [0, 1e-4, 1e-2])
def test_copies_that_are_the_most_do_not_set_the_reach_for_all(jitter):
    rng = np.random.default_rng(0)
    blank = np.ones((600, 9)) + jitter * rng.normal(size=(600, 9))  # an empty road, seen all night
    groups = np.pad(clusters(rng, [50] * 8), ((0, 0), (0, 1)))
    picks = al.select("askless", 20, features=np.vstack([blank, groups])).indices
    assert set((picks[picks >= 600] - 600) // 50) == set(range(8))
    assert (picks < 600).sum() <= 3


def test_equals_are_drawn_at_random():
    features = np.repeat(np.eye(4), 100, axis=0)
    places = [set(al.select("askless", 4, features=features, seed=s).indices.tolist()) for s in range(5)]
    assert all({i // 100 for i in some} == {0, 1, 2, 3} for some in places)
    assert len(set.union(*places)) > 12
    constant = np.ones((500, 3))  # of more than are compared at a time
    assert len({int(al.select("askless", 1, features=constant, seed=s).indices[0]) for s in range(100)}) > 70


def test_no_place_is_taken_twice_before_all_are_taken():
    features = np.repeat(np.random.default_rng(0).normal(size=(100, 20)), 3, axis=0)
    picks = al.select("askless", 120, features=features)
    assert len(set(picks.indices[:100] // 3)) == 100
    assert picks.info["covered"] == pytest.approx(1, abs=1e-4)
    assert picks.scores[100:] == pytest.approx(0, abs=1e-6)


def test_outliers_of_any_size_do_not_hide_the_others():
    rng = np.random.default_rng(0)
    features = clusters(rng, [2000, 2000, 2000])
    for size in (1e3, 1e9, 1e45):
        wild = np.vstack([features, np.full((1, 3), size)])
        picks = al.select("askless", 3, features=wild, seed=3)
        assert sorted(np.digitize(picks.indices, [2000, 4000])) == [0, 1, 2]
        assert np.isfinite(picks.scores).all()


def test_very_wide_features_are_no_square_of_their_width():
    features = np.random.default_rng(0).normal(size=(70, 60_000)).astype(np.float32)  # d x d would be 14 GB
    assert len(al.select("askless", 5, features=features)) == 5


@pytest.mark.parametrize("strategy", [al.Askless(directions=3, targets=8), al.Askless(trust=0), al.Askless(reach=5)])
def test_options_keep_the_contract(strategy):
    check_strategy(strategy)


def test_wrong_options_are_named():
    with pytest.raises(InputError, match="Askless: trust must be a number >= 0"):
        al.Askless(trust=-1)
    with pytest.raises(InputError, match="Askless: targets must be a whole number >= 2, got 1"):
        al.Askless(targets=1)
    with pytest.raises(OptionError, match="its options are trust, reach, directions, targets, balance"):
        al.Askless(sigma=1)


def test_an_array_that_nobody_can_give_is_named():
    class Curious:
        name, needs, wants = "curious", (), ("embeddings",)

        def select(self, view, n, rng):
            raise AssertionError

    with pytest.raises(InputError, match="wants has an unknown array 'embeddings'"):
        al.select(Curious(), 1, pool=5)


def test_an_arm_of_albl_gets_what_it_wants():
    albl = al.ALBL(arms=(al.Askless(), al.Margin(on="logit")))
    assert set(albl.needs) | set(albl.wants) == {"features", "labels", "logits", "probs"}
    assert albl.wants == ("labels",)
    check_strategy(albl)
