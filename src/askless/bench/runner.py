"""Runs the cells of a benchmark, in this process, in worker processes or on Ray, and resumes killed runs."""

import fnmatch
import logging
import os
import platform
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from askless.base.engine import NotSent, check_engine, work
from askless.base.errors import AsklessError, InputError, OptionError, unknown
from askless.base.locks import held
from askless.base.machine import cores, versions
from askless.base.options import check_count
from askless.bench.cell import Cell, cell_settings, check_same, finished, prepare, write_json
from askless.bench.compute import CellWorker, Task, Trouble, digest_of
from askless.bench.plan import Benchmark, Row, data_key, text_of
from askless.bench.results import ABOUT, CELLS, Results, cell_name, read, read_json
from askless.bench.tally import Progress, Tally
from askless.bench.trials import settle, trial_rows
from askless.data import Pool
from askless.features.frozen import as_frozen
from askless.track import Tracker, Trail

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "matplotlib", "pillow", "safetensors")
# Of a benchmark, as its report needs them
PLAIN = ("name", "title", "scale", "comparable", "protocol", "baseline", "layout", "across", "area", "oracle")
LISTS = ("open_points", "metrics", "figures", "seeds", "developed")
log = logging.getLogger(__name__)


def run(
    benchmark: Benchmark,
    out: str | Path,
    *,
    workers: int = 1,
    threads: int | None = None,
    command: Sequence[str] = (),
    what: str = "",
    source: Callable[[], Benchmark] | None = None,
    progress: Callable[[Progress], None] | None = None,
    engine: Literal["local", "ray"] = "local",
    gpus: float = 0.0,
    track: Tracker | Sequence[Tracker] | None = None,
    groups: Sequence[str] = (),
    device: str = "cpu",
) -> Results:
    """Computes every cell that is not finished in `out`, and reads back all of them. With `groups`, names or patterns such
    as "CIFAR-10*", only cells of those groups are computed: a long benchmark can be run piece by piece.

    With one worker the cells run in this process; with more, in that number of processes. `threads`: of each cell,
    by default one. They decide the last digits of a training, so the first run in `out` settles them; a
    warning says where later ones ask for others, or where all workers together have more threads than there are cores.
    `source` makes the benchmark again in a worker, for one that cannot be sent there; `what` is how it was asked for, a
    preset or a file, and `command` the whole command: both are noted. `track`, trackers of `askless.track`, receive
    every round that is computed, and of training steps; each cell is a run of theirs.

    With the engine "ray" the workers are actors of Ray, each with as many cores as a cell has threads and with `gpus`
    GPUs: of the cluster at RAY_ADDRESS, whose nodes must all see the folder `out`, or of this machine. `device`: where
    networks train, as torch names it: "cpu", or "cuda", on which the last digits differ.

    Data without a test set are refused before any cell runs, unless `metrics` of the benchmark is without test accuracy.

    `progress` is called with a `Progress`. A folder with other settings raises AsklessError, which names those that
    differ.

    >>> from askless.bench import Benchmark, Data, Row
    >>> data, learner = Data(name="digits", items=60, test=50), al.Supervised(steps=5)
    >>> row = Row(method="random", strategy="random", data=data, net="linear", learner=learner, counts=(10, 20))
    >>> results = run(Benchmark(name="mine", title="Mine", rows=(row,), seeds=(0, 1)), "out")
    >>> len(results.records) > 0
    True
    """
    check_engine("run", engine, workers, gpus)
    check_device(device, engine)
    if threads is not None:
        check_count("run", "threads", threads)
    out, rows = Path(out), rows_of(benchmark, groups)
    trials = [Cell(row, seed) for row in trial_rows(rows) for seed in range(row.trials[0])]  # type: ignore[index]
    cells = [Cell(row, seed) for seed in benchmark.seeds for row in rows]
    with closing(Trail(track)) as trail, ExitStack() as stack:
        tally = Tally(out, [*trials, *cells], progress, trail, f"{benchmark.name}-{benchmark.scale}")
        check_data(benchmark, rows, out, tally)
        out.mkdir(parents=True, exist_ok=True)
        stack.enter_context(
            held(out / ".lock", f"another benchmark is running in {out}; wait for it, or use another folder")
        )
        about = describe(benchmark, threads or 1, command)
        about |= {"what": what, "file": file_digest(what), "device": device}
        before = read_json(out / ABOUT) if (out / ABOUT).exists() else None
        if before is not None and before["name"] != benchmark.name:
            raise InputError(
                f"{out}: expected a new folder, or one of {benchmark.name}, got one of {before['name']}; use another"
            )
        if before is not None:
            about["threads"] = before["threads"]
            keys = {(r.group, r.method) for r in benchmark.rows}
            more = [c for c in before["cells"] if c["seed"] not in benchmark.seeds]  # of seeds that ran before
            about["cells"] += [c for c in more if (c["group"], c["method"]) in keys]
            about["seeds"] = sorted({c["seed"] for c in about["cells"]})
        check_folder(benchmark, out, about)
        if before is None:  # the number of threads holds for the trials too
            write_json(out / ABOUT, about)
        notes = thread_notes(out, workers, threads, about["threads"], engine)
        for note in [*version_notes(out, before, about), *notes]:
            log.warning("%s", note)
        plan = benchmark if source is None else source
        make = partial(CellWorker, plan, out.resolve(), trail.rates, device=device)
        here = CellWorker(benchmark, out, trail.rates, device=device)

        def compute(cells: list[Cell]) -> None:
            todo = tally.unfinished(cells)
            embed_once(todo, tally)
            shared = digest_of(out / ABOUT) if engine == "ray" else ""
            try:
                work(
                    partial(make, shared=shared),
                    [Task(c.row.group, c.row.method, c.seed, c.start_seed) for c in todo],
                    lambda k, kind, content: tally.hear(todo[k], kind, content),
                    say=tally.tell,
                    here=here,
                    engine=engine,
                    workers=workers,
                    threads=about["threads"],
                    cores=about["threads"],
                    gpus=gpus,
                )
            except NotSent as error:
                raise InputError(
                    f"expected a benchmark that can be sent to a worker, got {error}; pass run() a `source`, a function "
                    "that makes the benchmark, or put it in a file for `askless bench run FILE.py`"
                ) from error

        compute(trials)
        ready, startless = settle(out, trials, cells)
        for cell in ready:
            finished(cell.place(out), *cell)
        write_json(out / ABOUT, about)
        for cell, why in startless:
            tally.ended(cell, Trouble(why))
        compute(ready)
    return read(out)


