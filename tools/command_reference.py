"""docs/commands.md from the commands themselves.

    python tools/command_reference.py            # prints the page
    python tools/command_reference.py --docs     # renews docs/commands.md

Everything on the page is what `--help` says, read from the parameters and not from the printed help, which depends on the
width of the terminal and on the version of rich.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import typer.main

from askless.base.files import write_whole
from askless.cli.app import app
from askless.cli.examples import EXAMPLES

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# The commands

`python tools/command_reference.py --docs` writes this page from the commands themselves. Every command has `--help`, or
`-h`. `askless --install-completion` sets up completion in your shell. `python -m askless` is the same as `askless`.

Exit codes: 0 success, 1 a bug in askless, 2 a wrong option, 3 a problem with data, a file or the disk, 4 a port or run in
use, 130 stopped by Ctrl+C. Errors are one paragraph; `--debug` or `ASKLESS_DEBUG=1` adds the traceback.
"""


def walk(command: Any, name: str) -> list[tuple[str, Any]]:
    """Every command that does something, with its whole name, in the order of `--help`."""
    inside = getattr(command, "commands", None)
    if inside is None:
        return [(name, command)]
    return [found for word, sub in inside.items() for found in walk(sub, f"{name} {word}")]


def commands() -> list[tuple[str, Any]]:
    return walk(typer.main.get_command(app), "askless")


def cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def default(parameter: Any) -> str:
    """What is taken where nothing is given; a flag is off."""
    value = parameter.default
    if parameter.required:
        return "needed"
    return "" if value is None or isinstance(value, bool) or value in ("", (), []) else f"`{value}`"


def rows(command: Any) -> list[str]:
    """A line per argument and option."""
    lines = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = parameter.metavar or (parameter.name or "").upper()
        else:
            shown = ", ".join([*parameter.opts, *parameter.secondary_opts])
        lines.append(f"| `{cell(shown)}` | {cell(parameter.help or '')} | {default(parameter)} |")
    return lines


def section(name: str, command: Any) -> str:
    examples = "\n".join(f"$ {line}" for line in EXAMPLES[name.removeprefix("askless ")])
    parts = [f"## {name}", cell(command.help or ""), f"```console\n{examples}\n```"]
    found = rows(command)
    if found:
        parts.append("\n".join(["| option | what | default |", "|---|---|---|", *found]))
    return "\n\n".join(parts)


def page() -> str:
    return "\n".join([HEAD, *(section(name, command) + "\n" for name, command in commands())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="renew docs/commands.md")
    if parser.parse_args().docs:
        text = page().encode()
        write_whole(PAGE, lambda file: file.write(text))
    else:
        print(page())


if __name__ == "__main__":
    main()
