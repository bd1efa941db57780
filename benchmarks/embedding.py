"""Embedding a folder of JPEGs for the page: decoding and the backbone together, against each by itself.

Ours is `embed_images`, as the page's worker runs it: threads, as many as cores, each of which decodes a chunk of images
and runs the backbone (EfficientNet-Lite0 at 128 pixels, from the extra `pretrained`) on it with one torch thread. Both are
work of the processor, so the floor is not the slower of the two but all of it on all cores: the seconds of decoding alone
plus those of the backbone alone on images in memory, each spread over as many threads in the same way. The reference is the
plain loop: read a chunk, then embed it, with torch on all cores.
"""

import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from suite import Line, Other, arguments, finish

from askless.base.machine import cores
from askless.features.frozen import Backbone, Frozen, make_backbone
from askless.run.pictures import Pictures
from askless.run.settings import Settings
from askless.run.steps.embedding import CHUNK, TINY, Reader, embed_images, embedded, fitted, image_side, read_item

LIMIT = 1.10
SIDE = 256  # of the JPEGs


def write_images(folder: Path, n: int) -> list[str]:
    """JPEGs of random smooth colours with a little noise: about as large as photographs of that size."""
    rng = np.random.default_rng(0)
    names = []
    for i in range(n):
        small = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        pixels = np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BICUBIC)).astype(np.int16)
        noisy = np.clip(pixels + rng.integers(-12, 13, pixels.shape), 0, 255).astype(np.uint8)
        names.append(f"{i:05}.jpg")
        Image.fromarray(noisy).save(folder / names[-1], quality=85)
    return names


def read_chunk(read: Reader, first: int, n: int, side: int) -> np.ndarray:
    """(n, 3, side, side): what `embed_images` reads of a chunk, thumbnails included."""
    pixels = []
    for i in range(first, min(first + CHUNK, n)):
        image = read(i, side)
        pixels.append(fitted(image, side))
        fitted(image, TINY)
    return np.stack(pixels).transpose(0, 3, 1, 2)


def on_all_cores(function: Any, values: Any) -> float:
    """Seconds until all calls are done, as many at a time as there are cores."""
    start = time.perf_counter()
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(function, values))
    return time.perf_counter() - start


def once(read: Reader, n: int, settings: Settings, backbone: Backbone) -> dict[str, float]:
    """Seconds of decoding alone, of the backbone alone, of both by ours, and of both by the plain loop."""
    side, firsts = image_side(settings, backbone), range(0, n, CHUNK)
    stacks: dict[int, np.ndarray] = {}
    torch.set_num_threads(1)
    decode = on_all_cores(lambda first: stacks.__setitem__(first, read_chunk(read, first, n, side)), firsts)
    run = on_all_cores(lambda first: embedded(backbone, stacks[first]), firsts)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        embed_images(Path(folder) / "cache", n, settings, read, lambda *bad: None, lambda *done: None)
        ours = time.perf_counter() - start
    torch.set_num_threads(cores())
    start = time.perf_counter()
    for first in firsts:
        embedded(backbone, read_chunk(read, first, n, side))
    return {"decode": decode, "backbone": run, "ours": ours, "plain": time.perf_counter() - start}


def main() -> None:
    given = arguments(__doc__)
    n = 96 if given.quick else 1_000
    settings = Settings("x", net="frozen:efficientnet-lite0")
    backbone = make_backbone(Frozen())
    with tempfile.TemporaryDirectory() as folder:
        names = write_images(Path(folder), n)
        read = partial(read_item, Pictures("files", Path(folder), names, Path(folder) / "cache"))
        runs = [once(read, n, settings, backbone) for _ in range(1 if given.quick else 4)]
    took = {name: statistics.median(run[name] for run in runs[-3:]) for name in runs[0]}  # the first of four warms up
    line = Line(
        f"{n:,} JPEGs of {SIDE} px through EfficientNet-Lite0 at {image_side(settings, backbone)} px",
        took["ours"],
        floor=Other("decoding + backbone on all cores", took["decode"] + took["backbone"], LIMIT),
        reference=Other("read a chunk, then embed it", took["plain"]),
        note=f"{n / took['ours']:,.0f} images/s; decoding alone {took['decode']:.2g} s, backbone alone "
        f"{took['backbone']:.2g} s; making the backbone and the files is in ours",
    )
    finish("embedding", [line], given, ("torch", "numpy", "pillow"))


if __name__ == "__main__":
    main()
