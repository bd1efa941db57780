from dataclasses import replace

import numpy as np
import pytest
import torch

from askless.base.errors import InputError
from askless.data import Pool, as_pool, duplicated, hold_out, long_tailed, noisy_labels, subset


def pool_of(counts, **options):
    labels = np.repeat(np.arange(len(counts)), counts)
    x = np.arange(len(labels) * 2, dtype=np.float32).reshape(-1, 2)
    return as_pool((x, labels), ids=[f"i{i}" for i in range(len(labels))], test=(x[:3], [0, 1, 0]), **options)


# --- a test set


def test_held_out_items_leave_the_pool_with_their_labels_and_ids():
    whole = replace(pool_of([20, 20]), test=None)
    pool = hold_out(whole, 10)
    x, y = pool.test
    assert (len(pool), len(y)) == (30, 10)
    places = (x[:, 0] / 2).long().tolist()
    assert y.tolist() == whole.labels[places].tolist()
    assert not {f"i{i}" for i in places} & set(pool.ids)
    assert pool.name == whole.name


def test_what_is_held_out_depends_on_the_seed_alone():
    whole = replace(pool_of([20, 20]), test=None)
    assert hold_out(whole, 10, seed=1).ids == hold_out(whole, 10, seed=1).ids != hold_out(whole, 10, seed=2).ids


def test_only_labelled_items_are_held_out():
    whole = replace(pool_of([20, 20]), test=None, labels=np.where(np.arange(40) % 2, 1, -1))
    assert (hold_out(whole, 19).test[1] == 1).all()
    for n in (0, 20, 2.0, "2", True):
        with pytest.raises(InputError, match=f"expected 1 to 19 of 20 labelled items for test, got {n!r}"):
            hold_out(whole, n)


def test_texts_and_datasets_are_held_out_too():
    texts = hold_out(as_pool([f"text {i}" for i in range(6)], [0, 1] * 3), 2)
    assert sorted([*texts.x, *texts.test[0]]) == [f"text {i}" for i in range(6)]
    lazy = hold_out(as_pool([np.full((4, 4, 3), i, np.uint8) for i in range(6)], [0, 1] * 3), 2)
    assert lazy.test[0].shape == (2, *lazy.shape)


def test_a_test_set_that_is_there_is_not_replaced():
    with pytest.raises(InputError, match="expected a pool without test items, got <Pool pool: 6 features"):
        hold_out(pool_of([3, 3]), 2)


# --- subset


def test_a_subset_keeps_order_ids_labels_and_test():
    part = subset(pool_of([3, 3]), [4, 0])
    assert part.x.tolist() == [[8, 9], [0, 1]]
    assert part.ids == ("i4", "i0")
    assert part.labels.tolist() == [1, 0]
    assert len(part.test[1]) == 3


def test_a_random_subset_depends_on_the_seed_alone():
    pool = pool_of([50, 50])
    assert subset(pool, 20, seed=1).ids == subset(pool, 20, seed=1).ids != subset(pool, 20, seed=2).ids
    assert len(set(subset(pool, 20).ids)) == 20


def test_a_subset_of_a_dataset_stays_lazy():
    read = []

    class Data:
        def __len__(self):
            return 10

        def __getitem__(self, i):
            read.append(i)
            return torch.tensor([float(i)])

    part = subset(as_pool(Data()), [7, 3, 5])
    read.clear()
    assert part.take([1]).tolist() == [[3.0]]
    assert set(read) <= {3, 7}


def test_columns_and_mapped_arrays_follow(tmp_path):
    x = np.arange(6.0).reshape(3, 2)
    x.setflags(write=False)
    part = subset(Pool(x, columns={"group": ("a", "b", "c")}), [2, 1])
    assert part.columns == {"group": ("c", "b")}
    assert part.take([0]).tolist() == [[4, 5]]


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (0, "subset: expected 1 to 6 items, got 0"),
        (7, "subset: expected 1 to 6 items, got 7"),
        ([], "expected at least one position, got none"),
        ([1, 1], r"expected each position once; use duplicated\(pool, times\) for copies"),
        ([6], "expected positions from 0 to 5, got 6"),
    ],
)
def test_impossible_subsets_are_refused(which, message):
    with pytest.raises(InputError, match=message):
        subset(pool_of([3, 3]), which)


# --- long tail


def test_class_sizes_fall_geometrically():
    tail = long_tailed(pool_of([100] * 3), ratio=100)
    assert np.bincount(tail.labels).tolist() == [100, 10, 1]
    assert np.bincount(long_tailed(pool_of([100] * 10), 10).labels).tolist() == [
        100,
        77,
        60,
        46,
        36,
        28,
        22,
        17,
        13,
        10,
    ]
    assert len(tail.test[1]) == 3
    assert len(set(tail.ids)) == len(tail) == 111


