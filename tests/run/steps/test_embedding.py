import json

import numpy as np
import pytest

from askless.run import Settings
from askless.run.steps import embedding
from askless.sources import UnreadableError

RAW = Settings("x", net="frozen:raw", size=32)
PIXELS = Settings("x", net="small-cnn", size=8)


def image(item, side=0):
    return np.random.default_rng(item).integers(0, 255, (20, 30, 3), dtype=np.uint8)


def prepare(folder, n, settings, read=image, **options):
    told, steps = [], []
    folder.mkdir(exist_ok=True)
    embedding.embed_images(
        folder, n, settings, read, lambda *what: told.append(what), lambda *where: steps.append(where), **options
    )
    return told, steps


@pytest.mark.parametrize(
    ("settings", "shape", "dtype"), [(RAW, (70, 768), np.float16), (PIXELS, (70, 3, 8, 8), np.uint8)]
)
def test_every_item_is_read_once(tmp_path, settings, shape, dtype):
    told, steps = prepare(tmp_path / "cache", 70, settings)
    found = embedding.CachedItems(tmp_path / "cache")
    assert told == []
    assert steps[-1] == (70, 70)
    assert (found.x.shape, found.x.dtype) == (shape, dtype)
    assert (found.tiny[5] == embedding.fitted(image(5), 16)).all()
    if settings is PIXELS:
        assert (found.x[69] == embedding.fitted(image(69), 8).transpose(2, 0, 1)).all()
    again, steps = prepare(tmp_path / "cache", 70, settings, read=None)
    assert (again, steps) == ([], [])


def test_what_cannot_be_read_is_told_and_the_rest_is_read(tmp_path):
    def read(item, side):
        if item in (3, 40):
            raise UnreadableError(f"{item} is damaged")
        return image(item)

    told, _ = prepare(tmp_path / "cache", 50, PIXELS, read)
    assert told == [(3, "3 is damaged"), (40, "40 is damaged")]
    x = embedding.CachedItems(tmp_path / "cache").x
    assert not x[3].any()
    assert x[4].any()


def test_what_is_known_to_be_bad_is_not_tried(tmp_path):
    seen = []

    def read(item, side):
        seen.append(item)
        return image(item)

    prepare(tmp_path / "cache", 10, PIXELS, read, skip=frozenset({2, 3}))
    assert sorted(seen) == [0, 1, 4, 5, 6, 7, 8, 9]


def test_other_settings_begin_anew(tmp_path):
    prepare(tmp_path / "cache", 10, PIXELS)
    _, steps = prepare(tmp_path / "cache", 10, Settings("x", net="small-cnn", size=12))
    assert steps
    assert embedding.CachedItems(tmp_path / "cache").x.shape == (10, 3, 12, 12)


@pytest.mark.parametrize("name", ["material.json", "pixels.npy", "tiny.npy"])
def test_a_damaged_cache_is_made_anew(tmp_path, name):
    prepare(tmp_path / "cache", 10, PIXELS)
    whole = np.array(embedding.CachedItems(tmp_path / "cache").x)
    (tmp_path / "cache" / name).write_bytes(b"")
    prepare(tmp_path / "cache", 10, PIXELS)
    assert (embedding.CachedItems(tmp_path / "cache").x == whole).all()
    assert json.loads((tmp_path / "cache" / "material.json").read_text())["done"] == 10


def test_an_image_is_scaled_to_cover_the_square_and_the_centre_is_cut_out():
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert (embedding.fitted(wide, 10) == 255).all()
    same = image(0)[:16, :16]
    assert embedding.fitted(same, 16) is same