def rows_of(benchmark: Benchmark, groups: Sequence[str]) -> tuple[Row, ...]:
    """The rows whose group is one of these names or patterns; all where there are none."""
    known = list(dict.fromkeys(row.group for row in benchmark.rows))
    for pattern in groups:
        if not fnmatch.filter(known, pattern):
            raise OptionError(unknown("group", pattern, known))
    return tuple(row for row in benchmark.rows if not groups or any(fnmatch.fnmatch(row.group, p) for p in groups))


def embed_once(cells: list[Cell], tally: Tally) -> None:
    """What a frozen backbone must see once is embedded before the workers would each begin with it."""
    seen = set()
    for cell in cells:
        key = text_of((cell.row.data, cell.row.net, cell.row.validation))
        if key not in seen and as_frozen(cell.row.net) is not None:
            seen.add(key)
            try:
                _, views, _ = prepare(cell.row, lambda done, total: tally.tell(f"embedding: {done} of {total} views"))
                views.test()
            except Exception:
                continue  # the cells that need it will say what is wrong


def check_device(device: str, engine: str) -> None:
    """An error where torch knows no such device, or has no GPU here; a node of Ray has its own."""
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda", "mps"):
        raise OptionError(f"device: expected 'cpu', 'cuda', 'cuda:1' or the like, got {device!r}")
    if kind == "cuda" and engine == "local" and not torch.cuda.is_available():
        raise OptionError(
            f"device: expected a GPU that torch sees, got {device!r} on a machine where it sees none; install torch for "
            "your GPU, or use 'cpu'"
        )


