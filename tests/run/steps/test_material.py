import json

import numpy as np
import pytest

from askless.run import Settings
from askless.run.steps import material
from askless.sources import UnreadableError

RAW = Settings("x", net="frozen:raw", size=32)
PIXELS = Settings("x", net="small-cnn", size=8)


def image(item):
    return np.random.default_rng(item).integers(0, 255, (20, 30, 3), dtype=np.uint8)


def prepare(folder, n, settings, read=image, **options):
    told, steps = [], []
    material.prepare(
        folder, n, settings, read, lambda *what: told.append(what), lambda *where: steps.append(where), **options
    )
    return told, steps


@pytest.mark.parametrize(
    ("settings", "shape", "dtype"), [(RAW, (70, 768), np.float16), (PIXELS, (70, 3, 8, 8), np.uint8)]
)
def test_every_item_is_read_once(tmp_path, settings, shape, dtype):
    told, steps = prepare(tmp_path / "cache", 70, settings)
    found = material.Material(tmp_path / "cache")
    assert told == []
    assert steps[-1] == (70, 70)
    assert found.done
    assert (found.x.shape, found.x.dtype) == (shape, dtype)
    assert (found.tiny[5] == material.fitted(image(5), 16)).all()
    if settings is PIXELS:
        assert (found.x[69] == material.fitted(image(69), 8).transpose(2, 0, 1)).all()
    again, steps = prepare(tmp_path / "cache", 70, settings, read=None)
    assert (again, steps) == ([], [])


def test_what_cannot_be_read_is_told_and_the_rest_is_read(tmp_path):
    def read(item):
        if item in (3, 40):
            raise UnreadableError(f"{item} is damaged")
        return image(item)

    told, _ = prepare(tmp_path / "cache", 50, PIXELS, read)
    assert told == [(3, "3 is damaged"), (40, "40 is damaged")]
    x = material.Material(tmp_path / "cache").x
    assert not x[3].any()
    assert x[4].any()


def test_what_is_known_to_be_bad_is_not_tried(tmp_path):
    seen = []

    def read(item):
        seen.append(item)
        return image(item)

    prepare(tmp_path / "cache", 10, PIXELS, read, skip=frozenset({2, 3}))
    assert sorted(seen) == [0, 1, 4, 5, 6, 7, 8, 9]


def test_other_settings_begin_anew(tmp_path):
    prepare(tmp_path / "cache", 10, PIXELS)
    _, steps = prepare(tmp_path / "cache", 10, Settings("x", net="small-cnn", size=12))
    assert steps
    assert material.Material(tmp_path / "cache").x.shape == (10, 3, 12, 12)


@pytest.mark.parametrize("name", ["material.json", "pixels.npy", "tiny.npy"])
def test_a_damaged_cache_is_made_anew(tmp_path, name):
    prepare(tmp_path / "cache", 10, PIXELS)
    whole = np.array(material.Material(tmp_path / "cache").x)
    (tmp_path / "cache" / name).write_bytes(b"")
    prepare(tmp_path / "cache", 10, PIXELS)
    assert (material.Material(tmp_path / "cache").x == whole).all()
    assert json.loads((tmp_path / "cache" / "material.json").read_text())["done"] == 10


def test_an_image_is_scaled_to_cover_the_square_and_the_centre_is_cut_out():
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert (material.fitted(wide, 10) == 255).all()
    same = image(0)[:16, :16]
    assert material.fitted(same, 16) is same


def test_look_alikes_are_those_that_look_almost_the_same():
    rng = np.random.default_rng(0)
    tiny = rng.integers(0, 255, (6, 16, 16, 3)).astype(np.uint8)
    tiny[3] = np.clip(tiny[0].astype(int) + rng.integers(-3, 4, (16, 16, 3)), 0, 255)  # noise
    tiny[4] = tiny[1] // 2 + 40  # another brightness and contrast
    x = rng.normal(size=(6, 20)).astype(np.float16)
    x[3], x[4] = x[0], x[1]
    assert material.look_alikes(tiny, x, [0, 1], [2, 3, 4, 5]) == [3, 4]
    x[4] = -x[1]  # the embedding says otherwise
    assert material.look_alikes(tiny, x, [0, 1], [2, 3, 4, 5]) == [3]
    assert material.look_alikes(tiny, tiny.transpose(0, 3, 1, 2), [0, 1], [2, 3, 4, 5]) == [3, 4]
    assert material.look_alikes(tiny, x, [], [2]) == material.look_alikes(tiny, x, [0], []) == []


def test_plain_images_are_not_all_taken_for_copies_of_each_other():
    tiny = np.zeros((3, 16, 16, 3), np.uint8)
    for i, value in enumerate((0, 90, 250)):
        tiny[i] = value
    assert material.look_alikes(tiny, np.zeros((3, 3, 8, 8), np.uint8), [0], [1, 2]) == []


@pytest.mark.parametrize("shape", [(30, 5), (5, 30), (1, 4), (2, 1), (6, 3, 4, 4)])
def test_the_map_is_flat_and_from_0_to_1(shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    known = np.arange(len(x))[1:] if len(x) > 2 else np.arange(len(x))
    places = material.flat_map(x, known)
    assert places.shape == (len(x), 2)
    assert np.isfinite(places[known]).all()
    assert (places[known] >= 0).all()
    assert (places[known] <= 1).all()
    assert np.isnan(places).any() == (len(known) < len(x))
    assert (material.flat_map(x, known)[known] == places[known]).all()
