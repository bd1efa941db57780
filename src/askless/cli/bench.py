"""`askless bench`: list, new, run, report, compare."""

import itertools
import json
import runpy
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from askless.base.errors import AsklessError, InputError, OptionError, unknown
from askless.base.terminal import notes, out, progress_bar
from askless.cli.files import Overwrite, Track, check_folder, check_writable, may_replace, write_text

if TYPE_CHECKING:
    from askless.bench import Benchmark, Progress, Results

bench_app = typer.Typer(help="Run benchmarks: every table and figure of the papers, or your own.", no_args_is_help=True)
# Here and not with the presets: neither a list nor a typo has to wait for torch. The tests compare the names.
SCALES = ("full", "small", "smoke")
PRESETS = {
    "npc.table1": "CIFAR-10, 10 to 70 labels, five strategies under FixMatch + DARP",
    "npc.table2": "CIFAR-100, 100 to 900 labels",
    "npc.table3": "zero-shot and single-shot: one query of 30 or 50",
    "npc.fig1": "intersection over union of the label sets of table 2",
    "crc.table1": "CRC by the last layer or by all layers",
    "crc.table2": "group sizes 2, 5, 10, 100 with Q = 100",
    "crc.table3": "CIFAR-10, five strategies, Q = 50 and 100",
    "crc.table4": "SVHN under Mean Teacher, CIFAR-100 under FixMatch",
    "crc.fig1": "two moons, decision boundaries",
    "crc.fig2": "first query by an untrained network",
    "crc.fig3": "smallest eigenvalue against epochs to the minimum",
    "dal.table1": "a budget of 1,000 in R rounds of b",
    "dal.table2": "CIFAR-10 + CNN, b = 250, eight strategies",
    "dal.table3": "CIFAR-10 + CNN, b = 500, eight strategies",
    "dal.table4": "CIFAR-10 + ResNet, b = 500, eight strategies",
    "dal.table5": "CIFAR-10 + ResNet, b = 1000, eight strategies",
    "dal.table6": "SVHN + VGG, b = 500, eight strategies",
    "dal.table7": "SVHN + VGG, b = 1000, eight strategies",
    "dal.table8": "Caltech-101 + ResNet, b = 500, seven strategies",
    "dal.table9": "Caltech-101 + ResNet, b = 1000, seven strategies",
    "dal.table10": "MMD / B for a budget of 1,000 in R rounds of b",
    "dal.table11": "CIFAR-10 + ResNet, b = 500, retrained from scratch",
    "dal.table12": "SVHN + VGG, b = 500, retrained from scratch",
    "dal.fig1": "MMD against the generalisation bound B",
    "dal.fig2": "alignment against training dynamics, Kendall's tau",
    "dal.fig3": "accuracy by round: the settings of tables 3, 6 and 8",
    "dal.fig4": "the approximation ratio along the training",
    "dal.fig5": "gamma = 0, 1, 2, infinity",
    "dal.fig6": "accuracy by round: the settings of tables 2, 4, 5, 7 and 9",
    "dal.fig7": "MMD / B over several rounds",
    "askless.scratch": "digits and Fashion-MNIST, a small CNN trained from scratch by FixMatch",
    "askless.ablation": "askless without each of its ingredients",
    "learners": "every learner on the same labels, random and chosen, of 8 pools: images, texts, tables",
    "race.logistic": "every strategy under scikit-learn's logistic regression, 13 pools x 2 preparations",
    "race.head": "every strategy under our linear head, 13 pools",
    "race.auto": "every strategy under auto, 13 pools",
    "race.bait": "every strategy under logistic regression, with BAIT, at low budgets, 9 pools of at most 11 classes",
    "race.budgets": "every strategy on 10,000 images of CIFAR-10, from no label to 2,500",
    "race.standardised": "every strategy on 10,000 images of CIFAR-10, standardised columns, 10 to 90 labels",
    "outlook.dynamical": "dynamicAL with semi-supervised training, retraining, a chosen start, certain pseudo-labels",
    "outlook.successors": "labels chosen with one of three models, valued by four: do they beat random ones for another?",
}


@bench_app.command("list")
def list_presets() -> None:
    """List the benchmarks."""
    table = Table(caption="askless bench run NAME --scale full | small | smoke")
    for column in ("name", "what"):
        table.add_column(column, overflow="fold")
    for name, what in PRESETS.items():
        table.add_row(name, what)
    out.print(table)


