"""Label propagation: against a dense direct solve, on graphs worked out by hand, and on features of real images."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse
import torch
from scipy.special import softmax
from sklearn.datasets import make_moons
from sklearn.neighbors import NearestNeighbors

from askless.base.errors import InputError
from askless.learn import propagation
from askless.learn.propagation import neighbour_graph, neighbours, predict_new, prepared, propagate, with_more

FEATURES = Path(__file__).parents[3] / "shared" / "data" / "cifar10_subset_efflite0_feats.npz"


def blobs(n_each=30, d=5, classes=3, seed=0, spread=0.35, side=None):
    """Around random centres, or around those of a simplex with the side sqrt(2) `side`."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, d)) if side is None else side * np.eye(classes, d)
    y = np.repeat(np.arange(classes), n_each)
    return centres[y] + spread * rng.normal(size=(len(y), d)), y


def dense_propagate(W, labelled, labels, classes, alpha):
    """The formula with full matrices, for a graph in one piece and a label of every class."""
    W = W.toarray()
    root = np.sqrt(W.sum(axis=1))
    S = W / np.outer(root, root)
    q = root / np.linalg.norm(root)
    Y = np.zeros((len(W), classes))
    Y[labelled, labels] = 1
    F = np.linalg.solve(np.eye(len(W)) - alpha * S, Y - np.outer(q, q @ Y))
    return softmax(2 * F / np.delete(F, labelled, axis=0).std(axis=0), axis=1)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99, 0.9999])
def test_propagation_equals_a_dense_direct_solve(alpha):
    X, y = blobs(spread=1.0)
    labelled = np.array([0, 5, 40, 70])
    W = neighbour_graph(X, 8)
    found = propagate(W, labelled, y[labelled], 3, alpha, tol=1e-12)
    np.testing.assert_allclose(found, dense_propagate(W, labelled, y[labelled], 3, alpha), rtol=0, atol=1e-8)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_the_graph_is_the_local_scaling_formula_on_the_nearest_neighbours(metric):
    X, _ = blobs()
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X
    distance, nearest = NearestNeighbors(n_neighbors=11).fit(rows).kneighbors(rows)
    distance, nearest = distance[:, 1:], nearest[:, 1:]
    A = np.zeros((len(X), len(X)))
    scale = distance[:, 6]
    for i in range(len(X)):
        A[i, nearest[i]] = np.exp(-(distance[i] ** 2) / (scale[i] * scale[nearest[i]]))
    W = neighbour_graph(X, 10, metric=metric)
    np.testing.assert_allclose(W.toarray(), A + A.T, atol=1e-4)
    assert abs(W - W.T).max() == 0
    assert W.diagonal().sum() == 0


def test_tiles_change_nothing(monkeypatch):
    X, _ = blobs()
    whole = neighbour_graph(X).toarray()
    monkeypatch.setattr(propagation, "TILE", 7 * len(X))
    np.testing.assert_allclose(neighbour_graph(X).toarray(), whole, rtol=1e-4)


@pytest.mark.parametrize("more", [1, 4, 40])
def test_neighbours_of_more_rows_are_those_of_all(more):
    """Those of the first rows, joined by others, against all of them at once."""
    X = prepared("features", blobs(seed=1)[0][np.random.default_rng(0).permutation(90)], "euclidean")
    first, others = X[:-more], X[-more:]
    joined = with_more(neighbours(first, first, 8, itself=0), first, others)
    whole = neighbours(X, X, 8, itself=0)
    np.testing.assert_array_equal(joined.positions, whole.positions)
    np.testing.assert_allclose(joined.distances, whole.distances, atol=1e-5)


def test_cosine_affinities_ignore_the_length_of_a_row():
    X, _ = blobs()
    lengths = np.random.default_rng(1).uniform(0.1, 10, size=(len(X), 1))
    np.testing.assert_allclose(neighbour_graph(X * lengths).toarray(), neighbour_graph(X).toarray(), atol=1e-4)


SCALES = [2.0**-100, 1e-30, 1e-25, 1e-12, 1e12, 1e20, 1e30, 2.0**100]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_common_scale_of_the_features_changes_nothing(metric, scale):
    """Powers of two not a bit of it; others round the features themselves."""
    X = blobs()[0].astype(np.float32)
    new, scores = X[:7] + np.float32(0.1), np.eye(3)[np.arange(len(X)) % 3]
    ways = [
        lambda s: neighbour_graph(X * s, 8, metric=metric).toarray(),
        lambda s: predict_new(X * s, scores, new * s, metric=metric),
    ]
    for way in ways:
        plain, scaled = way(np.float32(1)), way(np.float32(scale))
        np.testing.assert_allclose(scaled, plain, rtol=0, atol=0 if np.log2(scale) % 1 == 0 else 1e-3)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_a_row_of_another_scale_has_its_direction_all_the_same(scale):
    X = blobs()[0]
    other = X.copy()
    other[4] *= scale
    np.testing.assert_allclose(neighbour_graph(other).toarray(), neighbour_graph(X).toarray(), atol=1e-4)


