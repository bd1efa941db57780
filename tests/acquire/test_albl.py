import json
import math

import numpy as np
import pytest

import askless as al
from askless.acquire.albl import history_of

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
    labelled = np.append([7, 9], picks.indices)
    labels = P[labelled].argmax(axis=1)
    labels[-1] = (labels[-1] + 1) % 3  # one of the new labels is wrong
    after = al.select("albl", 4, features=F, probs=P, labelled=labelled, labels=labels, seed=1, history=[picks])
    K, p_min = 2, 0.05
    chance = np.array([1, 1, 0.5, 0.5, 0.5, 0.5])
    reward = np.mean(np.array([1, 1, 1, 1, 1, 0]) / chance)
    gain = p_min / 2 * (reward + (1 / 0.5) * math.sqrt(math.log(K / 0.1) / K))
    w = np.exp(np.where(np.arange(2) == picks.info["drawn"], gain, 0.0))
    assert np.allclose(after.info["probabilities"], (1 - K * p_min) * w / w.sum() + p_min)
    assert sum(after.info["probabilities"]) == pytest.approx(1)
    assert min(after.info["probabilities"]) >= p_min


def without_time(picks):
    return {name: value for name, value in picks.info.items() if name != "seconds"}


def test_what_it_says_of_a_selection_survives_json():
    picks = al.select("albl", 4, features=F, probs=P, seed=0)
    again = al.Selection(picks.indices, None, json.loads(json.dumps(picks.info)))
    arrays = {"features": F, "probs": P, "labelled": picks.indices, "labels": np.zeros(4, dtype=int)}
    a, b = (al.select("albl", 4, seed=1, history=[past], **arrays) for past in (picks, again))
    assert np.array_equal(a.indices, b.indices)
    assert without_time(a) == without_time(b)
    assert a.info["log_weights"] != [0, 0]


@pytest.mark.parametrize("mode", ["badge", "exp4p"])
def test_a_state_of_before_there_was_a_history_stands_for_it(mode):
    """As an older askless wrote it: the last batch, and the chance of every item asked for so far."""
    strategy, history, labelled, asked = al.ALBL(mode=mode), [], np.array([], dtype=int), {}
    for seed in range(3):
        labels = P[labelled].argmax(axis=1)
        picks = al.select(
            strategy, 4, features=F, probs=P, labelled=labelled, labels=labels, seed=seed, history=history
        )
        history, labelled = [*history, picks], np.append(labelled, picks.indices)
        asked |= {str(i): c for i, c in zip(picks.indices, picks.info["chances"], strict=True)}
    info = picks.info
    state = {"arm": info["drawn"], "batch": picks.indices.tolist(), "asked": asked}
    state |= {name: info[name] for name in ("log_weights", "probabilities")}
    arrays = {"features": F, "probs": P, "labelled": labelled, "labels": (P[labelled].argmax(axis=1) + [0, 1] * 6) % 3}
    one, two = (al.select(strategy, 4, seed=9, history=past, **arrays) for past in (history, history_of(state)))
    assert np.array_equal(one.indices, two.indices)
    assert without_time(one) == without_time(two)


def test_rounds_by_another_strategy_teach_nothing():
    picks = al.select("coreset", 4, features=F)
    arrays = {"features": F, "probs": P, "labelled": picks.indices, "labels": np.zeros(4, dtype=int)}
    assert al.select("albl", 4, history=[picks], **arrays).info["log_weights"] == [0, 0]


def test_exp4p_keeps_its_floor_and_moves_its_weight_to_the_arm_that_yields_correct_items():
    # Confidence asks for the first half, which the model has right; margin for the second, which it has wrong.
    N, T = 4000, 1500
    first = np.arange(N) < N // 2
    probs = np.where(first[:, None], [0.42, 0.20, 0.38], [0.45, 0.45, 0.10])
    truth = np.where(first, 0, 2)
    arms = (al.Confidence(), al.Margin())
    assert first[al.select("confidence", 1, probs=probs).indices].all()
    assert not first[al.select("margin", 1, probs=probs).indices].any()
    history, labelled, shares = [], np.array([], dtype=int), []
    strategy = al.ALBL(arms=arms, mode="exp4p", horizon=T)
    for t in range(T):
        picks = al.select(strategy, 1, probs=probs, labelled=labelled, labels=truth[labelled], seed=t, history=history)
        history, labelled = [picks], np.append(labelled, picks.indices)  # the last is all that this mode looks at
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
    labels = P[picks.indices].argmax(axis=1)
    labels[0] = (labels[0] + 1) % 3
    chance = np.array(picks.info["chances"])
    reward = (np.array([0, 1, 1, 1]) / chance).sum() / (1 / chance).sum()
    after = al.select(strategy, 1, probs=P, labelled=picks.indices, labels=labels, history=[picks])
    p_min = math.sqrt(math.log(2) / 40)
    gain = np.where(np.arange(2) == picks.info["drawn"], reward / 0.5, 0) + math.sqrt(math.log(20) / 40) / 0.5
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
        picks = al.select(al.ALBL(arms=arms, mode="exp4p"), 3, probs=P, seed=seed)
        estimates.append((correct[picks.indices] / picks.info["chances"]).sum())
    # An item counts whenever some arm proposes it: margin's three always, the others with the uniform arm's 3 of N.
    expected = sum(correct[i] * (1.0 if i in by_margin else 3 / N) for i in range(N))
    assert abs(np.mean(estimates) - expected) < 4 * np.std(estimates) / np.sqrt(len(estimates))
