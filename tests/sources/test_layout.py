import numpy as np
import pytest
import torch

from askless.base.errors import InputError
from askless.sources.layout import as_images


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((5, 3, 8, 9), "auto", (5, 3, 8, 9)),
        ((5, 8, 9, 3), "auto", (5, 3, 8, 9)),
        ((5, 8, 9, 1), "auto", (5, 1, 8, 9)),
        ((5, 8, 9), "auto", (5, 1, 8, 9)),
        ((5, 3, 8, 3), "chw", (5, 3, 8, 3)),
        ((5, 3, 8, 3), "hwc", (5, 3, 3, 8)),
        ((5, 4, 8, 8), "chw", (5, 4, 8, 8)),
    ],
)
def test_every_layout_becomes_channels_first(shape, layout, expected):
    assert as_images(np.zeros(shape, np.uint8), layout).shape == expected
    assert tuple(as_images(torch.zeros(shape), layout).shape) == expected


def test_pixels_stay_where_they_are():
    x = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    assert as_images(x)[1, 2, 3, 4] == x[1, 3, 4, 2]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 3, 8, 3), "both axis 1 and axis 3 could be the channels; pass layout='chw'"),
        ((5, 4, 8, 8), "no axis has 1 or 3 channels; pass layout='chw'"),
        ((8, 9, 3), r"could be one image \(8, 9, 3\) or 8 grey images of 9 x 3; pass x\[None\]"),
        ((8, 9), r"expected shape \(N, C, H, W\), \(N, H, W, C\) or \(N, H, W\), got \(8, 9\)"),
        ((5, 3, 0, 8), "expected at least one pixel"),
    ],
)
def test_ambiguous_and_impossible_shapes_are_refused(shape, message):
    with pytest.raises(InputError, match=message):
        as_images(np.zeros(shape, np.uint8))


def test_an_unknown_layout_is_refused():
    with pytest.raises(InputError, match="expected 'auto', 'chw' or 'hwc', got 'nhwc'"):
        as_images(np.zeros((1, 3, 4, 4), np.uint8), "nhwc")
