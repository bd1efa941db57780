"""Every operation against Pillow, image by image."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from askless.data.augment import CURVES, DEGENERATE, MAPS, affine, blend, cutout, flip_and_crop, grey, smoothed

AFFINE, NEAREST = Image.Transform.AFFINE, Image.Resampling.NEAREST
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
    "shear_x": lambda image, v: image.transform(image.size, AFFINE, (1, v, 0, 0, 1, 0), NEAREST),
    "shear_y": lambda image, v: image.transform(image.size, AFFINE, (1, 0, 0, v, 1, 0), NEAREST),
    "translate_x": lambda image, v: image.transform(image.size, AFFINE, (1, 0, v, 0, 1, 0), NEAREST),
    "translate_y": lambda image, v: image.transform(image.size, AFFINE, (1, 0, 0, 0, 1, v), NEAREST),
}
FACTORS = [0.05, 0.14, 0.5, 0.86, 0.95, 1.0, 1.72]
VALUES = {
    "autocontrast": [0.0],
    "equalize": [0.0],
    "identity": [0.0],
    "brightness": FACTORS,
    "color": FACTORS,
    "contrast": FACTORS,
    "sharpness": FACTORS,
    "posterize": [1, 2, 4, 5, 6, 7, 8],
    "solarize": [0, 26, 77.3, 128, 231, 256],
    "rotate": [-30, -27, -3, 0, 3, 11.7, 29.99],
    "shear_x": [-0.3, -0.27, -0.03, 0.0, 0.03, 0.12, 0.3],
    "shear_y": [-0.3, -0.27, -0.03, 0.0, 0.03, 0.12, 0.3],
    "translate_x": [-9, -8, -1, 0, 1, 3.4, 8.64],
    "translate_y": [-9, -8, -1, 0, 1, 3.4, 8.64],
}
SHAPES = [(3, 32, 32), (1, 32, 32), (3, 17, 24), (1, 8, 8), (1, 28, 28), (3, 2, 5)]


def images(shape, n=8, seed=0):
    """Noise, smooth, nearly constant, constant, dark and bright images."""
    C, H, W = shape
    rng = np.random.default_rng(seed)
    noise = rng.integers(256, size=(n, C, H, W))
    ramp = (np.arange(H)[:, None] * 3 + np.arange(W) * 5 + np.arange(C)[:, None, None] * 40) % 256
    kinds = [
        noise[0],
        ramp,
        100 + noise[1] % 3,
        np.full((C, H, W), 77),
        noise[2] // 4,
        255 - noise[3] // 4,
        np.where(noise[4] > 250, 255, 0),
        np.full((C, H, W), 255),
    ]
    return torch.from_numpy(np.stack(kinds).astype(np.uint8))


def through_pillow(name, x, values):
    out = []
    for image, v in zip(x.numpy(), values, strict=True):
        picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
        done = np.asarray(PILLOW[name](picture, v))
        out.append(done[None] if done.ndim == 2 else done.transpose(2, 0, 1))
    return np.stack(out)


def one_operation(name, x, values):
    if name in DEGENERATE:
        return blend(DEGENERATE[name](x), x, values)
    if name in MAPS:
        return affine(x, MAPS[name](values, *x.shape[2:]))
    return x if name == "identity" else CURVES[name](x, values)


def through_ours(name, x, values):
    return one_operation(name, x, torch.tensor(values, dtype=torch.float64)).numpy()


def test_there_are_the_fourteen_operations():
    assert {*DEGENERATE, *CURVES, *MAPS, "identity"} == set(PILLOW)
    assert len(PILLOW) == 14


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", sorted(PILLOW))
def test_the_operation_equals_pillows(name, shape):
    x = images(shape)
    untouched = x.clone()
    values = (VALUES[name] * len(x))[: len(x)]
    for turn in range(len(values)):  # every image with every value
        parameters = values[turn:] + values[:turn]
        ours, theirs = through_ours(name, x, parameters), through_pillow(name, x, parameters)
        difference = np.abs(ours.astype(int) - theirs)
        if name in MAPS:
            assert difference.max() == 0
        else:
            assert difference.max() <= 1  # one grey level, where a processor's arithmetic falls beside a whole number
            assert (difference > 0).mean() < 0.001
    assert torch.equal(x, untouched)


def test_images_do_not_see_each_other():
    x = images((3, 16, 16))
    for name, values in VALUES.items():
        one_by_one = [through_ours(name, x[i : i + 1], [values[i % len(values)]]) for i in range(len(x))]
        together = through_ours(name, x, [values[i % len(values)] for i in range(len(x))])
        assert np.array_equal(together, np.concatenate(one_by_one)), name


def test_small_images_are_not_equalised_as_in_pillow():
    x = images((1, 8, 8))
    assert torch.equal(CURVES["equalize"](x, torch.zeros(len(x))), x)


def test_grey_equals_pillows_luma():
    x = images((3, 20, 20))
    theirs = [np.asarray(Image.fromarray(image.transpose(1, 2, 0)).convert("L")) for image in x.numpy()]
    assert np.array_equal(grey(x)[:, 0].numpy(), np.stack(theirs))


def test_other_numbers_of_channels_are_taken_as_they_are():
    x = images((3, 16, 16))[:, [0, 1, 2, 0, 1]]
    for name, values in VALUES.items():
        assert through_ours(name, x, [values[-1]] * len(x)).shape == x.shape
    assert torch.equal(one_operation("color", x, torch.full((len(x),), 0.5)), x)


def test_images_too_small_to_smooth_stay():
    x = images((1, 2, 5))
    assert torch.equal(smoothed(x), x)


# --- Cutout, flip and crop


def test_cutout_fills_the_rectangle_and_nothing_else():
    x = torch.full((2, 3, 6, 8), 9, dtype=torch.uint8)
    top, left, bottom, right = (torch.tensor(t) for t in ([1, 0], [2, 5], [3, 6], [7, 8]))
    out = cutout(x, top, left, bottom, right, torch.tensor([1, 2, 3]))
    expected = x.clone()
    expected[0, :, 1:3, 2:7] = torch.tensor([1, 2, 3], dtype=torch.uint8)[:, None, None]
    expected[1, :, 0:6, 5:8] = torch.tensor([1, 2, 3], dtype=torch.uint8)[:, None, None]
    assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("mode", ["reflect", "constant"])
def test_flip_and_crop_equals_flipping_then_padding_then_cutting(dtype, mode):
    generator = torch.Generator().manual_seed(0)
    B, H, W, P = 40, 7, 9, 4
    x = torch.randint(0, 256, (B, 3, H, W), generator=generator).to(dtype)
    flipped = torch.rand(B, generator=generator) < 0.5
    shift = torch.randint(-P, P + 1, (2, B), generator=generator)
    out = flip_and_crop(x, flipped, shift[0], shift[1], reflect=mode == "reflect")
    assert out.dtype == dtype
    for i in range(B):
        image = (x[i].flip(2) if flipped[i] else x[i]).float()
        padded = torch.nn.functional.pad(image[None], (P, P, P, P), mode=mode)[0]
        top, left = P + int(shift[0, i]), P + int(shift[1, i])
        assert torch.equal(out[i].float(), padded[:, top : top + H, left : left + W])