def test_small_classes_keep_what_they_have_and_ratio_one_keeps_all():
    assert np.bincount(long_tailed(pool_of([100, 4, 100]), ratio=10).labels).tolist() == [100, 4, 10]
    assert len(long_tailed(pool_of([5, 5]), ratio=1)) == 10


def test_a_long_tail_needs_labels_and_a_ratio():
    with pytest.raises(
        InputError, match=r"long_tailed: expected ratio >= 1, the largest class over the smallest, got 0.5"
    ):
        long_tailed(pool_of([3, 3]), 0.5)
    with pytest.raises(InputError, match="long_tailed: expected a label for every item, 1 of 2 have none"):
        long_tailed(as_pool((np.zeros((2, 2)), [0, -1])), 10)


# --- duplicates


def test_copies_follow_each_other_and_get_ids_of_their_own():
    copies = duplicated(pool_of([2, 1]), times=3, noise=0)
    assert len(copies) == 9
    assert copies.labels.tolist() == [0, 0, 1] * 3
    assert copies.ids[:4] == ("i0", "i1", "i2", "i0~2")
    assert torch.equal(copies.x[:3], copies.x[6:])


def test_noise_on_bytes_is_measured_in_the_unit_interval():
    pool = as_pool(np.full((200, 8, 8), 128, np.uint8))
    noisy = duplicated(pool, times=2, noise=0.1, seed=1)
    assert noisy.x.dtype == torch.uint8
    assert float(noisy.x.float().std()) == pytest.approx(25.5, rel=0.03)
    assert not torch.equal(noisy.x[:200], noisy.x[200:])
    assert torch.equal(noisy.x, duplicated(pool, times=2, noise=0.1, seed=1).x)
    assert int(pool.x.min()) == int(pool.x.max()) == 128


def test_noise_stays_in_range_and_respects_the_scale_of_features():
    bright = duplicated(as_pool(np.full((50, 8, 8), 255, np.uint8)), 1, noise=0.5)
    assert int((bright.x == 255).sum()) > 1000
    floats = duplicated(as_pool(np.ones((50, 1, 8, 8), np.float32)), 1, noise=0.5)
    assert 0 <= float(floats.x.min()) < float(floats.x.max()) == 1
    rng = np.random.default_rng(0)
    features = np.stack([rng.normal(size=2000), 100 * rng.normal(size=2000), np.ones(2000)], axis=1)
    moved = duplicated(as_pool(features), 1, noise=0.1).x - torch.from_numpy(features)
    assert moved.std(dim=0).tolist() == pytest.approx([0.1, 10, 0.1], rel=0.1)


def test_noise_works_on_a_mapped_array():
    x = np.zeros((5, 2), np.float32)
    x.setflags(write=False)
    assert float(duplicated(as_pool(x), 2, noise=0.1).x.std()) > 0


def test_impossible_duplicates_are_refused():
    with pytest.raises(InputError, match="expected times >= 1 and noise >= 0, got times=0"):
        duplicated(pool_of([2, 2]), 0)
    with pytest.raises(InputError, match="noise needs images or features in memory, got tokens items; pass noise=0"):
        duplicated(as_pool(np.zeros((2, 2), np.int64)), 2)
    assert len(duplicated(as_pool(np.zeros((2, 2), np.int64)), 2, noise=0)) == 4


# --- wrong labels


def test_exactly_the_share_is_wrong_and_other_classes_are_equally_likely():
    pool = pool_of([3000] * 4)
    noisy = noisy_labels(pool, 0.3, seed=2)
    wrong = noisy.labels != pool.labels
    assert wrong.sum() == 3600
    shift = (noisy.labels - pool.labels)[wrong] % 4
    assert np.bincount(shift, minlength=4)[1:] == pytest.approx([1200] * 3, rel=0.1)
    assert noisy.test[1].tolist() == pool.test[1].tolist()


def test_unknown_labels_stay_unknown():
    pool = as_pool((np.zeros((4, 2)), [0, -1, 1, -1]))
    assert noisy_labels(pool, 1.0).labels.tolist() == [1, -1, 0, -1]


def test_impossible_noise_is_refused():
    with pytest.raises(InputError, match=r"expected a share from 0 to 1, got 1.5"):
        noisy_labels(pool_of([2, 2]), 1.5)
    with pytest.raises(InputError, match="expected at least two classes, got 0"):
        noisy_labels(as_pool(np.zeros((2, 2))), 0.5)
