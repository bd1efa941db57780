import math
from itertools import pairwise

import pytest

from askless.learn.schedule import rate_at


def test_cosine_falls_to_a_fifth_at_its_horizon_and_not_when_training_stops_early():
    rates = [rate_at(k, schedule="cosine", lr=0.03, horizon=1000) for k in range(1001)]
    assert rates[0] == 0.03
    assert rates[-1] == pytest.approx(0.03 * math.cos(7 * math.pi / 16))
    assert all(a > b for a, b in pairwise(rates))
    # CRC: 350 x 1024 and 600 x 1024 steps on FixMatch's cosine of 2^20 (METHODS 1.5)
    assert rate_at(350 * 1024, schedule="cosine", lr=1.0, horizon=2**20) == pytest.approx(0.892, abs=1e-3)
    assert rate_at(600 * 1024, schedule="cosine", lr=1.0, horizon=2**20) == pytest.approx(0.693, abs=1e-3)


def test_drop_and_constant():
    assert rate_at(799, schedule="drop", lr=1.0, horizon=1000) == 1.0
    assert rate_at(800, schedule="drop", lr=1.0, horizon=1000) == 0.2
    assert rate_at(10**9, schedule="constant", lr=0.5, horizon=10) == 0.5
