import dataclasses
import re

import numpy as np
import pytest

from askless.bench import tables
from askless.bench.panels import panel
from askless.bench.results import Record, read
from askless.report.table import Cell, latex, markdown

CURVES = {
    "random": [[0.50, 0.60], [0.60, 0.70], [0.55, 0.65]],
    "npc": [[0.50, 0.70], [0.60, 0.81], [0.55, 0.74]],
    "margin": [[0.50, 0.61], [0.60, 0.69], [0.55, 0.66]],
}
NAN = float("nan")


def cells(table, row):
    return [c.text for c in next(r for r in table.rows if r[0].text == row)]


def test_main_table_as_markdown(curve_results):
    """Random: 60, 70, 65; npc is 10, 11 and 9 points above it."""
    (table,) = tables.accuracy_tables(curve_results(CURVES), "test_accuracy")
    assert markdown([table]) == (
        "### Test accuracy, % by number of labels: supervised\n"
        "\n"
        "| method | 10 | 20 |\n"
        "|---|---:|---:|\n"
        "| random | 55.0 ± 5.0 (3) | 65.0 ± 5.0 (3) |\n"
        "| npc | 55.0 ± 5.0 (3) | **75.0 ± 5.6 (3) ↑** |\n"
        "| margin | 55.0 ± 5.0 (3) | 65.3 ± 4.0 (3) |\n"
        "\n"
        "Mean ± standard deviation (number of seeds). Bold: the paired 95 % interval of its difference to the second best "
        "excludes 0 (each cell separately). ↑ ↓: that of its difference to random excludes 0.\n"
    )


