import copy
import json
import math
import re
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import askless as al
from askless import kernels, theory
from askless.base.rng import stream
from askless.learn import admissible_rate
from askless.report.data import as_data
from askless.theory.findings import HORIZON, QUERY, both_spectra, choose_items, examine, some_of
from askless.theory.page import binned, page, write
from askless.theory.words import lines

START, MORE = 6, 24


def blobs(n, seed=0, d=5, classes=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return (rng.normal(size=(n, d)) + 2 * np.eye(classes, d)[y]).astype(np.float32), y


def make_learner(labels=True, test=True, net=None, rounds=2, steps=15, n=90, twice=False):
    x, y = blobs(n)
    if twice:
        x[3] = x[0]
    pool = al.data.as_pool(x, y if labels else None, test=blobs(40, seed=1) if test else None)
    torch.manual_seed(0)
    net = net or nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    learner = al.ActiveLearner(
        pool, net=net, learner=al.Supervised(steps=steps, batch=8, lr=0.1), strategy="random", classes=3
    )
    learner.tell(np.arange(START), y[:START])
    if rounds:
        learner.fit()
    for _ in range(rounds - 1):
        asked = learner.ask(MORE).indices
        learner.tell(asked, y[asked])
        learner.fit()
    return learner


@pytest.fixture(scope="module")
def learner():
    return make_learner()


@pytest.fixture(scope="module")
def found(learner):
    return examine(learner, queries=4)


@pytest.fixture(scope="module")
def dense(learner):
    """The kernel, labels and residuals, from whole Jacobians."""
    net = make_double(learner)
    x = learner.views.plain(torch.from_numpy(learner.labelled)).double()
    J = kernels.jacobian(net, x)
    K = torch.einsum("icp,jcp->ij", J, J).numpy() / 3
    Y = theory.one_hot(learner.known_labels, 3)
    return net, x, K, Y, net(x).detach().numpy() - Y


def make_double(learner):
    return copy.deepcopy(learner.model).double().eval()


def test_spectra_are_those_of_the_dense_kernels(found, dense):
    net, x, K, _, _ = dense
    phi = net[:2](x).detach().numpy()
    K_last = phi @ phi.T + 1
    assert found.spectra.all == pytest.approx(theory.spectrum(K), rel=1e-6)
    assert found.spectra.last.rank == theory.spectrum(K_last).rank
    np.testing.assert_allclose(found.spectra.values_all, np.linalg.eigvalsh(K), rtol=1e-6, atol=1e-9)
    assert found.spectra.weyl
    assert found.spectra.weyl_min[1] >= found.spectra.weyl_min[0]
    assert found.steps.squared == pytest.approx(theory.descent_rate(K), rel=1e-6)
    assert found.steps.cross_entropy == pytest.approx(admissible_rate(torch.from_numpy(phi), 0.9), rel=1e-6)
    assert (found.steps.own, found.steps.momentum) == (0.1, 0.9)


def test_labels_against_the_kernel_are_direct_calls(found, dense):
    _, _, K, Y, _ = dense
    t, eta = found.theorems, 1 / theory.spectrum(K).lambda_max
    assert t.alignment == pytest.approx(theory.alignment(K, Y))
    assert t.alignment_share == pytest.approx(theory.alignment(K, Y) * eta / len(K))
    assert t.generalisation == pytest.approx(theory.generalisation_bounds(K, Y), rel=1e-5)
    assert t.bound == t.generalisation.value
    for k, plain, sharp in zip(t.times, t.convergence, t.convergence_sharp, strict=True):
        assert plain == pytest.approx(theory.convergence_bounds(K, Y, eta, k), rel=1e-5)
        assert sharp == pytest.approx(theory.sharp_convergence_bounds(K, Y, eta, k), rel=1e-5)
    assert found.drift.start == START
    unit = K / np.trace(K) * len(K)
    assert found.drift.mmd_squared == pytest.approx(theory.mmd_squared(unit, START))
    assert found.drift.over_bound == pytest.approx(theory.mmd(unit, START) / theory.generalisation_bound(unit, Y))
    assert found.drift.scale == pytest.approx(np.trace(K) / len(K))


def test_every_bound_holds(found):
    t = found.theorems
    assert all(b.holds() for b in (t.generalisation, t.generalisation_sharp, *t.convergence, *t.convergence_sharp))
    assert (found.wide.descent.holds | ~found.wide.descent.assured).all()


def test_dynamics_are_direct_calls(found, dense, learner):
    net, x, K, Y, residual = dense
    g = kernels.loss_gradients(net, x, torch.from_numpy(learner.known_labels))
    d = found.dynamics
    assert d.cross_entropy == pytest.approx(float(g.sum(0).square().sum()))
    assert d.squared == pytest.approx(theory.training_dynamics(K, residual))
    assert d.cross_entropy_kernel == pytest.approx(
        theory.training_dynamics(K, theory.softmax_residual(residual + Y, Y))
    )
    free = np.setdiff1d(np.arange(len(learner.pool)), learner.labelled)
    rng = stream(0, "approximation ratio")
    assert d.query == min(QUERY, len(free))
    for ratio in d.ratios:
        q = learner.views.plain(torch.from_numpy(rng.choice(free, d.query, replace=False))).double()
        G = kernels.loss_gradients(net, q, net(q).argmax(1))
        assert ratio == pytest.approx(theory.approximation_ratio(G, g.sum(0)))
    assert len(d.tau.dynamics) == len(d.tau.alignment) == 150
    assert -1 <= d.tau.tau <= 1


def test_modes_are_a_direct_call(found, learner):
    net = make_double(learner)
    order = np.concatenate([learner.labelled, np.setdiff1d(np.arange(len(learner.pool)), learner.labelled)])
    J = kernels.jacobian(net, learner.views.plain(torch.from_numpy(order)).double())
    K = torch.einsum("icp,jcp->ij", J, J).numpy() / 3
    expected = theory.modes(K, learner.pool.labels[order], np.arange(START + MORE))
    assert found.modes.share == pytest.approx(expected.share, rel=1e-6)
    assert found.modes.expected_share == pytest.approx(expected.expected_share, rel=1e-6)


def test_the_linearised_model_is_a_direct_call(found, dense, learner):
    net, x, K, _, residual = dense
    test_x, test_y = learner.pool.test
    z = learner.views.of(test_x).double()
    K_test = torch.einsum("icp,jcp->ij", kernels.jacobian(net, z), kernels.jacobian(net, x)).numpy() / 3
    parts = (K, K_test, residual, net(z).detach().numpy() - theory.one_hot(test_y, 3))
    lin = found.linearised
    expected = theory.loss_curves(*parts, lin.curves.times, lin.eta)
    np.testing.assert_allclose(lin.curves.train, expected.train, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(lin.curves.test, expected.test, rtol=1e-6)
    assert lin.minimum == pytest.approx(theory.steps_to_minimum(*parts, lin.eta, HORIZON))
    assert lin.curves.test.min() >= lin.minimum.loss * (1 - 1e-9)


def test_the_wide_network_sees_the_angles_of_the_features(found, dense):
    net, x, _, _, _ = dense
    X = net[:2](x).detach().numpy()
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert found.wide.items == len(X) == 30
    assert found.wide.eta == pytest.approx(0.9 / theory.spectrum(theory.wide_relu_kernel(X)).lambda_max)


def test_kernels_never_get_more_rows_than_items(learner, monkeypatch):
    sizes = []

    def watched(real):
        def spy(model, x, *more, **options):
            sizes.extend(len(rows) for rows in (x, *more) if rows is not None)
            assert not model.training
            assert next(model.parameters()).dtype == torch.float64
            return real(model, x, *more, **options)

        return spy

    for name in ("ntk", "look", "gradient_stats"):
        monkeypatch.setattr(kernels, name, watched(getattr(kernels, name)))
    found = examine(learner, items=10, queries=2)
    assert max(sizes) == 10
    assert len(found.positions) == found.linearised.test_items == 10
    assert found.drift.start == 5
    assert found.labelled == START + MORE


def test_the_same_seed_finds_the_same(learner):
    once, again, other = (as_data(examine(learner, items=12, queries=2, seed=s)) for s in (3, 3, 4))
    assert once == again
    assert once["positions"] != other["positions"]


def test_the_learner_is_left_as_it_was(learner):
    before = {k: v.clone() for k, v in learner.model.state_dict().items()}
    examine(learner, items=8, queries=1)
    after = learner.model.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert {p.dtype for p in learner.model.parameters()} == {torch.float32}


class Told:
    """As much of a learner as the choice of items sees."""

    def __init__(self, labels, rounds):
        self.labels, self.rounds = range(labels), [{"labels": n} for n in rounds]


@pytest.mark.parametrize(
    ("labels", "rounds", "items", "n", "start"),
    [
        (30, (6, 30), 200, 30, 6),  # all
        (30, (6, 30), 10, 10, 5),  # up to half from the start
        (30, (2, 30), 10, 10, 2),
        (30, (28, 30), 10, 10, 8),  # what the rest leaves
        (30, (30,), 10, 10, None),  # one round
        (30, (30, 30), 10, 10, None),  # trained twice on the same labels
        (30, (1, 30), 10, 10, None),
        (3, (), 10, 3, None),
    ],
)
def test_items_are_the_start_and_a_random_rest_in_their_order(labels, rounds, items, n, start):
    places, of_start = choose_items(Told(labels, rounds), items, 0)
    assert (len(places), of_start) == (n, start)
    assert (np.diff(places) > 0).all()
    if start is not None:
        assert (places < rounds[0]).sum() == start


def test_draw_takes_all_where_there_are_too_few():
    assert some_of(np.random.default_rng(0), 3, 5).tolist() == [0, 1, 2]


def test_what_is_left_out_is_noted():
    found = examine(make_learner(labels=False, test=False, rounds=1), queries=2)
    text = " ".join(found.notes)
    assert "No discrepancy" in text
    assert "No Kendall's tau and no modes" in text
    assert "No test loss" in text
    assert found.drift is found.dynamics.tau is found.modes is found.linearised.minimum is None
    assert len(found.linearised.curves.train) == len(found.linearised.curves.times)
    assert page(found, "x").count("<img") == 5


def test_labels_told_after_the_training_are_noted():
    learner = make_learner(rounds=1)
    learner.tell([20, 21], [0, 1])
    assert "2 labels came after" in examine(learner, queries=1).notes[0]


def test_a_pool_that_is_all_labelled_has_no_queries():
    learner = make_learner(rounds=2, n=START + MORE)
    found = examine(learner, queries=2)
    assert len(found.dynamics.ratios) == 0
    assert "No approximation ratio: a query needs two unlabelled items, got 0" in " ".join(found.notes)
    page(found, "x")


def test_a_linear_head_has_one_kernel():
    found = examine(make_learner(net=nn.Linear(5, 3)), queries=1)
    assert "all its layers are the last one" in found.notes[0]
    assert found.spectra.last.rank == found.spectra.all.rank == 6
    assert found.theorems.bound == math.inf  # 30 labels, 6 dimensions
    assert found.drift.over_bound == 0


def test_what_cannot_be_examined_is_said():
    with pytest.raises(al.AsklessError, match="expected a trained learner, got one with 6 labels"):
        examine(make_learner(rounds=0))
    empty = make_learner(rounds=0)
    empty.labels = {}
    with pytest.raises(al.AsklessError, match="with labelled items, got none"):
        examine(empty)
    x, y = blobs(30)
    spread = al.ActiveLearner(al.data.as_pool(x, y), net="linear", learner=al.LabelPropagation(), strategy="random")
    with pytest.raises(al.InputError, match="trains a network, got LabelPropagation"):
        examine(spread)
    with pytest.raises(al.InputError, match="items: expected a whole number >= 4, got 3"):
        examine(empty, items=3)
    with pytest.raises(al.InputError, match="queries: expected a whole number >= 1, got 0"):
        examine(empty, queries=0)


def test_a_network_that_learns_nothing_is_refused():
    with pytest.raises(al.AsklessError, match="outputs depend on its weights, got a kernel of zeros"):
        both_spectra(np.zeros((2, 2)), np.zeros((2, 2)), [])
    learner = make_learner(rounds=1)
    for p in learner.model.parameters():
        p.requires_grad_(False)
    with pytest.raises(al.AsklessError, match="trainable parameters"):
        examine(learner, queries=1)


@pytest.mark.parametrize("labels", [{0: 0}, {0: 0, 3: 1}, {0: 0, 3: 0, 6: 0}])
def test_few_and_odd_items_still_make_a_page(tmp_path, labels):
    """One label; one item twice with two labels, which no function fits; one class."""
    learner = make_learner(rounds=1, twice=True)
    learner.labels = labels
    found = examine(learner, queries=1)
    assert (found.theorems.bound == math.inf) == (len(set(labels.values())) > 1)
    write(found, tmp_path, "odd")
    json.loads((tmp_path / "theory.json").read_text(), parse_constant=pytest.fail)


NEXT = float(np.nextafter(1, 2))


@pytest.mark.parametrize(
    "ratios",
    [
        *([1.0, NEXT], [1.0] * 3, [1e17, 1e17 + 32], [0.0, 5e-324], [0.0, 0.0], [-1e307, 1e307], [1e300, 2.0]),
        *([np.nan, np.inf], [np.nan, 1.0, NEXT, -np.inf], [1e-320, 2e-320], [-1.0, -NEXT]),
    ],
)
def test_ratios_that_are_nearly_equal_or_not_numbers_still_make_a_page(found, ratios):
    """Where a query is all that is left, every query has the same ratio, but for rounding."""
    odd = found._replace(dynamics=found.dynamics._replace(ratios=np.array(ratios)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert page(odd, "x").count("<img") == 7 - (not np.isfinite(ratios).any())


def test_every_value_that_can_be_drawn_lies_in_a_bin():
    for values in ([1.0, NEXT, np.nan], [0.0], [3.0, 3.0, 4.0], [-1e17, -1e17 - 32], [5e-324, 0.0], [1e300, 1.0]):
        shown, edges = binned(np.array(values))
        assert (np.diff(edges) > 0).all()
        assert np.histogram(shown, edges)[0].sum() == np.isfinite(values).sum()


def test_progress_ends_where_it_said(learner):
    told = []
    examine(learner, items=8, queries=3, progress=lambda done, total, text: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert [d for d, _ in told] == sorted(d for d, _ in told)
    assert len({total for _, total in told}) == 1


def test_the_page_is_one_file_and_the_numbers_are_json(found, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place = write(found, tmp_path / "new", "a <run>", "askless theory 'a <run>' --seed 0")
    text = place.read_text()
    assert "askless theory &#x27;a &lt;run&gt;&#x27; --seed 0" in text
    assert "a &lt;run&gt;" in text
    assert text.count('src="data:image/png;base64,') == 7
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)  # where it may stand by chance
    data = json.loads((tmp_path / "new" / "theory.json").read_text(), parse_constant=pytest.fail)
    assert data["spectra"]["all"]["rank"] == found.spectra.all.rank
    assert data["theorems"]["generalisation"]["holds"] is True
    assert len(data["modes"]["learned"]) == len(found.modes.values)
    assert len(data["dynamics"]["tau"]["dynamics"]) == 150
    assert [p.name for p in (tmp_path / "new").iterdir() if p.name.startswith(".")] == []


def test_lines_are_short_and_every_part_speaks(found):
    made = lines(found)
    assert len({line.part for line in made}) == 6
    for line in made:
        assert len(line.name) <= 26, line
        assert len(line.value) <= 30, line
        assert len(line.meaning) <= 38, line
    assert not any("FAILS" in line.value + line.meaning for line in made)
