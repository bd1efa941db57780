import json
import math

import numpy as np
import pytest

import askless as al

N = 60
F = np.random.default_rng(0).normal(size=(N, 4))
P = np.random.default_rng(1).dirichlet(np.ones(3), size=N)


def test_the_batch_comes_from_the_arm_that_was_drawn():
    for seed in range(10):
        picks = al.select("albl", 5, features=F, probs=P, labelled=[0], labels=[0], seed=seed)
        options = [
            al.select(arm, 5, features=F, probs=P, labelled=[0]).indices.tolist() for arm in ("confidence", "coreset")
        ]
        assert picks.indices.tolist() in options
        assert picks.info["arm"] in ("confidence", "coreset")


def test_badge_mode_updates_only_the_drawn_arm_by_the_formula():
    picks = al.select("albl", 4, features=F, probs=P, labelled=[7, 9], labels=[0, 1], seed=0)
    state = picks.info["state"]
    labelled = np.append([7, 9], picks.indices)
    labels = P[labelled].argmax(axis=1)
    labels[-1] = (labels[-1] + 1) % 3  # one of the new labels is wrong
    after = al.select(al.ALBL(state=state), 4, features=F, probs=P, labelled=labelled, labels=labels, seed=1)
    K, p_min = 2, 0.05
    chance = np.array([1, 1, 0.5, 0.5, 0.5, 0.5])
    reward = np.mean(np.array([1, 1, 1, 1, 1, 0]) / chance)
    gain = p_min / 2 * (reward + (1 / 0.5) * math.sqrt(math.log(K / 0.1) / K))
    w = np.exp(np.where(np.arange(2) == state["arm"], gain, 0.0))
    assert np.allclose(after.info["probabilities"], (1 - K * p_min) * w / w.sum() + p_min)
    assert sum(after.info["probabilities"]) == pytest.approx(1)
    assert min(after.info["probabilities"]) >= p_min


def test_state_survives_json_and_reload():
    picks = al.select("albl", 4, features=F, probs=P, seed=0)
    state = json.loads(json.dumps(picks.info["state"]))
    arrays = {"features": F, "probs": P, "labelled": picks.indices, "labels": np.zeros(4, dtype=int)}
    a = al.select(al.ALBL(state=state), 4, seed=1, **arrays)
    b = al.select(al.ALBL(state=picks.info["state"]), 4, seed=1, **arrays)
    assert np.array_equal(a.indices, b.indices)
    assert a.info["state"] == b.info["state"]


def test_exp4p_keeps_its_floor_and_moves_its_weight_to_the_arm_that_yields_correct_items():
    # Confidence asks for the first half, which the model has right; margin for the second, which it has wrong.
    N, T = 4000, 1500
    first = np.arange(N) < N // 2
    probs = np.where(first[:, None], [0.42, 0.20, 0.38], [0.45, 0.45, 0.10])
    truth = np.where(first, 0, 2)
    arms = (al.Confidence(), al.Margin())
    assert first[al.select("confidence", 1, probs=probs).indices].all()
    assert not first[al.select("margin", 1, probs=probs).indices].any()
    state, labelled, shares = None, np.array([], dtype=int), []
    for t in range(T):
        strategy = al.ALBL(arms=arms, mode="exp4p", horizon=T, state=state)
        picks = al.select(strategy, 1, probs=probs, labelled=labelled, labels=truth[labelled], seed=t)
        state, labelled = picks.info["state"], np.append(labelled, picks.indices)
        shares.append(picks.info["probabilities"])
    shares = np.array(shares)
    p_min = math.sqrt(math.log(2) / (2 * T))
    assert shares.min() >= p_min - 1e-12
    assert np.allclose(shares.sum(axis=1), 1)
    # The bonus sqrt(ln(K / delta) / (K T)) / p of the other arm balances the reward at a share of about 1.22 / sqrt(T).
    assert shares[-300:, 0].mean() > 1 - 2 * 1.22 / math.sqrt(T)
    assert shares[0].tolist() == [0.5, 0.5]


def test_exp4p_rewards_the_drawn_arm_by_the_weighted_accuracy_of_its_batch():
    arms = (al.Random(), al.Margin())
    strategy = al.ALBL(arms=arms, mode="exp4p", horizon=20)
    picks = al.select(strategy, 4, probs=P, seed=3)
    state = picks.info["state"]
    labels = P[picks.indices].argmax(axis=1)
    labels[0] = (labels[0] + 1) % 3
    chance = np.array([state["asked"][str(i)] for i in picks.indices])
    reward = (np.array([0, 1, 1, 1]) / chance).sum() / (1 / chance).sum()
    after = al.select(
        al.ALBL(arms=arms, mode="exp4p", horizon=20, state=state), 1, probs=P, labelled=picks.indices, labels=labels
    )
    p_min = math.sqrt(math.log(2) / 40)
    gain = np.where(np.arange(2) == state["arm"], reward / 0.5, 0) + math.sqrt(math.log(20) / 40) / 0.5
    w = np.exp(p_min / 2 * gain)
    assert np.allclose(after.info["probabilities"], (1 - 2 * p_min) * w / w.sum() + p_min)


def test_the_share_of_the_better_arm_tends_to_its_ceiling():
    strategy = al.ALBL(mode="exp4p", horizon=100)
    far = strategy.probabilities(np.array([0.0, -500.0]))
    assert far[0] == pytest.approx(1 - strategy.p_min)
    assert far[1] == pytest.approx(strategy.p_min)


def test_importance_weighted_count_of_correct_items_is_unbiased():
    correct = np.random.default_rng(0).random(N) < 0.3
    arms = (al.Random(), al.Margin())
    by_margin = al.select("margin", 3, probs=P).indices
    estimates = []
    for seed in range(3000):
        asked = al.select(al.ALBL(arms=arms, mode="exp4p"), 3, probs=P, seed=seed).info["state"]["asked"]
        estimates.append(sum(correct[int(i)] / q for i, q in asked.items()))
    # An item counts whenever some arm proposes it: margin's three always, the others with the uniform arm's 3 of N.
    expected = sum(correct[i] * (1.0 if i in by_margin else 3 / N) for i in range(N))
    assert abs(np.mean(estimates) - expected) < 4 * np.std(estimates) / np.sqrt(len(estimates))
