"""Pools from tars of images in WebDataset's manner."""

import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from askless.base.errors import InputError
from askless.data.folders import Size, only_size
from askless.data.pool import Pool, encode_labels
from askless.sources import UnreadableError, as_size, has_image_suffix
from askless.sources.image_file import decode_image
from askless.sources.tars import LABELS, TARS, by_key, label_in, whole_tar


def webdataset(
    path: str | PathLike[str], size: Size = None, flip: bool = True, classes: Sequence[str] | None = None
) -> Pool:
    """The images of a .tar, .tar.gz or .tgz file, or of all of them in a folder, with what stands beside each of them under
    its name: the class in .cls or .txt, or as `label` in .json.

    Ids are the names up to the first dot, with the tar's name before them where there are several. `size` is that of
    `folder`; images that cannot be read end in `pool.skipped`. `classes` gives names to numbers in .cls: 0 is its first.
    For pools larger than memory, `askless embed` reads tars one by one.
    """
    root = Path(path)
    files = sorted(file for file in root.iterdir() if file.name.endswith(TARS)) if root.is_dir() else [root]
    if not files or not all(file.is_file() for file in files):
        raise InputError(f"{root}: expected a .tar, .tar.gz or .tgz file, or a folder of them, found none")
    pixels: list[np.ndarray] = []
    ids: list[str] = []
    names: list[str] = []
    skipped: list[tuple[str, str]] = []
    for file in files:
        prefix = f"{file.name}/" if len(files) > 1 else ""
        for key, content, label in samples(file):
            try:
                pixels.append(decode_image(io.BytesIO(content), as_size(size)))
            except UnreadableError as error:
                skipped.append((prefix + key, str(error)))
                continue
            ids.append(prefix + key)
            names.append(label)
    if not pixels:
        first = f"; the first of {len(skipped)} left out, {skipped[0][0]}: {skipped[0][1]}" if skipped else ""
        raise InputError(f"{root}: expected images in the tar, found none that can be read{first}")
    only_size({i: (p.shape[0], p.shape[1]) for i, p in enumerate(pixels)}, ids)
    if classes is not None:
        names = [classes[int(n)] if n.isdecimal() and n not in classes and int(n) < len(classes) else n for n in names]
    labels, known = encode_labels(names, classes)
    x = torch.from_numpy(np.stack(pixels)).movedim(3, 1).contiguous()
    return Pool(x, labels, tuple(ids), known or None, None, root.name.split(".")[0], "image", flip, tuple(skipped))


def samples(file: Path) -> Iterator[tuple[str, bytes, str]]:
    """(key, content, label) of every image of a tar; several under one key are called by their own names."""
    try:
        with file.open("rb") as raw, whole_tar(raw, file.name) as tar:
            for key, members in by_key(tar):
                beside = dict(members)
                label = next((label_in(beside[key + end], end) for end in LABELS if key + end in beside), "")
                images = [(name, content) for name, content in members if has_image_suffix(Path(name))]
                for name, content in images:
                    yield (key if len(images) == 1 else name), content, label
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputError(f"{file}: expected a whole tar, got one that cannot be read ({error})") from None
