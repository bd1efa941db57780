from askless.bench.differ import LONGEST, differences


def test_only_what_differs_is_named_down_to_the_option():
    was = {"learner": "FixMatch(steps=300, darp=DARP(alpha=1.0, target='a, b'))", "seed": "0", "net": "linear"}
    now = {"learner": "FixMatch(steps=300, darp=DARP(alpha=2.0, target='a, b'))", "seed": "1", "net": "linear"}
    assert differences(was, now) == ["learner.darp.alpha: 1.0 → 2.0", "seed: 0 → 1"]
    assert differences(was, was) == []


def test_another_method_and_an_option_that_was_not_there():
    assert differences({"strategy": "NPC(draws=5)"}, {"strategy": "CRC(group=2)"}) == [
        "strategy: NPC(draws=5) → CRC(group=2)"
    ]
    assert differences({"net": "Frozen(size=None)"}, {"net": "Frozen(size=None, dropout=0.5)"}) == [
        "net.dropout: not set → 0.5"
    ]


def test_lists_of_strategies_by_place_and_lists_of_numbers_whole():
    was, now = "Refine(of=[Margin(), BAIT(rows=5)])", "Refine(of=[Margin(), BAIT(rows=9)])"
    assert differences({"strategy": was}, {"strategy": now}) == ["strategy.of[1].rows: 5 → 9"]
    assert differences({"counts": "[10, 20]"}, {"counts": "[10, 30]"}) == ["counts: [10, 20] → [10, 30]"]


def test_the_middle_of_a_long_value_is_left_out():
    (text,) = differences({"counts": str(list(range(99)))}, {"counts": "[10]"})
    assert text.startswith("counts: [0, 1, 2")
    assert len(text) < LONGEST + 30


def test_texts_that_are_no_options_are_shown_as_they_are():
    assert differences({"data": "Data(*x)"}, {"data": "Data(*y)"}) == ["data: Data(*x) → Data(*y)"]
