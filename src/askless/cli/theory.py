"""`askless theory`: apply the papers' theory to a finished run."""

import fnmatch
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from askless.base.errors import InputError, OptionError, some
from askless.base.terminal import notes, out, progress_bar
from askless.cli import files
from askless.cli.bench import find

if TYPE_CHECKING:
    from askless.active.learner import ActiveLearner
    from askless.bench import Benchmark, Row

EXPECTED = (
    "expected a labelling run, a folder written by ActiveLearner.save, or one of `askless bench run` or its cells"
)
DATA = ("data", "net", "augment", "validation")  # settings of a row that decide what its network sees


def theory(
    run: Annotated[
        Path, typer.Argument(help="A labelling run, a saved learner, a benchmark's folder, or one of its cells.")
    ],
    cell: Annotated[
        list[str] | None,
        typer.Option(
            help="With a benchmark: a name under cells/, or a pattern such as '*--0'; several are set side by side. "
            "Repeatable. Default: the first finished one."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="Folder. Default: RUN/theory, or RUN/theory/CELL for one cell.")
    ] = None,
    items: Annotated[int, typer.Option(help="Maximum number of labelled items to look at.", min=4)] = 200,
    queries: Annotated[int, typer.Option(help="Number of random queries for the approximation ratio.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.", min=0)] = 0,
) -> None:
    """Compute kernel, bounds and training dynamics of a finished run. Writes theory.html and theory.json."""
    from askless.theory.findings import Findings, examine
    from askless.theory.page import write, write_side_by_side
    from askless.theory.words import side_by_side, table

    places, name, default = locate(run, cell or [])
    folder = to or default
    files.check_folder(folder)
    found: dict[str, Findings] = {}
    for place in places:
        with trained(place) as learner, progress_bar(name if len(places) == 1 else place.name, notes) as progress:
            found[place.name] = examine(learner, items=items, queries=queries, seed=seed, progress=progress)
    options = {"--items": items, "--queries": queries, "--seed": seed}
    given = [*(word for one in cell or () for word in ("--cell", one)), *(str(w) for o in options.items() for w in o)]
    command = shlex.join(["askless", "theory", str(run), *given])
    title = f"What the theory says about {name}"
    if len(found) == 1:
        (one,) = found.values()
        out.print(table(one, title).terminal())
        for note in one.notes:
            out.print(f"Note: {note}")
        out.print(f"Page: {write(one, folder, name, command)}")
        return
    out.print(side_by_side(found, title).terminal())
    out.print(f"Page: {write_side_by_side(found, folder, name, command)}")


def locate(run: Path, cells: list[str]) -> tuple[list[Path], str, Path]:
    """The folders of the learner, of the run or of finished cells, their name, and the default folder of their page."""
    from askless.bench.results import ABOUT, CELLS
    from askless.run.run import NAME as DATABASE

    if not run.is_dir():
        raise InputError(f"{run}: no such folder; {EXPECTED}")
    run_name = run.resolve().name
    if (run / ABOUT).exists():
        finished = finished_cells(run)
        if not cells and not finished:
            raise InputError(f"{run}: expected a benchmark with a finished cell, got none; resume the benchmark")
        names = matching(run, cells, finished) if cells else finished[:1]
        if len(names) > 1:
            return [run / CELLS / name for name in names], run_name, run / "theory"
        return [run / CELLS / names[0]], f"{run_name}, {names[0]}", run / "theory" / names[0]
    if cells:
        raise OptionError(
            f"--cell is for a folder of `askless bench run`, got {run}, which has no {ABOUT}; leave it out"
        )
    if run_name == "learner" and (run.parent / "result.json").exists():
        run, run_name = run.parent, run.resolve().parent.name  # what a cell saved, without its data
    if any((run / name).exists() for name in ("learner.json", "result.json", DATABASE)):
        return [run], run_name, run / "theory"
    if (run / "progress.json").exists():
        raise InputError(f"{run}: expected a finished cell, got one with rounds left; resume the benchmark")
    raise InputError(f"{run}: {EXPECTED}; got a folder with none of {ABOUT}, learner.json, result.json and {DATABASE}")


