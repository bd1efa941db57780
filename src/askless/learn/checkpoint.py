"""Checkpoints: written atomically, loaded without unpickling code, refused when the settings differ."""

from pathlib import Path
from typing import Any

import torch

from askless.base.errors import AsklessError, first_line
from askless.base.files import write_whole


class CheckpointError(AsklessError):
    """A checkpoint that cannot be written, read, or used for this training.

    >>> isinstance(CheckpointError("made with other options"), al.AsklessError)
    True
    """


def write(path: Path, content: dict[str, Any]) -> None:
    """The old file stays until the new one is whole."""
    try:
        write_whole(path, lambda file: torch.save(content, file))
    except (OSError, RuntimeError) as error:
        raise CheckpointError(
            f"the checkpoint {path} could not be written ({error}); earlier checkpoints are untouched; make room and resume"
        ) from error


def read(path: Path) -> dict[str, Any]:
    """The content of a checkpoint: tensors and plain values only."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointError(
            f"expected a checkpoint of askless, got {path}, which cannot be read ({first_line(error)}); "
            "delete it to start again"
        ) from error


def check_settings(path: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to resume from a checkpoint of other settings, naming those that differ."""
    different = [name for name in {**saved, **now} if saved.get(name) != now.get(name)]
    if different:
        parts = [f"{name} was {_short(saved.get(name))}, is now {_short(now.get(name))}" for name in different]
        raise CheckpointError(
            f"the checkpoint {path} belongs to another training: {'; '.join(parts)}; use the same settings, or delete it"
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
