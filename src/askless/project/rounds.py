"""What the worker leaves behind for each round, read without torch: what the model says of every item."""

import json
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askless.project.schema import RunError

DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


class Predictions(NamedTuple):
    """`probs` (N, C): one row per item of the run, NaN where it cannot be read; `classes` (C,): their numbers."""

    probs: np.ndarray
    classes: np.ndarray

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


@lru_cache(maxsize=2)
def _read_predictions(path: Path, mtime: int) -> Predictions:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return Predictions(file["probs"].astype(np.float32), file["classes"])
    except DAMAGED as error:
        raise RunError(f"{path}: cannot be read ({error}); remove the folder, and the round is trained again") from None


def read_predictions(run: Path, number: int) -> Predictions:
    path = round_folder(run, number) / "predictions.npz"
    try:
        mtime = path.stat().st_mtime_ns
    except OSError:
        raise RunError(f"{path}: expected what the model of round {number} says, found nothing") from None
    return _read_predictions(path, mtime)


@lru_cache(maxsize=1024)
def _read_held(path: Path, mtime: int) -> dict[int, int]:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return dict(zip(file["held"].tolist(), file["held_best"].tolist(), strict=True))


def read_held(run: Path, number: int) -> dict[int, int]:
    """The class that the model of a round gives to each held-out item; little to read, whatever the size of the pool."""
    path = round_folder(run, number) / "predictions.npz"
    try:
        return _read_held(path, path.stat().st_mtime_ns)
    except DAMAGED as error:
        raise RunError(f"{path}: cannot be read ({error}); remove the folder, and the round is trained again") from None


def is_whole(cache: Path) -> bool:
    """Whether everything that was read of the images is still there: the cache may be deleted."""
    try:
        about = json.loads((cache / "material.json").read_text(encoding="utf-8"))
        return (cache / about["file"]).exists() and (cache / "tiny.npy").exists()
    except (OSError, ValueError, KeyError):
        return False


def read_status(run: Path) -> dict[str, Any]:
    """What the worker said last; {} where nothing can be read."""
    try:
        status = json.loads((run / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}
