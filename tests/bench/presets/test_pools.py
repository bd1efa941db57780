"""Pools as features: those of an encoder, and columns in their own units."""

import numpy as np
import pytest
import torch

from askless.bench import Data
from askless.bench.plan import text_of
from askless.bench.presets.pools import Embedded, Measured, Written
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
