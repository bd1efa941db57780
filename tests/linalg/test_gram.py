import numpy as np
import pytest
import torch

from askless.linalg import GramRows, beats, gram_score, score_batches


def test_two_unit_rows_score_one_minus_their_inner_product():
    score = gram_score(torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64))
    assert score.rank == 2
    assert score.value == pytest.approx(1 - 0.6)


def test_primal_and_dual_forms_agree_on_the_non_zero_spectrum():
    phi = torch.from_numpy(np.random.default_rng(0).normal(size=(30, 7)))
    by_svd = float(torch.linalg.svdvals(phi)[-1] ** 2)
    assert gram_score(phi).value == pytest.approx(by_svd, rel=1e-10)
    assert gram_score(phi.T).value == pytest.approx(by_svd, rel=1e-10)
    assert gram_score(phi).rank == gram_score(phi.T).rank == 7


def test_no_rows_have_rank_zero():
    assert gram_score(torch.zeros(0, 5, dtype=torch.float64))[:2] == (0, 0.0)
    assert gram_score(torch.zeros(3, 5, dtype=torch.float64))[:2] == (0, 0.0)


def test_five_points_twice_never_beat_ten_distinct_points_though_their_positive_eigenvalue_is_larger():
    # METHODS 7.1: dropping the zeros would reward the duplicates.
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows = torch.from_numpy(rng.normal(size=(10, 16)))
        doubled = torch.cat([rows[:5], rows[:5]])
        assert gram_score(doubled).rank == 5
        assert gram_score(doubled).value > gram_score(rows).value
        assert beats(gram_score(rows), gram_score(doubled))


def test_scores_of_batches_equal_scores_of_the_stacked_rows_whatever_the_memory():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(40, 6)).astype(np.float32)
    for labelled in (np.array([], dtype=np.int64), np.array([3, 5]), np.arange(9)):
        batches = rng.integers(10, 40, size=(25, 4))
        for normalize in (False, True):
            rows = GramRows(features, normalize=normalize)
            scores = score_batches(rows, labelled, batches, max_memory=1)
            for i, batch in enumerate(batches):
                expected = gram_score(rows.take(np.concatenate([labelled, batch])))
                assert scores.at(i).rank == expected.rank
                assert scores.at(i).value == pytest.approx(expected.value, rel=1e-8, abs=1e-12)


def test_rows_append_the_bias_and_normalise_without_touching_the_features():
    features = np.array([[3.0, 4.0], [0.0, 0.0]])
    features.setflags(write=False)
    assert GramRows(features).take(np.array([0])).tolist() == [[3.0, 4.0, 1.0]]
    unit = GramRows(features, bias=False, normalize=True)
    assert unit.take(np.array([0, 1])).tolist() == [[0.6, 0.8], [0.0, 0.0]]
    assert unit.width == 2
