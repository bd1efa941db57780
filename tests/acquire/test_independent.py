"""BALD, BatchBALD, ProbCover, MaxHerding and DAL against the packages that others use: batchbald_redux (by BatchBALD's
authors), baal and scikit-activeml. Where those break ties at random, what is compared is the value that they give to our
picks."""

import warnings

import numpy as np
import pytest
import torch

import askless as al
from askless.acquire.bald import mutual_information

pytestmark = pytest.mark.ecosystem


def passes(N, K, C, seed=0, sharp=2.0):
    f = sharp * np.random.default_rng(seed).normal(size=(N, K, C))
    e = np.exp(f - f.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True)


def blobs(N=250, d=6, k=5, seed=0, spread=3.0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=(k, d))[rng.integers(k, size=N)] + rng.normal(size=(N, d))


def redux():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        from batchbald_redux import batchbald
    return batchbald


def baal():
    from askless.nets.optional import torchvision

    torchvision()  # which baal imports, and which may need askless' guard
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        from baal.active import heuristics
    return heuristics


def test_bald_of_baal_and_of_batchbald_redux():
    p = passes(300, 12, 5)
    picks = al.select("bald", 25, probs_by_pass=p)
    theirs = baal().BALD().compute_score(p.transpose(0, 2, 1))
    assert mutual_information(p) == pytest.approx(theirs, abs=1e-12)
    assert picks.scores == pytest.approx(theirs[picks.indices], abs=1e-12)
    assert picks.indices.tolist() == redux().get_bald_batch(torch.from_numpy(p).log(), 25).indices


@pytest.mark.parametrize(("K", "C", "n"), [(20, 3, 6), (10, 10, 4), (50, 2, 8)])
def test_batchbald_of_its_authors_by_all_labellings(K, C, n):
    p = passes(60, K, C, sharp=1.5)
    ours = al.select(al.BatchBALD(configurations=20_000), n, probs_by_pass=p)
    theirs = redux().get_batchbald_batch(torch.from_numpy(p).log(), n, num_samples=20_000, dtype=torch.double)
    assert ours.info["exact"] == n
    assert ours.indices.tolist() == theirs.indices
    assert np.cumsum(ours.scores) == pytest.approx(theirs.scores, abs=1e-9)


def test_batchbald_of_its_authors_by_drawn_labellings():
    """Both draw; the information of our batch is what theirs is, up to the noise, and the batches overlap."""
    p = passes(60, 20, 4, sharp=1.5)
    log = torch.from_numpy(p).log()
    ours = al.select(al.BatchBALD(configurations=1000), 8, probs_by_pass=p)
    torch.manual_seed(0)
    theirs = redux().get_batchbald_batch(log, 8, num_samples=1000, dtype=torch.double)
    assert 0 < ours.info["exact"] < 8
    assert ours.info["information"] == pytest.approx(theirs.scores[-1], rel=0.02)
    assert ours.indices[: ours.info["exact"]].tolist() == theirs.indices[: ours.info["exact"]]


def test_batchbald_of_scikit_activeml():
    from skactiveml.pool import batch_bald

    p = passes(120, 15, 3)
    ours = al.select("batchbald", 6, probs_by_pass=p)
    utilities = batch_bald(
        p.transpose(1, 0, 2), batch_size=6, n_MC_samples=10**5, random_state=np.random.RandomState(0)
    )
    assert np.nanargmax(utilities, axis=1).tolist() == ours.indices.tolist()
    assert np.nanmax(utilities, axis=1) == pytest.approx(np.cumsum(ours.scores), abs=1e-4)  # theirs clips at 1e-7


def test_batchbald_of_baal():
    """Baal draws labellings for every pick, and gives a score to each of the items that it chose, one more than it was
    asked for. Its batch is worth what ours is, up to the draw."""
    from askless.acquire.batchbald import Joint

    p = passes(120, 15, 3)
    torch.manual_seed(0)
    scores = baal().BatchBALD(num_samples=6, num_draw=300).compute_score(p.transpose(0, 2, 1))
    theirs = np.flatnonzero(scores)
    assert len(theirs) == 7
    ours = al.select("batchbald", 7, probs_by_pass=p)
    assert len(set(ours.indices) & set(theirs)) >= 5
    joint, worth = Joint(15, 3, 10**5, np.random.default_rng(0)), 0.0
    for i in theirs:
        worth += joint.gains(p, np.array([i]), 2**26)[0]
        joint.add(p[i])
    assert worth == pytest.approx(ours.info["information"], rel=0.01)


@pytest.mark.parametrize("labelled", [[], [4, 77, 130]])
def test_probcover_of_scikit_activeml(labelled):
    from skactiveml.pool import ProbCover

    x = blobs()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    delta = 0.35
    ours = al.select(al.ProbCover(delta=delta), 12, features=x, labelled=labelled)
    y = np.full(len(x), np.nan)
    y[labelled] = 0
    for pick, score in zip(ours.indices, ours.scores, strict=True):
        theirs = ProbCover(deltas=[delta], random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that one radius was not checked for its purity
            _, utilities = theirs.query(unit, y, batch_size=1, return_utilities=True)
        assert utilities[0][pick] == np.nanmax(utilities[0]) == score
        y[pick] = 0


@pytest.mark.parametrize("labelled", [[], [4, 77, 130]])
def test_maxherding_of_scikit_activeml(labelled):
    from skactiveml.pool import MaxHerding

    x = blobs()
    y = np.full(len(x), np.nan)
    y[labelled] = 0
    theirs = MaxHerding(metric_dict={"gamma": 1.0}, random_state=0).query(x, y, batch_size=20)
    assert al.select("maxherding", 20, features=x, labelled=labelled).indices.tolist() == theirs.tolist()


def test_the_radius_of_scikit_activeml():
    """Theirs is the largest of a grid that is pure enough; ours lies between that one and the next."""
    from skactiveml.pool import ProbCover

    x = blobs(spread=6.0)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    grid = np.arange(0.01, 2, 0.01)
    theirs = ProbCover(n_classes=5, deltas=grid, alpha=0.95, random_state=0, cluster_algo_dict={"n_init": 10})
    theirs.query(unit, np.full(len(x), np.nan), batch_size=1)
    ours = al.select(al.ProbCover(classes=5), 1, features=x).info["delta"]
    assert theirs.delta_max_ - 1e-3 <= ours <= theirs.delta_max_ + 0.01


def test_dal_of_scikit_activeml():
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import DiscriminativeAL
    from sklearn.linear_model import LogisticRegression

    x = blobs()
    labelled = np.arange(0, 250, 9)
    rows = (x - x.mean(axis=0)) / (x - x.mean(axis=0)).std()
    y = np.full(len(x), np.nan)
    y[labelled] = 0
    discriminator = SklearnClassifier(LogisticRegression(class_weight="balanced", max_iter=1000), classes=[0, 1])
    for greedy, parts in ((True, 1), (False, 8)):
        ours = al.select(al.DAL(classifier="logistic", sub_batches=parts), 8, features=x, labelled=labelled)
        theirs, utilities = DiscriminativeAL(greedy_selection=greedy, random_state=0).query(
            rows, y, discriminator, batch_size=8, return_utilities=True
        )
        assert ours.indices.tolist() == theirs.tolist()
        chance = 1 / (1 + np.exp(-ours.scores))
        assert chance == pytest.approx(np.nanmax(utilities, axis=1), abs=1e-3)
