import numpy as np
import pytest

import askless as al
from askless.base.rng import stream
from askless.linalg import GramRows, gram_score
from askless.linalg.gram import score_batches


@pytest.mark.parametrize(
    ("n_labelled", "n", "group", "d"), [(5, 12, 3, 30), (0, 10, 5, 8), (40, 12, 4, 10), (7, 11, 4, 16)]
)
def test_crc_equals_a_direct_loop_over_the_groups(n_labelled, n, group, d):
    rng = np.random.default_rng(d)
    features = rng.normal(size=(150, d))
    labelled = rng.permutation(150)[:n_labelled]
    picks = al.select(al.CRC(group=group), n, features=features, labelled=labelled, seed=2)

    order = stream(2, "select").permutation(np.setdiff1d(np.arange(150), labelled))
    groups = [order[i : i + group] for i in range(0, len(order) - group + 1, group)]
    scores = [gram_score(GramRows(features).take(np.concatenate([labelled, g]))) for g in groups]
    ranked = sorted(range(len(groups)), key=lambda i: (-scores[i].rank, -scores[i].value))
    expected = np.concatenate([groups[i] for i in ranked])[:n]
    assert np.array_equal(picks.indices, expected)
    assert picks.scores[0] == pytest.approx(scores[ranked[0]].value)
    assert picks.info["groups"] == len(groups)


def test_the_default_group_is_a_tenth_of_the_batch():
    features = np.random.default_rng(0).normal(size=(100, 30))
    assert al.select("crc", 20, features=features).info["group"] == 2
    assert al.select("crc", 5, features=features).info["group"] == 1


def test_the_remainder_joins_only_when_everything_is_taken():
    features = np.random.default_rng(0).normal(size=(11, 30))
    whole = al.select(al.CRC(group=4), 8, features=features, seed=0)
    rest = al.select(al.CRC(group=4), 11, features=features, seed=0)
    assert set(whole.indices) < set(rest.indices)
    assert np.isfinite(rest.scores).all()
    assert rest.scores[-3:].tolist() == [rest.scores[:8].min()] * 3


def test_all_layer_features_of_a_network_can_be_judged():
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 4)))
    features = al.kernels.gradient_features(net, x, dim=60, seed=0)
    picks = al.select(al.CRC(group=2, bias=False), 6, features=features, labelled=[0, 1])
    assert len(picks) == 6


