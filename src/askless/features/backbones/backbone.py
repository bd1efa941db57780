"""What a backbone is: a function that embeds, and the module behind it."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from askless.base.errors import InputError, ModelError
from askless.base.files import write_whole

FORMAT = 1  # of a saved backbone for texts


class TextBackbone(NamedTuple):
    """Texts -> an array of features (n, d) float32, and its `name`: one of TEXT_BACKBONES or "hf/PLACE". What was fitted, if
    anything, is in `words` and `arrays`. One with a model of Hugging Face in it has its `pooling`, a `key` that tells it
    from others, and `copy`, which writes the model into a folder, from where `hf_texts` reads it. Where words and sentences
    stand side by side, `parts` are the two backbones."""

    embed: Callable[[Sequence[str]], np.ndarray]
    name: str
    words: tuple[str, ...] = ()
    arrays: Mapping[str, np.ndarray] = MappingProxyType({})
    pooling: str = ""
    key: str = ""
    copy: Callable[[Path], None] | None = None
    parts: "tuple[TextBackbone, TextBackbone] | None" = None

    def save(self, folder: Path, whole: bool = False) -> None:
        """Writes backbone.json and, where anything was fitted, backbone.safetensors; nothing is ever unpickled. A model of
        Hugging Face is named, or, with `whole`, copied into the folder `model`, which then needs nothing else."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        if self.arrays:
            content = save(dict(self.arrays))
            write_whole(folder / "backbone.safetensors", lambda file: file.write(content))
        about: dict[str, Any] = {"format": FORMAT, "name": self.name, "words": self.words}
        if self.copy is not None:
            about |= {"pooling": self.pooling, "whole": whole}
            if whole:
                self.copy(folder / "model")
        text = json.dumps(about, ensure_ascii=False)
        write_whole(folder / "backbone.json", lambda file: file.write(text.encode()))


class Eye(nn.Module):
    """Pixels 0..255 (n, C, H, W) -> what `body` makes of them, resized to `size` and normalised by `shift` and `scale`, one
    number for each channel. With three channels grey images are repeated. With `unit` features have unit length: how
    long those of a network are says little of what it sees."""

    shift: Tensor
    scale: Tensor

    def __init__(
        self, body: nn.Module, size: int | None, shift: Sequence[float], scale: Sequence[float], unit: bool = True
    ) -> None:
        super().__init__()
        self.body, self.size, self.unit = body, size, unit
        for name, values in (("shift", shift), ("scale", scale)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32)[None, :, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = three_channels(x) if self.shift.shape[1] == 3 else x
        out = self.body((resized(x, self.size) - self.shift) / self.scale)
        return F.normalize(out) if self.unit and isinstance(out, Tensor) and out.ndim == 2 else out


class Backbone(NamedTuple):
    """Bytes (n, C, H, W) -> features (n, d) float32; a text that tells it from others; and the module that does it."""

    embed: Callable[[Tensor], Tensor]
    name: str
    module: Eye

    @property
    def size(self) -> int | None:
        """The side, in pixels, that images are resized to; None where they stay as they are."""
        return self.module.size


def seeing(eye: Eye, name: str, device: str, together: int | None = None) -> Backbone:
    """The backbone of an eye that nobody else uses. `together`: a batch is embedded in parts of this many images or more,
    fewer than twice as many; None: in one."""
    eye = eye.eval().requires_grad_(False).to(device)

    @torch.inference_mode()
    def embed(x: Tensor) -> Tensor:
        parts = [x] if together is None else x.tensor_split(max(1, len(x) // together))
        return torch.cat([checked(eye(part.to(device)), len(part)).float().cpu() for part in parts])

    return Backbone(embed, f"{name} {eye.size} unit", eye)


def checked(out: object, n: int) -> Tensor:
    """The features, once they are known to be one vector per item."""
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != n:
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ModelError(f"expected the backbone to give one feature vector per image, ({n}, d), got {got}")
    return out


def resized(x: Tensor, size: int | None) -> Tensor:
    """Floats 0..255, resized to size x size pixels."""
    x = x.float()
    if size is None or tuple(x.shape[2:]) == (size, size):
        return x
    smaller = size < min(x.shape[2:])
    return F.interpolate(x, size=(size, size), mode="bicubic", align_corners=False, antialias=smaller)


def three_channels(x: Tensor) -> Tensor:
    return x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x


def stacked(items: Sequence[np.ndarray], size: int | None) -> Tensor:
    """Images (C, H, W) as one batch; those of several sizes are brought to the backbone's own, as it would do itself."""
    images = [torch.from_numpy(np.ascontiguousarray(x)) for x in items]
    if images[0].ndim != 3 or images[0].dtype != torch.uint8:
        raise InputError(f"a backbone embeds images, got items of shape {tuple(images[0].shape)}; pass a learner")
    if len({x.shape for x in images}) == 1:
        return torch.stack(images)
    if size is None:
        raise InputError("the images differ in size, which this backbone cannot take; pass size, such as --size 64")
    return torch.cat([resized(three_channels(x[None]), size) for x in images])