def test_a_label_each_is_enough_for_two_moons():
    X, y = make_moons(400, noise=0.05, random_state=0)
    labelled = np.array([np.flatnonzero(y == c)[0] for c in (0, 1)])
    W = neighbour_graph(X, 10, metric="euclidean")
    assert (propagate(W, labelled, y[labelled], 2).argmax(axis=1) == y).mean() > 0.99


def test_many_labels_of_one_class_do_not_outvote_few_of_another():
    X, y = blobs(n_each=100, classes=2, spread=0.3, side=1.2)  # near enough for one graph, with an error of 0.2 %
    labelled = np.concatenate([np.arange(40), [150]])  # forty to one
    probs = propagate(neighbour_graph(X), labelled, y[labelled], 2)
    assert (probs.argmax(axis=1) == y).mean() > 0.95


def test_rows_sum_to_one_and_classes_without_a_label_get_nothing():
    X, _ = blobs()
    probs = propagate(neighbour_graph(X), [0, 40], [0, 3], 5)
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    assert not probs[:, [1, 2, 4]].any()
    assert probs.shape == (90, 5)


def test_one_class_alone_is_certain():
    X, _ = blobs()
    assert (propagate(neighbour_graph(X), [3], [1], 2)[:, 1] == 1).all()


def two_pairs_and_a_third():
    """0 - 1, 2 - 3, 4 - 5: three parts."""
    W = np.zeros((6, 6))
    for i in (0, 2, 4):
        W[i, i + 1] = W[i + 1, i] = 1
    return sparse.csr_array(W)


def test_a_part_with_labels_of_one_class_is_of_that_class_by_hand():
    # For one class, F is (s, s, -s, -s) but for the labelled items' own part, which alone does not count; the unlabelled
    # items are 1 and 3: +-s, of deviation s, so z = 1 and -1 and the probability is 1 / (1 + e^-4).
    probs = propagate(two_pairs_and_a_third()[:4, :4], [0, 2], [0, 1], 2)
    np.testing.assert_allclose(probs[[1, 3], [0, 1]], 1 / (1 + np.exp(-4)), rtol=1e-6)
    assert (probs[[0, 2], [0, 1]] > probs[[1, 3], [0, 1]]).all()


def test_items_that_no_label_reaches_get_equal_probabilities():
    probs = propagate(two_pairs_and_a_third(), [0, 2], [0, 2], 3)
    np.testing.assert_array_equal(probs[4:], [[0.5, 0, 0.5]] * 2)
    alone = propagate(two_pairs_and_a_third()[:4, :4], [0, 2], [0, 2], 3)
    np.testing.assert_allclose(probs[:4], alone, rtol=1e-6)  # and they do not disturb the others


def test_a_shuffled_pool_gives_shuffled_probabilities():
    X, y = blobs()
    shuffle = np.random.default_rng(0).permutation(len(X))
    place = np.argsort(shuffle)
    labelled = np.array([0, 40, 70])
    plain = propagate(neighbour_graph(X), labelled, y[labelled], 3)
    moved = propagate(neighbour_graph(X[shuffle]), place[labelled], y[labelled], 3)
    np.testing.assert_allclose(moved, plain[shuffle], atol=1e-4)


def test_the_same_input_gives_the_same_bits():
    X, _ = blobs()
    first, again = (propagate(neighbour_graph(X), [0, 40, 70], [0, 1, 2], 3) for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_pool_of_very_few_items(rows):
    X = np.eye(3)[:rows]
    probs = propagate(neighbour_graph(X), [0], [1], 2)
    np.testing.assert_array_equal(probs, [[0, 1]] * rows)


def test_copies_and_rows_of_zeros_are_taken():
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 20, axis=0)
    W = neighbour_graph(X, 15)
    assert np.isfinite(W.data).all()
    probs = propagate(W, [0, 20, 40], [0, 1, 2], 3)
    assert np.isfinite(probs).all()


def test_everything_labelled_is_taken():
    X, y = blobs(n_each=5, spread=0.1)
    probs = propagate(neighbour_graph(X, 4), np.arange(15), y, 3)
    assert (probs.argmax(axis=1) == y).all()


def test_new_items_get_the_mean_of_their_neighbours_by_hand():
    pool, scores = np.array([[0.0], [1.0], [10.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7]])
    found = predict_new(pool, scores, np.array([[0.25]]), 2, metric="euclidean")
    w = np.exp([-1 / 9, -1])  # distances 1/4 and 3/4, over the larger
    np.testing.assert_allclose(found, [w / w.sum()], rtol=1e-5)


