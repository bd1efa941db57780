"""Networks by name, each ending in a linear head on a feature vector. Any other `nn.Module` works as well."""

from askless.nets.cnn import CNNGap, SmallCNN, TutorialCNN
from askless.nets.mlp import MLP, Linear
from askless.nets.resnet import ResNet18
from askless.nets.table import NETS, make
from askless.nets.vgg import VGG11
from askless.nets.wrn import WideResNet

__all__ = [
    # by name
    "make",
    "NETS",
    # the networks
    "CNNGap",
    "Linear",
    "MLP",
    "ResNet18",
    "SmallCNN",
    "TutorialCNN",
    "VGG11",
    "WideResNet",
]
