import re

from askless.report import chart

POINTS = [chart.Measured(20, 0.5, 0.4, 0.6, "round <1>"), chart.Measured(40, 0.7, 0.6, 0.8, "round 2")]


def test_a_curve_has_a_dot_for_each_point_and_the_levels_that_there_are():
    drawn = chart.curve(POINTS, [(0.45, "rule", "most common"), (None, "goal", "target")], "labels", "accuracy", "said")
    assert drawn.count('class="dot"') == 2
    assert "<title>round &lt;1&gt;</title>" in drawn
    assert "most common 0.45" in drawn
    assert "target" not in drawn
    dots = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    assert dots[0][0] < dots[1][0]
    assert dots[0][1] > dots[1][1]  # higher means better, and SVG counts downwards


def test_bars_are_as_high_as_their_shares_and_never_vanish():
    drawn = chart.bars([("1", 0.2, "a"), ("2", 0.1, "b"), ("3", 0.0, "c")], 0.02, "round", "changed", "said")
    found = [float(h) for h in re.findall(r'<rect[^>]*height="([\d.]+)"', drawn)]
    assert found[0] == 2 * found[1]
    assert found[2] == 1.5


def test_marks_differ_in_shape_or_colour_for_many_classes():
    assert len({chart.glyph(chart.Sign(k % 8, k)) for k in range(56)}) == 56
    first = chart.Sign(0, 0)
    assert chart.glyph(first) != chart.glyph(first, hollow=True) != chart.glyph(None)


def test_a_map_has_its_marks_and_one_picture_for_all_dots():
    marks = [chart.Marked((0.5, 0.5), chart.Sign(1, 1), False, "a & b")]
    drawn = chart.scatter([(0.1, 0.2), (0.5, 0.5)], marks, "two")
    assert (drawn.count("<image"), drawn.count("<path")) == (1, 1)
    assert "<title>a &amp; b</title>" in drawn
    assert "translate(280.0 280.0)" in drawn


def test_a_meter_stays_within_its_line():
    assert "left:0.0%;width:100.0%" in chart.meter(0, 1.5)
    assert "left:0.0%;width:0.0%" in chart.meter(0, -1)
    assert '<span class="place" style="left:50.0%">' in chart.meter(0.4, 0.6, 0.5)
