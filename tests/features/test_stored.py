"""Arrays that are written piece by piece: resumed, shared, and whole or not there."""

import threading

import numpy as np
import pytest

from askless.base.locks import held_folder
from askless.features.stored import Piece, by_threads, is_whole, mapped, write_rows

N = 23


def rows(first, last):
    return np.arange(2 * first, 2 * last, dtype=np.float32).reshape(-1, 2)


def making(calls, stop=None):
    """Pieces of 4 rows for two arrays; `calls` are the rows that they began with, and the states they were told."""

    def pieces(done, state):
        calls.append((done, state))
        for first in range(done, N, 4):
            last = min(first + 4, N)
            if stop is not None and first >= stop:
                raise KeyboardInterrupt
            yield Piece([rows(first, last), rows(first, last)[:, :1].astype(np.uint8)], f"after {last}")

    return pieces


@pytest.fixture
def paths(tmp_path):
    return [tmp_path / "made" / name for name in ("one.npy", "two.npy")]


def check(paths):
    assert np.array_equal(mapped(paths[0]), rows(0, N))
    assert np.array_equal(mapped(paths[1]), rows(0, N)[:, :1].astype(np.uint8))
    assert sorted(path.name for path in paths[0].parent.iterdir()) == ["one.npy", "two.npy"]


def test_every_row_is_written_and_nothing_is_left_beside(paths):
    seen = []
    write_rows(paths, N, "me", making([]), lambda *where: seen.append(where))
    check(paths)
    assert seen[0] == (4, N)
    assert seen[-1] == (N, N)


def test_what_was_stopped_goes_on_where_it_was_with_its_state(paths):
    calls = []
    with pytest.raises(KeyboardInterrupt):
        write_rows(paths, N, "me", making(calls, stop=20))
    assert not paths[0].exists()
    write_rows(paths, N, "me", making(calls))
    assert calls == [(0, None), (16, "after 16")]  # every four pieces are noted
    check(paths)


def test_an_error_of_what_makes_the_rows_is_not_taken_for_one_of_the_disk(paths):
    def pieces(done, state):
        raise OSError("an image is gone")
        yield

    with pytest.raises(OSError, match="an image is gone"):
        write_rows(paths, N, "me", pieces, shared=True)


@pytest.mark.parametrize("changed", ["made_by", "rows", "damaged", "cut"])
def test_what_others_left_is_not_gone_on_with(paths, changed):
    calls = []
    with pytest.raises(KeyboardInterrupt):
        write_rows(paths, N + (changed == "rows"), "other" if changed == "made_by" else "me", making(calls, stop=20))
    [left] = paths[0].parent.iterdir()
    if changed == "damaged":
        (left / "done.json").write_text("[]")
    if changed == "cut":
        (left / "1.npy").write_bytes((left / "1.npy").read_bytes()[:90])
    write_rows(paths, N, "me", making(calls))
    assert calls[1] == (0, None)
    check(paths)


def test_two_processes_at_once_do_not_wait_for_each_other(paths):
    folder = paths[0].parent / ".one.unfinished"
    folder.mkdir(parents=True)
    with held_folder(folder):
        write_rows(paths, N, "me", making([]), shared=True)
        assert is_whole(paths[0], N)
    folder.rmdir()
    check(paths)


def test_a_file_that_is_cut_or_has_other_rows_is_not_whole(paths):
    write_rows(paths, N, "me", making([]))
    assert is_whole(paths[0], N)
    assert not is_whole(paths[0], N + 1)
    paths[0].write_bytes(paths[0].read_bytes()[:-9])
    assert not is_whole(paths[0], N)
    assert not is_whole(paths[0].with_name("none.npy"), N)


def test_what_fails_before_the_first_note_leaves_nothing(paths):
    with pytest.raises(KeyboardInterrupt):
        write_rows(paths, N, "me", making([], stop=4))
    assert list(paths[0].parent.iterdir()) == []


def test_the_next_is_made_while_the_last_is_used_in_order_and_never_more():
    made, used = [], []
    second = threading.Event()

    def make(i):
        made.append(i)
        if len(made) == 2:
            second.set()
        return i + 100

    for got in by_threads(make, range(5)):
        if not used:
            assert second.wait(60)  # the second is made before the first has been used up
        used.append(got)
        assert len(made) <= len(used) + 1
    assert made == [0, 1, 2, 3, 4]
    assert used == [100, 101, 102, 103, 104]
    assert list(by_threads(make, [])) == []


def test_an_error_in_a_thread_comes_out():
    with pytest.raises(ZeroDivisionError):
        list(by_threads(lambda i: 1 // i, [0, 1], threads=2))
