import numpy as np
import pytest

import askless as al
from askless.acquire.badge import GradientEmbeddings, draw
from askless.rng import stream


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
        ours = GradientEmbeddings(features, probs, max_memory=memory)
        exact = ((g - g[7]) ** 2).sum(axis=1)
        assert np.allclose(ours.sq_distance_to(7), exact, rtol=1e-3, atol=1e-6 * exact.max())
        assert np.allclose(ours.sq_norm, (g**2).sum(axis=1), rtol=1e-5)


def test_factorised_norms_and_distances_equal_the_materialised_ones():
    features, probs = arrays()
    g = materialised(features, probs)
    ours = GradientEmbeddings(features, probs, max_memory=2000)
    assert np.allclose(ours.sq_norm, (g**2).sum(axis=1), rtol=1e-12)
    for pick in (0, 5):
        assert np.allclose(ours.sq_distance_to(pick), ((g - g[pick]) ** 2).sum(axis=1), rtol=1e-10, atol=1e-12)


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
    weights = np.array([0.0, 0.0, 2.0, 0.0, 1.0, 0.0])
    assert draw(weights, np.ones(6, dtype=bool), uniform) in (2, 4)
    assert draw(np.zeros(3), np.array([False, True, False]), uniform) == 1


def test_draws_follow_the_weights():
    weights = np.array([1.0, 0.0, 3.0])
    drawn = [draw(weights, np.ones(3, dtype=bool), u) for u in np.linspace(0, 1, 400, endpoint=False)]
    assert np.bincount(drawn, minlength=3).tolist() == [100, 0, 300]


def test_the_number_of_classes_comes_from_the_model_not_from_the_labels():
    features, probs = arrays(C=6)
    few = al.select("badge", 5, features=features, probs=probs, labelled=[0, 1], labels=[0, 1])
    many = al.select("badge", 5, features=features, probs=probs, labelled=[0, 1], labels=[5, 3])
    assert np.array_equal(few.indices, many.indices)
