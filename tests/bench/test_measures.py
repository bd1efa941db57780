"""What is measured beside accuracy, each against a direct computation on a tiny network."""

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from torch.nn import functional as F

from askless import ActiveLearner, Supervised, kernels, nets, theory
from askless.acquire import CRC
from askless.base.errors import InputError, OptionError
from askless.base.rng import stream
from askless.bench import Moment, Sample, measures
from askless.bench.plan import text_of
from askless.data import digits, subset, two_moons


@pytest.fixture(scope="module")
def learner():
    """A small network trained on 14 of 60 digits."""
    made = ActiveLearner(
        subset(digits(test=30), 60),
        net="small-cnn",
        learner=Supervised(steps=8, batch=7, lr=0.05, evaluate_every=4),
        strategy="random",
        seed=1,
    )
    told = np.arange(3, 45, 3)
    made.tell(told, made.pool.labels[told])
    made.fit()
    return made


def moment(learner, asked=(), along=(), seed=5, keep=None):
    return Moment(learner, np.array(asked, dtype=np.int64), {}, seed, list(along), keep)


def plain(learner, positions):
    return learner.views.plain(torch.from_numpy(np.asarray(positions)))


def kernel(model, x):
    """One output's tangent kernel: the mean over outputs of J_c J_c^T, from every gradient written out."""
    J = kernels.jacobian(model, x).double()  # (n, C, P)
    return (torch.einsum("icp,jcp->ij", J, J) / J.shape[1]).numpy()


def test_accuracy_without_a_label_is_that_of_the_others(learner):
    (found,) = measures.UnlabelledAccuracy()(moment(learner))
    right = learner.predict_pool().argmax(axis=1) == learner.pool.labels
    others = [i for i in range(60) if i not in learner.labels]
    assert found == Sample("unlabelled_accuracy", pytest.approx(np.mean([right[i] for i in others])))


def test_calibration_is_that_of_the_test_items(learner):
    (found,) = measures.Calibration()(moment(learner))
    probs = learner.predict_test()
    sure, right = probs.max(axis=1), probs.argmax(axis=1) == learner.pool.test[1]
    assert found == Sample("calibration_error", pytest.approx(abs(sure.mean() - right.mean())))  # 30 items: one group


def test_stability_is_that_of_other_trainings_of_the_same_labels(learner):
    """Twice the same two trainings, by hand; the learner itself stays as it was."""
    before = learner.predict_test()
    sd, agreement = measures.Stability(times=2)(moment(learner))
    guesses = []
    for seed in stream(5, "stability").integers(2**62, size=2):
        other = ActiveLearner(learner.pool, net="small-cnn", learner=learner.learner, seed=int(seed))
        other.tell(learner.labelled, learner.known_labels)
        other.fit()
        guesses.append(other.predict_test().argmax(axis=1))
    a, b = ((guess == learner.pool.test[1]).mean() for guess in guesses)
    assert sd == Sample("training_sd", pytest.approx(abs(a - b) / 2**0.5))
    assert agreement == Sample("training_agreement", np.mean(guesses[0] == guesses[1]))
    assert 0 < agreement.value < 1
    np.testing.assert_array_equal(learner.predict_test(), before)


def test_drift_and_bound_are_those_of_the_theory(learner):
    found = {s.metric: s.value for s in measures.MMDAndBound(start=5)(moment(learner))}
    raw = kernel(learner.model, plain(learner, learner.labelled))
    scale = np.trace(raw) / len(raw)
    K = raw / scale
    n, m = len(K), 5
    a, b = (K[:k, :k].sum() - K[:k, :k].trace() for k in (m, n))
    c = K[:m].sum() - K[:m, :m].trace()
    squared = a / (m * m - m) + b / (n * n - n) - 2 * c / (m * (n - 1))
    Y = np.eye(10)[learner.known_labels]
    bound = np.sqrt(2 * np.trace(Y.T @ np.linalg.solve(K, Y)) / n)
    assert found["mmd"] == pytest.approx(np.sqrt(max(squared, 0)), rel=1e-3, abs=1e-6)
    assert found["bound"] == pytest.approx(bound, rel=1e-2)
    assert found["mmd_over_bound"] == pytest.approx(found["mmd"] / found["bound"])
    assert found["kernel_scale"] == pytest.approx(scale, rel=1e-5)
    unscaled = np.sqrt(squared * scale) / np.sqrt(2 * np.trace(Y.T @ np.linalg.solve(raw, Y)) / n)
    assert found["unscaled_mmd_over_bound"] == pytest.approx(unscaled, rel=1e-2)
    assert squared > 0, "else this says little"


def test_before_any_query_there_is_no_drift(learner):
    assert measures.MMDAndBound(start=14)(moment(learner)) == []


