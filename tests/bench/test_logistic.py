"""Logistic regression as a learner says what scikit-learn's says."""

import numpy as np
import pytest
from sklearn import linear_model

import askless as al
from askless.bench.logistic import UNSEEN, LogisticRegression


def learner_of(classes, labels_of):
    pool = al.data.subset(al.data.digits(), 200)
    pool = al.data.as_pool((pool.x.flatten(1).float() / 16, pool.labels % classes), kind="features")
    learner = al.ActiveLearner(pool, net="linear", learner=LogisticRegression(), classes=classes)
    some = np.flatnonzero(np.isin(pool.labels, labels_of))[:60]
    learner.tell(some, pool.labels[some])
    learner.fit()
    return pool, learner, some


@pytest.mark.parametrize("classes", [2, 10])
def test_it_is_scikit_learn_s(classes):
    pool, learner, some = learner_of(classes, range(classes))
    reference = linear_model.LogisticRegression().fit(pool.x[some].numpy(), pool.labels[some])
    assert learner.predict_pool() == pytest.approx(reference.predict_proba(pool.x.numpy()), abs=1e-4)


def test_classes_without_labels_have_next_to_no_probability():
    pool, learner, some = learner_of(10, (1, 4, 7))
    probs = learner.predict_pool()
    reference = linear_model.LogisticRegression().fit(pool.x[some].numpy(), pool.labels[some])
    assert probs[:, [1, 4, 7]] == pytest.approx(reference.predict_proba(pool.x.numpy()), abs=1e-4)
    assert probs[:, [0, 2, 3, 5, 6, 8, 9]].max() <= np.exp(UNSEEN)


def test_a_single_class_is_all_there_is():
    _, learner, _ = learner_of(10, (3,))
    assert (learner.predict_pool().argmax(axis=1) == 3).all()
