import numpy as np
import pytest
from rich.console import Console

from askless import demo
from askless.cli import main
from askless.curves import gain, run


@pytest.fixture(scope="module")
def curves():
    """Two seeds of both strategies, with next to no training."""
    return [run(demo.plan(steps=3), name, name, seed)[0] for name in demo.STRATEGIES for seed in (0, 1)]


def test_strategies_of_a_seed_share_their_start(curves):
    for seed in (0, 1):
        first = [c for c in curves if c.seed == seed]
        assert first[0].asked[0] == first[1].asked[0]
        assert first[0].test[0] == first[1].test[0]
        assert first[0].asked[1] != first[1].asked[1]
    assert all(len({i for batch in c.asked for i in batch}) == 50 for c in curves)


def test_the_table_shows_both_with_their_spread(curves):
    console = Console(width=120)
    with console.capture() as shown:
        console.print(demo.table(curves))
    for word in ("random", "npc", "test", "pool", "±", "95 %"):
        assert word in shown.get()


def test_the_gain_is_paired_by_seed(curves):
    mean, half = gain(curves, "npc")
    by_hand = [np.mean(n.test) - np.mean(r.test) for r, n in zip(curves[:2], curves[2:], strict=True)]
    assert mean == pytest.approx(100 * np.mean(by_hand))
    assert half == pytest.approx(12.706 * 100 * np.std(by_hand, ddof=1) / np.sqrt(2), rel=1e-3)


def test_the_report_is_one_file_with_curves_choices_and_map(curves, tmp_path):
    page = demo.write_report(curves, tmp_path / "demo").read_text()
    assert page.count("data:image/png") == 4
    for word in ("learning curves", "chosen by npc", "chosen by random", "map of the pool"):
        assert word in page
    assert "http" not in page
    assert [p.name for p in (tmp_path / "demo").iterdir()] == ["report.html"]


def test_the_command_runs_in_worker_processes(tmp_path, capsys):
    code = None
    try:
        main(["demo", "--seeds", "1", "--steps", "2", "--out", str(tmp_path)])
    except SystemExit as done:
        code = done.code
    assert not code
    assert "report.html" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists()
