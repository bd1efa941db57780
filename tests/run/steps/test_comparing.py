"""Near-duplicates of what is held out, and the map."""

import numpy as np
import pytest

from askless.run.steps.comparing import flat_map, look_alikes, nearly_same


def test_look_alikes_are_those_that_look_almost_the_same():
    rng = np.random.default_rng(0)
    tiny = rng.integers(0, 255, (6, 16, 16, 3)).astype(np.uint8)
    tiny[3] = np.clip(tiny[0].astype(int) + rng.integers(-3, 4, (16, 16, 3)), 0, 255)  # noise
    tiny[4] = tiny[1] // 2 + 40  # another brightness and contrast
    x = rng.normal(size=(6, 20)).astype(np.float16)
    x[3], x[4] = x[0], x[1]
    assert look_alikes(tiny, x, [0, 1], [2, 3, 4, 5]) == [3, 4]
    x[4] = -x[1]  # the embedding says otherwise
    assert look_alikes(tiny, x, [0, 1], [2, 3, 4, 5]) == [3]
    assert look_alikes(tiny, tiny.transpose(0, 3, 1, 2), [0, 1], [2, 3, 4, 5]) == [3, 4]
    assert look_alikes(tiny, x, [], [2]) == look_alikes(tiny, x, [0], []) == []


def test_plain_images_are_not_all_taken_for_copies_of_each_other():
    tiny = np.zeros((3, 16, 16, 3), np.uint8)
    for i, value in enumerate((0, 90, 250)):
        tiny[i] = value
    assert look_alikes(tiny, np.zeros((3, 3, 8, 8), np.uint8), [0], [1, 2]) == []


@pytest.mark.parametrize("shape", [(30, 5), (5, 30), (1, 4), (2, 1), (6, 3, 4, 4)])
def test_the_map_is_flat_and_from_0_to_1(shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    known = np.arange(len(x))[1:] if len(x) > 2 else np.arange(len(x))
    places = flat_map(x, known)
    assert places.shape == (len(x), 2)
    assert np.isfinite(places[known]).all()
    assert (places[known] >= 0).all()
    assert (places[known] <= 1).all()
    assert np.isnan(places).any() == (len(known) < len(x))
    assert (flat_map(x, known)[known] == places[known]).all()


def test_nearly_the_same_texts_are_found():
    texts = [
        "the train to Leipzig leaves at ten from platform four as every day",
        "The train to Leipzig leaves at ten from platform four, as every day!",
        "the train to Leipzig leaves at ten from platform five as every day",
        "the bus leaves at ten",
        "",
    ]
    assert nearly_same(texts, [0], [1, 2, 3, 4]) == [1]
    assert nearly_same(texts, [], [1]) == []
