import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest

import askless as al
from askless.cli import main
from askless.cli.stream import blocks

GOOD = '{"id": "a", "features": [1, 2]}\n'


def items(n=600, labelled=4):
    rng = np.random.default_rng(0)
    made = {"features": rng.normal(size=(n, 5)), "probs": rng.dirichlet(np.ones(3), n)}
    labels = np.where(np.arange(n) < labelled, np.arange(n) % 3, -1)
    lines = [
        {"id": f"item-{i}", **{name: array[i].tolist() for name, array in made.items()}}
        | ({"label": int(labels[i])} if labels[i] >= 0 else {})
        for i in range(n)
    ]
    return made, labels, "".join(json.dumps(line) + "\n" for line in lines)


def run(capsys, monkeypatch, text, *arguments):
    monkeypatch.setattr("sys.stdin", io.StringIO(text) if isinstance(text, str) else text)
    code = 0
    try:
        main(["stream", *map(str, arguments)])
    except SystemExit as done:
        code = done.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("strategy", ["askless", "margin"])
def test_a_stream_of_lines_is_the_stream_of_arrays(capsys, monkeypatch, tmp_path, strategy):
    made, labels, text = items()
    stream = al.Stream(strategy, 6, 50, seed=3)
    stream.add(labels=labels, **made)
    wanted = stream.picks()
    common = ("-n", 6, "--memory", 50, "--strategy", strategy, "--seed", 3)
    code, out, err = run(capsys, monkeypatch, text, *common)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0, err
    assert [int(row["index"]) for row in rows] == wanted.indices.tolist()
    assert [float(row["score"]) for row in rows] == pytest.approx(wanted.scores)
    assert [row["id"] for row in rows] == [f"item-{i}" for i in wanted.indices]
    assert f"6 picks by {strategy} of 600 items" in err
    code, printed, err = run(capsys, monkeypatch, "\n" + text, *common, "--out", tmp_path / "picks.csv")
    assert (code, printed) == (0, "")
    assert (tmp_path / "picks.csv").read_text() == out
    assert "written to" in err
    code, _, err = run(capsys, monkeypatch, text, *common, "--out", tmp_path / "picks.csv")
    assert code == 2
    assert "already exists" in err


def test_from_a_pipe_with_options_and_without_ids():
    text = "".join(f'{{"features": [{i}, {i * i % 7}]}}\n' for i in range(40))
    command = [sys.executable, "-m", "askless", "stream", "-n", "3", "--memory", "10", "--option", "trust=5"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rank,index,score\n0,")
    assert "3 picks by askless of 40 items" in done.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "code", "message"),
    [
        ("", (), 3, "n = 2 exceeds the 0 unlabelled items seen so far; lower n or add more first"),
        (GOOD + "{", (), 3, 'line 2: expected an item such as {"id": "a", "features": [0.1, 2]}: Expecting'),
        ("[1, 2]\n", (), 3, "line 1: expected an item such as {"),
        ("[" * 100_000, (), 3, "line 1: expected an item such as {"),
        ('{"features": [1, "x"]}\n', (), 3, "could not convert string to float: 'x'"),
        ('{"features": [[1], [1, 2]]}\n', (), 3, "line 1: expected an item such as {"),
        (
            GOOD + '{"id": "b", "features": [1]}\n',
            (),
            3,
            "line 2: expected {'features': (2,), 'id': ()}, as in the first",
        ),
        (GOOD + '{"features": [1, 3]}\n', (), 3, "line 2: expected {'features': (2,), 'id': ()}, as in the first line"),
        (
            GOOD + "\n" + GOOD.replace("2", "NaN"),
            (),
            3,
            "lines 1 to 3: features: expected finite numbers, got nan in row 1",
        ),
        ('{"features": [1], "label": "cat"}\n', (), 3, "line 1: expected a class number as label, got 'cat'"),
        ('{"id": 7}\n', (), 3, "lines 1 to 1: askless needs features (N, d)"),
        (GOOD, ("--memory", 3), 3, "memory must be a whole number >= 4, twice the budget"),
        (GOOD, ("--strategy", "albl"), 3, "albl learns from earlier picks"),
        (GOOD, ("--strategy", "none"), 2, "the known ones are askless, random"),
        (GOOD, ("--option", "drawz=3"), 2, "Askless: got drawz; its options are"),
    ],
)
def test_bad_lines_end_with_a_sentence_and_a_code(capsys, monkeypatch, text, arguments, code, message):
    got, _, err = run(capsys, monkeypatch, text, "-n", 2, *arguments)
    assert (got, message in err) == (code, True), err
    assert "Traceback" not in err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_is_asked_to_pipe_something_in(capsys, monkeypatch):
    code, _, err = run(capsys, monkeypatch, Terminal(), "-n", 2)
    assert code == 2
    assert "pipe them in, as in `producer | askless stream -n 100`" in err


def test_bytes_that_are_no_text_are_named_by_their_line():
    lines = io.TextIOWrapper(io.BytesIO(GOOD.encode() + b"\xff\n"), encoding="utf-8")
    with pytest.raises(al.InputError, match=r"line \d: expected UTF-8"):
        list(blocks(lines))
