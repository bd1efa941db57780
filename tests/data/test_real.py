"""The data sets themselves, where `askless data fetch` has put them on this machine."""

import numpy as np
import pytest

from askless.data import ImageViews, fetch, load
from askless.data.fetch import find
from askless.data.tfidf import fit_tfidf

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


WHEELS = {  # items for the pool and for test, classes, and the least that a linear probe has right on texts and tables
    "rotten-tomatoes": (6398, 2132, 2, 0.68),
    "r8": (5485, 2189, 8, 0.95),
    "r52": (6532, 2568, 52, 0.9),
    "20newsgroups": (11293, 7528, 20, 0.75),
    "groceries": (732, 661, 14, None),
    "letter": (15000, 5000, 26, 0.75),
    "satimage": (4827, 1608, 6, 0.82),
    "texture": (4125, 1375, 11, 0.98),
    "spambase": (3448, 1149, 2, 0.88),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHEELS)
def test_the_data_set_of_a_wheel_is_whole_and_its_classes_can_be_told_apart(name):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if find(name) is None:
        pytest.skip(f"{name} is not on this machine; run `askless data fetch {name}`")
    fetch(name)  # verifies the checksums
    N, n_test, classes, least = WHEELS[name]
    pool = load(name)
    assert (len(pool), len(pool.test[1]), pool.n_classes) == (N, n_test, classes)
    assert len(np.unique(pool.labels)) == len(np.unique(pool.test[1])) == classes
    if pool.kind == "image":
        assert pool.shape == (3, 224, 224)
    elif pool.kind == "text":
        words = fit_tfidf(pool.x)
        probe = LogisticRegression(max_iter=1000, C=100).fit(words.embed(pool.x), pool.labels)
        assert probe.score(words.embed(pool.test[0]), pool.test[1]) > least
    else:
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(pool.x.numpy(), pool.labels)
        assert probe.score(pool.test[0].numpy(), pool.test[1]) > least
