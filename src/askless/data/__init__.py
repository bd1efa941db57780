"""Pools of items and the views of them that training sees."""

from askless.data.caltech import caltech101
from askless.data.cifar import cifar10, cifar100
from askless.data.fetch import available, data_home, fetch
from askless.data.files import csv, folder, hf, imagefolder, npz, parquet, text, webdataset
from askless.data.hf_out import save_hf, save_imagefolder
from askless.data.idx import fashion_mnist, mnist
from askless.data.load import SOURCES, load
from askless.data.matlab import svhn
from askless.data.pool import Pool, as_pool, encode_labels, labels_of
from askless.data.randaugment import KEKMODEL, LEEDOYUP, OFFICIAL, Policy, rand_augment
from askless.data.texts import reuters, spam_assassin
from askless.data.toy import digits, two_moons
from askless.data.variants import duplicated, hold_out, long_tailed, noisy_labels, subset
from askless.data.views import CachedViews, ImageViews, PlainViews, Views, views_for
from askless.data.wheel_pools import (
    groceries,
    letter,
    newsgroups,
    r8,
    r52,
    rotten_tomatoes,
    satimage,
    spambase,
    texture,
)

__all__ = [
    # the pool
    "Pool",
    "as_pool",
    "labels_of",
    "encode_labels",
    # sources
    "load",
    "SOURCES",
    "digits",
    "two_moons",
    "fashion_mnist",
    "mnist",
    "cifar10",
    "cifar100",
    "svhn",
    "caltech101",
    "reuters",
    "spam_assassin",
    "rotten_tomatoes",
    "r8",
    "r52",
    "newsgroups",
    "groceries",
    "letter",
    "satimage",
    "texture",
    "spambase",
    "folder",
    "csv",
    "npz",
    "text",
    "hf",
    "parquet",
    "imagefolder",
    "webdataset",
    # out
    "save_hf",
    "save_imagefolder",
    # getting data
    "available",
    "fetch",
    "data_home",
    # a test set, and harder pools
    "hold_out",
    "subset",
    "long_tailed",
    "duplicated",
    "noisy_labels",
    # views
    "Views",
    "ImageViews",
    "PlainViews",
    "CachedViews",
    "views_for",
    # strong augmentation
    "rand_augment",
    "Policy",
    "KEKMODEL",
    "LEEDOYUP",
    "OFFICIAL",
]