@pytest.mark.parametrize("trained", [True, False])
def test_dynamics_and_alignment_over_random_queries(learner, trained):
    measure = measures.DynamicsAndAlignment(draws=12, size=4, among=20, trained=trained)
    tau, *pairs = measure(moment(learner))
    model = learner.model if trained else learner.first_network
    free = np.setdiff1d(np.arange(60), learner.labelled)
    others = stream(5, "dynamics and alignment").choice(free, 20, replace=False)
    at = np.concatenate([learner.labelled, others])
    K, Y = kernel(model, plain(learner, at)), np.eye(10)[learner.pool.labels[at]]
    with torch.no_grad():
        R = model.eval()(plain(learner, at)).double().numpy() - Y
    queries, G, A = stream(5, "queries"), [], []
    for _ in range(12):
        both = np.concatenate([np.arange(14), queries.choice(np.arange(14, 34), 4, replace=False)])
        part = K[np.ix_(both, both)]
        G.append(np.trace(R[both].T @ part @ R[both]))
        A.append(np.trace(Y[both].T @ part @ Y[both]))
    assert [s.metric for s in pairs] == ["dynamics", "alignment"] * 12
    assert [s.x for s in pairs] == [i for i in range(12) for _ in range(2)]
    np.testing.assert_allclose([s.value for s in pairs[::2]], G, rtol=1e-4)
    np.testing.assert_allclose([s.value for s in pairs[1::2]], A, rtol=1e-4)
    assert tau.metric == "kendall_tau"
    assert tau.value == pytest.approx(kendalltau(G, A).statistic)
    assert tau.x is None


@pytest.fixture(scope="module")
def mlp():
    """A fully connected network trained on 14 of 60 digits."""
    made = ActiveLearner(subset(digits(test=30), 60), net="mlp", learner=Supervised(steps=8), strategy="random")
    told = np.arange(3, 45, 3)
    made.tell(told, made.pool.labels[told])
    made.fit()
    return made


