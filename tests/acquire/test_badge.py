import numpy as np
import pytest

import askless as al
from askless.acquire.badge import NearestPick, invert
from askless.base.rng import stream


def arrays(N=80, d=7, C=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, d)), rng.dirichlet(np.ones(C), size=N)


def materialised(features, probs):
    u = np.eye(probs.shape[1])[probs.argmax(axis=1)] - probs
    return (u[:, :, None] * features[:, None, :]).reshape(len(features), -1)  # (N, C, d) -> (N, C*d)


def naive_badge(embedding, free, n, uniforms):
    """k-means++ on the embeddings, one item at a time, by the definition."""
    free = set(free)
    picks = [max(free, key=lambda i: (embedding[i] @ embedding[i], -i))]
    for uniform in uniforms[: n - 1]:
        free.discard(picks[-1])
        order = sorted(free)
        weights = [min(((embedding[i] - embedding[p]) ** 2).sum() for p in picks) for i in order]
        target, total = uniform * sum(weights), 0.0
        for i, w in zip(order, weights, strict=True):
            total += w
            if total > target:
                picks.append(i)
                break
    return picks


@pytest.mark.parametrize("seed", range(10))
def test_badge_equals_naive_k_means_plus_plus_given_the_same_draws(seed):
    features, probs = arrays(seed=seed)
    labelled = np.array([3, 8])
    picks = al.select("badge", 15, features=features, probs=probs, labelled=labelled, seed=seed)
    uniforms = stream(seed, "select").random(14)
    assert picks.indices.tolist() == naive_badge(
        materialised(features, probs), np.setdiff1d(np.arange(80), labelled), 15, uniforms
    )


@pytest.mark.parametrize("gap", [6, 10, 14])
def test_confident_predictions_in_float32_lose_no_digits(gap):
    # 1 - p cancels in float32 unless it is taken before anything is multiplied.
    rng = np.random.default_rng(gap)
    logits = rng.normal(size=(300, 10)).astype(np.float32)
    logits[np.arange(300), rng.integers(10, size=300)] += gap
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs, features = e / e.sum(axis=1, keepdims=True), rng.normal(size=(300, 16)).astype(np.float32)
    g = materialised(features.astype(np.float64), probs.astype(np.float64))
    for memory in (2**28, 10_000):
        ours = NearestPick(features, probs, np.arange(300), max_memory=memory)
        assert np.allclose(ours.sq_norm, (g**2).sum(axis=1), rtol=1e-5)
        ours.add(7)
        exact = ((g - g[7]) ** 2).sum(axis=1)
        assert np.allclose(ours.sq, exact, rtol=1e-3, atol=1e-6 * exact.max())
        for pick in (100, 30, 211):
            ours.add(pick)
            exact = np.minimum(exact, ((g - g[pick]) ** 2).sum(axis=1))
            assert np.allclose(ours.sq, exact, rtol=1e-3, atol=1e-6 * exact.max())


@pytest.mark.parametrize("memory", [1, 2000, 2**28])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factorised_norms_and_distances_equal_the_materialised_ones(memory, dtype):
    features, probs = (a.astype(dtype) for a in arrays(N=200, seed=1))
    g = materialised(features.astype(np.float64), probs.astype(np.float64))
    ours = NearestPick(features, probs, np.arange(200), max_memory=memory)
    close = {"rtol": 1e-10, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-5}
    assert np.allclose(ours.sq_norm, (g**2).sum(axis=1), **close)
    exact = np.full(200, np.inf)
    for pick in (0, 5, 17, 63, 4, 199):
        ours.add(pick)
        exact = np.minimum(exact, ((g - g[pick]) ** 2).sum(axis=1))
        assert np.allclose(ours.sq, exact, **close)
        assert np.allclose(ours.totals.sum(), exact.sum())