@bench_app.command("new")
def new_file(
    file: Annotated[Path, typer.Argument(help="The Python file to write, such as mine.py.")],
    overwrite: Overwrite = False,
) -> None:
    """Write a benchmark of your own to start from: a Python file that runs as it is."""
    from askless.bench.template import template

    if file.suffix != ".py":
        instead = file.with_suffix(".py") if file.name else "mine.py"
        raise OptionError(f"expected the name of a Python file, got {file}; write {instead}")
    check_writable(file)
    may_replace(file, overwrite)
    write_text(file, template(str(file), file.stem))
    out.print(f"Wrote {file}. Try it: askless bench run {file} --scale smoke --workers 1 --out runs/{file.stem}-smoke")


@bench_app.command("run")
def run_benchmark(
    what: Annotated[
        str, typer.Argument(help="A name from `askless bench list`, or a Python file that defines `benchmark`.")
    ],
    scale: Annotated[
        str,
        typer.Option(
            help="full (the paper's protocol), small (minutes to an hour on 2 cores; hours for race.* and ablations) or "
            "smoke (seconds to minutes; shows that it runs)."
        ),
    ] = "small",
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, from 0. Default: the benchmark's.", min=1)] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Compute only this group: a name or a pattern such as 'CIFAR-10*'. Repeatable."),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Number of cells computed at a time, each in its own process.", min=1)
    ] = 2,
    threads: Annotated[
        int | None, typer.Option(help="Threads per cell. Default: 1, or what the folder was started with.", min=1)
    ] = None,
    to: Annotated[Path | None, typer.Option("--out", help="Folder for the results. Default: bench/NAME-SCALE.")] = None,
    engine: Annotated[
        str,
        typer.Option(help="local (processes of this machine) or ray (this machine, or the cluster at RAY_ADDRESS)."),
    ] = "local",
    gpus: Annotated[float, typer.Option(help="With --engine ray: GPUs per cell, such as 0.25.", min=0)] = 0.0,
    device: Annotated[str, typer.Option(help="Where networks train, as torch names it: cpu, cuda.")] = "cpu",
    track: Track = None,
) -> None:
    """Run a benchmark, or resume an unfinished one. Writes report.html, tables and results.csv."""
    from askless.base.engine import check_engine
    from askless.track import make

    check_engine("run", engine, workers, gpus)
    trackers = [make(text) for text in track or ()]
    source = partial(find, what, scale, seeds)
    benchmark = source()
    from askless.bench import run
    from askless.bench.report import write

    folder = to or Path("bench") / f"{benchmark.name}-{benchmark.scale}"
    check_folder(folder)
    given = ["askless", "bench", "run", what]
    given += ["--scale", scale] if scale == benchmark.scale else []  # a file that has one benchmark only takes no scale
    given += [] if seeds is None else ["--seeds", str(seeds)]
    given += ["--workers", str(workers)]
    given += [] if threads is None else ["--threads", str(threads)]
    given += [] if engine == "local" else ["--engine", engine, *(["--gpus", f"{gpus:g}"] if gpus else [])]
    given += [] if device == "cpu" else ["--device", device]
    warn_of_edits(what, folder)
    with progress_of(benchmark.name) as progress, stoppable():
        results = run(
            benchmark,
            folder,
            workers=workers,
            threads=threads,
            command=given,
            what=what,
            source=source,
            progress=progress,
            engine=engine,  # type: ignore[arg-type]
            gpus=gpus,
            track=trackers,
            groups=group or (),
            device=device,
        )
    report = write(results, folder)
    show_results(report, results)


def find(what: str, scale: str, seeds: int | None) -> "Benchmark":
    """A preset by its name, or the `benchmark` (or `benchmark(scale)`) of a Python file, with that number of seeds."""
    import dataclasses

    is_file = what.endswith(".py")
    if is_file and not Path(what).is_file():
        raise OptionError(f"{what}: expected a Python file that defines `benchmark`, got no such file")
    if not is_file and what not in PRESETS:
        raise OptionError(f"{unknown('preset', what, PRESETS)}, or a file FILE.py that defines `benchmark`")
    if not is_file and scale not in SCALES:
        raise OptionError(unknown("scale", scale, SCALES))
    from askless.bench import Benchmark, preset

    if is_file:
        beside = str(Path(what).resolve().parent)
        if beside not in sys.path:  # it may import what lies beside it, as any script may
            sys.path.append(beside)
        try:
            made = runpy.run_path(what).get("benchmark")
            benchmark = made(scale) if callable(made) else made
        except AsklessError:
            raise
        except Exception as error:
            raise InputError(
                f"{what}: expected a Python file that defines `benchmark`, got {type(error).__name__}: {error}; `--debug` "
                "shows where"
            ) from error
        if not isinstance(benchmark, Benchmark):
            raise InputError(
                f"{what}: expected a variable `benchmark`, an askless.bench.Benchmark or a function of the scale that makes "
                f"one, got {'none' if benchmark is None else type(benchmark).__name__}"
            )
    else:
        benchmark = preset(what, scale)
    return benchmark if seeds is None else dataclasses.replace(benchmark, seeds=tuple(range(seeds)))


