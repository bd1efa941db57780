"""The head is found in networks as people have them."""

import numpy as np
import pytest
import torch
from torch import nn

import askless as al
from askless.base.errors import ModelError
from askless.kernels import find_head, look
from askless.nets.optional import timm_package, torchvision

pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("default")]

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.mark.parametrize(
    ("name", "head", "options"),
    [
        ("resnet18", "fc", {}),
        ("vgg11", "classifier.6", {}),
        ("vit_b_16", "heads.head", {"image_size": 32}),
        ("mobilenet_v3_small", "classifier.3", {}),
        ("densenet121", "classifier", {}),
        ("convnext_tiny", "classifier.2", {}),
    ],
)
def test_torchvision(name, head, options):
    net = torchvision().models.get_model(name, num_classes=3, **options)
    x = torch.randn(2, 3, 32, 32)
    assert find_head(net, x)[0] == head
    with torch.no_grad():
        torch.testing.assert_close(look(net, x).logits, net.eval()(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "head", "options"),
    [
        ("vit_tiny_patch16_224", "head", {"img_size": 32}),
        ("convnext_atto", "head.fc", {}),
        ("efficientnet_b0", "classifier", {}),
        ("mixer_s16_224", "head", {"img_size": 32}),
    ],
)
def test_timm(name, head, options):
    net = timm_package().create_model(name, num_classes=3, **options)
    assert find_head(net, torch.randn(2, 3, 32, 32))[0] == head


def test_a_network_of_timm_with_a_convolution_for_a_head_says_so():
    net = timm_package().create_model("resnetv2_50", num_classes=3)
    with pytest.raises(ModelError, match=r"the convolution 'head\.fc' in its place"):
        find_head(net, torch.randn(2, 3, 32, 32))


class Logits(nn.Module):
    """What a user writes around a model of Hugging Face."""

    def __init__(self, net, padding=None):
        super().__init__()
        self.net, self.padding = net, padding

    def forward(self, x):
        if self.padding is None:
            return self.net(pixel_values=x).logits
        return self.net(input_ids=x, attention_mask=(x != self.padding).long()).logits


def test_hugging_face():
    torchvision()
    from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification, BertConfig, ViTConfig

    seer = AutoModelForImageClassification.from_config(ViTConfig(**SIZES, image_size=32, patch_size=8, num_labels=3))
    x = torch.rand(20, 3, 32, 32)
    assert find_head(Logits(seer), x)[0] == "net.classifier"
    with pytest.raises(ModelError, match=r"got a dict with keys \['logits'\]; wrap it in a module"):
        al.ActiveLearner(x, net=seer, learner=al.Supervised(steps=2), classes=3)
    with pytest.raises(ModelError, match=r"one of the linear layers that ran: 'classifier'$"):
        find_head(seer, x)
    reader = AutoModelForSequenceClassification.from_config(BertConfig(**SIZES, vocab_size=30, num_labels=3))
    tokens = np.random.default_rng(0).integers(1, 30, size=(20, 7))
    tokens[:, 5:] = 0
    assert find_head(Logits(reader, 0), tokens)[0] == "net.classifier"
    learner = al.ActiveLearner(tokens, net=Logits(reader, 0), learner=al.Supervised(steps=2, batch=4), classes=3)
    learner.tell(np.arange(6), np.arange(6) % 3)
    learner.fit()
    assert len(learner.ask(3)) == 3
