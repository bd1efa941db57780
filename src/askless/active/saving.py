"""An `ActiveLearner` on disk: plain JSON, numpy and safetensors; nothing is ever unpickled.

Files are named by their content and written before `learner.json`, which is renamed into place last: so there is always
one whole state.
"""

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from askless import acquire, learn
from askless.acquire.albl import history_of
from askless.base import digest
from askless.base.errors import AsklessError, InputError, first_line
from askless.base.files import part_of, sync, write_whole
from askless.data import Pool
from askless.features.frozen import Frozen

VERSION = 1
KINDS: dict[str, type] = {
    **{info.make.__name__: info.make for info in acquire.STRATEGIES.values()},
    **{kind.__name__: kind for kind in (*learn.LEARNERS.values(), acquire.TwoLevel, learn.DARP, Frozen)},
}


class SaveError(AsklessError):
    """A folder that does not hold a learner, or holds one that needs something passed."""


def save(
    folder: Path,
    pool: Pool | None,
    objects: dict[str, Any],
    networks: dict[str, nn.Module | None],
    plain: dict[str, Any],
) -> Path:
    """Writes a state: the pool (None leaves it out), option objects by name, networks by name, and plain data."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        state = {
            "version": VERSION,
            "pool": None if pool is None else _save_pool(pool, folder),
            "objects": {name: plain_or_none(value) for name, value in objects.items()},
            "networks": {name: None if net is None else _save_net(net, folder) for name, net in networks.items()},
            "plain": plain,
        }
        text = json.dumps(state, indent=1).encode()
        write_whole(folder / "learner.json", lambda file: file.write(text))
    except (OSError, SafetensorError) as error:
        raise SaveError(
            f"the learner could not be saved in {folder} ({error}); earlier saves are untouched; make room, or save "
            "elsewhere"
        ) from error
    _remove_unused(folder, state)
    return folder


class Saved:
    """A state on disk, read part by part."""

    def __init__(self, folder: Path) -> None:
        path = folder / "learner.json"
        if not path.exists():
            raise SaveError(f"expected a folder written by ActiveLearner.save, got {folder}, which has no learner.json")
        try:
            self.state = json.loads(path.read_text(encoding="utf-8"))
            version = self.state["version"]
            if version == VERSION:
                self.plain: dict[str, Any] = self.state["plain"]
                _ = self.state["pool"], self.state["objects"], self.state["networks"]
        except (ValueError, KeyError, TypeError) as error:
            raise SaveError(f"{path} was not written by ActiveLearner.save ({error!r})") from None
        if version != VERSION:
            raise SaveError(
                f"{path} is of version {version}, this askless reads {VERSION}; use the askless that wrote it"
            )
        self.folder = folder

    def pool(self) -> Pool:
        return _load_pool(self.folder, self._written("pool", self.state["pool"]))

    def option(self, name: str) -> Any:
        return from_plain(self._written(name, self.state["objects"][name]))

    def asks(self) -> list[acquire.Selection]:
        """What the strategy chose so far."""
        if "asks" in self.plain:
            return [acquire.Selection.from_plain(ask) for ask in self.plain["asks"]]
        # An older askless has ALBL's state instead, and that of its last batch, which counts once it is labelled.
        state = from_plain((self.state["objects"]["strategy"] or {}).get("options", {}).get("state"))
        last = self.plain["next_state"]
        return [*(history_of(state) if state else []), *(history_of(last)[1:] if last else [])]

    def load_into(self, net: nn.Module, name: str) -> nn.Module:
        return _load_net(net, inside(self.folder, self.state["networks"][name]))

    def has_network(self, name: str) -> bool:
        return self.state["networks"][name] is not None

    def _written(self, name: str, value: Any) -> Any:
        if value is None:
            raise SaveError(
                f"{self.folder}: the {name} was your own object, which is not saved, or was left out; "
                f"pass load(..., {name}=...)"
            )
        return value


def to_plain(value: Any) -> Any:
    """An option object as plain data; a TypeError for what only its maker can make again: a module, a strategy of one's
    own."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if dataclasses.is_dataclass(value) and KINDS.get(type(value).__name__) is type(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, "options": {k: to_plain(v) for k, v in fields.items()}}
    if isinstance(value, dict):
        return {"dict": value}
    if isinstance(value, list | tuple):
        return {"tuple": [to_plain(v) for v in value]}
    if isinstance(value, np.ndarray):
        return {"tuple": value.tolist()}
    if isinstance(value, Path):
        return str(value)
    raise TypeError(type(value).__name__)


def plain_or_none(value: Any) -> Any:
    try:
        return to_plain(value)
    except TypeError:
        return None


def from_plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return value["dict"]
    if "tuple" in value:
        return tuple(from_plain(v) for v in value["tuple"])
    if value.get("kind") not in KINDS:
        raise SaveError(f"unknown kind {value.get('kind')!r}; it was written by another askless")
    options = {k: from_plain(v) for k, v in value["options"].items() if k != "state"}  # of ALBL: see `Saved.asks`
    return KINDS[value["kind"]](**options)


