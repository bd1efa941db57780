"""dynamicAL on a network with BatchNorm, against a loop over single examples (METHODS 6)."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import askless as al


@pytest.fixture(scope="module")
def case():
    """A conv net with BatchNorm, images, labelled positions, and every example's gradient by plain autograd (N, P)."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3)
        ).double()
        for _ in range(3):
            net(torch.randn(20, 1, 6, 6, dtype=torch.float64))  # running statistics away from 0 and 1
        x = torch.randn(25, 1, 6, 6, dtype=torch.float64)
    net.eval()
    labelled, labels = np.arange(5), np.array([0, 1, 2, 0, 1])
    targets = net(x).argmax(dim=1)
    targets[:5] = torch.from_numpy(labels)
    rows = []
    for image, target in zip(x, targets, strict=True):
        grads = torch.autograd.grad(F.cross_entropy(net(image[None]), target[None]), list(net.parameters()))
        rows.append(torch.cat([g.ravel() for g in grads]))
    net.train()
    return net, x, labelled, labels, torch.stack(rows)


def test_scores_equal_the_loop_over_single_examples(case):
    net, x, labelled, labels, g = case
    stats = al.kernels.gradient_stats(net, x, against=(x[labelled], labels))
    picks = al.select("dynamical", 20, grad_sq=stats.sq, grad_dot=stats.dot, labelled=labelled)
    g_S = g[:5].sum(dim=0)
    expected = (g.square().sum(dim=1) + 2 * g @ g_S).numpy()[picks.indices]
    assert np.allclose(picks.scores, expected, rtol=1e-8, atol=1e-8)
    assert (np.diff(picks.scores) <= 0).all()
    assert net.training


def test_the_score_is_the_gain_of_one_item_in_the_squared_gradient_norm(case):
    net, x, labelled, labels, g = case
    stats = al.kernels.gradient_stats(net, x, against=(x[labelled], labels))
    G = lambda rows: float(g[list(rows)].sum(dim=0).square().sum())  # noqa: E731
    picks = al.select("dynamical", 3, grad_sq=stats.sq, grad_dot=stats.dot, labelled=labelled)
    for u, score in zip(picks.indices, picks.scores, strict=True):
        assert score == pytest.approx(G([*labelled, u]) - G(labelled), rel=1e-8)
    # Delta(Q | S) = sum of the single gains + cross terms inside Q
    Q = picks.indices.tolist()
    cross = sum(float(g[u] @ g[v]) for u in Q for v in Q if u != v)
    assert G([*labelled, *Q]) - G(labelled) == pytest.approx(picks.scores.sum() + cross, rel=1e-8)
    at_labels = al.kernels.gradient_stats(net, x[labelled], labels, against=(x[labelled], labels))
    assert float(at_labels.dot.sum()) == pytest.approx(G(labelled), rel=1e-8)


def test_gamma_zero_and_infinity_keep_one_term():
    sq, dot = np.array([3.0, 1.0, 2.0]), np.array([0.0, 5.0, -9.0])
    assert al.select(al.DynamicAL(gamma=0), 3, grad_sq=sq).indices.tolist() == [0, 2, 1]
    assert al.select(al.DynamicAL(gamma=np.inf), 3, grad_dot=dot).indices.tolist() == [1, 0, 2]
    assert al.select("dynamical", 1, grad_sq=sq, grad_dot=dot).scores.tolist() == [11.0]


def test_exact_redundancy_counts_what_is_already_chosen(case):
    net, x, labelled, labels, g = case
    stats = al.kernels.gradient_stats(net, x, against=(x[labelled], labels))
    picks = al.select(
        al.DynamicAL(redundancy="exact"), 6, grad_sq=stats.sq, grad_dot=stats.dot, features=g, labelled=labelled
    )
    gain = (g.square().sum(dim=1) + 2 * g @ g[:5].sum(dim=0)).numpy()
    chosen = []
    for _ in range(6):
        left = [u for u in range(5, 25) if u not in chosen]
        score = {u: gain[u] + 2 * float(g[u] @ g[chosen].sum(dim=0)) for u in left}
        chosen.append(max(score, key=score.get))
    assert picks.indices.tolist() == chosen


@pytest.mark.parametrize(("n", "chunk"), [(12, 4), (11, 4), (6, 1), (5, 20), (20, None)])
def test_penalise_subtracts_the_mean_gradient_of_every_chosen_chunk(case, n, chunk):
    """What the authors' code does with wo_de_inf=0, norm_inf=0 and inf_type=full, in a loop over items."""
    net, x, labelled, labels, g = case
    stats = al.kernels.gradient_stats(net, x, against=(x[labelled], labels))
    strategy = al.DynamicAL(redundancy="penalise", chunk=chunk)
    picks = al.select(strategy, n, grad_sq=stats.sq, grad_dot=stats.dot, features=g, labelled=labelled)
    gain = (g.square().sum(dim=1) + 2 * g @ g[:5].sum(dim=0)).numpy()
    size = chunk or n // 10
    chunks, gains = [], []
    while sum(map(len, chunks)) < n:
        left = [u for u in range(5, 25) if not any(u in c for c in chunks)]
        penalty = {u: sum(float(g[u] @ g[c].mean(dim=0)) for c in chunks) for u in left}
        best = sorted(left, key=lambda u: penalty[u] - gain[u])[: min(size, n - sum(map(len, chunks)))]
        chunks.append(best)
        gains += [gain[u] - penalty[u] for u in best]
    assert picks.indices.tolist() == [u for c in chunks for u in c]
    assert picks.scores == pytest.approx(gains, rel=1e-8)


def test_an_impossible_chunk_is_refused():
    with pytest.raises(al.InputError, match="DynamicAL: chunk must be a whole number >= 1, got 0"):
        al.DynamicAL(redundancy="penalise", chunk=0)


def test_exact_redundancy_adds_up_to_the_gain_of_the_whole_batch(case):
    net, x, labelled, labels, g = case
    stats = al.kernels.gradient_stats(net, x, against=(x[labelled], labels))
    picks = al.select(
        al.DynamicAL(redundancy="exact"), 6, grad_sq=stats.sq, grad_dot=stats.dot, features=g, labelled=labelled
    )
    before, after = g[:5].sum(dim=0), g[[*range(5), *picks.indices.tolist()]].sum(dim=0)
    assert picks.scores.sum() == pytest.approx(float(after.square().sum() - before.square().sum()), rel=1e-8)
