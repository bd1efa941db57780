"""Arrays on disk, one row per item: written piece by piece and resumed where they were, mapped into memory when read.

A file under its own name is whole. Until all rows are there, they are beside it, in a folder that one process has at a time.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from askless.base.errors import AsklessError
from askless.base.files import part_of, sync, write_whole
from askless.base.locks import held_folder

Progress = Callable[[int, int], None]
Value = TypeVar("Value")
Result = TypeVar("Result")
EVERY = 4  # pieces, after which what was done is noted


class ViewKey(NamedTuple):
    """One view of every image: the plain one, or a weakly or strongly augmented one of several."""

    kind: str
    number: int


PLAIN = ViewKey("plain", 0)


def augmented(weak: int, strong: int) -> list[ViewKey]:
    return [ViewKey(kind, v) for kind, count in (("weak", weak), ("strong", strong)) for v in range(count)]


class Piece(NamedTuple):
    """The next rows of each array, and what their maker needs to continue after them (plain data)."""

    rows: Sequence[np.ndarray]
    state: Any = None


def is_whole(path: Path, rows: int) -> bool:
    """Whether the file holds an array of this number of rows; a damaged one is computed again."""
    try:
        return bool(mapped(path).shape[:1] == (rows,))
    except Exception:  # missing, or damaged, which fails in many ways
        return False


def mapped(path: Path) -> np.ndarray:
    """The array in a file, of which only what is looked at is read."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def write_rows(
    paths: Sequence[Path],
    n: int,
    made_by: str,
    pieces: Callable[[int, Any], Iterable[Piece]],
    progress: Progress | None = None,
    shared: bool = False,
) -> None:
    """Writes one array of `n` rows to each path. `pieces(done, state)` makes the rows from the row `done` on; `state` is
    that of the last piece before, None at the start. What a process with the same `made_by` left unfinished is continued.
    `shared`: in a folder where other processes may write the same at this moment; they are not waited for."""
    folder = paths[0].with_name(f".{paths[0].stem}.unfinished")
    with told(paths[0].parent, shared):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with held_folder(folder) if shared else nullcontext(True) as ours:
        if not ours:
            folder = part_of(paths[0])
            folder.mkdir(mode=0o700)
        beside = [folder / f"{k}.npy" for k in range(len(paths))]
        about = {"made_by": made_by, "files": [path.name for path in paths], "rows": n}
        try:
            done, state, arrays = _left(folder, about, beside)
            for count, piece in enumerate(pieces(done, state), start=1):
                with told(paths[0].parent, shared):
                    arrays = arrays or [_new(path, n, rows) for path, rows in zip(beside, piece.rows, strict=True)]
                    done = _put(arrays, piece.rows, done)
                    if count % EVERY == 0 or done == n:
                        _note(folder, arrays, about | {"done": done, "state": piece.state})
                if progress is not None:
                    progress(done, n)
            del arrays
            for source, path in zip(beside, paths, strict=True):
                os.replace(source, path)
            sync(paths[0].parent)
            (folder / "done.json").unlink()
        finally:
            if not ours or not (folder / "done.json").exists():
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def told(folder: Path, shared: bool) -> Iterator[None]:
    """A full disk becomes an error that says what to do, where the folder is one that people name."""
    try:
        yield
    except OSError as error:
        if not shared:
            raise
        raise AsklessError(
            f"the embeddings in {folder} could not be written ({error}); make room, or pass another cache="
        ) from error


def _put(arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray], done: int) -> int:
    for array, more in zip(arrays, rows, strict=True):
        array[done : done + len(more)] = more
    return done + len(rows[0])


def _note(folder: Path, arrays: Sequence[np.memmap], about: dict[str, Any]) -> None:
    for array in arrays:
        array.flush()
    write_whole(folder / "done.json", lambda file: file.write(json.dumps(about).encode()))


def _left(folder: Path, about: dict[str, Any], beside: Sequence[Path]) -> tuple[int, Any, list[np.memmap] | None]:
    """What an earlier process has done of this, if anything."""
    try:
        left = json.loads((folder / "done.json").read_text(encoding="utf-8"))
        if all(left[name] == value for name, value in about.items()):
            arrays = [np.load(path, mmap_mode="r+", allow_pickle=False) for path in beside]
            if left["done"] in range(1, about["rows"] + 1) and all(len(a) == about["rows"] for a in arrays):
                return left["done"], left["state"], arrays
    except Exception:  # missing, or damaged, which fails in many ways
        pass
    (folder / "done.json").unlink(missing_ok=True)
    return 0, None, None


def _new(path: Path, n: int, like: np.ndarray) -> np.memmap:
    array = np.lib.format.open_memmap(path, mode="w+", dtype=like.dtype, shape=(n, *like.shape[1:]))
    array.flush()
    if hasattr(os, "posix_fallocate"):  # a full disk raises now, and does not end the process later
        with path.open("r+b") as whole:
            os.posix_fallocate(whole.fileno(), 0, os.fstat(whole.fileno()).st_size)
    return array


def by_threads(function: Callable[[Value], Result], values: Iterable[Value], threads: int = 1) -> Iterator[Result]:
    """function(value) for each value, in order, by some threads; no more are under way than there are threads, and one is
    ready."""
    with ThreadPoolExecutor(max_workers=threads) as pool:
        waiting: list[Any] = []
        for value in values:
            waiting.append(pool.submit(function, value))
            if len(waiting) > threads:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()
