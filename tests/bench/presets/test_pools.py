"""Pools as features: those of an encoder, and columns in their own units."""

import dataclasses

import numpy as np
import pytest
import torch

from askless.bench import Data
from askless.bench.plan import text_of
from askless.bench.presets.pools import Embedded, Measured, Part, Rotated, Written
from askless.data import Pool

WORDS = ("oil barrel crude", "trade tariff import")
TEXTS = tuple(f"{words} {i}" for i in range(20) for words in WORDS)


def test_the_size_that_images_are_seen_at_is_passed_on():
    pool = Embedded(data=Data(name="digits", items=20, test=5), backbone="raw", size=4)()
    assert (pool.x.shape, pool.test[0].shape) == ((20, 16), (5, 16))
    assert "size" not in text_of(Embedded(data=Data(name="digits")))  # cells of before there was one stay known


def test_texts_are_seen_by_an_encoder_that_knows_the_pool_alone(monkeypatch):
    labels = np.arange(40) % 2
    plain = Pool(TEXTS, labels, None, ("crude", "trade"), (TEXTS[:6], labels[:6]), "news", "text")
    monkeypatch.setattr(Data, "__call__", lambda self: plain)
    pool = Written(data=Data(name="digits"), backbone="tfidf")()
    assert pool.kind == "features"
    assert pool.x.shape[0] == 40
    np.testing.assert_allclose(pool.test[0], pool.x[:6], atol=1e-5)


def test_columns_have_their_own_units():
    pool = Measured(data=Data(name="digits"))()
    assert pool.x.shape == (1397, 64)
    assert pool.x.mean(dim=0) == pytest.approx(torch.zeros(64), abs=1e-3)
    varies = pool.x.std(dim=0) > 0
    assert pool.x[:, varies].std(dim=0).max() <= 1.5 * pool.x[:, varies].std(dim=0).median()
    assert pool.test[0].shape == (400, 64)


def test_principal_directions_are_those_of_standardised_columns():
    """Each direction has the variance of its eigenvalue, and at most so many are kept; test items are turned alike."""
    plain = Measured(data=Data(name="digits", items=300, test=50))
    pool, turned = plain(), Rotated(of=plain, directions=8)()
    assert (turned.x.shape, turned.test[0].shape) == ((300, 8), (50, 8))
    x = pool.x.double()
    deviation = x.std(dim=0, correction=0)
    z = (x - x.mean(dim=0)) / torch.where(deviation > 1e-9, deviation, 1.0)
    largest = torch.linalg.eigvalsh(z.T @ z / 299).flip(0)[:8]
    assert turned.x.double().var(dim=0) == pytest.approx(largest, rel=1e-4)
    assert Rotated(of=plain)().x.shape == (300, 64)  # there are no more
    same = dataclasses.replace(pool, test=(pool.x[:5], pool.labels[:5]))
    np.testing.assert_allclose(Rotated(of=lambda: same, directions=8)().test[0], turned.x[:5], atol=1e-4)


def test_columns_as_they_are_keep_their_distances():
    """All directions are a rotation; some of them leave out what they say they do."""
    plain = Part(of=Measured(data=Data(name="digits", items=300, test=50)), items=100)
    pool = plain()
    turned = Rotated(of=plain, directions=64, standardised=False)()
    assert (len(pool), turned.x.shape) == (100, (100, 64))
    assert torch.equal(torch.from_numpy(pool.labels), torch.from_numpy(turned.labels))
    near = torch.cdist(pool.x.double(), pool.test[0].double())
    np.testing.assert_allclose(torch.cdist(turned.x.double(), turned.test[0].double()), near, rtol=1e-4)
    fewer = Rotated(of=plain, directions=20, standardised=False)()
    assert (torch.pdist(fewer.x) <= torch.pdist(pool.x) * 1.0001).all()
