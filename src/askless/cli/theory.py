"""`askless theory`: apply the papers' theory to a finished run."""

import json
import shlex
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

EXPECTED = "expected a folder written by ActiveLearner.save, a folder of `askless bench run`, or one of its cells"
DATA = ("data", "net", "augment", "validation")  # settings of a row that decide what its network sees


def theory(
    run: Annotated[Path, typer.Argument(help="A saved learner, a benchmark's folder, or one of its cells.")],
    cell: Annotated[
        str | None, typer.Option(help="With a benchmark: a name under cells/. Default: the first finished one.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--out", help="Folder. Default: RUN/theory, or RUN/theory/CELL.")] = None,
    items: Annotated[int, typer.Option(help="Maximum number of labelled items to look at.", min=4)] = 200,
    queries: Annotated[int, typer.Option(help="Number of random queries for the approximation ratio.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.", min=0)] = 0,
) -> None:
    """Compute kernel, bounds and training dynamics of a finished run. Writes theory.html and theory.json."""
    from askless.theory.findings import examine
    from askless.theory.page import write
    from askless.theory.words import table

    place, name, default = locate(run, cell)
    folder = to or default
    files.check_folder(folder)
    learner = load_learner(place)
    with progress_bar(name, notes) as progress:
        found = examine(learner, items=items, queries=queries, seed=seed, progress=progress)
    out.print(table(found, f"What the theory says about {name}").terminal())
    for note in found.notes:
        out.print(f"Note: {note}")
    options = {"--cell": cell, "--items": items, "--queries": queries, "--seed": seed}
    given = [str(word) for option in options.items() if option[1] is not None for word in option]
    command = shlex.join(["askless", "theory", str(run), *given])
    out.print(f"Page: {write(found, folder, name, command)}")


def locate(run: Path, cell: str | None) -> tuple[Path, str, Path]:
    """The folder of a learner or of a finished cell, its name, and the default folder of its page."""
    from askless.bench.results import ABOUT, CELLS

    if not run.is_dir():
        raise InputError(f"{run}: no such folder; {EXPECTED}")
    run_name = run.resolve().name
    if (run / ABOUT).exists():
        finished = finished_cells(run)
        if cell is None and not finished:
            raise InputError(f"{run}: expected a benchmark with a finished cell, got none; resume the benchmark")
        chosen = run / CELLS / (finished[0] if cell is None else cell)
        if not (chosen / "result.json").exists():
            known = some(finished, 12) or "none"
            raise InputError(f"{chosen}: expected a finished cell, got none; the finished ones are {known}")
        return chosen, f"{run_name}, {chosen.name}", run / "theory" / chosen.name
    if cell is not None:
        raise OptionError(
            f"--cell is for a folder of `askless bench run`, got {run}, which has no {ABOUT}; leave it out"
        )
    if run_name == "learner" and (run.parent / "result.json").exists():
        run, run_name = run.parent, run.resolve().parent.name  # what a cell saved, without its data
    if (run / "learner.json").exists() or (run / "result.json").exists():
        return run, run_name, run / "theory"
    if (run / "progress.json").exists():
        raise InputError(f"{run}: expected a finished cell, got one with rounds left; resume the benchmark")
    raise InputError(f"{run}: {EXPECTED}; got a folder with none of {ABOUT}, learner.json and result.json")


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