def wide_mlp(x):
    """The tangent kernel of two hidden layers of infinite width, by the arc-cosine kernels of Cho and Saul."""
    x = x.flatten(1).double().numpy()
    C = 2 * x @ x.T / x.shape[1]
    T = C
    for _ in range(2):
        lengths = np.sqrt(np.outer(np.diag(C), np.diag(C)))
        theta = np.arccos(np.clip(C / lengths, -1, 1))
        C = lengths * (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / np.pi
        T = C + T * (np.pi - theta) / np.pi
    return T


def test_drift_and_bound_by_the_kernel_of_infinite_width(mlp):
    found = {s.metric: s.value for s in measures.MMDAndBound(start=4, kernel="infinite")(moment(mlp))}
    raw = wide_mlp(plain(mlp, mlp.labelled))
    scale = np.trace(raw) / len(raw)
    Y = np.eye(10)[mlp.known_labels]
    assert found["kernel_scale"] == pytest.approx(scale, rel=1e-5)
    assert found["mmd"] == pytest.approx(theory.mmd(raw / scale, 4), rel=1e-4)
    assert found["bound"] == pytest.approx(np.sqrt(2 * np.trace(Y.T @ np.linalg.solve(raw / scale, Y)) / 14), rel=1e-4)
    assert found["mmd"] > 0


def test_before_training_dynamics_and_alignment_are_one_number_at_infinite_width(mlp):
    measure = measures.DynamicsAndAlignment(draws=12, size=4, among=20, trained=False, kernel="infinite")
    tau, *pairs = measure(moment(mlp))
    assert tau.value == pytest.approx(1)
    assert [s.value for s in pairs[::2]] == [s.value for s in pairs[1::2]]


def test_after_training_the_outputs_of_infinite_width_are_kernel_regression(mlp):
    measure = measures.DynamicsAndAlignment(draws=12, size=4, among=20, kernel="infinite")
    tau, *pairs = measure(moment(mlp))
    others = stream(5, "dynamics and alignment").choice(np.setdiff1d(np.arange(60), mlp.labelled), 20, replace=False)
    at = np.concatenate([mlp.labelled, others])
    K, Y, S = wide_mlp(plain(mlp, at)), np.eye(10)[mlp.pool.labels[at]], slice(0, 14)
    R = K[:, S] @ np.linalg.solve(K[S, S], Y[S]) - Y
    queries, G = stream(5, "queries"), []
    for _ in range(12):
        both = np.concatenate([np.arange(14), queries.choice(np.arange(14, 34), 4, replace=False)])
        G.append(np.trace(R[both].T @ K[np.ix_(both, both)] @ R[both]))
    np.testing.assert_allclose([s.value for s in pairs[::2]], G, rtol=1e-4)
    assert tau.value == pytest.approx(kendalltau(G, [s.value for s in pairs[1::2]]).statistic)


def test_gradient_flow_on_a_fixed_kernel_ends_in_the_regression():
    rng = np.random.default_rng(0)
    phi, Y, S = rng.normal(size=(9, 12)), rng.normal(size=(9, 2)), np.arange(5)
    K = phi @ phi.T
    [late] = theory.linearised_predictions(K[:5, :5], K[:, :5], -Y[S], [1e9], eta=1.0, how="flow")
    np.testing.assert_allclose(measures.regression(K, Y, S), late, rtol=1e-8)


def test_networks_have_a_wide_limit_or_an_error_in_words(mlp, learner):
    images = {"classes": 10, "shape": (1, 8, 8)}
    assert measures.wide_limit(nets.make("cnn-gap", **images)) == kernels.InfiniteCNN(depth=3)
    assert measures.wide_limit(mlp.model) == kernels.InfiniteMLP(depth=2)
    assert measures.wide_limit(nets.make("mlp", hidden=(7,), dropout=0.5, **images)) == kernels.InfiniteMLP(depth=1)
    with pytest.raises(InputError, match=r'got SmallCNN; .* no max-pooling, .* or kernel="finite"'):
        measures.MMDAndBound(start=5, kernel="infinite")(moment(learner))
    with pytest.raises(InputError, match="mlp with a hidden layer, got MLP"):
        measures.wide_limit(nets.make("mlp", hidden=(), **images))


def test_an_unknown_kernel_is_named():
    with pytest.raises(OptionError, match="kernel"):
        measures.MMDAndBound(start=5, kernel="wide")


def test_the_finite_kernel_is_no_new_setting():
    """What was computed before there was a choice stays valid."""
    assert text_of(measures.MMDAndBound(start=5)) == "MMDAndBound(start=5)"
    dynamics = measures.DynamicsAndAlignment(size=50)
    assert text_of(dynamics) == "DynamicsAndAlignment(draws=150, size=50, among=750, trained=True)"
    assert text_of(measures.MMDAndBound(start=5, kernel="infinite")) == "MMDAndBound(start=5, kernel='infinite')"


def test_fewer_unlabelled_items_than_wanted_are_all_taken(learner):
    found = measures.DynamicsAndAlignment(draws=3, size=4, among=10_000)(moment(learner))
    assert len(found) == 7


def test_the_approximation_ratio_is_that_of_whole_gradients(learner):
    measure = measures.ApproximationRatio(size=5, draws=3, seed=2)
    found, median = measure(learner, 6, learner.model)
    free = np.setdiff1d(np.arange(60), learner.labelled)
    rng = stream(2, "approximation ratio")
    g_S = kernels.loss_gradients(learner.model, plain(learner, learner.labelled), learner.known_labels).sum(dim=0)
    ratios = []
    for _ in range(3):
        query = plain(learner, rng.choice(free, 5, replace=False))
        ratios.append(theory.approximation_ratio(kernels.loss_gradients(learner.model, query), g_S))
    assert found.metric == "approximation_ratio"
    assert found.value == pytest.approx(np.mean(ratios), rel=1e-4)
    assert found.x == pytest.approx(6 * 7 / 14), "epochs: steps x batch / labels"
    assert (median.metric, median.x) == ("median_approximation_ratio", found.x)
    assert median.value == pytest.approx(np.median(ratios), rel=1e-4)
    again, _ = measure(learner, 8, learner.model)
    assert again.value == found.value, "the same queries at every look"


def test_numbers_on_the_test_items_along_a_training(learner):
    loss, accuracy = measures.TestNumbers()(learner, 8, learner.model)
    x, y = learner.pool.test
    with torch.no_grad():
        logits = learner.model.eval()(learner.views.of(x)).double()
    assert loss == Sample("test_loss", pytest.approx(float(F.cross_entropy(logits, torch.from_numpy(y)))), 2.0)
    assert accuracy == Sample("accuracy_now", pytest.approx(learner.score()), 2.0)


def test_looking_at_a_network_leaves_it_in_training(learner):
    learner.model.train()
    measures.TestNumbers()(learner, 0, learner.model)
    assert learner.model.training
    learner.model.eval()


def test_the_looks_of_a_training_are_counted(learner):
    seen = []
    learner.fit(look=lambda step, model: seen.extend(measures.TestNumbers()(learner, step, model)))
    assert [s.x for s in seen if s.metric == "test_loss"] == [0, 1, 2]
    assert seen[-1].value == pytest.approx(learner.score())


def along(*losses, metric="test_loss"):
    return [Sample(metric, value, float(x)) for x, value in enumerate(losses)]


def test_epochs_to_the_minimum_of_the_test_loss(learner):
    def epochs(samples):
        return [(s.metric, s.value) for s in measures.EpochsToMinimum()(moment(learner, along=samples))]

    assert epochs(along(3.0, 2.0, 1.0, 1.5, 1.0)) == [("epochs_to_minimum", 2.0)], "the first of equals"
    assert epochs(along(0.5, 2.0, 1.0)) == [("epochs_to_minimum", 2.0)], "before the first step does not count"
    assert epochs(along(1.0, 2.0, metric="accuracy_now")) == []
    assert epochs([]) == []


def test_the_best_accuracy_within_a_round(learner):
    found = measures.MaxInRound()(moment(learner, along=along(0.3, 0.8, 0.7, metric="accuracy_now") + along(9.0)))
    assert found == [Sample("max_in_round", 0.8)]
    assert measures.MaxInRound()(moment(learner)) == []


@pytest.mark.parametrize(("size", "groups", "expected"), [(3, 200, 15), (3, 4, 4), (40, 5, 1)])
def test_eigenvalues_of_random_groups(learner, size, groups, expected):
    found = measures.GroupEigenvalues(group=size, groups=groups)(moment(learner))
    assert [s.x for s in found] == list(range(expected))
    phi = np.asarray(kernels.features(learner.model, plain(learner, np.arange(60))), dtype=np.float64)
    phi = np.concatenate([phi, np.ones((60, 1))], axis=1)
    free = np.setdiff1d(np.arange(60), learner.labelled)
    order = stream(5, "group eigenvalues").permutation(free)
    for i, sample in enumerate(found):
        both = phi[np.concatenate([learner.labelled, order[i * size : (i + 1) * size]])]
        values = np.linalg.eigvalsh(both @ both.T)
        counted = values[values > max(both.shape) * np.finfo(float).eps * values[-1]]
        assert sample.metric == "group_lambda_min"
        assert sample.value == pytest.approx(counted[0], rel=1e-6)


def test_the_eigenvalues_that_scored_the_chosen_groups(learner):
    """Two groups of three: lambda_min of [phi, 1] of each with the items that were labelled when they were chosen."""
    asker = ActiveLearner(learner.pool, net=learner.model, learner=learner.learner, strategy=CRC(group=3), seed=1)
    asker.tell(learner.labelled, learner.known_labels)
    batch = asker.ask(6)
    phi = kernels.features(asker.first_network, plain(asker, np.arange(len(asker.pool)))).double()
    phi = torch.cat([phi, torch.ones(len(phi), 1)], dim=1)
    both = [phi[[*asker.labelled, *group]] for group in batch.indices.reshape(2, 3)]
    by_hand = [float(torch.linalg.eigvalsh(rows @ rows.T)[0]) for rows in both]
    found = measures.ScoredEigenvalues()(moment(asker)._replace(scores=batch.scores, info=batch.info))
    assert [(s.metric, s.x) for s in found] == [("scored_lambda_min", 0), ("scored_lambda_min", 1)]
    np.testing.assert_allclose([s.value for s in found], by_hand, rtol=1e-6)
    assert measures.ScoredEigenvalues()(moment(asker)) == [], "at the start nothing was asked"


def test_the_boundary_is_kept_as_a_grid():
    pool = subset(two_moons(pivots=4), np.arange(80))
    learner = ActiveLearner(pool, net="mlp", learner=Supervised(steps=3), strategy="random")
    learner.tell([0, 1, 2, 3], pool.labels[:4])
    learner.fit()
    kept = {}
    assert measures.Boundary(side=7)(moment(learner, asked=[2, 3], keep=kept.update)) == []
    x = pool.x.numpy()
    assert kept["grid"].shape == (49, 2)
    np.testing.assert_allclose(kept["grid"].min(axis=0), x.min(axis=0) - 0.3, rtol=1e-6)
    np.testing.assert_allclose(kept["grid"].max(axis=0), x.max(axis=0) + 0.3, rtol=1e-6)
    assert len(np.unique(kept["grid"][:7, 1])) == 1, "row by row"
    with torch.no_grad():
        logits = learner.model.eval()(learner.views.of(torch.from_numpy(kept["grid"]))).double()
    np.testing.assert_allclose(kept["probability"], logits.softmax(dim=1)[:, 1].numpy(), rtol=1e-5)
    assert (kept["labelled"].tolist(), kept["newest"].tolist()) == ([0, 1, 2, 3], [2, 3])
    np.testing.assert_array_equal(kept["x"], x)
    np.testing.assert_array_equal(kept["y"], pool.labels)
    assert kept["side"].tolist() == [7, 7]
