"""Text on its way to the terminal."""

import ast
import io
from pathlib import Path

import pytest
from rich.table import Table

import askless
from askless.base.terminal import Screen, progress_bar, visible

HOSTILE = "a\x1b[2J\x9b1m[bold]b[/bold][/] :smile: \u202e\x07\r\udcff"
SHOWN = r"a\x1b[2J\x9b1m[bold]b[/bold][/] :smile: \u202e\x07\r\udcff"


@pytest.mark.parametrize("text", ["plain", "ü 😀 👩‍👧 ٣ [x]", "two\nlines\tand a tab"])
def test_what_controls_nothing_is_shown_as_it_is(text):
    assert visible(text) == text


def test_names_cannot_control_the_terminal_or_be_markup():
    assert visible(HOSTILE) == SHOWN
    screen = Screen()
    screen.file = io.StringIO()
    screen.print(HOSTILE)
    screen.print(f"{HOSTILE} ", 1)
    table = Table("name", title=HOSTILE)
    table.add_row(HOSTILE)
    screen.print(table)
    with screen.status(HOSTILE):
        pass
    assert screen.file.getvalue().count(SHOWN) == 4
    assert not any(ord(c) < 32 and c != "\n" for c in screen.file.getvalue())


def test_a_progress_bar_shows_names_as_they_are(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    screen = Screen()
    screen.file = io.StringIO()
    with progress_bar(f"Indexing {HOSTILE}", screen) as move:
        move(1, 2)
    assert f"Indexing {SHOWN}" in screen.file.getvalue()


def test_data_in_a_pipe_is_not_changed():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Screen()
    for file, wanted in ((io.StringIO(), HOSTILE), (Terminal(), SHOWN)):
        screen.file = file
        screen.write(HOSTILE)
        assert file.getvalue() == wanted


def test_commands_print_through_that_screen_only():
    """No other console, no markup, and no print or echo of anything but JSON and the version."""
    for path in (Path(askless.__file__).parent / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
            assert not {"Console", "from_markup", "markup"} & set(names), path
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "typer.echo", "typer.secho"):
                said = ast.unparse(node.args[0])
                assert said.startswith("json.dumps(") or "__version__" in said, f"{path}: {said}"
