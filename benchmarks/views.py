"""Weak and strong views of a batch: ours for the whole batch at once, and Pillow image by image with the same draws.

    python benchmarks/views.py            # a minute or so on one core

Both sides make the same views from the same random numbers (checked below on the strong ones), so the ratio compares like
with like. Seconds depend on the machine and its other work; the minimum and median of several runs are shown. kornia is
left out: it is as fast or faster, but draws its RandAugment operations once for the whole batch, which is another method
(each FixMatch implementation draws them for every image).
"""

import argparse
import statistics
import time

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps

from askless.data import KEKMODEL, ImageViews, as_pool
from askless.data.augment import flip_and_crop
from askless.data.randaugment import NAMES, cutout_span, draw_operations, rand_augment

CASES = [(448, 3, 32, 32), (448, 1, 28, 28), (448, 1, 8, 8), (64, 3, 96, 96)]  # B, C, H, W
AFFINE = Image.Transform.AFFINE
PILLOW = {
    "autocontrast": lambda image, v: ImageOps.autocontrast(image),
    "brightness": lambda image, v: ImageEnhance.Brightness(image).enhance(v),
    "color": lambda image, v: ImageEnhance.Color(image).enhance(v),
    "contrast": lambda image, v: ImageEnhance.Contrast(image).enhance(v),
    "equalize": lambda image, v: ImageOps.equalize(image),
    "identity": lambda image, v: image,
    "posterize": lambda image, v: ImageOps.posterize(image, int(v)),
    "sharpness": lambda image, v: ImageEnhance.Sharpness(image).enhance(v),
    "solarize": lambda image, v: ImageOps.solarize(image, v),
    "rotate": lambda image, v: image.rotate(v),
    "shear_x": lambda image, v: image.transform(image.size, AFFINE, (1, v, 0, 0, 1, 0)),
    "shear_y": lambda image, v: image.transform(image.size, AFFINE, (1, 0, 0, v, 1, 0)),
    "translate_x": lambda image, v: image.transform(image.size, AFFINE, (1, 0, v, 0, 1, 0)),
    "translate_y": lambda image, v: image.transform(image.size, AFFINE, (1, 0, 0, 0, 1, v)),
}


def as_pictures(x: torch.Tensor) -> list[Image.Image]:
    return [Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)) for image in x.numpy()]


def as_batch(pictures: list[Image.Image]) -> torch.Tensor:
    arrays = np.stack([np.asarray(picture) for picture in pictures])
    return torch.from_numpy(arrays[:, None] if arrays.ndim == 3 else arrays.transpose(0, 3, 1, 2).copy())


def pillow_weak(x: torch.Tensor, generator: torch.Generator, padding: int) -> list[Image.Image]:
    """Flip, pad by reflection, crop."""
    B, _, H, W = x.shape
    flipped = (torch.rand(B, generator=generator) < 0.5).tolist()
    shift = (torch.randint(-padding, padding + 1, (2, B), generator=generator) + padding).tolist()
    rows, columns = (np.pad(np.arange(n), padding, mode="reflect") for n in (H, W))
    out = []
    for i, picture in enumerate(as_pictures(x)):
        if flipped[i]:
            picture = ImageOps.mirror(picture)
        top, left = shift[0][i], shift[1][i]
        window = np.ix_(rows[top : top + H], columns[left : left + W])  # several times faster than np.pad
        out.append(Image.fromarray(np.asarray(picture)[window]))
    return out


def pillow_strong(pictures: list[Image.Image], generator: torch.Generator) -> list[Image.Image]:
    """Two operations and a Cutout for each image."""
    B, (W, H) = len(pictures), pictures[0].size
    for _ in range(KEKMODEL.operations):
        which, level, sign = draw_operations(B, generator, KEKMODEL)
        values = {
            name: m(level, sign, H if name.endswith("_y") else W).tolist() for name, m in KEKMODEL.magnitudes.items()
        }
        names = [NAMES[k] for k in which.tolist()]
        pictures = [
            PILLOW[n](p, values[n][i] if n in values else 0)
            for i, (n, p) in enumerate(zip(names, pictures, strict=True))
        ]
    u = torch.rand(3, B, generator=generator, dtype=torch.float64)
    side = torch.full((B,), float(min(H, W) // 2), dtype=torch.float64)
    (top, bottom), (left, right) = cutout_span(u[0] * H, side, H, "shift"), cutout_span(u[1] * W, side, W, "shift")
    boxes = torch.stack([left, top, right, bottom], dim=1).int().tolist()
    out = []
    for picture, box in zip(pictures, boxes, strict=True):
        picture = picture.copy()
        picture.paste(127 if picture.mode == "L" else (127, 127, 127), box)
        out.append(picture)
    return out


def milliseconds(call, runs: int) -> tuple[float, float]:
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times), statistics.median(times)


def check_same_views(x: torch.Tensor, padding: int) -> None:
    theirs = as_batch(
        pillow_strong(pillow_weak(x, torch.Generator().manual_seed(1), padding), torch.Generator().manual_seed(2))
    )
    one, two = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    flipped = torch.rand(len(x), generator=one) < 0.5
    shift = torch.randint(-padding, padding + 1, (2, len(x)), generator=one)
    ours = rand_augment(flip_and_crop(x, flipped, shift[0], shift[1]), two)
    share = float((ours != theirs).float().mean())
    assert share < 0.02, f"the views differ in {share:.1%} of the pixels"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread; milliseconds, minimum / median of {runs}")
    print(f"{'batch':>18} | {'ours weak':>13} {'ours strong':>13} {'both':>13} | {'Pillow both':>15} | Pillow / ours")
    for shape in CASES:
        x = torch.from_numpy(np.random.default_rng(0).integers(256, size=(2 * shape[0], *shape[1:]), dtype=np.uint8))
        views, at = ImageViews(as_pool(x)), np.arange(shape[0])
        generator = torch.Generator().manual_seed(0)
        check_same_views(x[at], views.padding)

        def pillow(views=views, at=at, generator=generator):
            for strong in (False, True):
                pictures = pillow_weak(views.pool.take(at), generator, views.padding)
                pictures = pillow_strong(pictures, generator) if strong else pictures
                views.of(as_batch(pictures))

        weak = milliseconds(lambda views=views, at=at, g=generator: views.weak(at, g), runs)
        strong = milliseconds(lambda views=views, at=at, g=generator: views.strong(at, g), runs)
        both = milliseconds(lambda views=views, at=at, g=generator: (views.weak(at, g), views.strong(at, g)), runs)
        slow = milliseconds(pillow, max(3, runs // 3))
        cells = [f"{low:.1f} / {middle:.1f}" for low, middle in (weak, strong, both)]
        print(
            f"{' x '.join(map(str, shape)):>18} | {cells[0]:>13} {cells[1]:>13} {cells[2]:>13} | "
            f"{f'{slow[0]:.1f} / {slow[1]:.1f}':>15} | {slow[0] / both[0]:.1f}"
        )


if __name__ == "__main__":
    main()
