"""The model that a run hands back: what its worker writes after each round, and what `Run.export_model` makes of it."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from askless.data import ImageViews
from askless.learn.label_propagation import Neighbours
from askless.models import load
from askless.models.card import noun_of
from askless.models.folder import Trained, image_preprocess, text_preprocess, write_files, write_model
from askless.run.out.gather import account_of
from askless.run.settings import Settings
from askless.run.steps.embedding import raw_side, reader
from askless.run.steps.one_round import RunPool
from askless.sources import UnreadableError

if TYPE_CHECKING:
    from askless.run.run import Run

COMPARED = 8  # items that an exported model is compared on


def save_model(
    folder: Path,
    network: nn.Module,
    base: RunPool,
    settings: Settings,
    names: Sequence[str],
    about: dict[str, Any],
    text_backbone: Path | None = None,
) -> None:
    """Writes a model into an empty folder; one for texts with its backbone, from the folder that has it."""
    folder.mkdir(parents=True)
    backbone = settings.net.removeprefix("frozen:") if settings.frozen else None
    config: dict[str, Any] = {
        "net": settings.net if base.mean is None else "linear",
        "backbone": backbone,
        "backbone_size": raw_side(settings),
        "weights": settings.weights or None,
        "shape": list(base.pool.shape),
        "classes": list(names),
        "features": base.pool.kind == "features" and not settings.frozen,
        **about,
    }
    if isinstance(network, Neighbours):
        config |= {"net": "neighbours", "options": network.options}
    if text_backbone is not None:
        shutil.copytree(text_backbone, folder / "text")
        config["text"] = settings.text
        preprocess = text_preprocess(str(backbone))
    elif config["features"]:
        preprocess = {"input": "the features, then (x - mean) / scale"}
    else:
        preprocess = image_preprocess(base.side, 3, None if settings.frozen else ImageViews(base.pool))
    features = None if base.mean is None or base.scale is None else (base.mean, base.scale)
    write_files(folder, Trained(network, config, preprocess, features))


def export_model(run: "Run", out: Path, to: str = "model", overwrite: bool = False) -> Path:
    """The run's last model as a folder, with its accuracy on the check images; see `Run.export_model`."""
    model = load(run.folder)
    assert model.trained is not None
    measure = account_of(run).measure
    if measure is not None:
        measure = {"on": f"random check {noun_of(model.config)}s", **measure}
    trained = replace(model.trained, config={**model.config, "measure": measure})
    seen: list[Any] = []  # some items, as the model takes them
    if model.kind == "text":
        seen = list(run.texts(run.readable()[:COMPARED].tolist()).values())
    elif model.size is not None:
        read = reader(run.pictures, max(model.size))
        for item in run.readable()[:COMPARED].tolist():
            with suppress(UnreadableError):  # gone since: it is only to compare on
                seen.append(model.read_item(read(item)))
    if not seen:
        return write_model(out, trained, to, overwrite)
    items = seen if model.kind == "text" else np.stack(seen).transpose(0, 3, 1, 2)
    return write_model(out, trained, to, overwrite, items, model.predict_proba(seen))
