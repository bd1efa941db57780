"""Weights from a file or a folder: safetensors, or torch's own format, of which nothing but tensors is ever unpickled."""

import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from askless.base.errors import ModelError, first_line

TORCH = (".pt", ".pth", ".bin", ".ckpt", ".tar")
USUAL = ("model.safetensors", "pytorch_model.bin")  # names by which a folder's weights are known
WRAPPERS = ("state_dict", "model_state_dict", "model", "state_dict_ema")  # under which trainers keep them


def is_local(weights: Any) -> bool:
    """Whether this is a file or folder, and not a name such as DEFAULT that another package knows."""
    if isinstance(weights, Path):
        return True
    return isinstance(weights, str) and (Path(weights).exists() or Path(weights).suffix in (".safetensors", *TORCH))


def read_weights(place: str | Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, of a file of torch's (.pt, .pth, .bin), or of a folder with one of them."""
    file = weights_file(Path(place))
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        with warnings.catch_warnings():  # torch warns of other pickle protocols, and then reads or refuses them
            warnings.simplefilter("ignore")
            found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{file}: expected only tensors, got a file that runs code when loaded ({first_line(error)}); save only "
            "the state_dict, best as .safetensors"
        ) from None
    except Exception as error:  # torch raises whatever the damaged bytes lead to
        raise ModelError(f"{file}: expected weights, got a file that cannot be read ({first_line(error)})") from None
    for wrapper in WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, dict) or not found or not all(isinstance(t, Tensor) for t in found.values()):
        raise ModelError(
            f"{file}: expected a state_dict (names and tensors), got something else; save net.state_dict()"
        )
    prefix = "module." if all(name.startswith("module.") for name in found) else ""  # of DataParallel
    return {name.removeprefix(prefix): tensor for name, tensor in found.items()}


def weights_file(place: Path) -> Path:
    """The file itself, or the one in a folder."""
    if place.is_file():
        return place
    if not place.is_dir():
        raise ModelError(f"{place}: expected a file or folder with weights, found nothing there")
    for name in USUAL:
        if (place / name).is_file():
            return place / name
    files = sorted(f for f in place.iterdir() if f.suffix in (".safetensors", *TORCH))
    if len(files) != 1:
        names = ", ".join(f.name for f in files) or "none"
        raise ModelError(f"{place}: expected one file with weights, got {names}; pass the file itself")
    return files[0]


def load_weights(owner: str, net: nn.Module, weights: dict[str, Tensor], spare: Sequence[str] = ()) -> None:
    """Puts all of `weights` into `net`; only layers named in `spare` (a new head) may be missing in either,
    or be of another shape."""
    known = net.state_dict()

    def is_spare(name: str) -> bool:
        return any(name == layer or name.startswith(f"{layer}.") for layer in spare)

    taken = {
        name: tensor
        for name, tensor in weights.items()
        if not is_spare(name) or (name in known and known[name].shape == tensor.shape)
    }
    problems = {
        "missing": [n for n in known if n not in taken and not is_spare(n) and not n.endswith("num_batches_tracked")],
        "unknown": [n for n in taken if n not in known],
        "of another shape": [n for n in taken if n in known and known[n].shape != taken[n].shape],
    }
    told = [f"{len(names)} {what} ({', '.join(names[:3])})" for what, names in problems.items() if names]
    if told:
        raise ModelError(
            f"{owner}: expected the weights of this network, got others: {'; '.join(told)}; use the file that belongs to it"
        )
    known.update(taken)  # which keeps what some layers want to know beside: the version of their names
    net.load_state_dict(known)
