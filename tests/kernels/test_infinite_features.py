import numpy as np
import pytest
import torch

import askless as al
from askless.base.errors import InputError
from askless.kernels import InfiniteCNN, InfiniteMLP, infinite, infinite_features

NETS = [InfiniteMLP(sigma_b=0.2), InfiniteCNN(), InfiniteCNN(readout="flatten", stride=(2, 1))]


def images(n, seed=0):
    return torch.randn(n, 1, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["ntk", "nngp"])
@pytest.mark.parametrize("net", NETS, ids=repr)
def test_with_as_many_as_items_the_inner_products_are_the_kernel(net, kind):
    x, K = images(11), infinite(images(11), net=net, kind=kind)
    for landmarks in ("greedy", "random"):
        found = infinite_features(x, 100, net=net, kind=kind, landmarks=landmarks)
        torch.testing.assert_close(found.features @ found.features.T, K, rtol=1e-12, atol=1e-12)
        assert found.left < 1e-14


@pytest.mark.parametrize("net", NETS, ids=repr)
def test_what_is_missing_is_said(net):
    x = images(30)
    K = infinite(x, net=net)
    for landmarks in ("greedy", "random"):
        found = infinite_features(x, 10, net=net, landmarks=landmarks, seed=1)
        off = K - found.features @ found.features.T
        assert found.features.shape == (30, 10)
        assert found.left == pytest.approx(float(off.trace() / K.trace()), rel=1e-9)
        assert 0 < found.left < 1
        assert off.abs().max() <= found.left * K.trace()


def test_random_landmarks_follow_the_seed_and_greedy_ones_need_none():
    x = images(20)
    a, b, c = (infinite_features(x, 5, landmarks="random", seed=s).items.tolist() for s in (0, 0, 1))
    assert a == b != c
    assert infinite_features(x, 5, seed=0).items.tolist() == infinite_features(x, 5, seed=1).items.tolist()


@pytest.mark.parametrize("net", NETS, ids=repr)
def test_copies_add_no_features(net):
    x = images(6)
    x = torch.cat([x, x, x + 0])
    assert infinite_features(x, 18, net=net).features.shape == (18, 6)


@pytest.mark.parametrize("strategy", [al.NPC(bias=False), al.CRC(bias=False, group=2), "typiclust", "askless"])
def test_strategies_choose_from_zero_labels(strategy):
    x = images(40)
    x = torch.cat([x, x[:10]])
    picks = al.select(strategy, 8, features=infinite_features(x, 30, net=InfiniteCNN()).features, seed=0)
    assert len(set(picks.indices.tolist())) == 8


def test_npc_on_them_maximises_the_eigenvalue_of_the_kernel_itself():
    x = images(25)
    K = infinite(x)
    picks = al.select(al.NPC(bias=False, draws=200), 5, features=infinite_features(x, 25).features)
    chosen = K[picks.indices][:, picks.indices]
    assert picks.info["lambda_min"] == pytest.approx(float(torch.linalg.eigvalsh(chosen)[0]), rel=1e-8)
    rng = np.random.default_rng(0)
    others = [rng.choice(25, 5, replace=False) for _ in range(20)]
    assert picks.info["lambda_min"] > np.median([float(torch.linalg.eigvalsh(K[s][:, s])[0]) for s in others])


def test_progress_counts_landmarks_and_errors_say_what_to_do():
    told = []
    infinite_features(images(9), 4, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with pytest.raises(InputError, match="dim must be"):
        infinite_features(images(3), 0)
    with pytest.raises(InputError, match="landmarks must be one of greedy, random"):
        infinite_features(images(3), 2, landmarks="best")
