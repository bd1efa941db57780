import dataclasses
import io

import numpy as np
import pytest

from askless.base.errors import InputError
from askless.bench import figures
from askless.bench.results import CELLS, Record, Results, cell_name

OPTIONS = {
    "lines": {"metric": "ratio", "reference": 1},
    "scatter": {"x_metric": "mmd", "y_metric": "bound", "log_x": True, "log_y": True},
    "spread": {"metric": "ratio", "log": True},
    "bars": {"metrics": ["mmd", "bound"], "log": True},
}
KINDS = [k for k in figures.FIGURES if k != "moons"]


def rendered(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    return buffer.getvalue()


def shown(figure):
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_with_names_that_look_like_mathematics(make, without, kind):
    r = make(methods=["random", "$a_1$ & <b>", "_c_%"], groups=["one & two", "$three"], seeds=range(3), labels=[10, 20])
    figure = figures.draw(without(r, [("one & two", "_c_%", 1)]), {"kind": kind, **OPTIONS.get(kind, {})})
    assert rendered(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_same_picture_twice(make, kind):
    spec = {"kind": kind, **OPTIONS.get(kind, {})}
    r = make(methods=["random", "margin", "npc"], groups=["a", "b"], learners=["s"], seeds=range(3), labels=[10, 20])
    assert rendered(figures.draw(r, spec)) == rendered(figures.draw(r, spec))


@pytest.mark.parametrize("kind", list(figures.FIGURES))
def test_every_kind_survives_one_method_with_one_seed_and_nothing_at_all(make, kind):
    spec = {"kind": kind, **OPTIONS.get(kind, {})}
    one = figures.draw(make(methods=["npc"], groups=[""], learners=[""], seeds=[0], labels=[10]), spec)
    assert one is None or rendered(one)
    assert figures.draw(Results({}, []), spec) is None


def test_curves_show_the_mean_and_the_interval(curve_results):
    """Three seeds 60, 70, 65 at the end: mean 65, half 4.303 * 5 / sqrt(3) = 12.42."""
    figure = figures.curves(curve_results({"random": [[0.5, 0.6], [0.6, 0.7], [0.55, 0.65]]}))
    (axes,) = shown(figure)
    assert axes.lines[0].get_xdata().tolist() == [10, 20]
    assert axes.lines[0].get_ydata() == pytest.approx([55, 65])
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(65 + 12.42, abs=0.01)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("labels", "test accuracy, %")


def test_curves_are_scaled_to_their_means_however_wide_the_bands(curve_results):
    """Two seeds 90 and 100: the band reaches from 31 to 159 %."""
    (axes,) = shown(figures.curves(curve_results({"random": [[0.8, 0.9], [0.9, 1.0]]})))
    assert axes.get_ylim() == pytest.approx((85 - 1.5, 95 + 1.5))


def test_curves_have_axes_for_each_group_and_learner(results):
    titles = [a.get_title() for a in shown(figures.curves(results))]
    assert titles == [f"{g}, {l}" for g in ("CIFAR-10", "SVHN", "digits") for l in ("fixmatch+darp", "supervised")]


def test_gains_are_from_one_count_to_the_next(curve_results):
    """60 - 50 and 70 - 50: 15 ± 12.706 * 5; then 65 - 60 and 71 - 70: 3."""
    r = curve_results({"npc": [[0.5, 0.6, 0.65], [0.5, 0.7, 0.71]]}, labels=(10, 20, 40))
    (axes,) = figures.draw(r, {"kind": "gains"}).axes
    line = axes.get_lines()[0]
    np.testing.assert_allclose(line.get_xdata(), [20, 40])
    np.testing.assert_allclose(line.get_ydata(), [15, 3])
    assert axes.get_ylabel() == "gain in test accuracy, points"
    assert figures.draw(curve_results({"npc": [[0.5]]}, labels=(10,)), {"kind": "gains"}) is None


def test_methods_differ_in_colour_and_marker(make):
    r = make(methods=[f"m{i}" for i in range(14)], groups=[""], learners=["s"], seeds=[0], labels=[10, 20])
    styles = [figures.style(r, m) for m in r.about["methods"]]
    assert len({(s["color"], s["marker"]) for s in styles}) == 14
    assert len({(s["marker"], str(s["linestyle"])) for s in styles}) == 14  # in grey


def test_pool_curves_are_of_the_pool(results):
    assert shown(figures.pool_curves(results))[0].get_ylabel() == "pool accuracy, %"


@pytest.mark.parametrize("change", [{"groups": ["one"]}, {"methods": ["random", "npc"]}])
def test_critical_difference_needs_two_groups_and_three_methods(make, change):
    assert figures.draw(make(**change), {"kind": "critical_difference"}) is None


def test_critical_difference_writes_the_ranks(make):
    (axes,) = shown(figures.draw(make(noise=0.0, learners=["s"]), {"kind": "critical_difference"}))
    texts = [t.get_text().split() for t in axes.texts]
    assert ["npc", "1.00"] in texts
    assert ["4.00", "random"] in texts
    assert ["critical", "difference", "2.71"] in texts  # 2.569 * sqrt(4 * 5 / (6 * 3))


def test_win_loss_writes_the_counts(make):
    axes = shown(figures.draw(make(noise=0.0, groups=["a"], methods=["random", "npc"]), {"kind": "win_loss"}))[0]
    assert [t.get_text() for t in axes.texts] == ["–", "0", "3", "–"]


def test_without_a_win_there_is_no_matrix_of_wins(curve_results):
    flat = {m: [[0.5, 0.6], [0.6, 0.7], [0.5, 0.7]] for m in ("random", "npc")}
    assert figures.draw(curve_results(flat), {"kind": "win_loss"}) is None


def test_a_band_needs_three_seeds(curve_results):
    """Of two it would be 13 standard errors wide."""
    for seeds, bands in ((2, 0), (3, 1)):
        results = curve_results({"random": [[0.5, 0.6], [0.6, 0.8], [0.5, 0.7]][:seeds]})
        (axes,) = shown(figures.draw(results, {"kind": "curves"}))
        assert len(axes.collections) == bands


def test_iou_has_a_matrix_for_each_count(results):
    assert len(shown(figures.iou(results, group="SVHN"))) == 3


def test_lines_have_a_reference_and_one_line_for_each_method(results):
    (axes,) = shown(figures.lines(dataclasses.replace(results), "ratio", labels=20, reference=1.0))[:1]
    assert len(axes.lines) == 5
    assert list(axes.lines[-1].get_ydata()) == [1.0, 1.0]


def test_scatter_writes_tau_and_slope():
    records = [
        Record("", "npc", s, "s", 10, None, m, v)
        for s, (a, b) in enumerate([(1.0, 1.0), (10.0, 100.0), (100.0, 10000.0)])
        for m, v in (("mmd", a), ("bound", b))
    ]
    (axes,) = shown(figures.scatter(Results({}, records), "mmd", "bound", log_x=True, log_y=True))
    assert axes.get_title() == "Kendall τ 1.00, slope in logarithms 2"


def test_scatter_pairs_only_what_belongs_together():
    records = [
        Record("", "npc", 0, "s", 10, 1.0, "a", 1.0),
        Record("", "npc", 0, "s", 10, 2.0, "b", 1.0),
        Record("", "npc", 1, "s", 10, 1.0, "b", 1.0),
    ]
    assert figures.scatter(Results({}, records), "a", "b") is None


def test_scatter_sets_many_values_of_a_round_against_its_one():
    records = [Record("", "crc", 0, "f", n, None, "epochs", float(n)) for n in (10, 20)]
    records += [Record("", "crc", 0, "f", 20, float(i), "scored", v) for i, v in enumerate((3.0, 2.0, 1.0))]
    results = Results({"methods": ["crc"]}, records)
    for x, y in (("epochs", "scored"), ("scored", "epochs")):
        (axes,) = figures.draw(results, {"kind": "scatter", "x_metric": x, "y_metric": y}).axes
        found = axes.collections[0].get_offsets().tolist()
        assert sorted(found if x == "scored" else [point[::-1] for point in found]) == [[1, 20], [2, 20], [3, 20]]


def test_bars_are_the_means_at_the_last_count(curve_results):
    r = curve_results({"random": [[9.0, 1.0], [9.0, 3.0]]}, metric="mmd")
    (axes,) = shown(figures.bars(r, ["mmd"]))
    assert [p.get_height() for p in axes.patches] == [2.0]
    assert [p.get_height() for p in shown(figures.bars(r, ["mmd"], labels=10))[0].patches] == [9.0]
    with pytest.raises(InputError, match="expected metrics as a list of names, got 'mmd'"):
        figures.bars(r, "mmd")


def test_bars_name_a_method_as_it_is(curve_results):
    (axes,) = shown(figures.bars(curve_results({"$a$": [[1.0, 2.0]]}, metric="mmd"), ["mmd"]))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [r"\$a\$"]


def test_moons_draw_the_arrays_of_the_first_seed(tmp_path):
    side = (3, 4)
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 3)), axis=-1).reshape(-1, 2)
    records = []
    for seed in (0, 1):
        for n in (2, 4):
            place = tmp_path / CELLS / cell_name("", "npc", seed)
            place.mkdir(parents=True, exist_ok=True)
            records.append(Record("", "npc", seed, "s", n, None, "test_accuracy", 0.5))
            if seed == 0:
                x, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
                labelled = np.arange(n)
                arrays = {
                    "x": x,
                    "y": y,
                    "labelled": labelled,
                    "newest": labelled[-2:],
                    "grid": grid,
                    "side": np.array(side),
                }
                np.savez(place / f"arrays-{n}.npz", **arrays, probability=grid[:, 0])
    r = Results({"methods": ["npc"]}, records, folder=tmp_path)
    figure = figures.moons(r)
    assert [a.get_title() for a in shown(figure)] == ["npc\n2 labels", "npc\n4 labels"]
    assert rendered(figure)
    assert figures.moons(dataclasses.replace(r, folder=None)) is None


def test_unknown_kinds_and_options_are_named(results):
    with pytest.raises(InputError, match=r"expected a kind of figure .*curves.*moons.*, got 'pie'"):
        figures.draw(results, {"kind": "pie"})
    with pytest.raises(InputError, match="'curves' has no option colour; expected some of: metric, log_x"):
        figures.draw(results, {"kind": "curves", "colour": "red"})


def test_a_band_goes_over_the_counts_that_a_method_has(curve_results):
    few = [[0.5, None, 0.7], [0.6, None, 0.9], [0.4, None, 0.8]]
    many = [[0.5, 0.6, 0.7], [0.6, 0.7, 0.9], [0.4, 0.5, 0.8]]
    figure = figures.draw(curve_results({"random": many, "few": few}, labels=(10, 20, 40)), {"kind": "curves"})
    bands = [band.get_paths()[0].vertices[:, 0] for band in figure.axes[0].collections]
    assert [len(band.get_paths()) for band in figure.axes[0].collections] == [1, 1]
    assert [sorted(set(xs.tolist())) for xs in bands] == [[10, 20, 40], [10, 40]]
