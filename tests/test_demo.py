from rich.console import Console

from askless import demo
from askless.cli import main


def test_a_small_demo_compares_every_strategy_and_writes_a_report(tmp_path, capsys):
    main_exit = None
    try:
        main(["demo", "--seeds", "1", "--out", str(tmp_path / "demo")])
    except SystemExit as done:
        main_exit = done.code
    assert not main_exit
    page, shown = (tmp_path / "demo" / "report.html").read_text(), capsys.readouterr().out
    for name in demo.STRATEGIES:
        assert name in page
        assert name in shown
    assert page.count("data:image/png") == 4
    assert "http" not in page


def test_strategies_of_a_seed_share_their_start_and_the_numbers_add_up():
    data = demo.digits()
    assert len(data.pool) == 1397
    curves = [demo.run(data, name, seed) for name in ("random", "npc") for seed in (0, 1)]
    by_seed = {seed: {c.accuracy[0] for c in curves if c.seed == seed} for seed in (0, 1)}
    assert all(len(first) == 1 for first in by_seed.values())
    assert all(len({i for batch in c.asked for i in batch}) == 40 for c in curves)
    assert all(c.accuracy[-1] > c.accuracy[0] > 0.3 for c in curves)
    again = demo.run(data, "npc", 1)
    assert again.asked == curves[-1].asked
    assert demo.gain_over_random(curves, "random") == (0.0, 0.0)
    console = Console(width=200)
    with console.capture() as shown:
        curves_all = [c for c in curves] + [
            demo.Curve(n, s, (0.5,) * 5, ((),), 0.0)
            for n in demo.STRATEGIES
            if n not in ("random", "npc")
            for s in (0, 1)
        ]
        console.print(demo.table(curves_all))
    assert "50.0±0.0" in shown.get()
