"""Likeness by cosines: blocked against slow and plain, and how long ten thousand items take."""

import time

import numpy as np
import pytest

from askless.run.out.alike import likeness


def slow(x, to, by):
    """Item by item, in float64."""
    rows = [row.astype(np.float64) for row in x]
    norm = [max(np.sqrt((row**2).sum()), 1e-12) for row in rows]
    cosines = [[rows[i] @ rows[j] / norm[i] / norm[j] for j in to] for i in range(len(x))]
    return np.array([max(each) if by == "best" else sum(each) / len(each) for each in cosines])


@pytest.mark.parametrize("by", ["best", "mean"])
@pytest.mark.parametrize("to", [[3], [0, 7, 49, 12]])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("block", [1, 70, 10**6])
def test_blocks_give_what_item_by_item_gives(by, to, dtype, block):
    x = np.random.default_rng(0).normal(size=(50, 9)).astype(dtype)
    assert likeness(x, to, by, block) == pytest.approx(slow(x, to, by), abs=2e-6)


def test_likeness_does_not_depend_on_lengths():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 5))
    scaled = x * rng.uniform(0.1, 10, size=(30, 1))
    assert likeness(scaled, [2, 5]) == pytest.approx(likeness(x, [2, 5]), abs=1e-6)


def test_ten_thousand_items_take_a_fraction_of_a_second(tmp_path, capsys):
    """From a mapped file in float16, as the page reads it; the file is in memory, as after a first search."""
    x = np.random.default_rng(0).normal(size=(10_000, 1280)).astype(np.float16)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    taken = []
    for _ in range(3):
        begun = time.process_time()  # whoever else uses this computer
        found = likeness(mapped, [17])
        taken.append(time.process_time() - begun)
    assert found.argmax() == 17
    with capsys.disabled():
        print(f"\nlikeness of 10,000 x 1,280: {min(taken):.3f} s")
    assert min(taken) < 0.6  # 0.1 s on a quiet core
