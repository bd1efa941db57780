"""TCM against the two strategies that it is made of."""

import numpy as np
import pytest

import askless as al

RNG = np.random.default_rng(0)
F, P = RNG.normal(size=(120, 5)), RNG.dirichlet(np.ones(4), size=120)


@pytest.mark.parametrize(("labels", "phase"), [(0, "typiclust"), (11, "typiclust"), (12, "margin"), (60, "margin")])
def test_the_number_of_labels_decides(labels, phase):
    given = {"features": F, "probs": P, "labelled": np.arange(labels), "seed": 3}
    ours, alone = al.select("tcm", 7, **given), al.select(phase, 7, **given)
    assert ours.info["phase"] == phase
    assert ours.indices.tolist() == alone.indices.tolist()
    assert ours.scores.tolist() == alone.scores.tolist()


def test_per_class_moves_the_switch():
    given = {"features": F, "probs": P, "labelled": np.arange(12)}
    phases = [al.select(al.TCM(per_class=k), 3, **given).info["phase"] for k in (0, 3, 3.1, float("inf"))]
    assert phases == ["margin", "margin", "typiclust", "typiclust"]


def test_classes_that_are_known_count_before_those_of_the_model():
    given = {"features": F, "probs": P, "labelled": np.arange(12)}
    assert al.select("tcm", 3, classes=5, **given).info["phase"] == "typiclust"


def test_without_probabilities_it_says_that_margin_is_due():
    labelled = np.arange(30)
    picks = al.select("tcm", 3, features=F, labelled=labelled, labels=labelled % 4)
    assert picks.info["phase"] == "typiclust"
    assert "no probs" in picks.info["note"]
    assert "note" not in al.select("tcm", 3, features=F).info