@bench_app.command("report")
def report_again(folder: Annotated[Path, typer.Argument(help="Folder of a benchmark, finished or not.")]) -> None:
    """Write the report from the results so far."""
    from askless.bench import read
    from askless.bench.report import write

    results = read(folder)
    show_results(write(results, folder), results)


@bench_app.command("compare")
def compare_runs(
    folders: Annotated[list[Path], typer.Argument(help="Folders of benchmarks.")],
    to: Annotated[
        Path | None, typer.Option("--out", help="Write an .html page with tables and curves, instead of printing.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Compare several benchmarks, paired where they share seeds."""
    from askless.bench import read
    from askless.bench.comparison import comparison_page
    from askless.bench.results import compared
    from askless.bench.tables import compare
    from askless.report.table import markdown

    if to is not None and to.suffix != ".html":
        raise OptionError(f"--out: expected the name of an .html file, got {to}; write {to.with_suffix('.html')}")
    check_writable(to)
    may_replace(to, overwrite)
    results = [compared(read(folder)) for folder in folders]
    if to is None:
        out.write(markdown(compare(results)) + "\n")
        return
    command = shlex.join(["askless", "bench", "compare", *map(str, folders), "--out", str(to)])
    write_text(to, comparison_page(results, command))
    out.print(f"Page: {to}")


def warn_of_edits(what: str, folder: Path) -> None:
    """Warn if a file was edited since: settings of rows are compared, code is not."""
    from askless.bench.results import ABOUT
    from askless.bench.runner import file_digest

    if (folder / ABOUT).exists():
        before = json.loads((folder / ABOUT).read_text(encoding="utf-8")).get("file", "")
        if before and before != file_digest(what):
            notes.print(
                f"note: {what} changed after {folder} was started; finished cells are kept, so use another --out "
                "if its strategies, networks or data changed"
            )


@contextmanager
def stoppable() -> Iterator[None]:
    """Treat Ctrl+C as an ordinary way to stop a benchmark."""
    try:
        yield
    except KeyboardInterrupt:
        notes.print("stopped; finished cells are kept, and the same command resumes")
        raise typer.Exit(130) from None


@contextmanager
def progress_of(name: str) -> Iterator[Callable[["Progress"], None]]:
    """A bar with the rounds done, the time left, and what is computed now; without a terminal, a line for each finished
    cell."""
    began = time.monotonic()
    with progress_bar(name, notes) as bar:

        def move(p: "Progress") -> None:
            failed = f", {p.failed} failed" if p.failed else ""
            bar(p.rounds + p.part, p.all_rounds, f"{p.cells} of {p.all_cells} cells{failed}; {p.latest}")
            if p.cell_done and not notes.is_terminal:
                minutes = (time.monotonic() - began) / 60
                done = f"{p.cells} of {p.all_cells} cells{failed}, {minutes:.1f} minutes"
                notes.print(f"{name}: {done}; {p.latest}")

        yield move


def show_results(report: Path, results: "Results") -> None:
    """Print the main table, and where to find the rest."""
    from askless.bench.report import warning
    from askless.bench.results import compared
    from askless.bench.tables import accuracy_tables
    from askless.report.table import markdown

    metric = results.about["metrics"][0]
    out.write(markdown(accuracy_tables(compared(results), metric)) + "\n")
    if why := warning(results):
        out.print(f"{why}.")
    for reason, failed in itertools.groupby(sorted(results.failures, key=lambda f: f.reason), lambda f: f.reason):
        first, *others = failed
        more = f" and {len(others)} more" if others else ""
        notes.print(f"FAILED: {first.group} {first.method}, seed {first.seed}{more}: {reason}")
    out.print(f"Report: {report}")
    if results.failures:
        raise typer.Exit(3)
