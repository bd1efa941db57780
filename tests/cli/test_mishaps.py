"""Whatever ends a command is told in one paragraph, with a code."""

import errno
import os
import sqlite3
import subprocess
import sys

import pytest

from askless.base.errors import BusyError, InputError, OptionError
from askless.cli import main, mishaps
from askless.cli.mishaps import ending

KEPT = "Everything saved before is safe."


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("a: expected b"), 3, "a: expected b"),
        (OptionError("--x: expected y"), 2, "--x: expected y"),
        (BusyError("in use"), 4, "in use"),
        (OSError(errno.ENOSPC, "x", "a.csv"), 3, f"a.csv: the disk is full. Make room and run the command again. {KEPT}"),
        (OSError(errno.EIO, "x", "a"), 3, "a: the disk reported an error. Check the disk, then run the command again."),
        (OSError(errno.EROFS, "x", "a"), 3, "a: the disk is read-only. Choose another place, or make it writable."),
        (OSError(errno.ENAMETOOLONG, "x", "aa"), 3, "aa: the name is too long. Use a shorter one."),
        (PermissionError(errno.EACCES, "x", "a"), 3, "a: permission denied. Check who may read and write it, or choose"),
        (FileNotFoundError(errno.ENOENT, "x", "a", None, "b"), 3, "a or b: no such file or folder. Check the path."),
        (OSError(errno.EXDEV, "Invalid cross-device link", b"a"), 3, f"a: Invalid cross-device link. {KEPT}"),
        (OSError(errno.ENOSPC, "x"), 3, "the disk is full. Make room and run"),
        (OSError("what\n  a mess"), 3, f"what a mess. {KEPT}"),
        (RuntimeError("Symlink loop from '/a'"), 3, "/a: symbolic links form a loop. Fix the link, or give the path of"),
        (sqlite3.OperationalError("database or disk is full"), 3, "the database of the run: the disk is full. Make room"),
        (sqlite3.OperationalError("disk I/O error"), 3, "the database of the run: the disk reported an error. Check"),
        (sqlite3.OperationalError("attempt to write a readonly database"), 3, "no permission to write (attempt to"),
        (sqlite3.OperationalError("database is locked"), 4, "another program is writing to it. Wait until it finishes"),
        (sqlite3.DatabaseError("file is not a database"), 3, "it is damaged (file is not a database). `askless doctor RUN`"),
        (MemoryError(), 3, "not enough memory. Close other programs, or process less at a time."),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 3, "not enough memory. Close other"),
        (RecursionError(), 3, "the data is nested too deeply. Check the files for many brackets within brackets."),
    ],
)  # fmt: skip
def test_an_error_becomes_a_paragraph_and_a_code(error, code, text):
    said, ended = ending(error)
    assert ended == code
    assert text in said
    assert "\n" not in said


def test_the_database_that_is_meant_is_named(tmp_path):
    (tmp_path / "state.sqlite").touch()
    said, _ = ending(sqlite3.DatabaseError("malformed"), ["status", "x" * 300, str(tmp_path)])
    assert f"{tmp_path / 'state.sqlite'}: it is damaged (malformed)" in said


@pytest.fixture
def broken(monkeypatch):
    """`askless strategies` raises what is in the list."""
    raised = []

    class Strategies:
        def items(self):
            raise raised[0]

    monkeypatch.setattr(sys.modules["askless.cli.app"], "STRATEGIES", Strategies())
    return raised


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_a_bug_says_so_and_where_the_details_are(broken, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken.append(KeyError("no\x1b[31m"))
    code, out, err = call(capsys, "strategies")
    (details,) = tmp_path.iterdir()
    assert (code, out) == (1, "")
    assert err == (
        f"askless: this is a bug in askless (KeyError: 'no\\x1b[31m'). The details are in {details}; please report it with "
        f"them and the command. {KEPT}\n"
    )
    assert "Traceback" in details.read_text()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert "`--debug` shows the details; please report it" in call(capsys, "strategies")[2]


@pytest.mark.parametrize("words", [("--debug", "strategies"), ("strategies", "--debug")])
def test_debug_shows_the_traceback_and_ends_with_the_same_code(broken, capsys, words):
    broken.append(OSError(errno.ENOSPC, "no space", "a.csv"))
    code, _, err = call(capsys, *words)
    assert code == 3
    assert "Traceback (most recent call last)" in err
    assert err.endswith(f"askless: a.csv: the disk is full. Make room and run the command again. {KEPT}\n")


def test_debug_may_come_from_the_environment(broken, capsys, monkeypatch):
    broken.append(OSError("no"))
    monkeypatch.setenv("ASKLESS_DEBUG", "1")
    assert "Traceback" in call(capsys, "strategies")[2]
    monkeypatch.setenv("ASKLESS_DEBUG", "0")
    assert "Traceback" not in call(capsys, "strategies")[2]


def test_after_two_dashes_debug_is_a_name(capsys):
    code, _, err = call(capsys, "status", "--", "--debug")
    assert code == 3
    assert "--debug: expected a run" in err


def test_ctrl_c_is_130_without_a_word(broken, capsys):
    broken.append(KeyboardInterrupt())
    assert call(capsys, "strategies") == (130, "", "")


def test_a_wrong_use_is_one_line_that_names_the_help(capsys):
    assert call(capsys, "status", "--nope\x1b[2J") == (2, "", "askless: " + NO_OPTION + "\n")
    assert call(capsys, "status") == (2, "", "askless: Missing argument 'RUN'. See `askless status --help`.\n")
    code, out, err = call(capsys, "bench")
    assert (code, err) == (2, "")
    assert "compare" in out


NO_OPTION = r"No such option: --nope\x1b[2J See `askless status --help`."


def test_a_question_without_an_answer_is_a_wrong_use(broken, capsys):
    import typer

    broken.append(typer.Abort())
    broken[0].__cause__ = EOFError()
    code, _, err = call(capsys, "strategies")
    assert (code, err) == (2, "askless: expected an answer to the question, got the end of the input\n")


PROGRAM = [sys.executable, "-m", "askless"]


def test_a_pipe_that_nobody_reads_ends_it_quietly():
    """`askless select ... | head`, with more than a pipe holds."""
    command = [*PROGRAM, "select", "-n", "40000", "--strategy", "random", "--pool", "50000"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"rank,index,score\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == mishaps.PIPE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is always full")
def test_standard_output_on_a_full_disk():
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, "--version"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        3,
        f"askless: the disk is full. Make room and run the command again. {KEPT}\n",
    )


def test_a_standard_output_that_is_closed():
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m askless --version >&-"], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_the_letters_takes_them_written_out(tmp_path):
    (tmp_path / "ü").mkdir()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*PROGRAM, "status", "ü"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 3
    assert r"askless: \xfc: expected a run" in done.stderr
