import dataclasses

import numpy as np
import pytest

from askless.bench import panels
from askless.bench.results import Record, Results


def test_a_panel_is_methods_by_seeds_by_labels_in_the_order_of_the_plan(results):
    p = panels.panel(results, "test_accuracy", "SVHN", "supervised")
    assert (p.methods, p.seeds, p.labels) == (("random", "margin", "badge", "npc"), tuple(range(5)), (10, 20, 30, 50))
    assert p.values[2, 3, 1] == results.curve("test_accuracy", "SVHN", "badge", "supervised").table[3, 1]


def test_without_a_learner_it_is_the_first_of_the_plan(results):
    assert panels.panel(results, "test_accuracy", "SVHN").learner == "fixmatch+darp"


def test_a_failed_cell_is_nan(results, without):
    p = panels.panel(without(results, [("SVHN", "badge", 3)]), "test_accuracy", "SVHN")
    assert np.isnan(p.values).sum() == np.isnan(p.values[2, 3]).sum() == 4


def test_of_many_measurements_of_a_round_the_last_counts():
    records = [Record("", "npc", 0, "s", 10, x, "ratio", v) for x, v in ((0.0, 7.0), (2.0, 3.0), (1.0, 9.0))]
    assert panels.panel(Results({}, records), "ratio", "").values.tolist() == [[[3.0]]]


def test_areas_cover_the_counts_that_all_methods_have(curve_results):
    r = curve_results({"random": [[0.5, 0.7, 0.9]], "npc": [[0.6, 0.8, None]]}, labels=(10, 20, 40))
    assert panels.panel(r, "test_accuracy", "").areas().ravel() == pytest.approx([0.6, 0.7])


def test_scores_leave_out_a_method_that_a_group_has_not(results, without):
    gone = [("SVHN", "badge", seed) for seed in range(5)]
    groups, methods, scores = panels.scores(without(results, gone), "test_accuracy")
    assert groups == ["CIFAR-10", "SVHN", "digits"]
    assert methods == [m for m in results.about["methods"] if m != "badge"]
    assert scores.shape == (3, len(methods))


def test_win_loss_sums_over_groups(results, curve_results):
    curves = {"random": [[0.5, 0.5], [0.6, 0.6]], "npc": [[0.5, 0.7], [0.6, 0.8]]}
    methods, W, settings = panels.win_loss(curve_results(curves, groups=("a", "b")), "test_accuracy")
    assert (methods, W.tolist(), settings) == (["random", "npc"], [[0, 0], [2, 0]], 2)  # the shared start is none


def test_the_shared_start_is_no_setting_though_a_seed_is_missing(curve_results):
    curves = {"random": [[0.5, 0.5], [0.6, 0.6]], "npc": [[0.5, 0.7], [None, None]], "crc": [[0.5, 0.6], [0.6, 0.7]]}
    assert panels.win_loss(curve_results(curves), "test_accuracy")[2] == 1


def test_iou_is_of_the_union_over_seeds_without_the_start(results):
    asked = {("", "a", 0): [[0], [1], [2]], ("", "a", 1): [[0], [3], [4]], ("", "b", 0): [[0], [1], [9]]}
    r = Results({"methods": ["b", "a"]}, [Record(*k, "s", 1, None, "test_accuracy", 0.5) for k in asked], asked=asked)
    methods, at_two = panels.iou_matrix(r, "", 2)
    assert methods == ["b", "a"]
    assert at_two[:, :2] == pytest.approx(np.array([[100, 50], [50, 100]]))  # {1} and {1, 3}
    assert at_two[:, 2] == pytest.approx(np.array([np.nan, 0]), nan_ok=True)  # {1} and {3}
    assert panels.iou_matrix(r, "", 3)[1][0, 1] == pytest.approx(20)  # {1, 9} and {1, 2, 3, 4}
    assert np.isnan(panels.iou_matrix(r, "", 1)[1]).all()
    assert panels.counts_asked(r, "") == [2, 3]


def test_records_of_take_one_learner_in_each_group(results):
    rows = panels.records_of(results, "test_accuracy")
    assert {r.learner for r in rows} == {"fixmatch+darp"}
    swapped = dataclasses.replace(results, about=results.about | {"learners": ["supervised", "fixmatch+darp"]})
    assert {r.learner for r in panels.records_of(swapped, "test_accuracy")} == {"supervised"}
