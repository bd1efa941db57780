"""`askless stream`: choose from items on standard input, one line of JSON each."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from askless.acquire.table import BY_ROWS
from askless.base.errors import InputError, OptionError
from askless.base.options import is_whole_number
from askless.base.terminal import notes, out
from askless.cli import files

LINES = 256  # in a block


def stream(
    n: Annotated[
        int,
        typer.Option("-n", "--number", help="How many items to choose.", parser=files.read_count, metavar="<int>"),
    ],
    memory: Annotated[int, typer.Option(help="Maximum number of unlabelled items held, at least twice -n.")] = 1000,
    strategy: Annotated[str, typer.Option(help="How to choose; see `askless strategies`.")] = "askless",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the strategy, such as trust=5. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same picks.")] = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Write a .csv (rank, index, score, id) instead of printing.")
    ] = None,
    overwrite: files.Overwrite = False,
) -> None:
    """Choose from a stream that is read once: JSON lines on standard input, such as {"id": "a", "features": [0.1, 2],
    "probs": [0.4, 0.6]}. A "label" (a class number) marks an item as labelled."""
    import askless

    files.check_writable(to)
    files.may_replace(to, overwrite)
    chosen = askless.Stream(askless.acquire.make(strategy, **files.read_options(option or [])), n, memory, seed=seed)
    if sys.stdin is None or sys.stdin.isatty():
        raise OptionError(
            "expected JSON lines on standard input; pipe them in, as in `producer | askless stream -n 100`"
        )
    for where, block in blocks(sys.stdin):
        try:
            chosen.add(**block)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    picks = chosen.picks()
    table = files.picks_csv(picks, picks.info.get("ids"))
    if to is None:
        out.write(table)
    else:
        files.write_text(to, table)
    notes.print(f"{len(picks)} picks by {strategy} of {chosen.seen:,} items" + (f", written to {to}" if to else ""))


def blocks(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Blocks of JSON lines: the lines in words, for errors, and the arguments of `Stream.add`."""
    rows: dict[int, dict[str, Any]] = {}  # by the number of their line
    first: dict[str, Any] = {}
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                rows[number] = read_item(number, line, first)
                first = first or rows[number]
            if len(rows) == LINES:
                yield f"lines {min(rows)} to {number}", stacked([*rows.values()])
                rows = {}
    except UnicodeError as error:
        raise InputError(f"line {number + 1}: expected UTF-8: {error}") from None
    if rows:
        yield f"lines {min(rows)} to {number}", stacked([*rows.values()])


def read_item(number: int, line: str, first: dict[str, Any]) -> dict[str, Any]:
    """The arrays, the label and any id of one item, of the same kind as the first item."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError(f"got {type(found).__name__}")
        item: dict[str, Any] = {name: np.asarray(found[name], dtype=np.float64) for name in BY_ROWS if name in found}
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        shape = '{"id": "a", "features": [0.1, 2]}'
        raise InputError(f"line {number}: expected an item such as {shape}: {str(error).splitlines()[0]}") from None
    label = -1 if found.get("label") is None else found["label"]
    if not is_whole_number(label, -1, 2**31):
        raise InputError(f"line {number}: expected a class number as label, got {label!r}; number the classes from 0")
    if "id" in found:
        item["id"] = str(found["id"])
    kind, wanted = ({name: np.shape(value) for name, value in one.items() if name != "label"} for one in (item, first))
    if first and kind != wanted:
        raise InputError(f"line {number}: expected {wanted}, as in the first line, got {kind}")
    return item | {"label": label}


def stacked(rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    names = {"label": "labels", "id": "ids"}
    return {names.get(name, name): column if name in names else np.stack(column) for name, column in columns.items()}
