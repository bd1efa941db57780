from dataclasses import replace

import pytest

from askless.run.steps.advice import Standing, advise, measured
from askless.run.steps.measure import share

GOOD = Standing(
    budget=200,
    spent=120,
    rounds=5,
    counts={"cat": 40, "dog": 30, "other": 20},
    measure=share(36, 40),
    changes=[0.2, 0.05, 0.008, 0.004],
    since_new_class=60,
)


def test_likely_enough_says_why_with_numbers():
    found = advise(GOOD)
    assert found.verdict == "likely enough"
    assert found.text == (
        "Likely enough: predictions changed for at most 0.8 % of images in each of the last two rounds and no new class in "
        "60 labels. Check accuracy 0.90 (0.77–0.96, n = 40)."
    )
    assert found.reasons[-1] == "80 of 200 labels left"


def test_without_check_images_it_is_not_measured():
    assert advise(replace(GOOD, measure=None)).text.endswith("Check accuracy: not measured (no labelled check images).")
    assert measured(None) == "Check accuracy: not measured (no labelled check images)."


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"cat": 40, "other": 3}, "'other' has 3 labels"),
        ({"cat": 40, "other": 1}, "'other' has 1 label"),
        ({"cat": 40, "other": 0}, "'other' has no label"),
        (
            dict.fromkeys("abcde", 2),
            "'a' has 2 labels, 'b' has 2 labels, 'c' has 2 labels, 2 more classes have fewer than 5",
        ),
    ],
)
def test_a_class_with_few_labels(counts, said):
    found = advise(replace(GOOD, counts=counts))
    assert found.verdict == "keep going"
    assert found.text.startswith(f"Keep going: {said}. Check accuracy")
    assert found.reasons[0] == said


def test_a_new_class_lately():
    found = advise(replace(GOOD, since_new_class=12))
    assert found.verdict == "keep going"
    assert "a new class appeared 12 labels ago" in found.text
    assert advise(replace(GOOD, since_new_class=None)).verdict == "likely enough"


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ([], "keep going"),
        ([0.001], "keep going"),
        ([0.03, 0.001], "keep going"),
        ([0.001, 0.02], "keep going"),
        ([0.019, 0.019], "likely enough"),
        ([None, 0.01, 0.0], "likely enough"),
        ([0.01, None], "keep going"),
    ],
)
def test_stability_needs_two_quiet_rounds(changes, verdict):
    assert advise(replace(GOOD, changes=changes)).verdict == verdict


def test_changing_predictions_are_told():
    assert (
        "predictions still changed for 12.0 % and 0.1 % of images" in advise(replace(GOOD, changes=[0.12, 0.001])).text
    )


@pytest.mark.parametrize("rounds", [0, 1])
def test_too_early(rounds):
    found = advise(replace(GOOD, rounds=rounds, changes=[], measure=None))
    assert found.verdict == "too early"
    assert found.text.startswith("Too early: ")
    assert found.text.endswith("not measured (no labelled check images).")


def test_the_target_counts_only_with_the_whole_interval():
    assert advise(replace(GOOD, target=0.9)).verdict == "keep going"  # 36 of 40 are 0.90, but perhaps 0.77
    assert "starts at 0.77, below the target 0.90" in advise(replace(GOOD, target=0.9)).text
    found = advise(replace(GOOD, target=0.9, measure=share(98, 100)))
    assert found.verdict == "target reached"
    assert found.text == (
        "Target reached: check accuracy 0.98 (0.93–0.99, n = 100), an interval that lies above the target 0.90."
    )
    assert "this is the 5th look at the same check images; the interval allows for all of them" in found.reasons


def test_a_target_without_check_images_cannot_be_reached():
    found = advise(replace(GOOD, target=0.5, measure=None))
    assert found.verdict == "keep going"
    assert "cannot be checked" in found.text


def test_the_budget():
    found = advise(replace(GOOD, spent=200))
    assert found.verdict == "budget used"
    assert found.text == "Budget used: 200 of 200 labels given. Check accuracy 0.90 (0.77–0.96, n = 40)."
    assert advise(replace(GOOD, spent=20, budget=20, rounds=1)).verdict == "budget used"
    assert "'dog' has 2 labels" in advise(replace(GOOD, spent=200, counts={"cat": 9, "dog": 2})).reasons
    assert advise(replace(GOOD, spent=200, target=0.7)).verdict == "target reached"


def test_a_run_whose_every_item_has_a_label_is_at_its_end():
    facts = Standing(budget=50, spent=30, rounds=1, counts={"cat": 90, "dog": 90}, nothing_left=True)
    found = advise(facts)
    assert found.verdict == "nothing left"
    assert found.text.startswith("Nothing left: no image is left to ask about, and 30 of the budget of 50 are used.")
    assert advise(replace(facts, rounds=0)).verdict == "too early"
    assert advise(replace(facts, nothing_left=False)).verdict == "too early"


def test_before_the_first_label_nothing_is_said_of_labels():
    found = advise(
        Standing(
            budget=20, spent=0, rounds=0, counts={"cat": 0, "dog": 0}, measure=None, changes=[], since_new_class=None
        )
    )
    assert (found.verdict, found.reasons[0]) == ("too early", "no model has been trained yet")


def test_labels_of_check_images_alone_are_not_called_unsure():
    where = Standing(budget=20, spent=4, rounds=0, counts={"cat": 0, "dog": 0}, checked=4)
    told = "only check images have labels so far, and a model needs chosen ones of two classes"
    assert advise(where).reasons[0] == told


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({"cat": 20, "dog": 0}, "all labels so far are of one class, and a model needs two classes"),
        ({"cat": 0, "dog": 0}, "all labels so far are unsure, and a model needs two classes"),
    ],
)
def test_a_budget_used_without_a_model_says_why_there_is_none(counts, why):
    found = advise(
        Standing(budget=20, spent=20, rounds=0, counts=counts, measure=None, changes=[], since_new_class=None)
    )
    assert (found.verdict, why in found.reasons) == ("budget used", True)


SOON = {"labels": 50, "gain": 0.008, "gain_low": 0.002, "gain_high": 0.019}


def test_labels_that_bring_little_do_not_keep_anybody_and_are_told():
    found = advise(replace(GOOD, ahead=SOON))
    assert found.verdict == "likely enough"
    assert found.reasons[1] == "50 more labels would bring about 0.8 points (0.2 to 1.9)"


def test_labels_that_bring_a_point_are_worth_going_on_for():
    found = advise(replace(GOOD, ahead=SOON | {"gain": 0.01}))
    assert found.verdict == "keep going"
    assert found.text.startswith("Keep going: 50 more labels would bring about 1.0 point (0.2 to 1.9). Check accuracy")
    thin = advise(replace(GOOD, ahead=SOON, counts={"cat": 40, "dog": 3}))
    assert (thin.reasons[0], SOON["labels"]) == ("'dog' has 3 labels", 50)
    assert "50 more labels would bring about 0.8 points (0.2 to 1.9)" in thin.reasons


def test_when_the_budget_is_used_the_forecast_says_what_a_larger_one_would_bring():
    found = advise(replace(GOOD, spent=200, ahead=SOON))
    assert found.reasons[1] == "50 more labels would bring about 0.8 points (0.2 to 1.9)"