@pytest.mark.parametrize("scale", [1e-140, 1e-25, 1e20, 1e70])
def test_the_scale_of_the_features_changes_nothing(scale):
    features, probs = arrays(N=300, seed=3)
    plain = al.select("badge", 30, features=features, probs=probs)
    assert np.array_equal(al.select("badge", 30, features=scale * features, probs=probs).indices, plain.indices)


def test_features_are_looked_at_only_where_the_probabilities_allow_a_row_to_come_nearer(monkeypatch):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2000, 20)) + 8 * np.eye(20)[rng.integers(20, size=2000)]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    looked_at = []
    update = NearestPick._update
    monkeypatch.setattr(
        NearestPick, "_update", lambda self, at, *rest: (looked_at.append(len(at)), update(self, at, *rest))
    )
    al.select("badge", 50, features=np.abs(rng.normal(size=(2000, 8))), probs=probs)
    assert sum(looked_at) < 0.2 * 50 * 2000


def test_a_draw_at_the_end_of_a_tile_has_weight():
    features, probs = arrays(N=64, seed=2)
    ours = NearestPick(features, probs, np.arange(64), max_memory=1)  # one row in each tile
    ours.add(3)
    ends = np.cumsum(np.where(ours.free, ours.sq, 0.0))
    for uniform in np.concatenate([np.linspace(0, 1, 500, endpoint=False), [1 - 2**-53]]):
        assert ours.draw(float(uniform)) == invert(ends, uniform * ends[-1])


def test_embedding_is_the_gradient_of_the_cross_entropy_at_the_predicted_class():
    import torch

    features, probs = arrays(N=5)
    logits = torch.from_numpy(np.log(probs))
    for i in range(5):
        W = torch.zeros(4, 7, dtype=torch.float64, requires_grad=True)
        output = W @ torch.from_numpy(features[i]) + logits[i]
        loss = torch.nn.functional.cross_entropy(output[None], torch.tensor([int(probs[i].argmax())]))
        (gradient,) = torch.autograd.grad(loss, W)
        assert np.allclose(-gradient.numpy().ravel(), materialised(features, probs)[i])


def test_a_chosen_item_is_never_drawn_again_and_all_zero_distances_draw_uniformly():
    features, probs = np.ones((30, 3)), np.full((30, 2), 0.5)
    seen = set()
    for seed in range(60):
        picks = al.select("badge", 4, features=features, probs=probs, seed=seed).indices
        assert len(set(picks.tolist())) == 4
        seen |= set(picks[1:].tolist())
    assert len(seen) == 29  # everything but the first, which is the largest norm


@pytest.mark.parametrize("uniform", [0.0, 0.25, 0.999999, 1 - 2**-53])
def test_draw_never_returns_a_position_of_zero_weight(uniform):
    assert invert(np.cumsum([0.0, 0.0, 2.0, 0.0, 1.0, 0.0]), uniform * 3) in (2, 4)


def test_draws_follow_the_weights():
    drawn = [invert(np.cumsum([1.0, 0.0, 3.0]), 4 * u) for u in np.linspace(0, 1, 400, endpoint=False)]
    assert np.bincount(drawn, minlength=3).tolist() == [100, 0, 300]


def test_the_number_of_classes_comes_from_the_model_not_from_the_labels():
    features, probs = arrays(C=6)
    few = al.select("badge", 5, features=features, probs=probs, labelled=[0, 1], labels=[0, 1])
    many = al.select("badge", 5, features=features, probs=probs, labelled=[0, 1], labels=[5, 3])
    assert np.array_equal(few.indices, many.indices)


def test_probabilities_that_are_held_change_nothing():
    """Half precision is converted once where there is room, and tile by tile where there is none: the same picks."""
    rng = np.random.default_rng(3)
    x, p = rng.normal(size=(2000, 8)).astype(np.float16), rng.dirichlet(np.ones(5), 2000).astype(np.float16)
    roomy, tight = (al.select("badge", 50, features=x, probs=p, seed=1, max_memory=m) for m in (2**28, 2**14))
    np.testing.assert_array_equal(roomy.indices, tight.indices)