@pytest.mark.parametrize("d", [3, 12, 40])  # more items than columns, and fewer
@pytest.mark.parametrize(("n_labelled", "group"), [(0, 2), (20, 2), (20, 1), (20, 7)])
def test_groups_that_the_screen_leaves_out_are_not_among_the_best(n_labelled, group, d):
    rng = np.random.default_rng(d)
    features = np.maximum(rng.normal(size=(1200, d)), 0).astype(np.float32)
    features[rng.integers(1200, size=200)] = features[7]  # copies: many groups of lower rank
    labelled = rng.permutation(np.setdiff1d(np.arange(1200), [7]))[:n_labelled]
    picks = al.select(al.CRC(group=group), 5 * group, features=features, labelled=labelled, seed=1)

    order = stream(1, "select").permutation(np.setdiff1d(np.arange(1200), labelled))
    groups = order[: len(order) // group * group].reshape(-1, group)
    scores = score_batches(GramRows(features), labelled, groups)
    best = np.lexsort((-scores.value.numpy(), -scores.rank.numpy()))[:5]
    assert np.array_equal(picks.indices, groups[best].reshape(-1))
    assert np.allclose(picks.scores, np.repeat(scores.value.numpy()[best], group), rtol=1e-9)


def test_the_screen_saves_most_eigenvalues(monkeypatch):
    import askless.acquire.crc as crc

    scored = []
    score = crc.scores_beside
    monkeypatch.setattr(crc, "scores_beside", lambda *given: (scored.append(len(given[2])), score(*given))[1])
    features = np.random.default_rng(0).normal(size=(4000, 8))
    al.select(al.CRC(group=2), 8, features=features, labelled=range(30))
    assert sum(scored) < 200  # of 1985


def test_where_the_labelled_items_cap_every_group_the_eigenvalues_tell():
    features = np.eye(200)
    features[150:] *= 0.5
    picks = al.select(al.CRC(group=1, bias=False), 140, features=features, labelled=[0])
    assert set(picks.indices) <= set(range(1, 150))
    assert picks.scores == pytest.approx(1.0)


def with_bias(features):
    rows = np.hstack([features, np.ones((len(features), 1))])
    return rows @ rows.T


@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"score": "positive"}], ids=str)
@pytest.mark.parametrize(
    ("n_labelled", "n", "group", "d", "copies"),
    [
        (5, 12, 3, 30, 0),
        (0, 10, 5, 8, 0),
        (40, 12, 4, 10, 0),  # more labelled items than columns
        (7, 11, 4, 10, 0),  # more items than columns, once a group joins
        (7, 11, 4, 16, 20),
        (25, 12, 3, 12, 20),
    ],
)
def test_by_a_kernel_the_picks_are_those_of_its_features(n_labelled, n, group, d, copies, options):
    rng = np.random.default_rng(d)
    features = rng.normal(size=(150, d))
    at = rng.permutation(150)
    features[at[:copies]] = features[at[copies : 2 * copies]]
    labelled = rng.permutation(150)[:n_labelled]
    common = {"labelled": labelled, "seed": 3}
    expected = al.select(al.CRC(group=group, **options), n, features=features, **common)
    picks = al.select(al.CRC(group=group, by="kernel", **options), n, kernel=with_bias(features), **common)
    assert np.array_equal(picks.indices, expected.indices)
    assert np.allclose(picks.scores, expected.scores, rtol=1e-8)
    for name in ("lambda_min", "rank", "cap", "groups", "group"):
        assert picks.info.get(name) == pytest.approx(expected.info.get(name))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_coarse_kernel_has_the_rank_that_its_digits_tell(dtype):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 20))
    features[1] = features[0]  # both are labelled: no group has full rank
    K = with_bias(features)
    wide, narrow = (
        al.select(al.CRC(group=3, by="kernel"), 9, kernel=k, labelled=[0, 1, 2]) for k in (K, dtype(K).astype(dtype))
    )
    assert wide.info["rank"] == 11
    assert narrow.info["rank"] <= 11
    assert f"the 12 items span only {narrow.info['rank']} directions of the kernel" in narrow.info["note"]
    if dtype == np.float32:
        assert np.array_equal(wide.indices, narrow.indices)
        assert narrow.info["rank"] == 11


def test_a_kernel_by_parts_is_asked_only_for_what_the_groups_need():
    features = np.random.default_rng(0).normal(size=(40, 6))
    asked = []

    class Parts(al.acquire.kernel.TableKernel):
        def blocks(self, fixed, groups, max_memory, progress):
            asked.append((len(fixed), groups.shape))
            return super().blocks(fixed, groups, max_memory, progress)

    K = with_bias(features)
    parts = al.select(al.CRC(group=2, by="kernel"), 6, kernel=Parts(K), labelled=[0, 1], seed=1)
    assert asked == [(2, (19, 2)), (8, (0, 0))]  # the groups, and what is told of labelled items and picks
    assert np.array_equal(
        parts.indices, al.select(al.CRC(group=2, by="kernel"), 6, kernel=K, labelled=[0, 1], seed=1).indices
    )
    asked.clear()
    al.select(al.CRC(by="kernel"), 0, kernel=Parts(K), labelled=[0, 1])
    assert asked == [(2, (0, 0))]
    with pytest.raises(al.InputError, match="kernel 40, pool 39"):
        al.select(al.CRC(by="kernel"), 1, kernel=Parts(K), pool=39)


def test_parts_of_the_pool_have_their_part_of_the_kernel():
    features = np.random.default_rng(0).normal(size=(60, 12))
    common = {"labelled": [3, 50], "seed": 0}
    by_features = al.select(al.TwoLevel(of=al.CRC(group=2), parts=3), 6, features=features, **common)
    by_kernel = al.select(
        al.TwoLevel(of=al.CRC(group=2, by="kernel"), parts=3), 6, kernel=with_bias(features), **common
    )
    assert np.array_equal(by_features.indices, by_kernel.indices)