def test_a_new_item_equal_to_pool_items_takes_their_scores():
    pool = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = predict_new(pool, np.array([[0.9, 0.1], [0.7, 0.3], [0.0, 1.0]]), np.array([[2.0, 0.0]]), 2)
    np.testing.assert_allclose(found, [[0.8, 0.2]], atol=1e-6)


def test_new_items_are_predicted_about_as_well_as_the_pool():
    X, y = blobs(n_each=120, side=1.5)  # the difference below is 0 with a standard deviation of 0.005
    pool, new = np.arange(0, 360, 2), np.arange(1, 360, 2)
    labelled = np.array([0, 60, 120])
    scores = propagate(neighbour_graph(X[pool]), labelled, y[pool][labelled], 3)
    predicted = predict_new(X[pool], scores, X[new])
    np.testing.assert_allclose(predicted.sum(axis=1), 1)
    assert (predicted.argmax(axis=1) == y[new]).mean() > (scores.argmax(axis=1) == y[pool]).mean() - 0.05


def test_more_neighbours_than_items_are_all_of_them():
    X, y = blobs(n_each=3)
    assert neighbour_graph(X, 50).nnz == 9 * 8
    assert predict_new(X, np.eye(3)[y], X[:2], 50).shape == (2, 3)


def test_torch_and_half_precision_are_taken():
    X, _ = blobs()
    plain = neighbour_graph(X.astype(np.float16)).toarray()
    tensor = torch.from_numpy(X).half().requires_grad_()
    np.testing.assert_array_equal(neighbour_graph(tensor).toarray(), plain)


FULL, GAP = np.ones((3, 3)), np.array([[1.0, 0.0], [np.nan, 1.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: neighbour_graph(np.zeros(3)),
            r"features: expected shape \(N, d\) with at least one row .* got \(3,\)",
        ),
        (
            lambda: neighbour_graph(GAP),
            "features: expected finite numbers, got others in row 1; remove or fix that row",
        ),
        *[
            (lambda k=k: neighbour_graph(FULL, k), f"neighbour_graph: k must be a whole number >= 1, got {k!r}")
            for k in (-1, 0, "a", 2.0)
        ],
        (
            lambda: predict_new(FULL, FULL, FULL, k=0),
            "predict_new: k must be a whole number >= 1, got 0",
        ),
        (lambda: propagate(FULL, [0, 0], [0, 1], 2), "labelled: expected each position once, got one twice"),
        (lambda: predict_new(FULL, FULL, np.eye(2)), "features_new: expected 3 columns, as in features_pool, got 2"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_residual_that_is_not_reached_is_said(monkeypatch):
    monkeypatch.setattr(propagation, "cg", lambda system, b, rtol, atol: (b, 1))
    with pytest.raises(
        InputError, match="expected the labels to converge to a residual of 1e-08, they did not; lower alpha"
    ):
        propagate(two_pairs_and_a_third(), [0, 2], [0, 1], 2)


def test_real_features_at_ten_balanced_labels():
    """The first 2,000 of 10,000 images of CIFAR-10, EfficientNet-Lite0; all of them are in the slow test."""
    if not FEATURES.exists():
        pytest.skip(f"needs {FEATURES}")
    with np.load(FEATURES) as data:
        X, y = data["f_train"][:2000], data["y_train"][:2000]
    W, accuracy = neighbour_graph(X), []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labelled = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:4] for c in range(10)])
        probs = propagate(W, labelled, y[labelled], 10)
        accuracy.append((probs.argmax(axis=1) == y).mean())
    assert np.mean(accuracy) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize(("n", "pool", "test"), [(10, 0.54, 0.54), (40, 0.67, 0.67), (110, 0.735, 0.74)])
def test_accuracy_on_the_subset_of_cifar10(n, pool, test):
    """Measured: 56.9, 69.3, 75.1 % on the pool, 56.9, 69.3, 75.6 % on the test images."""
    if not FEATURES.exists():
        pytest.skip(f"needs {FEATURES}")
    with np.load(FEATURES) as data:
        X, y, X_test, y_test = (data[k] for k in ("f_train", "y_train", "f_test", "y_test"))
    W, found = neighbour_graph(X), []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        if n < 100:
            labelled = np.concatenate([rng.permutation(np.flatnonzero(y == c))[: n // 10] for c in range(10)])
        else:
            labelled = rng.permutation(len(y))[:n]
        probs = propagate(W, labelled, y[labelled], 10)
        unlabelled = np.setdiff1d(np.arange(len(y)), labelled)
        new = predict_new(X, probs, X_test)
        found.append(((probs.argmax(axis=1) == y)[unlabelled].mean(), (new.argmax(axis=1) == y_test).mean()))
    assert np.mean(found, axis=0)[0] > pool
    assert np.mean(found, axis=0)[1] > test