def _save_pool(pool: Pool, folder: Path) -> dict[str, Any] | None:
    """The pool's arrays and what is known of them; None for a Dataset, which has to be passed again."""
    if pool.kind == "text":
        return _save_texts(pool, folder)
    if not isinstance(pool.x, torch.Tensor | np.ndarray):
        return None
    arrays = {"x": np.asarray(pool.x), "labels": pool.labels}
    if pool.test is not None:
        arrays |= {"test_x": np.asarray(pool.test[0]), "test_y": pool.test[1]}
    files = {}
    for name, array in arrays.items():
        content = np.ascontiguousarray(array)
        key = digest.of_tensors({name: torch.from_numpy(content.copy())})
        files[name] = f"pool-{key[:16]}.npy"
        if not (folder / files[name]).exists():
            write_whole(folder / files[name], partial(np.save, arr=content, allow_pickle=False))
    return {"files": files, "tensor": isinstance(pool.x, torch.Tensor), **_about(pool)}


def _about(pool: Pool) -> dict[str, Any]:
    names = ("name", "kind", "flip", "ids", "classes", "skipped")
    return {name: getattr(pool, name) for name in names} | {"columns": dict(pool.columns)}


def _save_texts(pool: Pool, folder: Path) -> dict[str, Any]:
    """A pool of texts: JSON."""
    texts = [pool.x[i] for i in range(len(pool))]
    test = None if pool.test is None else [list(pool.test[0]), pool.test[1].tolist()]
    content = json.dumps({"x": texts, "labels": pool.labels.tolist(), "test": test}, ensure_ascii=False).encode()
    file = f"pool-{digest.of_text(content)[:16]}.json"
    if not (folder / file).exists():
        write_whole(folder / file, lambda out: out.write(content))
    return {"files": {"texts": file}, "tensor": False, **_about(pool)}


def _load_pool(folder: Path, about: dict[str, Any]) -> Pool:
    ids, classes = (None if about[k] is None else tuple(about[k]) for k in ("ids", "classes"))
    skipped = tuple((file, reason) for file, reason in about["skipped"])
    columns = {name: tuple(values) for name, values in about["columns"].items()}
    known = (about["name"], about["kind"], about["flip"], skipped, columns)
    if about["kind"] == "text":
        given = json.loads(inside(folder, about["files"]["texts"]).read_text(encoding="utf-8"))
        held = None if given["test"] is None else (tuple(given["test"][0]), np.array(given["test"][1], np.int64))
        return Pool(tuple(given["x"]), np.array(given["labels"], np.int64), ids, classes, held, *known)
    arrays = {}
    for name, file in about["files"].items():
        try:
            arrays[name] = np.load(inside(folder, file), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise SaveError(f"{folder}/{file} is damaged ({first_line(error)}); pass load(..., pool=...)") from None
    x: Any = torch.from_numpy(arrays["x"]) if about["tensor"] else arrays["x"]
    test = (torch.from_numpy(arrays["test_x"]), arrays["test_y"]) if "test_x" in arrays else None
    return Pool(x, arrays["labels"], ids, classes, test, *known)


def _save_net(net: nn.Module, folder: Path) -> str:
    file = f"net-{digest.of_network(net)[:16]}.safetensors"
    if not (folder / file).exists():
        beside = part_of(folder / file)
        try:
            save_model(net, str(beside))
            sync(beside)
            beside.replace(folder / file)
        finally:
            beside.unlink(missing_ok=True)
    return file


def inside(folder: Path, file: str) -> Path:
    """A file of the saved state: inside its folder, whatever the state says."""
    if Path(file).name != file or not (folder / file).exists():
        raise SaveError(f"{folder} lacks {file}, a part of the saved learner; restore it")
    return folder / file


def _load_net(net: nn.Module, path: Path) -> nn.Module:
    try:
        missing, unexpected = load_model(net, str(path), strict=False)
        # A batch norm under two names has counted its batches under both, and safetensors wonders about the second.
        unknown = sorted({*missing, *unexpected} - (set(net.state_dict()) - set(missing)))
        if unknown:
            raise RuntimeError(f"only one of the two has {', '.join(unknown[:3])}")
    except (RuntimeError, OSError, SafetensorError) as error:
        raise InputError(f"{path.name} does not fit the network ({first_line(error)}); pass the saved module") from None
    return net


def _remove_unused(folder: Path, state: dict[str, Any]) -> None:
    """Files of earlier saves that nothing refers to any more."""
    used = {*state["networks"].values(), *((state["pool"] or {}).get("files", {}).values())}
    for pattern in ("net-*.safetensors", "pool-*.npy", "pool-*.json"):
        for path in folder.glob(pattern):
            if path.name not in used:
                path.unlink()
