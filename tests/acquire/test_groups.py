import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from askless.acquire.covering import Space
from askless.acquire.groups import Groups, absorbed, alone, as_often, least_costs, merged, weighted_means

NONE = np.zeros(4, dtype=bool)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def scatter(rows, weight, into):
    """The summed squared distance of rows from the mean of their group, written out."""
    total = 0.0
    for group in np.unique(into):
        x, w = rows[into == group], weight[into == group]
        total += (w[:, None] * (x - (w[:, None] * x).sum(axis=0) / w.sum()) ** 2).sum()
    return total


def test_the_least_costs_of_three_groups_on_a_line_by_hand():
    costs, partners = least_costs(np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 1.0, 2.0]))
    assert costs == pytest.approx([0.5, 0.5, 2 / 3 * 4])
    assert partners.tolist() == [1, 0, 1]


def test_the_cost_is_what_the_scatter_grows_by(rng):
    rows, weight = rng.normal(size=(30, 4)), rng.uniform(0.1, 5, 30)
    costs, partners = least_costs(rows, weight)
    for i in range(30):
        into = np.arange(30)
        into[i] = partners[i]
        assert costs[i] == pytest.approx(scatter(rows, weight, into), rel=1e-4)


def test_the_cheapest_pairs_go_first_and_each_group_into_one_merge():
    into = absorbed(np.array([3.0, 1.0, 1.0, 2.0]), np.array([1, 2, 1, 2]), NONE, most=4)
    assert into.tolist() == [0, 2, 2, 3]  # 0 wants 1, which is gone; 3 wants 2, which has taken one
    assert absorbed(np.array([1.0, 1.0, 2.0, 2.0]), np.array([1, 0, 3, 2]), NONE, most=1).tolist() == [1, 1, 2, 3]


def test_a_fixed_group_takes_others_and_is_never_taken():
    fixed = np.array([True, False, False, False])
    assert absorbed(np.array([0.5, 0.5, 1.0, 1.0]), np.array([1, 0, 3, 2]), fixed, 4).tolist() == [0, 0, 3, 3]


def test_all_copies_go_into_one_group_at_once():
    assert absorbed(np.zeros(4), np.array([1, 0, 0, 0]), NONE, most=4).tolist() == [1, 1, 2, 3]
    assert absorbed(np.zeros(4), np.array([3, 3, 3, 0]), NONE, most=4).tolist() == [3, 3, 3, 3]


def test_merging_keeps_all_weight_all_items_and_the_mean_of_all(rng):
    rows, weight = rng.normal(size=(200, 6)), rng.uniform(0.1, 2, 200)
    groups, kept = merged(alone(rows, weight), rows, np.zeros(200, dtype=bool), 40, 256, rng)
    assert len(kept) == len(np.unique(kept)) == len(groups.size) == 40
    assert (np.diff(kept) > 0).all()
    assert groups.size.sum() == 200
    assert groups.weight.sum() == pytest.approx(weight.sum())
    mean = (groups.weight[:, None] * groups.mean).sum(axis=0) / groups.weight.sum()
    assert mean == pytest.approx((weight[:, None] * rows).sum(axis=0) / weight.sum())


@pytest.mark.parametrize("keep", [10, 50])
def test_the_scatter_is_close_to_that_of_one_merge_at_a_time(keep, rng):
    ratios = []
    for _ in range(8):
        rows = rng.normal(size=(300, 8)) + 3 * rng.normal(size=(12, 8))[rng.integers(12, size=300)]
        unit = Space(rows, 256, 2**20, rng)(np.arange(300)).numpy().astype(np.float64)
        groups, _ = merged(alone(unit, np.ones(300)), unit, np.zeros(300, dtype=bool), keep, 256, rng)
        ours = 300 - (groups.size[:, None] * groups.mean**2).sum()  # unit rows: sum |x|^2 - sum_g n_g |mean_g|^2
        ratios.append(ours / scatter(unit, np.ones(300), fcluster(linkage(unit, "ward"), keep, "maxclust")))
    assert np.mean(ratios) < 1.2


def test_the_item_nearest_to_the_middle_stays_and_fixed_ones_always():
    angle = np.radians([0, 4, 8, 180, 184, 188])
    rows = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    merge = (alone(rows, np.ones(6)), rows)
    groups, kept = merged(*merge, np.zeros(6, dtype=bool), 2, 256, np.random.default_rng(0))
    assert kept.tolist() == [1, 4]
    assert groups.size.tolist() == [3, 3]
    groups, kept = merged(*merge, np.arange(6) == 2, 1, 256, np.random.default_rng(0))
    assert kept.tolist() == [2, 4]


def test_labelled_copies_are_not_merged_with_each_other():
    rows = np.ones((6, 3))
    groups, kept = merged(alone(rows, np.ones(6)), rows, np.arange(6) < 2, 1, 256, np.random.default_rng(0))
    assert kept[:2].tolist() == [0, 1]
    assert len(kept) == 3
    assert groups.size.sum() == 6


def test_joined_groups_keep_their_order():
    a, b = alone(np.zeros((2, 1)), np.ones(2)), Groups(np.ones((1, 1)), np.array([5.0]), np.array([3.0]))
    assert a.joined(b).weight.tolist() == [1, 1, 5]
    assert a.joined(b).merged_by(np.array([0, 1, 0])).mean.ravel() == pytest.approx([5 / 6, 0])


def test_weighted_means_by_hand():
    means = weighted_means(np.array([[0.0], [4.0], [7.0]]), np.array([3.0, 1.0, 2.0]), np.array([0, 0, 1]))
    assert means.ravel().tolist() == [1, 7]


def test_positions_are_drawn_as_often_as_their_size(rng):
    size = rng.integers(1, 50, 30).astype(float)
    often = np.bincount(as_often(size, rng), minlength=30)
    assert np.abs(often - size / size.sum() * often.sum()).max() <= 1
