"""What the worker leaves behind, read without torch: what the model of each round says of every item, and whether the files
of a fit and of the cache are whole. All of it is derived: what is damaged is made again, and never blocks a label."""

import json
import os
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askless.base.files import FILES, damage_of_files, sha256_of, write_whole
from askless.run.store.fits import last_fitted
from askless.run.store.schema import RunError

CACHE_FORMAT = 2  # of what is kept of images; since 2, features of a network have unit length


class Predictions(NamedTuple):
    """`probs` (N, C): one row per item of the run, NaN where it cannot be read; `classes` (C,): their numbers. They were
    sharpened by the labels of check items, with the power `sharpness`."""

    probs: np.ndarray
    classes: np.ndarray
    sharpness: float = 1.0

    def best(self, item: int) -> tuple[int, float] | None:
        """The most probable class and its probability."""
        row = self.probs[item]
        if np.isnan(row[0]):
            return None
        place = int(row.argmax())
        return int(self.classes[place]), float(row[place])

    def best_of_all(self) -> np.ndarray:
        """(N,) class numbers, -1 where the item cannot be read."""
        known = ~np.isnan(self.probs[:, 0])
        best = np.full(len(self.probs), -1, np.int64)
        best[known] = self.classes[self.probs[known].argmax(axis=1)]
        return best


def round_folder(run: Path, number: int) -> Path:
    return run / "rounds" / f"{number:03d}"


def again(number: int, found: str = "") -> str:
    """What is said where a fit is damaged."""
    return f"the model of round {number} is damaged{found and f' ({found})'}; askless will train it again"


@lru_cache(maxsize=2)
def _read_predictions(path: Path, mtime: int) -> Predictions:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        sharpness = float(file["sharpness"]) if "sharpness" in file else 1.0  # earlier versions had none
        found = Predictions(file["probs"].astype(np.float32), file["classes"], sharpness)
    if found.probs.ndim != 2 or found.probs.shape[1:] != found.classes.shape or not found.classes.size:
        raise ValueError(f"expected one column per class, got {found.probs.shape}")
    return found


def read_predictions(run: Path, number: int) -> Predictions:
    """What the model of a round says of every item; RunError where its file is missing or damaged."""
    path = round_folder(run, number) / "predictions.npz"
    try:
        return _read_predictions(path, path.stat().st_mtime_ns)
    except Exception as error:  # a damaged file fails in many ways
        raise RunError(f"{path}: cannot be read ({error}); {again(number)}") from None


def last_predictions(db: sqlite3.Connection, run: Path) -> Predictions | None:
    """What the last model says; None where there is none, or a damaged one: labels do not wait for it."""
    number = last_fitted(db)
    try:
        return None if number is None else read_predictions(run, number)
    except RunError:
        return None


@lru_cache(maxsize=1024)
def _read_held(path: Path, mtime: int) -> tuple[dict[int, int], dict[int, float]]:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        items = file["held"].tolist()
        best = dict(zip(items, file["held_best"].tolist(), strict=True))
        return best, dict(zip(items, file["held_sure"].tolist(), strict=True)) if "held_sure" in file else {}


def read_held(run: Path, number: int) -> dict[int, int] | None:
    """The class that the model of a round gives to each held-out item, None where that is damaged; little to read, whatever
    the size of the pool."""
    path = round_folder(run, number) / "predictions.npz"
    try:
        return _read_held(path, path.stat().st_mtime_ns)[0]
    except Exception:  # a damaged file fails in many ways
        return None


def read_held_sure(run: Path, number: int) -> dict[int, float]:
    """How probable that model holds what it says of each held-out item; {} where earlier versions did not note it."""
    path = round_folder(run, number) / "predictions.npz"
    try:
        return _read_held(path, path.stat().st_mtime_ns)[1]
    except Exception:  # a damaged file fails in many ways
        return {}


# --- is it whole? ----------------------------------------------------------------------------------------------------


def list_files(folder: Path) -> None:
    """Writes `files.json`: the size and SHA-256 of every file in the folder."""
    found = {}
    for path in files_in(folder):
        # What a strategy remembers is written again when it has chosen, so its file may change.
        if path.name not in ("learner.json", FILES):
            with path.open("rb") as file:
                found[path.relative_to(folder).as_posix()] = [path.stat().st_size, sha256_of(file).hex()]
    text = json.dumps(found, indent=1)
    write_whole(folder / FILES, lambda file: file.write(text.encode()))


