"""Values that depend on the scale, and the rows that are made of them."""

from askless.acquire import Margin, Random
from askless.bench.presets.common import At, at, grid, text


def test_a_value_is_looked_up_in_all_that_holds_it():
    value = {"counts": At(full=(1, At(full=2, small=3, smoke=4)), smoke=()), "net": "mlp"}
    assert at("full", value) == {"counts": (1, 2), "net": "mlp"}
    assert at("small", value) == {"counts": (1, 3), "net": "mlp"}, "that of the larger scale, where it is not given"
    assert at("smoke", value) == {"counts": (), "net": "mlp"}
    assert (At(1, 2).smoke, At(1).smoke) == (2, 1)


def test_sentences_that_are_empty_at_a_scale_leave_no_gap():
    said = text("One.", At(full="", smoke="Two."), "Three.")
    assert (said.full, said.small, said.smoke) == ("One. Three.", "One. Three.", "One. Two. Three.")


def test_a_grid_has_every_panel_with_every_method_in_that_order():
    panels = At(full=({"group": "a"}, {"group": "b"}), smoke=({"group": "a", "start": At(full=9, smoke=1)},))
    rows = grid(panels, {"random": Random(), "own": {"strategy": Margin(), "start": 5}})
    assert [(r["group"], r["method"]) for r in rows.full] == [
        ("a", "random"),
        ("a", "own"),
        ("b", "random"),
        ("b", "own"),
    ]
    assert rows.smoke == (
        {"method": "random", "group": "a", "start": 1, "strategy": Random()},
        {"method": "own", "group": "a", "start": 5, "strategy": Margin()},
    )
    assert grid({"group": "a"}, {"random": Random()}).full == (
        {"method": "random", "group": "a", "strategy": Random()},
    )
    squares = grid((2, 3), {"x": 10}, lambda panel, given: {"start": panel * given})
    assert [r["start"] for r in squares.full] == [20, 30]