def matching(run: Path, patterns: list[str], finished: list[str]) -> list[str]:
    """The finished cells of these names or patterns, in their order."""
    from askless.bench.results import CELLS

    for pattern in patterns:
        if not fnmatch.filter(finished, pattern):
            known = some(finished, 12) or "none"
            raise InputError(
                f"{run / CELLS / pattern}: expected a finished cell, got none; the finished ones are {known}"
            )
    return [name for name in finished if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def finished_cells(run: Path) -> list[str]:
    """In the order of the plan, followed by those of trials only."""
    from askless.bench.results import ABOUT, CELLS, cell_name

    planned = [cell_name(c["group"], c["method"], c["seed"]) for c in read_json(run / ABOUT)["cells"]]
    there = sorted(path.parent.name for path in (run / CELLS).glob("*/result.json"))
    return [*(name for name in planned if name in there), *(name for name in there if name not in planned)]


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected a file written by askless, got one that cannot be read ({error})") from None


@contextmanager
def trained(place: Path) -> Iterator["ActiveLearner"]:
    """The learner of a labelling run, as its last training left it, or a saved one."""
    from askless.run.run import NAME as DATABASE

    if not (place / DATABASE).exists():
        yield load_learner(place)
        return
    from askless.run import Run
    from askless.run.steps.one_round import load_learner as learner_of_round
    from askless.run.steps.round_files import round_folder
    from askless.run.store.fits import last_fitted

    with Run.open(place) as run:
        with run.store.look() as db:
            number = last_fitted(db)
        if number is None:
            raise InputError(f"{place}: expected a run with a trained model, got one without; label a batch first")
        yield learner_of_round(round_folder(run.folder, number) / "learner", run.pool_now())


def load_learner(place: Path) -> "ActiveLearner":
    """A saved learner; for a cell, with the data of its benchmark."""
    from askless.active.learner import ActiveLearner
    from askless.active.saving import Saved, SaveError
    from askless.bench.cell import network, prepare

    if (place / "learner.json").exists():
        try:
            return ActiveLearner.load(place)
        except SaveError as error:
            raise SaveError(f"{error}; in Python, pass it to askless.theory.findings.examine") from None
    row = row_of(place)
    saved = Saved(place / "learner").state["objects"]
    given = {name: getattr(row, name) for name in ("learner", "strategy") if saved[name] is None}
    with progress_bar("embedding", notes) as progress:
        pool, views, _ = prepare(row, progress)
    return ActiveLearner.load(place / "learner", pool=pool, net=network(row, pool), views=views, **given)


def row_of(place: Path) -> "Row":
    """The row that a cell was computed from."""
    from askless.bench.differ import differences
    from askless.bench.plan import settings
    from askless.bench.results import ABOUT, cell_name
    from askless.bench.trials import trial_rows

    run = place.resolve().parent.parent
    if not (run / ABOUT).exists():
        raise InputError(f"{place}: expected a cell inside its benchmark's folder, got no {run / ABOUT}")
    then = read_json(place / "result.json")["settings"]
    benchmark = benchmark_of(run)
    for row in (*benchmark.rows, *trial_rows(benchmark.rows)):
        if cell_name(row.group, row.method, int(then["seed"])) == place.resolve().name:
            break
    else:
        raise InputError(f"{place}: expected a row of {benchmark.name}, which no longer has one of that name")
    now = settings(row)
    if changed := differences({name: then[name] for name in DATA}, {name: now[name] for name in DATA}):
        raise InputError(f"{place} was made with other settings (old → new): {some(changed)}; run the cell again")
    return row


def benchmark_of(run: Path) -> "Benchmark":
    """The benchmark of a folder: a preset or a file, as recorded in the run."""
    from askless.bench import demo
    from askless.bench.results import ABOUT

    about = read_json(run / ABOUT)
    what, scale = about.get("what") or about["name"], about["scale"]
    if what == "demo":
        return demo.benchmark()
    try:
        return find(what, scale, None)
    except OptionError as error:
        raise InputError(
            f"{run}: expected a run of a preset, or of a file still at its original path; {error}"
        ) from None
