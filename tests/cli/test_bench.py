"""`askless bench`: list, new, run, report, compare; what is wrong is said before anything runs."""

import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from shutil import copytree

import pytest

from askless.acquire import STRATEGIES
from askless.bench import PRESETS
from askless.bench.plan import SCALES
from askless.cli import bench, main
from askless.data import SOURCES

FILE = """
from askless import Supervised
from askless.bench import Benchmark, Data, Row

common = {"data": Data(name="digits", items=80, test=30), "net": "small-cnn", "learner": Supervised(steps=2), "start": 10}
benchmark = Benchmark(
    name="mine",
    title="My own",
    rows=tuple(Row(method=m, strategy=m, counts=(10, 14), **common) for m in ("random", "margin")),
    seeds=(0, 1),
    figures=({"kind": "curves"},),
)
"""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setattr("askless.bench.runner.cores", lambda: 1)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def run(capsys, *arguments):
    """Exit code, standard output and standard error of the command line."""
    with pytest.raises(SystemExit) as done:
        main(["bench", *map(str, arguments)])
    said = capsys.readouterr()
    return done.value.code or 0, said.out, said.err


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with a finished run of `mine.py`, and what was said."""
    folder, out, err = tmp_path_factory.mktemp("original"), StringIO(), StringIO()
    (folder / "mine.py").write_text(FILE)
    arguments = ["bench", "run", str(folder / "mine.py"), "--workers", "1", "--out", str(folder / "out")]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("askless.bench.runner.cores", lambda: 1)
        with pytest.raises(SystemExit) as done:
            main(arguments)
    assert not done.value.code, err.getvalue()
    return folder, out.getvalue(), err.getvalue()


@pytest.fixture
def finished(original, tmp_path):
    """A copy of it that may be changed."""
    return copytree(original[0] / "out", tmp_path / "out")


def test_list_names_every_preset_and_what_it_is(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0
    words = " ".join(re.sub(r"[│┃┏┓┗┛━┡┩└┘─┴┬├┤┼]", " ", out).split())
    assert all(name in words for name in PRESETS)
    assert "askless bench run NAME --scale full | small | smoke" in words


def test_run_shows_the_main_table_and_where_the_rest_is(original):
    folder, shown, said = original
    out = folder / "out"
    assert "| random" in shown
    assert "| margin" in shown
    assert f"Report: {out / 'report.html'}" in shown
    names = {
        "report.html",
        "results.csv",
        "times.csv",
        "tables.md",
        "tables.tex",
        "times.md",
        "benchmark.json",
        "cells",
    }
    assert names <= {p.name for p in out.iterdir()}
    lines = said.splitlines()
    assert len(lines) == 4, "a line for each cell where nobody looks at a terminal"
    assert lines[0].startswith("mine: 1 of 4 cells, 0.")
    assert lines[-1].endswith("margin, seed 1: done")


def test_run_again_computes_nothing_and_more_seeds_only_those(capsys, file, finished):
    out = finished
    before = {p: p.stat().st_mtime_ns for p in out.glob("cells/*/result.json")}
    csv = (out / "results.csv").read_bytes()
    code, _, said = run(capsys, "run", file, "--workers", 1, "--out", out)
    assert (code, said) == (0, "")
    assert (out / "results.csv").read_bytes() == csv
    code, _, said = run(capsys, "run", file, "--seeds", 3, "--workers", 1, "--out", out)
    assert code == 0
    assert len(said.splitlines()) == 2
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert json.loads((out / "benchmark.json").read_text())["seeds"] == [0, 1, 2]


def test_the_command_is_noted_so_that_it_can_be_run_again(original, finished):
    about = json.loads((finished / "benchmark.json").read_text())
    assert about["command"].startswith(f"askless bench run {original[0] / 'mine.py'}")
    assert "--workers 1" in about["command"]
    assert about["command"] in (finished / "report.html").read_text()


def test_without_a_folder_it_is_named_after_the_benchmark(capsys, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "run", file, "--seeds", 1, "--workers", 1)[0] == 0
    assert (tmp_path / "bench" / "mine-small" / "report.html").exists()


def test_report_writes_again_what_is_finished(capsys, finished):
    out = finished
    texts = {name: (out / name).read_bytes() for name in ("results.csv", "tables.md", "tables.tex", "report.html")}
    for name in texts:
        (out / name).unlink()
    code, shown, _ = run(capsys, "report", out)
    assert code == 0
    assert "| margin" in shown
    assert {name: (out / name).read_bytes() for name in texts} == texts
    (out / "cells" / "all--margin--1" / "result.json").unlink()
    assert run(capsys, "report", out)[0] == 0
    rows = (out / "results.csv").read_text().splitlines()
    assert not [r for r in rows if r.startswith(",margin,1,")]
    assert [r for r in rows if r.startswith(",margin,0,")]


def test_report_says_failures_with_exit_code_3(capsys, finished):
    out = finished
    place = out / "cells" / "all--margin--1"
    (place / "result.json").unlink()
    (place / "failure.json").write_text(json.dumps({"reason": "out of luck"}))
    code, _, said = run(capsys, "report", out)
    assert code == 3
    assert "margin, seed 1: out of luck" in said


def test_compare_sets_runs_side_by_side(capsys, file, finished, tmp_path):
    file.write_text(FILE.replace("steps=2", "steps=3"))
    other = tmp_path / "other"
    assert run(capsys, "run", file, "--workers", 1, "--out", other)[0] == 0
    code, shown, _ = run(capsys, "compare", finished, other)
    assert code == 0
    assert "random" in shown
    assert "margin" in shown
    assert shown.count("|") > 10


def test_compare_writes_a_page(capsys, finished, tmp_path):
    other, page = copytree(finished, tmp_path / "other"), tmp_path / "compared.html"
    assert run(capsys, "compare", finished, other, "--out", page)[:2] == (0, f"Page: {page}\n")
    text = page.read_text()
    assert all(f">{title}<" in text for title in ("Curves", "Areas under the curve", "Paired differences"))
    assert "other minus out" in text
    assert text.count("<img") == 1
    code, _, said = run(capsys, "compare", finished, other, "--out", page)
    assert (code, "pass --overwrite to replace it" in said) == (2, True)
    code, _, said = run(capsys, "compare", finished, "--out", tmp_path / "compared.md")
    assert (code, "expected the name of an .html file" in said) == (2, True)


def test_a_new_benchmark_runs_as_it_is(capsys, tmp_path):
    mine = tmp_path / "mine.py"
    assert run(capsys, "new", mine)[0] == 0
    code, shown, said = run(
        capsys, "run", mine, "--scale", "smoke", "--seeds", 1, "--workers", 1, "--out", tmp_path / "o"
    )
    assert code == 0, said
    assert [row.split(" | ")[0] for row in shown.splitlines() if row.startswith("| ")] == [
        "| method",
        "| random",
        "| margin",
        "| askless",
    ]
    code, _, said = run(capsys, "new", mine)
    assert (code, "pass --overwrite to replace it" in said) == (2, True)
    for wrong in (tmp_path / "mine", ""):
        code, _, said = run(capsys, "new", wrong)
        assert (code, "expected the name of a Python file" in said) == (2, True)


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_folder_that_is_none_of_a_run_is_refused(capsys, tmp_path, command):
    code, _, said = run(capsys, command, tmp_path)
    assert code == 3
    assert f"expected a folder written by `askless bench run`, got {tmp_path}, which has no benchmark.json" in said


def test_an_unknown_preset_is_exit_code_2_with_the_known_names(capsys, tmp_path):
    code, _, said = run(capsys, "run", "npc.table9", "--out", tmp_path / "out")
    assert code == 2
    assert "unknown preset 'npc.table9'; did you mean 'npc.table3'? the known ones are" in said
    assert all(name in said for name in PRESETS)
    assert not (tmp_path / "out").exists()


def test_an_unknown_scale_is_exit_code_2_with_the_known_names(capsys, tmp_path):
    code, _, said = run(capsys, "run", "npc.table1", "--scale", "tiny", "--out", tmp_path / "out")
    assert code == 2
    assert "unknown scale 'tiny'; the known ones are full, small, smoke" in said
    assert not (tmp_path / "out").exists()


def test_the_names_that_are_checked_first_are_those_there_are():
    assert list(PRESETS) == list(bench.PRESETS)
    assert bench.SCALES == SCALES


SLIPS = """
import sys
from askless.cli import main

