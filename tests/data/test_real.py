"""The data sets themselves, where `askless data fetch` has put them on this machine."""

import numpy as np
import pytest

from askless.data import ImageViews, fetch, load
from askless.data.fetch import find

PUBLISHED = {  # training and test class counts, mean and standard deviation of the training pixels
    "fashion-mnist": ([6000] * 10, [1000] * 10, [0.2860], [0.3530]),
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        [0.1307],
        [0.3081],
    ),
    "cifar10": ([5000] * 10, [1000] * 10, [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "cifar100": ([500] * 100, [100] * 100, [0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    "svhn": (
        [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659],
        [1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595],
        [0.4377, 0.4438, 0.4728],
        [0.1980, 0.2010, 0.1970],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_data_set_is_the_published_one(name):
    if find(name) is None:
        pytest.skip(f"{name} is not on this machine; run `askless data fetch {name}`")
    fetch(name)  # verifies the checksums
    train, test, mean, std = PUBLISHED[name]
    pool = load(name)
    assert np.bincount(pool.labels).tolist() == train
    assert np.bincount(pool.test[1]).tolist() == test
    views = ImageViews(pool)
    assert views.mean.tolist() == pytest.approx(mean, abs=2e-4)
    assert views.std.tolist() == pytest.approx(std, abs=2e-4)


TEXTS = {  # training and test class counts, and the least that a linear probe has right
    "reuters": ([1624, 260, 2843, 41, 195, 206, 107, 252], [735, 144, 1079, 10, 89, 99, 50, 107], 0.93),
    "spam-assassin": ([3119, 1416], [1031, 480], 0.95),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_the_texts_are_the_published_ones_and_their_features_tell_the_classes_apart(name):
    from sklearn.linear_model import LogisticRegression

    if find(name) is None:
        pytest.skip(f"{name} is not on this machine; run `askless data fetch {name}`")
    fetch(name)  # verifies the checksums
    train, test, least = TEXTS[name]
    pool = load(name)
    assert np.bincount(pool.labels).tolist() == train
    assert np.bincount(pool.test[1]).tolist() == test
    assert (pool.kind, pool.shape) == ("features", (256,))
    assert pool.x.norm(dim=1).numpy() == pytest.approx(1, abs=1e-4)
    probe = LogisticRegression(max_iter=1000).fit(pool.x.numpy(), pool.labels)
    assert probe.score(pool.test[0].numpy(), pool.test[1]) > least