def damaged_fit(db: sqlite3.Connection, run: Path) -> int | None:
    """The round of the last fit, where a power cut or something else has damaged its files."""
    number = last_fitted(db)
    return None if number is None or damage_of_fit(run, number) is None else number


def damage_of_fit(run: Path, number: int, last: bool = True) -> str | None:
    """What is wrong with the files of a round's fit, and of `model/` if it is the last one; None where all is whole.

    Every file is read, but only once while none of them changes."""
    folders = (round_folder(run, number), *((run / "model",) if last else ()))
    return _damage(folders, tuple(seen(path) for folder in folders for path in files_in(folder)))


@lru_cache(maxsize=64)
def _damage(folders: tuple[Path, ...], stamps: tuple[Any, ...]) -> str | None:
    return next(filter(None, map(damage_of_folder, folders)), None)


def damage_of_folder(folder: Path) -> str | None:
    """What is wrong with the files of a round or of a model."""
    needed = ("config.json", "preprocess.json", "model.safetensors")
    if folder.name != "model":
        needed = ("predictions.npz", "metrics.json", "learner/learner.json")
    return damage_of_files(
        folder, needed, try_to_read
    )  # earlier versions wrote no list: what is needed must be readable


def try_to_read(path: Path) -> None:
    """Raises something where a file cannot be what its name says."""
    if path.suffix == ".json":
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"expected an object, got {type(found).__name__}")
        if path.name == "config.json":
            _ = found["net"], found["classes"], found["backbone"]
        for name in found["networks"].values() if path.name == "learner.json" else ():
            if name is not None:
                try_to_read(path.with_name(name))
    elif path.suffix == ".npz":
        _read_predictions(path, path.stat().st_mtime_ns)
        _read_held(path, path.stat().st_mtime_ns)
    else:
        from safetensors import safe_open

        with safe_open(path, framework="numpy"):  # compares its header with its size
            pass


def files_in(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names))


def seen(path: Path) -> tuple[str, int, int] | None:
    """What changes when a file does."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return str(path), stat.st_size, stat.st_mtime_ns


def is_cache_whole(cache: Path) -> bool:
    """Whether everything that was read of the items is there: the cache may be deleted, and may be damaged."""
    try:
        about = json.loads((cache / "material.json").read_text(encoding="utf-8"))
        x, tiny = (np.load(cache / name, mmap_mode="r", allow_pickle=False) for name in (about["file"], "tiny.npy"))
        if about["name"].startswith("frozen:"):  # a run on texts: the model takes a copy of their backbone along
            try_to_read(cache / "text" / "backbone.json")
            if (cache / "text" / "backbone.safetensors").exists() or about["name"].startswith("frozen:tfidf"):
                try_to_read(cache / "text" / "backbone.safetensors")
        return bool(len(x) == len(tiny) == about["done"] and x.ndim >= 2 and not is_of_before(cache))
    except Exception:  # a damaged file fails in many ways
        return False


def is_of_before(cache: Path) -> bool:
    """Whether a backbone made other features of images when this cache was written."""
    try:
        about = json.loads((cache / "material.json").read_text(encoding="utf-8"))
        return bool(about["side"] and about.get("format", 1) < CACHE_FORMAT)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def read_map(cache: Path, n_items: int) -> np.ndarray | None:
    """(N, 2) where each item is on the map, NaN where it cannot be read; None where there is none, or a damaged one."""
    try:
        places = np.load(cache / "map.npy", mmap_mode="r", allow_pickle=False)
    except Exception:  # a damaged file fails in many ways
        return None
    return places if places.shape == (n_items, 2) else None


def read_embeddings(cache: Path, n_items: int) -> np.ndarray | None:
    """(N, d) the features of every item, mapped; None where the run has none yet, or works on pixels."""
    try:
        x = np.load(cache / "embeddings.npy", mmap_mode="r", allow_pickle=False)
    except Exception:  # a damaged file fails in many ways
        return None
    return x if x.ndim == 2 and len(x) == n_items else None


def read_status(run: Path) -> dict[str, Any]:
    """What the worker said last; {} where nothing can be read."""
    try:
        status = json.loads((run / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}
