"""The commands."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from askless import __version__
from askless.acquire.table import ARRAYS, BY_ROWS, STRATEGIES
from askless.base.errors import OptionError
from askless.base.terminal import notes, out, progress_bar
from askless.cli import files, run
from askless.cli.bench import bench_app, progress_of
from askless.cli.doctor import backup, doctor
from askless.cli.examples import with_examples
from askless.cli.labelstudio import labelstudio_app
from askless.cli.start import label, start
from askless.cli.stream import stream
from askless.cli.theory import theory

app = typer.Typer(
    name="askless",
    help="Ask for fewer labels: askless picks the examples that are worth labelling next.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback on errors; works before or after the command.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"askless {__version__}")
        raise typer.Exit()


@app.command()
def strategies() -> None:
    """List the strategies: name, paper, the arrays they need, cost."""
    table = Table(
        caption="N items, L labelled, n picks, d features, C classes, K passes, m draws, r = min(L + n, d + 1)"
    )
    for column in ("name", "paper", "arrays needed (used)", "cost"):
        table.add_column(column, overflow="fold")
    for name, info in STRATEGIES.items():
        strategy = info.make()
        wanted = [f"({array})" for array in getattr(strategy, "wants", ())]
        table.add_row(name, info.paper, " ".join([*strategy.needs, *wanted]) or "-", info.cost)
    out.print(table)


def strategy_names(incomplete: str) -> list[str]:
    """Shell completions of --strategy."""
    return [name for name in STRATEGIES if name.startswith(incomplete)]


def npy(array: str) -> Any:
    """The option of a file with an array."""
    return typer.Option(help=f".npy, {ARRAYS[array].shape}: {ARRAYS[array].about}.")


@app.command()
def select(
    n: Annotated[
        int,
        typer.Option("-n", "--number", help="How many items to choose.", parser=files.read_count, metavar="<int>"),
    ],
    strategy: Annotated[
        str, typer.Option(help="How to choose; see `askless strategies`.", autocompletion=strategy_names)
    ] = "askless",
    arrays: Annotated[Path | None, typer.Option(help="An .npz file that holds the arrays by name.")] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Feature vectors: an .npy file of shape (N, d), a .parquet file, or a folder of Arrow or Parquet shards."
        ),
    ] = None,
    column: Annotated[
        str,
        typer.Option(help="The column of a .parquet file with the feature vectors, if there are several candidates."),
    ] = "",
    probs: Annotated[Path | None, npy("probs")] = None,
    probs_by_pass: Annotated[Path | None, npy("probs_by_pass")] = None,
    logits: Annotated[Path | None, npy("logits")] = None,
    grad_sq: Annotated[Path | None, npy("grad_sq")] = None,
    grad_dot: Annotated[Path | None, npy("grad_dot")] = None,
    grad_sq_by_class: Annotated[Path | None, npy("grad_sq_by_class")] = None,
    kernel: Annotated[Path | None, npy("kernel")] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(help="Positions of labelled items: an .npy file, or a .csv file with an `index` column."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Their class numbers: an .npy file, or a .csv file with a `label` column.")
    ] = None,
    pool: Annotated[int | None, typer.Option(help="Number of items in the pool, if no array gives it.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the strategy, such as draws=5000. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same picks.")] = 0,
    max_memory: Annotated[
        str | None,
        typer.Option(
            help="Working memory, 256MB by default; with shards, memory of the whole process, 4GB by default."
        ),
    ] = None,
    parts: Annotated[
        int | None, typer.Option(help="Split the pool into parts, choose in each, then among the winners.", min=1)
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="File in which a strategy that learns (albl) keeps its state between calls.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="Write a .csv (rank, index, score) instead of printing.")
    ] = None,
    overwrite: files.Overwrite = False,
) -> None:
    """Choose what to label next, from arrays in files."""
    written = dict(locals())  # as it was called
    import askless

    files.check_writable(to)
    files.may_replace(to, overwrite)
    files.check_writable(state)
    files.check_column(column, features)
    options = files.read_options(option or [])
    chosen = askless.acquire.make(strategy, **options)
    if state is not None and not askless.acquire.uses_history(chosen):
        raise OptionError(f"--state: {strategy} does not learn from earlier picks; leave it out, or use albl")
    history = files.read_history(state)
    if parts is not None:
        chosen = askless.acquire.TwoLevel(of=chosen, parts=parts)
    given: dict[str, Path | None] = {name: written[name] for name in ARRAYS}
    memory = files.read_bytes(max_memory or ("4GB" if features is not None and features.is_dir() else "256MB"))
    with progress_bar("unpacking", notes) as progress:
        shards = files.open_folder(given, memory, progress)
    loaded = files.read_arrays(arrays, given, askless.acquire.looks_at(chosen), column)
    if shards is not None:
        loaded |= files.columns_of(shards, askless.acquire.looks_at(chosen), loaded)
        memory = files.working_memory(memory, len(shards))
        pool = len(shards) if pool is None else pool
    with progress_bar(f"choosing by {strategy}", notes) as progress:
        picks = askless.select(
            chosen,
            n,
            seed=seed,
            pool=pool,
            max_memory=memory,
            history=history,
            progress=progress,
            **loaded,
        )
    table = files.picks_csv(picks, None if shards is None else shards.texts("id", picks.indices))
    if to is None:
        out.write(table)
    else:
        files.write_text(to, table)
    if state is not None:
        files.write_text(state, json.dumps([past.as_plain() for past in [*history, picks]]))
    where = f", written to {to}" if to else ""
    notes.print(f"{len(picks)} picks by {strategy} in {picks.info['seconds']:.2f} s{where}")
    if shards is not None:
        how = "in two levels" if parts is not None else "the picks are the same as in memory"
        notes.print(f"read from {len(shards.files)} shards with {len(shards):,} rows; {how}")
    for name in ("lambda_min", "rank", "note"):
        if name in picks.info:
            value = picks.info[name]
            notes.print(f"{name}: {value:.6g}" if isinstance(value, float) else f"{name}: {value}")


@app.command()
def embed(
    pool: Annotated[
        str,
        typer.Argument(
            help="A folder, pattern or address (s3://…) of images, tars or Parquet, a .csv or .npz file, or a data set."
        ),
    ],
    to: Annotated[Path, typer.Option("--out", help="Folder for the shards; an unfinished one is resumed.")],
    backbone: Annotated[
        str, typer.Option(help="efficientnet-lite0, -lite1 or -lite2, raw, timm/…, torchvision/… or hf/….")
    ] = "efficientnet-lite2",
    weights: Annotated[
        Path | None, typer.Option(help="Weights of a timm or torchvision backbone: a file or folder.")
    ] = None,
    learner: Annotated[
        Path | None, typer.Option(help="Folder of a saved learner whose network replaces the backbone.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help=f"Comma-separated: {', '.join(BY_ROWS)}."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Type of the features: float16 or float32.")] = "float16",
    size: Annotated[int | None, typer.Option(help="Side in pixels at which images are read.")] = None,
    rows: Annotated[int, typer.Option(help="Items per shard; each tar or Parquet file becomes one shard.")] = 1024,
    engine: Annotated[str, typer.Option(help="local, or ray (a cluster if RAY_ADDRESS is set).")] = "local",
    workers: Annotated[int, typer.Option(help="Parallel workers, each with a copy of the network.")] = 2,
    gpus: Annotated[float, typer.Option(help="GPUs per worker, on Ray; at 0.5 two workers share one.")] = 0,
) -> None:
    """Compute features, probabilities and gradient numbers of a pool of any size, as shards that `select` reads."""
    import askless

    files.check_folder(to)
    with progress_bar("embedding", notes) as progress:
        shards = askless.embed(
            pool,
            to,
            backbone=askless.Frozen(backbone=backbone, weights=weights),
            learner=learner,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            dtype=dtype,
            size=size,
            rows=rows,
            engine=engine,
            workers=workers,
            gpus=gpus,
            progress=progress,
        )
    skipped = shards.skipped()
    for name, reason in skipped[:10]:
        notes.print(f"left out: {name}: {reason}")
    if len(skipped) > 10:
        notes.print(f"and {len(skipped) - 10} others")
    what = ", ".join(name for name in shards.columns)
    out.print(f"{to}: {len(shards):,} rows in {len(shards.files)} shards: {what}")


@app.command()
def demo(
    to: Annotated[Path, typer.Option("--out", help="Folder for report.html and finished results.")] = Path("demo"),
    seeds: Annotated[int, typer.Option(help="Number of repetitions, each with different starting labels.", min=1)] = 5,
    workers: Annotated[int, typer.Option(help="Processes, each with one thread.", min=1)] = 2,
    page: Annotated[bool, typer.Option("--page", help="Label the digits yourself on the labelling page.")] = False,
) -> None:
    """Compare askless with random on the digits that ship with scikit-learn. Takes about a minute; resumes if stopped."""
    from askless.bench import demo as digits

    files.check_folder(to)
    if page:
        options = {"classes": "0,1,2,3,4,5,6,7,8,9", "budget": 60, "batch": 12}
        label(digits.write_images(to), to / "digits-run", options)
        return
    with progress_of("demo") as progress:
        results = digits.run(to, seeds, workers, progress)
    out.print(digits.table(results).terminal())
    report = digits.write_report(results, to)
    notes.print(f"Results: {results.folder}; delete it to compute everything again")
    out.print(f"Report: {report}")


for command in (stream, start, run.status, run.report, run.export, run.predict, run.oracle, doctor, backup, theory):
    app.command()(command)
app.command("import")(run.import_)
app.add_typer(bench_app, name="bench")
app.add_typer(labelstudio_app, name="labelstudio")
data_app = typer.Typer(help="Data sets: which are here, and how to get the rest.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("list")
def list_data() -> None:
    """List the data sets and whether they are here."""
    from askless.data import available

    table = Table()
    for column in ("name", "what", "size", "here", "how to get it", "note"):
        table.add_column(column, overflow="fold")
    for row in available():
        table.add_row(row.name, row.title, row.size, "yes" if row.present else "no", row.how, row.note)
    out.print(table)


@data_app.command("fetch")
def fetch_data(name: Annotated[str, typer.Argument(help="A name from `askless data list`.")]) -> None:
    """Download a data set and print its path."""
    from askless.data import fetch

    with notes.status(f"getting {name}"):
        place = fetch(name, report=lambda text: notes.print(text))
    out.print(f"{name}: {place}")


with_examples(app)