def thread_notes(out: Path, workers: int, asked: int | None, threads: int, engine: str) -> list[str]:
    """What there is to say about the `threads` that a cell gets; a Ray cluster has cores of its own and shares them out."""
    notes = []
    if asked not in (None, threads):
        notes.append(
            f"{out} was started with threads={threads} for each cell and keeps them, because they decide the last digits; "
            f"use another folder for threads={asked}"
        )
    here = engine == "local" or not os.environ.get("RAY_ADDRESS")
    if here and workers * threads > cores():
        notes.append(
            f"{workers} workers x {threads} threads exceed the {cores()} cores of this machine, so cells slow each other "
            f"down; lower workers{', or use another folder with threads=1' if threads > 1 else ''}"
        )
    return notes


def version_notes(out: Path, before: dict[str, Any] | None, about: dict[str, Any]) -> list[str]:
    """What there is to say about the askless that was here last."""
    was, now = ((found.get("versions") or {}).get("askless") for found in (before or about, about))
    if was in (None, now):
        return []
    return [
        f"{out} was computed by askless {was} so far, and this is askless {now}; finished cells stay as they are: if their "
        "methods have since changed, use another folder"
    ]


def check_data(benchmark: Benchmark, rows: Sequence[Row], out: Path, tally: Tally) -> None:
    """An error where the data of a cell that is to be computed are no pool, or lack the test set that is measured on.

    An encoder that sees the data for the first time takes minutes, so the tally says which data are being prepared."""
    seen, failures = [], []
    for row in rows:
        done = all((Cell(row, seed).place(out) / "result.json").exists() for seed in benchmark.seeds)
        if data_key(row) in seen or done:
            continue
        seen.append(data_key(row))
        tally.tell(f"preparing the data of {row.group or row.method}")
        try:
            pool = row.data()
        except Exception as error:
            failures.append(error)
            continue  # the cells that need it will say what is wrong, and the others finish
        if not isinstance(pool, Pool):
            raise InputError(
                f"{row.method}: expected data that return a Pool, got a {type(pool).__name__}; return "
                "al.data.as_pool((x, y), test=(x_test, y_test))"
            )
        if pool.test is None and "test_accuracy" in benchmark.metrics:
            raise InputError(
                f"{row.method}: expected data with a test set for the test accuracy, got {pool}; hold out some items "
                "with Data(name=..., test=300), or use an .npz with x_train, y_train, x_test, y_test, or a function that "
                "makes al.data.as_pool((x, y), test=(x_test, y_test)), or measure on the pool alone with "
                "Benchmark(metrics=('pool_accuracy',))"
            )
    if failures and len(failures) == len(seen) and isinstance(failures[0], AsklessError):
        raise failures[0]  # nothing could be computed


def check_folder(benchmark: Benchmark, out: Path, about: dict[str, Any]) -> None:
    """An error where a cell of the folder was made with other settings, before anything is computed or written."""
    rows = {(r.group, r.method): r for r in benchmark.rows}
    for c in about["cells"]:
        place = out / CELLS / cell_name(c["group"], c["method"], c["seed"])
        now = cell_settings(rows[c["group"], c["method"]], c["seed"], None)
        check_same(place, now, but="start_seed")  # which the trials have yet to settle


def describe(benchmark: Benchmark, threads: int, command: Sequence[str]) -> dict[str, Any]:
    """What is run, as plain data: everything a report needs, and everything needed to run it again."""
    rows = benchmark.rows
    learners = [r.learner_name for r in rows] + [name for r in rows for name, _ in r.value]
    paper = {
        "source": benchmark.paper_source,
        "unit": "",
        "rows": [r._asdict() for r in benchmark.paper],
        "says": benchmark.claims,
    }
    return {
        **{name: getattr(benchmark, name) for name in PLAIN},
        **{name: list(getattr(benchmark, name)) for name in LISTS},
        "paper": paper if benchmark.paper or benchmark.claims else None,
        "groups": list(dict.fromkeys(r.group for r in rows)),
        "methods": list(dict.fromkeys(r.method for r in rows)),
        "learners": list(dict.fromkeys(learners)),
        "cells": [
            {"group": r.group, "method": r.method, "seed": s, "settings": cell_settings(r, s, None)}
            for s in benchmark.seeds
            for r in rows
        ],
        "command": shlex.join(command),
        "versions": versions(PACKAGES),
        "threads": threads,
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": cores()},
    }


def file_digest(what: str) -> str:
    """Of the file that a benchmark came from; empty for a preset."""
    return digest_of(Path(what)) if what.endswith(".py") and Path(what).exists() else ""
