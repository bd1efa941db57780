"""Pages of items in orders that need the model or the features."""

import numpy as np
import pytest

from askless.base.errors import InputError
from askless.run.out.alike import likeness
from askless.run.out.browse import NONE, in_order, listing, what_is_said
from askless.run.steps.round_files import Predictions, read_embeddings
from askless.run.store.browsing import Filters, Match


def browse(run, filters=None, **options):
    with run.store.look() as db:
        return listing(run, db, "tell", filters or Filters(), **{"limit": 500, **options})


def numbers(found):
    return [known.item for known in found.items]


def held_out(run):
    return set(run.readable("check", "reserve").tolist())


def test_what_the_model_says_is_known_of_the_pool_alone():
    probs = np.array([[0.7, 0.3], [0.2, 0.8], [0.4, 0.6], [np.nan, np.nan], [0.9, 0.1]], np.float32)
    matches = [Match(i, split, None, 0) for i, split in enumerate(("pool", "check", "reserve", "pool", "out"))]
    found = what_is_said(matches, Predictions(probs, np.array([4, 7])), {4: 4, 7: 7})
    assert found.label.tolist() == [4, NONE, NONE, NONE, NONE]
    assert found.prob == pytest.approx([0.7, 0, 0, 0, 0])
    assert what_is_said(matches, None, {}).label.tolist() == [NONE] * 5


def test_no_filter_or_order_gives_away_what_the_model_says_of_held_out_items(finished):
    held = held_out(finished)
    assert held
    with finished.store.look() as db:
        before = [
            row[0] for row in db.execute("SELECT id FROM item WHERE split <> 'pool' AND problem IS NULL ORDER BY id")
        ]
    for order in ("sure", "unsure"):
        found = browse(finished, order=order)
        assert numbers(found)[-len(before) :] == before  # at the end, as they lie in the folder
        assert (found.said.label[-len(before) :] == NONE).all()
    for label in range(4):
        assert not held & set(numbers(browse(finished, predicted=label)))


def test_orders_by_the_model(finished):
    sure, unsure = (browse(finished, order=order) for order in ("sure", "unsure"))
    n = (sure.said.label != NONE).sum()
    assert (np.diff(sure.said.prob[:n]) <= 0).all()
    assert (np.diff(unsure.said.prob[:n]) >= 0).all()
    by_class = browse(finished, order="class")
    group = [
        k.label if k.label is not None else s for k, s in zip(by_class.items, by_class.said.label.tolist(), strict=True)
    ]
    known = [g for g in group if g != NONE]
    assert known == sorted(known)
    assert group[: len(known)] == known


def test_pages_are_the_whole_in_parts(finished):
    for options in ({"order": "sure"}, {"order": "name"}, {"like": (3,)}, {"predicted": 1}):
        whole = browse(finished, **options)
        parts = [browse(finished, **options, offset=offset, limit=7) for offset in range(0, whole.total + 7, 7)]
        assert [item for part in parts for item in numbers(part)] == numbers(whole)
        assert {part.total for part in parts} == {whole.total} == {len(whole.items)}


@pytest.mark.parametrize("by", ["best", "mean"])
def test_those_most_alike_come_first(finished, by):
    x = read_embeddings(finished.folder / "cache", len(finished.paths))
    expected = np.argsort(-likeness(x, [3, 8], by), kind="stable").tolist()
    assert numbers(browse(finished, like=(3, 8), by=by)) == expected


def test_items_to_compare_with_must_be_there(finished):
    with pytest.raises(InputError, match="expected items from 0 to 47 to compare with, got 48"):
        browse(finished, like=(48,))


def test_a_run_without_features_says_what_to_do(shapes, tmp_path):
    with shapes.start(tmp_path / "run") as run:
        with pytest.raises(InputError, match=r"comparing images needs features.*; wait until all of them are embedded"):
            browse(run, like=(0,))
        run.note("prepared", True)
        with pytest.raises(InputError, match="a network trained on pixels has none; start a run with --net frozen"):
            browse(run, like=(0,))


def test_unknown_probabilities_do_not_disturb_the_order():
    label, said = np.full(3, NONE), np.array([NONE, 1, 0])
    prob = np.array([0, 0.4, 0.6])
    assert in_order(label, said, prob, "class").tolist() == [2, 1, 0]
