"""One module from pixels to probabilities."""

import pytest
import torch
from torch import nn

from askless.features.backbones.backbone import resized
from askless.features.backbones.images import raw
from askless.models.whole import Resize, Whole, pixels_by, with_backbone


@pytest.mark.parametrize(
    ("height", "width", "size"), [(40, 40, 16), (40, 30, 16), (20, 33, 64), (16, 40, 20), (9, 9, 9)]
)
def test_two_matrices_resize_as_interpolation_does(height, width, size):
    x = torch.randint(0, 256, (2, 3, height, width), generator=torch.Generator().manual_seed(0)).float()
    torch.testing.assert_close(Resize(height, width, size)(x), resized(x, size), atol=1e-3, rtol=0)


def test_pixels_are_normalised_by_hand():
    net = nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False))
    nn.init.ones_(net[1].weight)
    x = torch.tensor([[[[255]], [[0]], [[51]]]], dtype=torch.uint8)
    logits, probs = Whole(pixels_by([0.5, 0.0, 0.1], [0.25, 1.0, 0.1]), net)(x)
    torch.testing.assert_close(logits, torch.full((1, 2), 2.0 + 0.0 + 1.0))  # (1-.5)/.25, 0, (.2-.1)/.1
    torch.testing.assert_close(probs, torch.full((1, 2), 0.5))


def test_a_backbone_is_followed_by_its_standardisation():
    backbone = raw(4)
    x = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, scale = torch.rand(48), torch.rand(48) + 0.5
    got = with_backbone(backbone.module, backbone.size, (3, 8, 8), mean, scale)(x.float())
    torch.testing.assert_close(got, (backbone.embed(x) - mean) / scale, atol=1e-4, rtol=1e-4)
