import numpy as np
import pytest

import askless as al
from askless.acquire.bald import mutual_information

LN2 = np.log(2)


def passes(N, K, C, seed=0, sharp=2.0):
    f = sharp * np.random.default_rng(seed).normal(size=(N, K, C))
    e = np.exp(f - f.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True)


def obvious(p):
    """H(mean) - mean of H, as the paper writes it."""

    def H(q):
        return -np.sum(np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0), axis=-1)

    return H(p.mean(axis=1)) - H(p).mean(axis=1)


def test_by_hand():
    disagree = [[1, 0], [0, 1]]  # each pass is sure, of another class
    unsure = [[0.5, 0.5], [0.5, 0.5]]  # all say the same: nothing to learn of the weights
    half = [[1, 0], [0.5, 0.5]]
    values = mutual_information(np.array([disagree, unsure, half], dtype=float))
    entropy_of_mean = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert values == pytest.approx([LN2, 0, entropy_of_mean - LN2 / 2])
    assert al.select("bald", 3, probs_by_pass=[disagree, unsure, half]).indices.tolist() == [0, 2, 1]


@pytest.mark.parametrize("sharp", [0.1, 2.0, 40.0])
def test_it_is_the_entropy_of_the_mean_less_the_mean_entropy(sharp):
    p = passes(200, 7, 5, sharp=sharp)
    assert mutual_information(p) == pytest.approx(obvious(p), abs=1e-12)
    assert (mutual_information(p) <= np.log(5) + 1e-12).all()


def test_passes_that_nearly_agree_keep_their_order():
    """For small differences e the information is e^2 / (8 p (1 - p)) in two passes of two classes; H - H loses it below
    rounding at e = 1e-9."""
    e = np.array([1e-7, 3e-7, 1e-6])
    p = np.stack([np.stack([0.3 + e / 2, 0.7 - e / 2], axis=1), np.stack([0.3 - e / 2, 0.7 + e / 2], axis=1)], axis=1)
    assert mutual_information(p) == pytest.approx(e**2 / (8 * 0.3 * 0.7), rel=2e-2, abs=1e-16)
    assert al.select("bald", 3, probs_by_pass=p).indices.tolist() == [2, 1, 0]


def test_an_array_with_other_axes_is_named():
    p = passes(30, 6, 4)
    with pytest.raises(al.InputError, match=r"probs_by_pass: expected shape \(N, K, C\), got \(30, 4\)"):
        al.select("bald", 3, probs_by_pass=p[:, 0])
    with pytest.raises(al.InputError, match=r"\(items, passes, classes\).*row 0, pass 0 with sum"):
        al.select("bald", 3, probs_by_pass=p.transpose(0, 2, 1))
    p[7, 2] *= 2
    with pytest.raises(al.InputError, match="row 7, pass 2 with sum 2"):
        al.select("bald", 3, probs_by_pass=p)
    with pytest.raises(al.InputError, match="needs probs_by_pass"):
        al.select("bald", 3, probs=p[:, 0])
    with pytest.raises(al.InputError, match="passes must be"):
        al.BALD(passes=1)


def test_a_few_rows_at_a_time_give_the_same_picks():
    p = passes(500, 6, 4)
    assert (
        al.select("bald", 20, probs_by_pass=p).indices.tolist()
        == al.select("bald", 20, probs_by_pass=p, max_memory=4000).indices.tolist()
    )
    two = al.select(al.acquire.TwoLevel(of=al.BALD(), parts=4), 20, probs_by_pass=p)
    assert sorted(two.indices) == sorted(al.select("bald", 20, probs_by_pass=p).indices)
