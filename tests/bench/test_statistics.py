import numpy as np
import pytest
from scipy import stats

from askless.bench import statistics as s

NAN = float("nan")


def test_spread_is_mean_and_sample_deviation_of_what_is_there():
    assert s.spread(np.array([1.0, 2.0, 3.0, NAN])) == (2.0, 1.0, 3)
    assert s.spread(np.array([4.0]))[0::2] == (4.0, 1)
    assert np.isnan(s.spread(np.array([4.0])).sd)
    assert np.isnan(s.spread(np.array([])).mean)


def test_paired_interval_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 12))
    d = s.paired(a, b)
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (d.mean - d.half, d.mean + d.half) == pytest.approx((low, high))


def test_a_missing_seed_leaves_its_pair_only():
    d = s.paired(np.array([1.0, NAN, 3.0, 9.0]), np.array([0.0, 5.0, 1.0, NAN]))
    assert (d.mean, d.n) == (1.5, 2)


def test_one_pair_has_no_interval_and_decides_nothing():
    d = s.paired(np.array([1.0]), np.array([0.0]))
    assert d.mean == 1
    assert np.isnan(d.half)
    assert not d.clear


def test_the_same_difference_in_every_seed_is_clear_and_none_is_not():
    assert s.paired(np.array([2.0, 3.0]), np.array([1.0, 2.0])).clear
    assert not s.paired(np.array([2.0, 3.0]), np.array([2.0, 3.0])).clear


def test_wilcoxon_by_hand_and_by_scipy():
    """Five differences of one sign: 2 of the 2**5 signs are as extreme."""
    assert s.wilcoxon(np.arange(1.0, 6), np.zeros(5)) == pytest.approx(2 / 32)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 15))
    assert s.wilcoxon(a, b) == pytest.approx(stats.wilcoxon(a, b).pvalue)


@pytest.mark.parametrize("a", [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0]])
def test_wilcoxon_without_two_differences_is_one(a):
    assert s.wilcoxon(np.array(a), np.zeros(len(a))) == 1


