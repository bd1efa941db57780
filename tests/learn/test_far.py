import numpy as np
import pytest
import torch

from askless.learn.far import FAR, Reach


def test_rows_are_returned_as_they_are_where_none_is_far():
    rows = torch.randn(200, 5)
    near, items = Reach.of(rows).near(rows, np.arange(200))
    assert near is rows
    assert items.tolist() == []


def test_a_far_row_keeps_its_direction_and_gets_the_usual_distance():
    rows = torch.randn(200, 5) + 3
    far = rows.clone()
    far[[4, 9]] = 3 + 1e6 * (far[[4, 9]] - 3)
    reach = Reach.of(far)
    near, items = reach.near(far, np.arange(1000, 1200))
    assert items.tolist() == [1004, 1009]
    before, after = (each[[4, 9]] - reach.centre for each in (far, near))
    assert after.norm(dim=1).tolist() == pytest.approx([reach.usual] * 2, rel=1e-4)
    assert torch.cosine_similarity(before, after).tolist() == pytest.approx([1, 1])
    others = np.setdiff1d(np.arange(200), [4, 9])
    assert torch.equal(near[others], rows[others])
    assert reach.usual == pytest.approx(Reach.of(rows).usual, rel=0.1)


def test_a_tenth_of_the_rows_that_differ_from_equal_ones_is_not_far():
    rows = torch.zeros(100, 3)
    rows[:12] = torch.randn(12, 3)
    assert len(Reach.of(rows).near(rows, np.arange(100))[1]) == 0
    rows[:12] = 0
    rows[0] = 2 * FAR  # all others are equal: there is no usual distance
    assert len(Reach.of(rows).near(rows, np.arange(100))[1]) == 0