for wrong in (["npc.tabel1"], ["npc.table1", "--scale", "tiny"], ["nothing-here.py"]):
    try:
        main(["bench", "run", *wrong])
    except SystemExit as done:
        print(done.code, "torch" in sys.modules)
"""


def test_a_slip_is_said_before_torch_is_imported(tmp_path):
    done = subprocess.run([sys.executable, "-c", SLIPS], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines() == 3 * ["2 False"]
    assert "did you mean 'npc.table1'? the known ones are" in done.stderr
    assert "or a file FILE.py that defines `benchmark`" in done.stderr


def test_an_unknown_strategy_is_exit_code_2_with_the_known_names(capsys, file, tmp_path):
    file.write_text(FILE.replace('"margin")', '"margins")'))
    code, _, said = run(capsys, "run", file, "--out", tmp_path / "out")
    assert code == 2
    assert "unknown strategy 'margins'; did you mean 'margin'? the known ones are" in said
    assert all(name in said for name in STRATEGIES)
    assert not (tmp_path / "out").exists()


def test_unknown_data_is_exit_code_2_with_the_known_names(capsys, file, tmp_path):
    file.write_text(FILE.replace('name="digits"', 'name="digit"'))
    code, _, said = run(capsys, "run", file, "--out", tmp_path / "out")
    assert code == 2
    assert "unknown data 'digit'; did you mean 'digits'? the known ones are" in said
    assert all(name in said for name in SOURCES)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [("--workers", 0), ("--seeds", 0), ("--size", 3)])
def test_impossible_options_are_a_matter_of_usage(capsys, file, tmp_path, options):
    code, _, said = run(capsys, "run", file, *options, "--out", tmp_path / "out")
    assert code == 2
    assert str(options[0]) in said
    assert not (tmp_path / "out").exists()


def test_other_settings_in_the_same_folder_are_exit_code_3(capsys, file, finished):
    file.write_text(FILE.replace("steps=2", "steps=5"))
    code, _, said = run(capsys, "run", file, "--workers", 1, "--out", finished)
    assert code == 3
    assert (
        "was made with other settings (old → new): learner.steps: 2 → 5; use another folder, or remove this one" in said
    )