def test_wilcoxon_of_nothing_is_nan():
    assert np.isnan(s.wilcoxon(np.array([NAN]), np.array([1.0])))


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.04; then never falling."""
    assert s.holm(np.array([0.04, 0.01, 0.03, 0.02])) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert s.holm(np.array([0.6, 0.7])) == pytest.approx([1, 1])


def test_holm_counts_only_tests_that_were_made():
    assert s.holm(np.array([NAN, 0.02, 0.5]))[1:] == pytest.approx([0.04, 0.5])
    assert s.holm(np.array([])).shape == (0,)


def test_aubc_weighs_uneven_counts_and_takes_one():
    curve = np.array([0.2, 0.4, 0.8])
    assert float(s.aubc(np.array([0, 10, 20]), curve)) == pytest.approx(0.45)
    assert float(s.aubc(np.array([0, 10, 40]), curve)) == pytest.approx((10 * 0.3 + 30 * 0.6) / 40)
    assert s.aubc(np.array([10]), np.array([[0.3], [0.5]])) == pytest.approx([0.3, 0.5])
    assert np.isnan(s.aubc(np.array([0, 1]), np.array([[0.3, NAN], [0.5, 0.5]]))).tolist() == [True, False]


def test_labels_to_target_interpolates_and_may_never_come():
    labels, curve = np.array([10, 20, 40]), np.array([0.5, 0.7, 0.6])
    assert s.labels_to_target(labels, curve, 0.6) == pytest.approx(15)
    assert s.labels_to_target(labels, curve, 0.4) == 10
    assert s.labels_to_target(labels, curve, 0.7) == 20
    assert s.labels_to_target(labels, curve, 0.71) == np.inf
    assert s.labels_to_target(labels, np.array([NAN, 0.5, 0.7]), 0.6) == 30


def test_wins_count_settings_with_a_clear_difference():
    base = np.array([0.1, 0.2, 0.3])
    even, far, noisy = base, base + np.array([0.2, 0.21, 0.19]), base + np.array([0.3, -0.3, 0.1])
    values = np.stack([np.stack([base, base], 1), np.stack([far, noisy], 1), np.stack([even, base - 0.05], 1)])
    assert s.wins(values).tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]


def test_bold_needs_an_interval_off_the_second_best():
    base = np.array([0.1, 0.2, 0.3])
    assert s.clear_best(np.stack([base, base + 0.1, base - 0.1])) == 1
    assert s.clear_best(np.stack([base, base + np.array([0.3, -0.2, 0.1])])) is None
    assert s.clear_best(np.stack([base, base])) is None
    assert s.clear_best(base[None]) is None
    assert s.clear_best(np.stack([base, np.full(3, NAN)])) is None
    assert s.clear_best(np.array([[0.1], [0.9]])) is None


def test_against_marks_both_directions():
    base = np.array([0.1, 0.2, 0.3])
    values = np.stack([base, base + 0.1, base - 0.1, base + np.array([0.3, -0.2, 0.1])])
    assert s.against(values, base).tolist() == [0, 1, -1, 0]


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_nemenyi_quantile_is_demsars_table_5(k, q):
    sets = k * (k + 1) / 6  # for which the critical difference is the quantile itself
    assert s.critical_difference(k, sets) == pytest.approx(q, abs=8e-4)  # 2.3437 is printed as 2.343


def test_critical_difference_is_demsars_example():
    """Demsar 2006, section 3.2.2: four classifiers, fourteen data sets, 2.569 * sqrt(4 * 5 / (6 * 14)) = 1.25."""
    assert s.critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)


def test_average_ranks_share_ties_and_one_is_best():
    scores = np.array([[0.9, 0.5, 0.5], [0.8, 0.7, 0.6]])
    assert s.average_ranks(scores).tolist() == [1.0, 2.25, 2.75]


def test_friedman_is_scipys_and_one_where_all_are_equal():
    scores = np.random.default_rng(0).normal(size=(6, 4))
    assert s.friedman(scores) == pytest.approx(stats.friedmanchisquare(*scores.T).pvalue)
    assert s.friedman(np.ones((3, 3))) == 1


def test_cliques_are_maximal():
    assert s.cliques(np.array([3.0, 1.0, 2.0]), 1.0) == [(1.0, 2.0), (2.0, 3.0)]
    assert s.cliques(np.array([3.0, 1.0, 2.0]), 5.0) == [(1.0, 3.0)]
    assert s.cliques(np.array([3.0, 1.0, 2.0]), 0.5) == []


def test_kendall_leaves_out_what_is_missing():
    assert s.kendall(np.array([1.0, 2.0, NAN, 3.0]), np.array([3.0, 2.0, 9.0, 1.0])) == pytest.approx(-1)
    assert np.isnan(s.kendall(np.array([1.0, 1.0]), np.array([3.0, 2.0])))
    assert np.isnan(s.kendall(np.array([1.0]), np.array([3.0])))


def test_significant_by_hand():
    """The smallest two-sided p of six pairs is 2 / 64, twice that for two methods; of eight pairs it is 2 / 256."""
    base = np.zeros(8)
    above, below = np.arange(1.0, 9.0), -np.arange(1.0, 9.0)
    assert s.significant(np.array([above, below, np.array([1.0, -1] * 4)]), base).tolist() == [1, -1, 0]
    assert s.significant(np.array([above[:6], below[:6]]), base[:6]).tolist() == [0, 0]
    assert s.significant(np.array([above[:6]]), base[:6]).tolist() == [1]
    assert s.significant(np.array([np.full(8, np.nan)]), base).tolist() == [0]


def test_the_gap_to_an_oracle_that_is_no_better_is_none():
    assert s.gap_closed(0.7, 0.6, 0.8) == pytest.approx(0.5)
    assert s.gap_closed(0.5, 0.6, 0.8) == pytest.approx(-0.5)
    assert np.isnan(s.gap_closed(0.7, 0.6, 0.6))
