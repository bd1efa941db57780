import math
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_score, recall_score

from askless.base.errors import InputError
from askless.base.intervals import exact, wilson
from askless.run.steps import measure


@pytest.mark.parametrize(("k", "n", "low", "high"), [(36, 40, 0.77, 0.96), (90, 100, 0.83, 0.94)])
def test_wilson_against_the_values_worked_by_hand(k, n, low, high):
    assert tuple(round(end, 2) for end in wilson(k, n)) == (low, high)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 40), (40, 40), (1, 40), (39, 40), (17, 53), (9500, 10000)])
def test_wilson_against_scipy(k, n, level):
    theirs = binomtest(k, n).proportion_ci(level, method="wilson")
    assert wilson(k, n, level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_wilson_without_trials_knows_nothing():
    assert wilson(0, 0) == (0, 1)


@pytest.mark.parametrize(("k", "n", "level"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 1.0)])
def test_wilson_refuses_what_makes_no_sense(k, n, level):
    with pytest.raises(InputError, match="expected"):
        wilson(k, n, level)


@pytest.mark.parametrize(("k", "n", "level"), [(0, 4, 0.95), (3, 4, 0.95), (4, 4, 0.99), (36, 40, 0.995)])
def test_the_exact_interval_against_scipy(k, n, level):
    found = binomtest(k, n).proportion_ci(level, method="exact")
    assert exact(k, n, level) == pytest.approx((found.low, found.high), abs=1e-9)


def test_per_class_and_confusion_against_sklearn():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    classes = [0, 1, 2, 3]
    assert (measure.confusion(predicted, truth, classes) == confusion_matrix(truth, predicted, labels=classes)).all()
    found = measure.per_class(predicted, truth, classes)
    assert [c["recall"]["accuracy"] for c in found] == pytest.approx(recall_score(truth, predicted, average=None))
    assert [c["precision"]["accuracy"] for c in found] == pytest.approx(precision_score(truth, predicted, average=None))
    assert [c["n"] for c in found] == np.bincount(truth).tolist()


def test_a_class_that_nobody_saw_has_no_precision_and_no_recall():
    found = measure.per_class(["cat"], ["cat"], ["cat", "dog"])[1]
    assert found == {"class": "dog", "n": 0, "predicted": 0, "correct": 0, "recall": None, "precision": None}


@pytest.mark.parametrize("seed", range(5))
def test_kappa_against_sklearn(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, 50)
    b = np.where(rng.random(50) < 0.7, a, rng.integers(0, 3, 50))
    assert measure.cohens_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b))


def test_kappa_where_there_is_none():
    assert measure.cohens_kappa([], []) is None
    assert measure.cohens_kappa([1, 1], [1, 1]) is None
    assert measure.cohens_kappa(["a", "b"], ["a", "b"]) == 1
    assert measure.cohens_kappa(["a", "a"], ["b", "b"]) == 0


def test_confident_disagreement_is_doubtful_and_hesitation_is_not():
    probs = np.array([[0.95, 0.05], [0.9, 0.1], [0.02, 0.98], [0.1, 0.9], [0.52, 0.48], [0.5, 0.5]])
    labels = [0, 0, 0, 1, 1, -1]  # the third is called 0, and the model is sure that it is not
    found = measure.doubtful(labels, probs)
    assert found.order[0] == 2
    assert found.suspect.tolist() == [False, False, True, False, False, False]
    assert found.score[2] == pytest.approx((0.98 + 0.96) / 2)
    assert found.score[0] == pytest.approx(0.025)
    assert math.isnan(found.score[5])
    assert 5 not in found.order
    assert sorted(found.order) == [0, 1, 2, 3, 4]


def test_scores_of_doubt_stay_between_0_and_1():
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(5) / 3, 500)
    found = measure.doubtful(rng.integers(0, 5, 500), probs)
    assert found.score.min() >= 0
    assert found.score.max() <= 1
    assert (np.diff(found.score[found.order]) <= 0).all()
    labels = probs.argmax(1)
    assert not measure.doubtful(labels, probs).suspect.any()
    assert measure.doubtful(labels, probs).score.max() <= 0.5


def test_swapped_labels_come_first():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 200)
    probs = 0.04 + 0.88 * np.eye(3)[truth]
    labels = truth.copy()
    labels[[5, 50, 150]] = (truth[[5, 50, 150]] + 1) % 3
    found = measure.doubtful(labels, probs)
    assert set(found.order[:3]) == {5, 50, 150}
    assert set(np.flatnonzero(found.suspect)) == {5, 50, 150}


def test_labels_of_classes_newer_than_the_model_are_not_doubted():
    found = measure.doubtful([0, 2], [[0.9, 0.1], [0.5, 0.5]])
    assert found.order.tolist() == [0]
    assert measure.doubtful([], np.zeros((0, 2))).order.tolist() == []


def test_prediction_change_and_margin():
    assert measure.prediction_change([0, 1, 2, 2], [0, 1, 2, 1]) == 0.25
    assert measure.prediction_change([], []) is None
    assert measure.mean_margin([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1]]) == pytest.approx(0.3)
    assert measure.mean_margin(np.zeros((0, 3))) is None
    assert measure.mean_margin([[1.0], [1.0]]) == 1


def at(*seconds):
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return [start + timedelta(seconds=t) for t in seconds]


def test_pace_leaves_breaks_out():
    times = at(0, 5, 10, 15, 1000, 1005)
    assert measure.labels_per_minute(times) == pytest.approx(12)
    assert measure.labels_per_minute(times[::-1]) == pytest.approx(12)


@pytest.mark.parametrize("times", [[], [3.0], [0, 100, 200], [7, 7, 7]])
def test_pace_of_too_little(times):
    assert measure.labels_per_minute(at(*times)) is None


def test_the_page_starts_without_torch_scipy_and_matplotlib():
    code = (
        "import sys, askless.run.steps.measure, askless.run.steps.advice, askless.run.out.export, askless.run.out.report\n"
        "print([m for m in ('torch', 'scipy', 'matplotlib', 'pyarrow', 'sklearn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300).stdout
    assert out.strip() == "[]"


def test_calibration_by_hand():
    """40 images in two groups of 20: in the first it is sure to .6 and right in 8 of 20 (.2 apart), in the second sure to .9
    and right in 19 of 20 (.05 apart)."""
    sure = np.repeat([0.6, 0.9], 20)
    right = np.arange(40) % 20 < np.repeat([8, 19], 20)
    found = measure.calibration(sure, right)
    assert found["error"] == pytest.approx((0.2 + 0.05) / 2)
    assert (found["n"], found["sure"], found["right"]) == (40, pytest.approx(0.75), pytest.approx(27 / 40))
    assert 0 <= found["low"] < found["error"] < found["high"] < 0.4
    assert measure.calibration([], []) is None
    assert measure.calibration([0.5], [True])["error"] == 0.5


def test_the_interval_of_a_calibrated_model_begins_at_0_and_one_that_boasts_is_found_out():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1, size=2000)
    right = rng.random(2000) < sure
    assert measure.calibration(sure, right)["low"] == pytest.approx(0, abs=0.03)
    boast = measure.calibration(np.full(2000, 0.99), right)
    assert boast["low"] > 0.15
    assert boast["error"] == pytest.approx(0.99 - right.mean())
