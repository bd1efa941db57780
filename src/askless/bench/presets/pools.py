"""Pools of a preset as pools of features: images and texts by a frozen encoder, tables by column."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from askless.base.options import LATER
from askless.bench.plan import Data
from askless.data import Pool, duplicated, long_tailed, subset
from askless.features.frozen import Frozen, frozen_views
from askless.features.scaling import standardisation
from askless.features.text_backbone import rows_of, text_views


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A pool of images as a pool of features, by a frozen backbone; then long-tailed by the ratio `tail`, or every item
    `times` over with a little noise. `size`: as in `Frozen`."""

    data: Data
    backbone: str = "efficientnet-lite0"
    tail: float | None = None
    times: int = 1
    size: int | None = field(default=None, metadata=LATER)

    def __call__(self) -> Pool:
        images = self.data()
        views = frozen_views(images, Frozen(backbone=self.backbone, weak=0, strong=0, size=self.size))
        x, test_x = views.plain(torch.arange(len(images))), views.test()
        test = None if images.test is None or test_x is None else (test_x, images.test[1])
        pool = dataclasses.replace(images, x=x, kind="features", test=test)
        if self.tail is not None:
            pool = long_tailed(pool, self.tail)
        return duplicated(pool, self.times) if self.times > 1 else pool


@dataclass(frozen=True, kw_only=True)
class Written:
    """A pool of texts as a pool of features, by an encoder for texts."""

    data: Data
    backbone: str

    def __call__(self) -> Pool:
        texts = self.data()
        views = text_views(texts, self.backbone)
        assert texts.test is not None
        rows = torch.from_numpy(rows_of(texts.test[0], views.backbone, Frozen(backbone=self.backbone)))
        test = views.standardised(rows), texts.test[1]
        return dataclasses.replace(texts, x=views.plain(torch.arange(len(texts))), kind="features", test=test)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A pool of measured numbers, or of small images as such: each column by its own mean and deviation."""

    data: Data

    def __call__(self) -> Pool:
        pool = self.data()
        assert isinstance(pool.x, torch.Tensor)
        assert pool.test is not None
        x, test_x = pool.x.flatten(1).float(), torch.as_tensor(pool.test[0]).flatten(1).float()
        mean, scale = standardisation(x)
        return dataclasses.replace(
            pool, x=(x - mean) / scale, kind="features", test=((test_x - mean) / scale, pool.test[1])
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """So many `items` of a pool, drawn at random; all of them were embedded, which another benchmark may have done."""

    of: Callable[[], Pool]
    items: int

    def __call__(self) -> Pool:
        return subset(self.of(), self.items)


@dataclass(frozen=True, kw_only=True)
class Rotated:
    """A pool of features in at most this many principal directions; without `standardised`, of columns as they are.

    Standardised it is what scikit-learn's users prepare: StandardScaler, then PCA. As they are it is the same pool with
    fewer columns: distances are kept but for what the directions left out hold.
    """

    of: Callable[[], Pool]
    directions: int = 128
    standardised: bool = True

    def __call__(self) -> Pool:
        pool = self.of()
        assert isinstance(pool.x, torch.Tensor)
        assert pool.test is not None
        main = PCA(min(self.directions, *pool.x.shape), svd_solver="covariance_eigh")  # the exact one draws nothing
        prepared = make_pipeline(StandardScaler(), main) if self.standardised else main
        prepared.fit(pool.x.double().numpy())
        x, test_x = (
            torch.from_numpy(prepared.transform(rows.double().numpy())).float() for rows in (pool.x, pool.test[0])
        )
        return dataclasses.replace(pool, x=x, test=(test_x, pool.test[1]))
