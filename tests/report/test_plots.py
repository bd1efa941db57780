import numpy as np

from askless.report import plots


def test_a_grid_hides_the_axes_that_nobody_needs():
    figure, places = plots.grid(4, 3)
    assert len(places) == 4
    assert [axes.get_visible() for axes in figure.axes] == [True] * 4 + [False] * 2


def test_names_are_no_mathematics_and_not_left_out_of_a_legend():
    assert plots.plain("$a$", "", "_b") == r"\$a\$,  _b"


def test_counts_have_a_tick_each_where_there_is_room():
    _, axes = plots.figure(4, 3)
    plots.count_ticks(axes, [10, 20, 40], log=False)
    assert axes.get_xticks().tolist() == [10, 20, 40]
    _, tight = plots.figure(4, 3)
    plots.count_ticks(tight, [10, 11, 1000], log=False)
    assert tight.get_xticks().tolist() != [10, 11, 1000]


def test_a_matrix_writes_white_on_dark():
    _, axes = plots.figure(3, 3)
    plots.matrix(
        axes,
        np.array([[0.0, 1.0], [0.2, 0.0]]),
        np.array([["–", "9"], ["2", "–"]]),
        ["a", "b"],
        (),
        cmap="Blues",
        vmax=1,
    )
    assert [t.get_color() for t in axes.texts] == ["black", "white", "black", "black"]


def test_a_log_scale_has_plain_numbers():
    _, axes = plots.figure(3, 3)
    axes.plot([1, 1000], [1, 2])
    plots.log_scales(axes, x=True)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert "100" in [tick.get_text() for tick in axes.get_xticklabels()]
