"""Runs every table and figure of the NPC, CRC and dynamicAL papers at full scale, on a machine with GPUs.

    python tools/full_scale.py --dry-run                          # the plan: order, data, hours, cost
    python tools/full_scale.py --out full --gpu-hour-price 2      # download, verify, compute, report
    python tools/full_scale.py --out full --only dal.table2       # some of them

The same command resumes: finished presets and cells are not computed again. The cheapest presets come first. With several
GPUs cells are spread over them by Ray (the extra `ray`). `full/index.html` links the reports.

Hours are upper bounds: images that pass through training, divided by the images per second of one GPU (`--dry-run` lists
these assumptions). `--calibrate` measures them here instead, `--speed` scales them. The batches that strategies choose from
and the kernels of dal.fig1, dal.fig2, dal.fig7 and dal.table10 come on top.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from askless import nets
from askless.base.errors import AsklessError, unknown
from askless.bench import PRESETS, Benchmark, Row, preset, run
from askless.bench.cell import cell_settings
from askless.bench.report import write
from askless.bench.shared import adopt, cells_of, same_but_group
from askless.cli.bench import progress_of
from askless.data import fetch, load
from askless.data.fetch import DATA_SETS, find, wrong_files
from askless.learn import FixMatch, Supervised
from askless.report.markup import markup, tag
from askless.report.page import Section, bullets, html_page
from askless.report.table import Table, markdown

PAPERS = ("npc.", "crc.", "dal.")
NAMES = tuple(name for name in PRESETS if name.startswith(PAPERS))
ITEMS = {"cifar10": (50_000, 10_000), "cifar100": (50_000, 10_000), "svhn": (73_257, 26_032), "caltech101": (8677, 0)}
SHAPES = {"caltech101": (3, 299, 299), "two-moons": (2,)}  # others: (3, 32, 32)

# Images per second that one V100 trains on, forward and backward in float32. The first two are published: LeeDoYup's
# FixMatch-pytorch needs 16 and 62 hours on four V100 for 2^20 steps of 960 images. The others are guesses to be measured.
IMAGES_PER_SECOND = {
    "wrn-28-2": 4400,
    "wrn-28-8": 1100,
    "resnet-18": 1700,
    "resnet-18-imagenet": 600,
    "vgg-11": 8000,
    "tutorial-cnn": 50_000,
    "cnn-gap": 15_000,
    "mlp": 1_000_000,
}
SECONDS_PER_STEP = 0.004  # no step is faster, however small the network


class Plan(NamedTuple):
    """A preset: how many of its cells are to be computed, with how many trainings, and the hours of one GPU at most."""

    benchmark: Benchmark
    cells: int
    trainings: int
    hours: float
    shared: tuple[str, ...]  # the presets that compute its other cells

    @property
    def name(self) -> str:
        return self.benchmark.name


Speeds = dict[str, float]


def images_per_step(learner: Any) -> int:
    """Of a training step. FixMatch sees each unlabelled image in two views; consistency learners see all of them twice."""
    if isinstance(learner, FixMatch):
        return int(learner.batch * (1 + 2 * learner.mu))
    return int(learner.batch) if isinstance(learner, Supervised) else 4 * int(learner.batch)


def hours_of(row: Row, speeds: Speeds) -> float:
    """Of one cell: a training at each number of labels, by each learner. Networks below full scale cost nothing."""
    if str(row.net) not in speeds:
        return 0.0
    learners = [row.learner, *(learner for _, learner in row.value)]
    seconds = [l.steps * max(SECONDS_PER_STEP, images_per_step(l) / speeds[str(row.net)]) for l in learners]
    return len(row.counts) * sum(seconds) / 3600


def plans(made: Sequence[Benchmark], speeds: Speeds) -> list[Plan]:
    """The presets, the cheapest first. A cell that an earlier preset has is not computed again."""
    first: dict[Any, str] = {}
    out = []
    for benchmark in sorted(made, key=lambda b: (sum(hours_of(c.row, speeds) for c in cells_of(b)), figure(b), b.name)):
        todo, shared = [], []
        for cell in cells_of(benchmark):
            owner = first.setdefault(same_but_group(cell_settings(cell.row, cell.seed, None)), benchmark.name)
            if owner == benchmark.name:
                todo.append(cell)
            elif owner not in shared:
                shared.append(owner)
        trainings = sum(len(c.row.counts) * (1 + len(c.row.value)) for c in todo)
        hours = sum(hours_of(c.row, speeds) for c in todo)
        out.append(Plan(benchmark, len(todo), trainings, hours, tuple(shared)))
    return out


def figure(benchmark: Benchmark) -> bool:
    """Figures come after the tables that they plot."""
    return ".fig" in benchmark.name


def data_of(plan: Plan) -> list[str]:
    return sorted({row.data.name for row in plan.benchmark.rows})


# --- what it will take


def plan_table(found: Sequence[Plan], price: float) -> Table:
    rows = [
        [
            str(i),
            plan.name,
            ", ".join(data_of(plan)),
            str(plan.cells),
            str(plan.trainings),
            f"{plan.hours:,.1f}",
            f"{plan.hours * price:,.0f}",
            plan.benchmark.title + (f" (cells of {', '.join(plan.shared)})" if plan.shared else ""),
        ]
        for i, plan in enumerate(found, 1)
    ]
    hours = sum(plan.hours for plan in found)
    total = ["", "all", "", *(str(sum(plan[i] for plan in found)) for i in (1, 2)), f"{hours:,.1f}"]
    head = ["order", "preset", "data", "cells", "trainings", "GPU hours at most", "cost at most", "what"]
    return Table("The plan", head, [*rows, [*total, f"{hours * price:,.0f}", ""]], left=(1, 2, 7))


def assumptions(speeds: Speeds) -> str:
    listed = ", ".join(f"{name} {speed:,.0f}" for name, speed in speeds.items())
    return (
        f"Images per second that one GPU trains on: {listed}. No step takes less than {SECONDS_PER_STEP} s. Two of these "
        "are published, the others guesses: see IMAGES_PER_SECOND in tools/full_scale.py, or measure with --calibrate."
    )


def data_line(name: str) -> str:
    homes = " and ".join(f"{home.url} (MD5 {home.md5})" for home in DATA_SETS[name].homes)
    return f"{name}: {find(name) or 'missing'}; {DATA_SETS[name].size} from {homes}"


def measured(made: Sequence[Benchmark], device: str) -> Speeds:
    """Images per second that each network trains on here."""
    rows = {str(row.net): row for benchmark in made for row in benchmark.rows if isinstance(row.net, str)}
    return {name: images_per_second(row, device) for name, row in rows.items()}


def images_per_second(row: Row, device: str, steps: int = 5) -> float:
    shape = SHAPES.get(row.data.name, (3, 32, 32))
    net = nets.make(str(row.net), classes=10, shape=shape, seed=0, **dict(row.net_options)).to(device)
    x = torch.randn(images_per_step(row.learner), *shape, device=device)
    for step in range(steps + 1):
        if step == 1:  # the first one prepares
            synchronise(device)
            began = time.perf_counter()
        net.zero_grad(set_to_none=True)
        net(x).logsumexp(1).sum().backward()
    synchronise(device)
    return steps * len(x) / (time.perf_counter() - began)


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


# --- data, computing, reporting


def get_data(names: Sequence[str]) -> None:
    """Downloads what is missing, and verifies what is here: checksums, and how many images there are."""
    for name in names:
        place = fetch(name, print)
        if wrong := wrong_files(DATA_SETS[name], place):
            raise AsklessError(
                f"{place}: {', '.join(wrong)} differ from the official files; remove them and run this again"
            )
        pool = load(name, size=8, lazy=True, test=0) if name == "caltech101" else load(name)
        counted = len(pool), 0 if pool.test is None else len(pool.test[1])
        if counted != ITEMS[name]:
            raise AsklessError(
                f"{place}: expected {ITEMS[name]} images of {name} (pool, test), got {counted}; remove it and run this again"
            )


def compute(plan: Plan, out: Path, options: argparse.Namespace) -> str:
    """Computes and reports a preset, but for the cells that others have in `out`; what there is to say of it."""
    folder, name = out / plan.name, plan.name
    kept = adopt(plan.benchmark, folder, sorted(out.glob("*")))
    if kept:
        print(f"{name}: {kept} cells are those of other presets")
    on_gpu = [] if options.device == "cpu" else ["--device", options.device]
    with progress_of(name) as progress:
        results = run(
            plan.benchmark,
            folder,
            workers=options.workers,
            threads=options.threads,
            command=["askless", "bench", "run", name, "--scale", options.scale, *on_gpu],
            what=name,
            source=partial(benchmark_of, name, options.scale, options.tiny),
            progress=progress,
            engine="ray" if options.gpus > 1 else "local",
            gpus=1.0 if options.gpus > 1 else 0.0,
            device=options.device,
        )
    write(results, folder)
    return f"{len(results.failures)} cells failed" if results.failures else "finished"


def write_index(found: Sequence[Plan], said: dict[str, str], out: Path) -> Path:
    """A page with a link to each report."""
    lines = [
        markup(
            tag("a", plan.name, href=f"{plan.name}/report.html")
            if (out / plan.name / "report.html").exists()
            else plan.name,
            f": {plan.benchmark.title}; {said.get(plan.name, 'not yet')}",
        )
        for plan in found
    ]
    page = html_page(
        "The papers at full scale", "tools/full_scale.py of askless.", [Section("Reports", bullets(lines))]
    )
    (out / "index.html").write_text(page, encoding="utf-8")
    return out / "index.html"


# --- the same in seconds, for a test


def benchmark_of(name: str, scale: str, cut: bool) -> Benchmark:
    return tiny(preset(name, scale)) if cut else preset(name, scale)


def tiny(benchmark: Benchmark) -> Benchmark:
    """The benchmark with the data, views, learners and strategies it has, but two steps of a small network, two rounds of
    ten labels and one seed."""
    return replace(benchmark, rows=tuple(map(tiny_row, benchmark.rows)), seeds=benchmark.seeds[:1])


def at_most(options: Any, **most: int) -> Any:
    """A strategy or measure with none of these options larger than so."""
    given = {name: getattr(options, name, None) for name in most}
    return replace(options, **{name: min(value, most[name]) for name, value in given.items() if value is not None})


def tiny_row(row: Row) -> Row:
    start = min(row.start, 10)
    first = start if start and row.counts[0] == row.start else start + 10
    data: Any = row.data
    if "size" in data.options:
        data = replace(data, options=data.options | {"size": 32})
    return replace(
        row,
        strategy=at_most(row.strategy, draws=20, group=10),
        data=data,
        net="mlp" if row.net == "mlp" else "small-cnn",
        net_options=(),
        learner=tiny_learner(row.learner),
        start=start,
        counts=(first, first + 10)[: len(row.counts)],
        measures=tuple(at_most(measure, draws=5, size=10, start=start) for measure in row.measures),
        along=tuple(at_most(measure, draws=5, size=10) for measure in row.along),
        validation=min(row.validation, 5),
        trials=row.trials and (2, row.trials[1]),
    )


def tiny_learner(learner: Any) -> Any:
    few: dict[str, Any] = {"steps": 2, "batch": 4, "horizon": None, "patience": None}
    if isinstance(learner, FixMatch):
        few["mu"] = 1
    few = {name: value for name, value in few.items() if getattr(learner, name) is not None}
    return replace(learner, **few, evaluate_every=1 if learner.evaluate_every else None)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    gpus = torch.cuda.device_count()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("full-scale"), help="a folder with one for each preset")
    parser.add_argument("--only", action="append", help="a preset; repeatable. All of the papers' by default")
    parser.add_argument("--dry-run", action="store_true", help="print the plan; download and compute nothing")
    parser.add_argument("--gpu-hour-price", type=float, default=1.0, help="what an hour of one GPU costs")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast as a V100 one GPU is")
    parser.add_argument("--calibrate", action="store_true", help="measure images per second on this machine")
    parser.add_argument("--scale", default="full", choices=("full", "small", "smoke"), help="of the presets")
    parser.add_argument("--gpus", type=int, default=gpus, help=f"number of GPUs (this machine has {gpus})")
    parser.add_argument("--device", default="cuda" if gpus else "cpu", help="where networks train")
    parser.add_argument("--workers", type=int, help="cells computed at a time; by default one for each GPU")
    parser.add_argument("--threads", type=int, help="threads for each cell")
    parser.add_argument("--tiny", action="store_true", help="two steps of a small network: tries everything in seconds")
    options = parser.parse_args(arguments)
    options.workers = options.workers or max(1, options.gpus)
    for name in options.only or ():
        if name not in NAMES:
            parser.error(unknown("preset", name, NAMES))
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    speeds = {name: speed * options.speed for name, speed in IMAGES_PER_SECOND.items()}
    made = [benchmark_of(name, options.scale, options.tiny) for name in options.only or NAMES]
    whole = options.scale == "full" and not options.tiny
    if options.calibrate:
        speeds = measured(made, options.device)
    found = plans(made, speeds)
    data = sorted({name for plan in found for name in data_of(plan)} & set(ITEMS)) if whole else []
    print(markdown([plan_table(found, options.gpu_hour_price)]))
    print(*map(data_line, data), assumptions(speeds), sep="\n")
    if options.dry_run:
        return 0
    if whole and options.device == "cpu":
        print("expected a GPU for full scale, found none that torch sees: on cores this takes years", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    said: dict[str, str] = {}
    try:
        get_data(data)
        for plan in found:
            try:
                said[plan.name] = compute(plan, options.out, options)
            except AsklessError as error:
                said[plan.name] = f"failed: {error}"
            print(f"{plan.name}: {said[plan.name]}")
            write_index(found, said, options.out)
    except AsklessError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Reports: {write_index(found, said, options.out)}")
    return 0 if all(what == "finished" for what in said.values()) else 3


if __name__ == "__main__":
    sys.exit(main())
