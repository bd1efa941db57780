"""The model that a run hands out: what `Run.export_model` makes of the one that its last training left."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.models import Classifier, load
from askless.models.card import noun_of
from askless.models.folder import write_model
from askless.run.out.gather import account_of
from askless.run.steps.embedding import read_item
from askless.run.steps.one_round import save_final_model
from askless.sources import UnreadableError

if TYPE_CHECKING:
    from askless.run.run import Run

COMPARED = 8  # items that an exported model is compared on


def export_model(run: "Run", out: Path, to: str = "model", overwrite: bool = False, final: bool = False) -> Path:
    """The run's last model as a folder, with its accuracy on the check images; see `Run.export_model`."""
    if not final:
        return written(run, load(run.folder), out, to, overwrite)
    with TemporaryDirectory(prefix="askless-") as beside:
        save_final_model(run, Path(beside) / "model")
        return written(run, load(Path(beside) / "model"), out, to, overwrite, " before it was trained on them too")


def written(run: "Run", model: Classifier, out: Path, to: str, overwrite: bool, when: str = "") -> Path:
    assert model.trained is not None
    measure = account_of(run).measure
    if measure is not None:
        measure = {"on": f"random check {noun_of(model.config)}s{when}", **measure}
    trained = replace(model.trained, config={**model.config, "measure": measure})
    seen: list[Any] = []  # some items, as the model takes them
    if model.kind == "text":
        seen = list(run.texts(run.readable()[:COMPARED].tolist()).values())
    elif model.size is not None:
        for item in run.readable()[:COMPARED].tolist():
            with suppress(UnreadableError):  # gone since: it is only to compare on
                seen.append(model.read_item(read_item(run.pictures, item, max(model.size))))
    if not seen:
        return write_model(out, trained, to, overwrite)
    items = seen if model.kind == "text" else np.stack(seen).transpose(0, 3, 1, 2)
    return write_model(out, trained, to, overwrite, items, model.predict_proba(seen))
