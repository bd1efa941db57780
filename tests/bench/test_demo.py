import dataclasses
import os
import re
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from sklearn.manifold import TSNE

from askless.bench import Record, compute, demo, runner
from askless.cli import main
from askless.learn import Auto


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Next to no training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "LEARNER", Auto(directions=4))
        yield


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "cores", lambda: 1)
        yield


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two seeds of both strategies."""
    return demo.run(tmp_path_factory.mktemp("demo"), seeds=2, workers=1)


@pytest.fixture
def no_map(monkeypatch):
    """The map takes seconds; nobody looks at it here."""
    monkeypatch.setattr(demo, "_map_figure", lambda asked: Figure(figsize=(1, 1)))


def made_up(results, values):
    """The same with these accuracies: {(method, seed): by number of labels}; the seeds in another order for each method."""
    records = [
        Record("", method, seed, "auto", labels, None, f"{on}_accuracy", value - (on == "pool") * 0.01)
        for (method, seed), curve in values.items()
        for labels, value in zip(demo.LABELS, curve, strict=True)
        for on in ("test", "pool")
    ]
    return dataclasses.replace(results, records=records)


def shown(table):
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table.terminal())
    return capture.get()


def command(*arguments):
    try:
        main(["demo", *map(str, arguments)])
    except SystemExit as done:
        return done.code or 0
    return 0


def test_strategies_of_a_seed_share_their_start(results):
    assert set(results.asked) == {("", name, seed) for name in ("random", "askless") for seed in (0, 1)}
    for seed in (0, 1):
        random, own = (results.asked["", name, seed] for name in ("random", "askless"))
        assert random[0] == own[0]
        assert random[1] != own[1]
        for on in demo.ON:
            first = [demo.accuracies(results, name, on)[seed, 0] for name in demo.STRATEGIES]
            assert first[0] == first[1] > 0
    assert results.asked["", "askless", 0][0] != results.asked["", "askless", 1][0]
    for rounds in results.asked.values():
        assert [len(batch) for batch in rounds] == [10] * 5
        assert len({i for batch in rounds for i in batch}) == 50


def test_the_start_has_one_image_of_every_digit(results):
    labels = demo.digits().labels
    for rounds in results.asked.values():
        assert sorted(labels[rounds[0]]) == list(range(10))


def test_the_gain_is_paired_by_seed(results):
    """Seed 0: 53 - 50, seed 1: 81 - 80: 2 ± t sd / sqrt(2) = 12.706 * sqrt(2) / sqrt(2)."""
    level = {("random", 1): 0.80, ("random", 0): 0.50, ("askless", 0): 0.53, ("askless", 1): 0.81}
    tilt = np.array([-0.02, -0.01, 0, 0.01, 0.02])  # which the mean of a curve does not see
    made = made_up(results, {key: value + tilt for key, value in level.items()})
    for on in demo.ON:
        d = demo.gain(made, on)
        assert (d.mean, d.half, d.n) == (pytest.approx(2), pytest.approx(12.706, abs=1e-3), 2)
    assert "+2.0 ± 12.7 points (95 %, paired)" in " ".join(shown(demo.table(made)).split())


def test_the_gain_is_that_of_the_records(results):
    value = {(r.method, r.seed, r.labels): r.value for r in results.records if r.metric == "test_accuracy"}
    by_hand = [np.mean([value["askless", s, n] - value["random", s, n] for n in demo.LABELS]) for s in (0, 1)]
    assert demo.gain(results, "test").mean == pytest.approx(100 * np.mean(by_hand))


def test_the_table_shows_both_with_their_spread_in_80_columns(results):
    made = made_up(
        results,
        {(m, s): [0.5 + s / 10] * 4 + [1.0] for m, s in (("random", 0), ("random", 1), ("askless", 0), ("askless", 1))},
    )
    text = shown(demo.table(made))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    # 50 and 60: mean 55, sd sqrt(50); on the pool one point less
    assert re.findall(r"(test|pool) +(random|askless)", text) == [(on, m) for on in demo.ON for m in demo.STRATEGIES]
    assert (text.count("55.0 ± 7.1"), text.count("54.0 ± 7.1"), text.count("100.0 ± 0.0")) == (8, 8, 2)
    assert " ".join(text.split()).count("+0.0 ± 0.0 points (95 %, paired)") == 2
    assert "of 2 seeds" in " ".join(text.split())


def test_the_report_is_one_file_with_curves_choices_and_map(results, tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn.manifold.TSNE", partial(TSNE, max_iter=250))  # the least that it takes
    made = made_up(results, {key[1:]: [0.5, 0.6, 0.7, 0.8, 0.87] for key in results.asked})
    page = demo.write_report(made, tmp_path / "demo").read_text()
    assert page.count("<img") == page.count('src="data:image/png;base64,') == 4
    for word in ("learning curves", "chosen by askless", "chosen by random", "map of the pool"):
        assert word in page
    assert (page.count("<td>87.0 ± 0.0</td>"), page.count("<td>86.0 ± 0.0</td>")) == (2, 2)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)  # where it may stand by chance
    assert "askless demo --seeds 2" in page
    assert [p.name for p in (tmp_path / "demo").iterdir()] == ["report.html"]


@pytest.mark.usefixtures("no_map")
def test_one_seed_has_neither_spread_nor_interval(results, tmp_path):
    one = demo.run(results.folder.parent, seeds=1, workers=1)  # the first of the two that are there
    assert {r.seed for r in one.records} == {r.seed for r in one.times} == {key[2] for key in one.asked} == {0}
    page = demo.write_report(one, tmp_path).read_text()
    for text in (re.sub("<img.*?>", "", page), " ".join(shown(demo.table(one)).split())):
        assert "one seed" in text
        assert "nan" not in text
        assert "±" not in text


def test_a_demo_that_was_killed_goes_on(results, tmp_path):
    def kill(progress):
        if progress.rounds == 7:  # of 20: the first curve is finished, the second is not
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path, seeds=2, workers=1, progress=kill)
    done = list(tmp_path.rglob("result.json"))
    assert len(done) == 1
    stamp = done[0].stat().st_mtime_ns
    again = demo.run(tmp_path, seeds=2, workers=1)
    assert again.records == results.records, "as if nothing had happened"
    assert again.asked == results.asked
    assert done[0].stat().st_mtime_ns == stamp


@pytest.mark.usefixtures("no_map")
def test_other_seeds_in_the_same_folder_are_no_trouble(tmp_path, capsys):
    for seeds in (1, 2, 1):
        assert command("--seeds", seeds, "--workers", 1, "--out", tmp_path) == 0
        said = capsys.readouterr()
        assert ("mean ± standard deviation of 2 seeds" if seeds == 2 else "one seed") in " ".join(said.out.split())
        assert f"Results: {tmp_path / 'kept-'}" in said.err
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert [re.sub("-[0-9a-f]{8}$", "", name) for name in kept] == ["kept", "report.html"]
    assert len(list(tmp_path.glob("kept-*/cells/*/result.json"))) == 4


@pytest.mark.usefixtures("no_map")
def test_a_curve_that_failed_is_said_and_computed_the_next_time(tmp_path, monkeypatch, capsys):
    def fails(row, *args, **options):
        if row.method == "askless":
            raise MemoryError("no memory")
        return run_cell(row, *args, **options)

    run_cell = compute.run_cell
    given = ("--seeds", 1, "--workers", 1, "--out", tmp_path)
    monkeypatch.setattr(compute, "run_cell", fails)
    assert command(*given) == 3
    said = capsys.readouterr()
    assert "1 of 2 curves failed (askless, seed 0: MemoryError: no memory); the others are kept in" in said.err
    assert not (tmp_path / "report.html").exists()
    monkeypatch.setattr(compute, "run_cell", run_cell)
    assert command(*given) == 0
    assert (tmp_path / "report.html").exists()


def test_a_folder_that_cannot_be_is_said_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "run", lambda *args: pytest.fail("ran"))
    (tmp_path / "taken").write_text("")
    assert command("--out", tmp_path / "taken") == 3
    assert "taken: cannot write into this folder: File exists; choose another place" in capsys.readouterr().err


@pytest.mark.usefixtures("ready_workers", "no_map")
def test_the_command_runs_in_worker_processes(tmp_path, monkeypatch, capsys):
    here = os.getpid()
    fail = lambda *args: pytest.fail(f"computed in {here}")  # noqa: E731  (not in a spawned process)
    monkeypatch.setattr(compute.CellWorker, "__call__", fail)
    assert command("--seeds", 1, "--workers", 2, "--out", tmp_path) == 0
    said = capsys.readouterr()
    assert f"Report: {tmp_path / 'report.html'}" in said.out
    assert "demo: 2 of 2 cells" in said.err
    assert (tmp_path / "report.html").exists()