def test_main_table_as_latex(curve_results):
    (table,) = tables.accuracy_tables(curve_results({k: CURVES[k] for k in ("random", "npc")}), "test_accuracy")
    assert latex([dataclasses.replace(table, note="")]) == (
        "\\begin{table}\n\\centering\n"
        "\\caption{Test accuracy, \\% by number of labels: supervised.}\n"
        "\\begin{tabular}{lrr}\n\\toprule\n"
        "method & 10 & 20 \\\\\n\\midrule\n"
        "random & 55.0 $\\pm$ 5.0 (3) & 65.0 $\\pm$ 5.0 (3) \\\\\n"
        "npc & 55.0 $\\pm$ 5.0 (3) & \\textbf{75.0 $\\pm$ 5.6 (3) $\\uparrow$} \\\\\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )


def test_a_small_spread_gets_a_second_decimal(curve_results):
    r = curve_results({"random": [[0.5, 0.9000], [0.6, 0.9010]]})
    (table,) = tables.accuracy_tables(r, "test_accuracy")
    assert cells(table, "random")[1:] == ["55.0 ± 7.1 (2)", "90.05 ± 0.07 (2)"]


def test_other_metrics_have_four_digits_and_no_winner(curve_results):
    r = curve_results({"random": [[0.0123456], [0.0123456]], "npc": [[12345.6], [12345.6]]}, (10,), metric="mmd")
    (table,) = tables.accuracy_tables(r, "mmd")
    assert cells(table, "random")[1] == "0.01235 ± 0 (2)"
    assert cells(table, "npc")[1] == "1.235e+04 ± 0 (2)"
    assert not any(c.bold for row in table.rows for c in row)
    assert tables.win_loss_tables(r) == []


def test_summary_by_hand(curve_results):
    """AUBC: random 55, 65, 60; npc 60, 70.5, 64.5, so the gains are 5, 5.5, 4.5: 5 ± 4.303 * 0.5 / sqrt(3) = 1.2.
    Random's final mean is 65; npc's mean goes from 55 to 75, so it is there half-way, at 15 labels. Of two Wilcoxon tests of
    three pairs: 2/8 for npc; margin's gains 0.5, -0.5, 0.5 tie, so 6 of the 8 signs are as extreme."""
    straight = {m: [[a, (a + b) / 2, b] for a, b in table] for m, table in CURVES.items()}
    (table,) = tables.summary_tables(curve_results(straight, labels=(10, 15, 20)))
    assert table.head[:5] == (
        "method",
        "AUBC of test accuracy, %",
        "AUBC minus random, points",
        "Wilcoxon p (Holm)",
        "labels to reach 65.0 %",
    )
    assert cells(table, "npc") == ["npc", "65.0 ± 5.3 (3)", "+5.0 ± 1.2", "0.500", "15", "75.0 ± 5.6 (3)"]
    assert cells(table, "random")[2:5] == ["–", "–", "20"]
    assert cells(table, "margin")[3] == "1.000"
    assert "With 3 pairs no p can be below 0.25" in table.note


def test_summary_has_pool_accuracy_and_coverage_where_measured(results):
    table = tables.summary_tables(results)[0]
    assert [h for h in table.head if "labels)" in h] == [
        "test accuracy, %, final (50 labels)",
        "pool accuracy, %, final (50 labels)",
        "class coverage, first (10 labels)",
        "class coverage, final (50 labels)",
    ]
    assert cells(table, "npc")[-2:] == ["0.4 ± 0 (5)", "1 ± 0 (5)"]


def test_a_target_out_of_reach_says_so(curve_results):
    r = curve_results({"random": [[0.5, 0.9]], "npc": [[0.5, 0.8]]})
    assert "> 20" in cells(tables.summary_tables(r)[0], "npc")


def test_a_missing_seed_shows_in_n_and_pairs_only_what_is_shared(curve_results):
    r = curve_results({"random": [[0.5, 0.6], [0.5, 0.6], [0.9, 0.9]], "npc": [[0.5, 0.7], [0.5, 0.7], [None, None]]})
    (main,) = tables.accuracy_tables(r, "test_accuracy")
    (summary,) = tables.summary_tables(r)
    assert cells(main, "npc")[2] == "70.00 ± 0.00 (2) ↑"
    assert cells(main, "random")[1] == "63.3 ± 23.1 (3)"
    assert summary.head[2] == "test accuracy at 20 labels minus random, points"  # half of an area would be the start's
    assert cells(summary, "npc")[2] == "+10.00 ± 0.00"


def test_labels_to_reach_are_of_the_seeds_that_both_have(curve_results):
    """npc is random, seed by seed; without the worst seed its own curve would be above random's."""
    rows = [[0.5, 0.6, 0.7], [0.6, 0.7, 0.8], [0.2, 0.3, 0.4]]
    r = curve_results({"random": rows, "npc": [*rows[:2], [None] * 3]}, labels=(10, 20, 30))
    (summary,) = tables.summary_tables(r)
    assert cells(summary, "npc")[4] == cells(summary, "random")[4] == "30"


def test_nan_values_are_missing_values(curve_results):
    r = curve_results({"random": [[0.5, 0.6], [0.5, 0.6]], "npc": [[0.5, NAN], [0.5, 0.7]], "crc": [[NAN, NAN]] * 2})
    (main,) = tables.accuracy_tables(r, "test_accuracy")
    assert cells(main, "npc")[1:] == ["50.00 ± 0.00 (2)", "70.0 (1)"]
    assert cells(main, "crc")[1:] == ["–", "–"]
    assert "nan" not in markdown(tables.all_tables(r))


@pytest.mark.parametrize("about", [{}, {"baseline": None}, {"baseline": "absent"}, {"metrics": []}])
def test_one_seed_one_method_one_group(curve_results, about):
    r = curve_results({"npc": [[0.5, 0.6]]}, **about)
    text = markdown(tables.all_tables(r))
    assert "| npc | 50.0 (1) | 60.0 (1) |" in text
    assert "nan" not in text


def test_no_records_at_all_make_no_tables(curve_results):
    assert tables.all_tables(curve_results({})) == []


def test_win_loss_table_counts_both_ways(curve_results):
    (table,) = tables.win_loss_tables(curve_results(CURVES))
    assert cells(table, "npc") == ["npc", "1", "–", "1", "2"]
    assert cells(table, "all losses") == ["all losses", "1", "0", "1", ""]
    assert "of 1 setting (group x number of labels)" in table.note


def test_without_a_clear_difference_there_is_no_table_of_wins(curve_results):
    assert tables.win_loss_tables(curve_results({m: CURVES[m] for m in ("random", "margin")})) == []


def test_the_papers_numbers_are_marked_when_not_comparable(make):
    first = tables.paper_tables(make())[0]
    assert first.title == "The paper's numbers (not comparable: this run is scaled down, scale “small”): CIFAR-10"
    assert cells(first, "npc") == ["npc", *["80.25 ± 0.50"] * 3]
    assert cells(first, "random")[1] == "80.25"


def test_the_papers_numbers_stand_beside_ours_when_comparable(make, curve_results):
    paper = {
        "source": "s",
        "unit": "%",
        "rows": [{"group": "", "method": "npc", "column": "20", "mean": 75.0, "sd": 1.0}],
    }
    (table,) = tables.paper_tables(curve_results(CURVES, paper=paper, comparable=True))
    assert table.title == "The paper's numbers"
    assert cells(table, "npc") == ["npc", "75.0 ± 1.0 (ours 75.0 ± 5.6 (3))"]
    assert tables.paper_tables(make(paper=None)) == []


def test_the_papers_deviations_keep_their_digits(curve_results):
    rows = [
        {"group": "", "method": m, "column": "20", "mean": mean, "sd": sd}
        for m, mean, sd in (("random", 37.29, 1.605), ("npc", 38.0, 1.78))
    ]
    (table,) = tables.paper_tables(curve_results(CURVES, paper={"source": "s", "rows": rows}))
    assert (cells(table, "random")[1], cells(table, "npc")[1]) == ("37.29 ± 1.605", "38.00 ± 1.780")


def test_rounds_stand_below_each_other_and_steps_beside_each_other(curve_results):
    r = curve_results(CURVES, layout="rounds")
    (table,) = tables.accuracy_tables(r, "test_accuracy")
    assert table.title == "Test accuracy, % by query round: supervised"
    assert table.head == ("round", "random", "npc", "margin")
    assert [row[0].text for row in table.rows] == ["round 0 (10 labels)", "round 1 (20 labels)"]
    assert table.rows[1][2] == Cell("75.0 ± 5.6 (3) ↑", True)
    late = dataclasses.replace(r, records=[*r.records, r.records[1]._replace(metric="rank", value=3.0)])
    (of_second,) = tables.accuracy_tables(late, "rank")
    assert [row[0].text for row in of_second.rows] == ["round 1 (20 labels)"], "a metric that the start has not"
    (steps,) = tables.accuracy_tables(curve_results(CURVES, layout="steps"), "test_accuracy")
    assert steps.head == ("method", "step 0 (10 labels)", "step 1 (20 labels)")
    paper = {"rows": [{"group": "", "method": "npc", "column": f"round {k}", "mean": k, "sd": 0.5} for k in (0, 1)]}
    (printed,) = tables.paper_tables(curve_results(CURVES, layout="rounds", comparable=True, paper=paper))
    assert printed.head == ("round", "npc")
    assert cells(printed, "round 1") == ["round 1", "1.0 ± 0.5 (ours 75.0 ± 5.6 (3))"]


def test_ends_are_one_table_of_methods_and_groups(curve_results):
    r = curve_results(CURVES, groups=("a", "b, 20 labels"), layout="ends")
    short = [q for q in r.records if (q.group, q.method, q.labels) != ("a", "margin", 20)]
    (table,) = tables.accuracy_tables(dataclasses.replace(r, records=short), "test_accuracy")
    assert table.title == "Test accuracy, % at the end: supervised"
    assert table.head == ("method", "a, 20 labels", "b, 20 labels")
    assert cells(table, "margin") == ["margin", "–", "65.3 ± 4.0 (3)"]
    assert table.rows[1][2] == Cell("75.0 ± 5.6 (3) ↑", True)
    rows = [{"group": g, "method": "npc", "column": "20", "mean": 75.5, "sd": None} for g in ("a", "b")]
    (printed,) = tables.paper_tables(curve_results(CURVES, layout="ends", paper={"rows": rows}))
    assert printed.head == ("method", "a, 20", "b, 20")
    assert cells(printed, "npc") == ["npc", "75.5", "75.5"]


def test_learners_side_by_side_tell_when_the_ranking_changes(make):
    """In the sample the second learner turns the order round, except that nobody differs from itself."""
    table = tables.learner_tables(make(noise=0.0))[0]
    assert table.head[1:4] == (
        "fixmatch+darp: test accuracy, % (50 labels)",
        "fixmatch+darp: gain over random",
        "fixmatch+darp: rank",
    )
    assert cells(table, "npc")[2:4] == ["+6.00 ± 0.00", "1"]
    assert cells(table, "npc")[5:] == ["-6.00 ± 0.00", "4"]
    assert "fixmatch+darp against supervised: -1.00 at the last number of labels (the ranking changes)" in table.note


def test_learners_with_the_same_ranking(make):
    r = make(noise=0.0, learners=["a"])
    r = dataclasses.replace(r, records=[*r.records, *(q._replace(learner="b") for q in r.records)])
    assert (
        "a against b: 1.00 at the last number of labels (the ranking stays), 1.00 by AUBC"
        in tables.learner_tables(r)[0].note
    )
    assert tables.learner_tables(make(learners=["a"])) == []


IOU = [{"kind": "iou"}]


def test_iou_table_is_of_the_last_count(results, make):
    assert tables.iou_tables(results) == [], "its figures have no overlap"
    first = tables.iou_tables(make(figures=IOU))[0]
    assert first.title == "Overlap of the chosen items, %, at 50 labels: CIFAR-10"
    assert first.head[-2:] == ("npc", "between its seeds")
    assert cells(first, "npc")[-2] == "100.0"


def test_iou_table_has_the_overlap_between_the_seeds_of_a_method(make):
    """Of {1, 2, 3}, {1, 2, 4} and {5, 6, 7}: 2 of 4, none, none."""
    asked = {("", "npc", s): [[90 + s], list(batch)] for s, batch in enumerate(((1, 2, 3), (1, 2, 4), (5, 6, 7)))}
    r = dataclasses.replace(make(groups=[""], methods=["npc"], seeds=range(3), figures=IOU), asked=asked)
    (table,) = tables.iou_tables(r)
    assert cells(table, "npc") == ["npc", "100.0", "16.7"]
    assert "mean over pairs of seeds" in table.note
    alone = dataclasses.replace(r, asked={("", "npc", 0): asked["", "npc", 0]})
    assert cells(tables.iou_tables(alone)[0], "npc") == ["npc", "100.0", "–"]


def test_times_are_medians_and_the_largest_memory(curve_results):
    times = [Record("", "npc", s, "", n, None, m, v) for s, n, m, v in (
        (0, 10, "select_seconds", 1.0), (0, 20, "select_seconds", 3.0), (1, 20, "select_seconds", 10.0),
        (0, 10, "peak_memory_mb", 300.0), (1, 10, "peak_memory_mb", 400.0),
    )]  # fmt: skip
    (table,) = tables.times_tables(dataclasses.replace(curve_results(CURVES), times=times))
    assert table.head == ("method", "selection, s per round (median)", "peak memory, MB (largest)")
    assert cells(table, "npc") == ["npc", "3", "400"]
    assert tables.times_tables(curve_results(CURVES)) == []


def test_times_of_several_groups_come_together_first(results):
    together, each = tables.times_tables(results)
    assert [row[0].text for row in together.rows] == results.about["methods"]
    seconds = [r.value for r in results.times if (r.method, r.metric) == ("npc", "select_seconds")]
    assert cells(together, "npc")[1] == f"{np.median(seconds):.4g}"
    assert len(each.rows) == 3 * len(together.rows)


def test_failures_are_listed(results, without):
    text = markdown(tables.all_tables(without(results, [("SVHN", "badge", 3)])))
    assert "### Cells that failed" in text
    assert "| SVHN | badge | 3 |" in text


def test_every_row_of_a_latex_table_has_its_columns(make):
    r = make(methods=["random", "A & B_1 %"], groups=["g & h"])
    for body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", latex(tables.all_tables(r)), re.S):
        for line in (x for x in body[1].splitlines() if x.endswith(r"\\")):
            assert len(re.findall(r"(?<!\\)&", line)) == len(body[0]) - 1


def test_compare_pairs_the_seeds_that_both_have(curve_results, store, tmp_path):
    first = curve_results({"random": [[0.5, 0.5], [0.6, 0.6], [0.9, 0.9]]})
    second = curve_results({"random": [[0.6, 0.6], [0.8, 0.8]], "npc": [[0.5, 0.5]]})
    found = tables.compare(
        [dataclasses.replace(r, folder=tmp_path / name) for r, name in ((first, "one"), (second, "two"))]
    )
    text = markdown(found)
    assert "| one | – | supervised | random | test accuracy, % | 10–20 | 66.7 ± 20.8 (3) |" in text
    assert "| two | – | supervised | npc | test accuracy, % | 10–20 | 50.0 (1) |" in text
    assert "| two minus one | – | supervised | random | 10–20 | +15.0 ± 63.5 | 2 |" in text


def test_compare_of_strangers_says_that_nothing_pairs(curve_results):
    text = markdown(tables.compare([curve_results({"a": [[0.5, 0.5]]}), curve_results({"b": [[0.5, 0.5]]})]))
    assert "there is nothing to pair" in text
    assert "tiny #1" in text
    assert "tiny #2" in text


def test_compare_shares_what_labels_there_are(curve_results):
    first = curve_results({"random": [[0.5, 0.6, 0.9]] * 2}, labels=(10, 20, 30))
    second = curve_results({"random": [[0.6, 0.7]] * 2}, labels=(10, 20))
    assert "| 10–20 | +10.00 ± 0.00 | 2 |" in markdown(tables.compare([first, second]))


def test_the_tables_of_a_folder_are_those_in_memory(results, store, tmp_path):
    stored = read(store(results, tmp_path / "run"))
    assert markdown(tables.all_tables(stored)) == markdown(tables.all_tables(results))
    assert panel(stored, "mmd", "SVHN").values.shape == (4, 5, 4)
