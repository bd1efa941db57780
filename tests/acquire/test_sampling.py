import numpy as np
import pytest

from askless.acquire.sampling import Draws, at_least


def test_every_row_is_drawn_alike_however_the_rows_are_cut():
    counts, rng, rows = np.zeros(60), np.random.default_rng(0), np.arange(60.0)[:, None]
    for _ in range(400):
        draws = Draws(np.zeros((5, 1)), 0)
        for part in np.split(rows, [1, 10, 45]):
            draws = draws.after(part, rng)
        assert draws.shown == 60
        counts += np.bincount(draws.rows.ravel().astype(int), minlength=60)
    by_sixth = counts.reshape(6, 10).sum(axis=1)  # 333 each, with a deviation of 17
    assert np.abs(by_sixth - 2000 / 6) == pytest.approx(0, abs=80)


def test_draws_know_nothing_of_each_other():
    rng, rows = np.random.default_rng(0), np.arange(4.0)[:, None]
    pairs = [Draws(np.zeros((2, 1)), 0).after(rows, rng).rows.ravel() for _ in range(2000)]
    assert np.mean([a == b for a, b in pairs]) == pytest.approx(1 / 4, abs=0.05)


def test_showing_nothing_changes_nothing():
    draws = Draws(np.zeros((3, 2)), 0).after(np.eye(2), np.random.default_rng(0))
    again = draws.after(np.empty((0, 2)), np.random.default_rng(1))
    assert again.shown == 2
    assert again.rows.tolist() == draws.rows.tolist()


@pytest.mark.parametrize("chance", [0.05, 0.5, 0.9])
def test_the_bound_holds_in_nineteen_of_twenty_cases(chance):
    means = np.random.default_rng(0).binomial(50, chance, size=4000) / 50  # 0 or 1: the widest that there is
    assert np.mean([at_least(mean, 50) <= chance for mean in means]) >= 0.95


def test_a_bound_below_nothing_is_nothing():
    assert at_least(0.1, 4) == 0
