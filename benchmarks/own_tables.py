"""The tables of docs/evidence and the numbers of docs/methods.md, from the runs in docs/evidence: askless
against each of the others, and all against random, paired by seed; auto against each other learner; and the outlooks.

    python benchmarks/own_tables.py                       # prints them
    python benchmarks/own_tables.py --docs                # renews them in docs/
    python benchmarks/own_tables.py --runs runs           # from runs/askless.scratch and so on

Areas are those under the curves of test accuracy (AUBC) in %, differences in points with their 95 % t interval over seeds.
"""

import argparse
import csv
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from askless.base.files import write_whole
from askless.bench import preset
from askless.bench.statistics import Difference, aubc, average_ranks, interval, paired

ROOT = Path(__file__).parents[1]
PAGES = tuple(ROOT / "docs" / "evidence" / page for page in ("askless.md", "race.md", "README.md", "outlooks.md"))
METHODS = ROOT / "docs" / "methods.md"
NUMBERS = "our numbers"  # the column of METHODS that is made here
OWN, YARDSTICK = "askless", "random"
Curves = dict[str, dict[str, np.ndarray]]  # group -> method -> (seeds, counts)


def read(path: Path, metric: str = "test_accuracy") -> tuple[Curves, dict[str, np.ndarray]]:
    """The curves of a run, and the numbers of labels of each group; only seeds that every method has."""
    found: dict[tuple[str, str, int, int], float] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["metric"] == metric and row["x"] == "":
                found[row["group"], row["method"], int(row["seed"]), int(row["labels"])] = float(row["value"])
    curves: Curves = {}
    counts: dict[str, np.ndarray] = {}
    for group in dict.fromkeys(key[0] for key in found):
        methods = list(dict.fromkeys(key[1] for key in found if key[0] == group))
        labels = sorted({key[3] for key in found if key[0] == group})
        seeds = sorted({key[2] for key in found if key[0] == group})
        seeds = [s for s in seeds if all((group, m, s, n) in found for m in methods for n in labels)]
        counts[group] = np.array(labels)
        curves[group] = {m: np.array([[found[group, m, s, n] for n in labels] for s in seeds]) for m in methods}
    return curves, counts


def words(difference: Difference) -> str:
    text = f"{difference.mean:+.1f} ± {difference.half:.1f}"
    return f"**{text}**" if difference.clear else text


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def areas(curves: Curves, counts: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    return {m: 100 * aubc(counts[group], c) for m, c in curves[group].items()}


def against_all(path: Path) -> str:
    """Per group: the area of each method, and what askless has more."""
    curves, counts = read(path)
    methods = list(next(iter(curves.values())))
    rows = []
    for method in methods:
        row = [method]
        for group in curves:
            found = areas(curves, counts, group)
            own, other = found[OWN], found[method]
            row.append(f"{other.mean():.1f}")
            row.append("" if method == OWN else words(paired(own, other)))
        rows.append(row)
    head = ["method", *(cell for group in curves for cell in (f"{group}: area", f"{OWN} minus it"))]
    return table(head, rows)


def dynamical(runs: Path) -> str:
    """dynamicAL in its tables 2 to 9, 11 and 12: its area, against random's and the best other one's, and the rounds that it
    leads."""
    rows = []
    for name in (f"dal.table{n}" for n in (*range(2, 10), 11, 12) if (runs / f"dal.table{n}").exists()):
        curves, counts = read(runs / name / "results.csv")
        [(group, found)] = curves.items()
        area = areas(curves, counts, group)
        own, best = area.pop("dynamical"), max(area, key=lambda m: area[m].mean())
        means = {m: curve.mean(axis=0)[1:] for m, curve in found.items()}
        led = sum(means["dynamical"] >= np.max(list(means.values()), axis=0))
        setting = f"{preset(name).rows[0].data.name}, {counts[group][1] - counts[group][0]} a round"  # type: ignore[union-attr]
        row = [f"`{name}`", setting, f"{own.mean():.1f}", words(paired(own, area[YARDSTICK]))]
        rows.append([*row, f"{best} {words(paired(own, area[best]))}", f"{led} of {len(means[best])}"])
    return table(
        ["preset", "setting", "dynamicAL: area", "minus random", "minus the best other", "rounds it leads"], rows
    )


def learners(path: Path) -> str:
    """Per pool, over all encoders and label sets: the area of auto, of the best other learner, and their difference, also
    with every number of labels counting alike."""
    curves: dict[tuple[str, str], dict[tuple[str, str, int], dict[int, float]]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["metric"] == "unlabelled_accuracy":
                pool = re.sub(r", (Lite|words).*", "", row["group"])
                of = curves.setdefault((pool, row["learner"]), {})
                of.setdefault((row["group"], row["method"], int(row["seed"])), {})[int(row["labels"])] = float(
                    row["value"]
                )

    def by_seed(pool: str, learner: str, measure: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        found: dict[int, list[float]] = {}
        for (_, _, seed), curve in sorted(curves[pool, learner].items()):
            found.setdefault(seed, []).append(
                100 * float(measure(np.array(list(curve)), np.array(list(curve.values()))))
            )
        return np.array([np.mean(found[seed]) for seed in sorted(found)])

    pools, names = list(dict.fromkeys(p for p, _ in curves)), list(dict.fromkeys(name for _, name in curves))
    rows, means = [], {name: np.zeros(1) for name in names}
    for pool in pools:
        area = {name: by_seed(pool, name, aubc) for name in names}
        mean = {name: by_seed(pool, name, lambda _, values: values.mean()) for name in names}
        best, early = (max(names[1:], key=lambda name, of=of: of[name].mean()) for of in (area, mean))  # type: ignore[misc]
        gap, gap_early = paired(area["auto"], area[best]), paired(mean["auto"], mean[early])
        row = [pool, f"{area['auto'].mean():.1f}", f"{area[best].mean():.1f} ({best})", words(gap)]
        rows.append([*row, f"{words(gap_early)} ({early})"])
        means = {name: means[name] + area[name] / len(pools) for name in names}
    ahead = "; ".join(f"{name} {words(paired(means['auto'], means[name]))}" for name in names[1:])
    head = [
        "pool",
        "auto: area",
        "best other learner",
        "auto minus it",
        "the same, each number of labels counting alike",
    ]
    return table(head, rows) + f"\n\nMean of the pools: auto {means['auto'].mean():.1f}; its lead over {ahead}."


def areas_of(path: Path, metric: str = "test_accuracy") -> dict[tuple[str, str, str], np.ndarray]:
    """(group, learner, method) -> the area of each seed, in %."""
    curves: dict[tuple[str, str, str], dict[int, dict[int, float]]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["metric"] == metric and row["x"] == "":
                of = curves.setdefault((row["group"], row["learner"], row["method"]), {})
                of.setdefault(int(row["seed"]), {})[int(row["labels"])] = float(row["value"])
    return {
        key: 100
        * np.array([aubc(np.array(list(curve)), np.array(list(curve.values()))) for _, curve in sorted(seeds.items())])
        for key, seeds in curves.items()
    }


def by_setting(path: Path) -> str:
    """dynamicAL, as it is and among certain pseudo-labels, in each setting."""
    found = {(group, method): area for (group, _, method), area in areas_of(path).items()}
    guessed = {(group, method): area for (group, _, method), area in areas_of(path, "unlabelled_accuracy").items()}
    rows = []
    for group in dict.fromkeys(group for group, _ in found):
        random, plain, certain = (found[group, m] for m in (YARDSTICK, "dynamical", "dynamical, certain"))
        gaps = [words(paired(*pair)) for pair in ((plain, random), (certain, random), (certain, plain))]
        rows.append([group, f"{guessed[group, 'dynamical'].mean():.1f}", f"{random.mean():.1f}", *gaps])
    head = [
        "setting",
        "pseudo-labels right, %",
        "random",
        "dynamicAL − random",
        "certain − random",
        "certain − dynamicAL",
    ]
    return table(head, rows)


def by_factor(path: Path) -> str:
    """What each part of the setting adds, the mean over all settings of the other parts."""
    found = {(*group.split(", "), m): area for (group, _, m), area in areas_of(path).items()}
    guessed = {(*group.split(", "), m): area for (group, _, m), area in areas_of(path, "unlabelled_accuracy").items()}
    rows = []
    for place, (with_it, without) in enumerate(
        [("FixMatch", "supervised"), ("retrained", "continued"), ("chosen start", "random start")]
    ):

        def mean(of: dict[tuple[str, ...], np.ndarray], method: str, part: str, place: int = place) -> np.ndarray:
            return np.mean([area for key, area in of.items() if (key[place], key[-1]) == (part, method)], axis=0)

        row = [f"{with_it} − {without}", words(paired(*(mean(guessed, "dynamical", p) for p in (with_it, without))))]
        for method in (YARDSTICK, "dynamical"):
            row.append(words(paired(*(mean(found, method, p) for p in (with_it, without)))))
        lead = [mean(found, "dynamical", p) - mean(found, YARDSTICK, p) for p in (with_it, without)]
        rows.append([*row, words(paired(*lead))])
    return table(["part", "pseudo-labels right", YARDSTICK, "dynamicAL", "dynamicAL's lead over random"], rows)


def by_successor(path: Path) -> str:
    """What chosen labels add to random ones, for each model that learns from them; in italics the model that chose them."""
    found = areas_of(path)
    models = list(dict.fromkeys(learner for _, learner, _ in found))
    rows = []
    for group in dict.fromkeys(group for group, *_ in found):
        rows.append([group, YARDSTICK, *(f"{found[group, model, YARDSTICK].mean():.1f}" for model in models)])
        for method in dict.fromkeys(m for g, _, m in found if g == group and m != YARDSTICK):
            row = [group, method]
            for model in models:
                gap = words(paired(found[group, model, method], found[group, model, YARDSTICK]))
                row.append(f"*{gap}*" if method.endswith(f" by {model}") else gap)
            rows.append(row)
    return table(["pool", "labels", *models], rows)


def own_and_others(path: Path) -> str:
    """The same, averaged: for the model that chose the labels, and for the other models."""
    found = areas_of(path)
    models = list(dict.fromkeys(learner for _, learner, _ in found))
    rows = []
    for group in dict.fromkeys(group for group, *_ in found):
        methods = dict.fromkeys(m for g, _, m in found if g == group and m != YARDSTICK)
        for strategy in dict.fromkeys(m.partition(" by ")[0] for m in methods):
            gaps: dict[str, list[np.ndarray]] = {"own": [], "other": []}
            for method in (m for m in methods if m.startswith(f"{strategy} by ")):
                of = {model: found[group, model, method] - found[group, model, YARDSTICK] for model in models}
                own = of.pop(method.partition(" by ")[2])
                gaps["own"].append(own)
                gaps["other"] += of.values()
            means = {kind: np.mean(some, axis=0) for kind, some in gaps.items()}
            lost = paired(means["other"], means["own"])
            clear = [interval(gap) for gap in gaps["other"]]
            better, worse = (sum(g.clear and sign * g.mean > 0 for g in clear) for sign in (1, -1))
            row = [group, strategy, *(words(interval(means[kind])) for kind in ("own", "other")), words(lost)]
            rows.append([*row, f"{better} : {worse} of {len(clear)}"])
    head = [
        "pool",
        "strategy",
        "for the model that chose",
        "for another",
        "another − own",
        "clearly above : below random",
    ]
    return table(head, rows)


def in_short(runs: Path) -> dict[str, str]:
    """Per strategy, in the race under logistic regression: points above random over all groups, and the mean rank; of one
    that took part only in the race with BAIT, its numbers there."""
    short: dict[str, str] = {}
    for run in ("race.logistic", "race.bait"):
        curves, counts = read(runs / run / "results.csv")
        methods = [m for m in next(iter(curves.values())) if m != "oracle"]
        found = np.array([[100 * aubc(np.log(counts[g]), curves[g][m]) for m in methods] for g in curves])
        by_seed = found.mean(axis=0)  # (methods, seeds)
        for m, area, rank in zip(methods, by_seed, average_ranks(found.mean(axis=2)), strict=True):
            gap = "0" if m == YARDSTICK else words(paired(area, by_seed[methods.index(YARDSTICK)]))
            short.setdefault(m, f"{gap} · {rank:.1f}" + (f" (of {len(methods)})" if run == "race.bait" else ""))
    return short


def section(path: Path, title: str) -> str:
    """What a run's tables.md has under this heading."""
    found = re.search(
        rf"^### {re.escape(title)}\n(.*?)(?=^### |\Z)", path.read_text(encoding="utf-8"), flags=re.S | re.M
    )
    if found is None:
        raise SystemExit(f"{path} has no section “{title}”.")
    return found[1].strip()


def with_numbers(page: str, runs: Path) -> str:
    """docs/methods.md with the column of our numbers, before the last one, made again; rows without it get it."""
    short = in_short(runs)
    lines = page.splitlines(keepends=True)
    head = next(k for k, line in enumerate(lines) if line.startswith("| name | paper |"))
    width = len([c for c in lines[head].strip().strip("|").split("|") if c.strip() != NUMBERS]) + 1
    for k in range(head, len(lines)):
        if not lines[k].startswith("|"):
            break
        cells = [cell.strip() for cell in lines[k].strip()[1:-1].split(" | ")]
        if k == head + 1:
            lines[k] = "|" + "---|" * width + "\n"
            continue
        name = re.sub(r".*`([a-z]+)`.*", r"\1", cells[0])
        made = NUMBERS if k == head else short.get(name, "–")
        cells = [*cells[:-1], made, cells[-1]] if len(cells) < width else [*cells[:-2], made, cells[-1]]
        lines[k] = "| " + " | ".join(cells) + " |\n"
    return "".join(lines)


TOGETHER, BY_GROUP = "All groups together", "Group by group"
THIRDS = f": {OWN} minus each other, by thirds of the budget"
BUDGETS = "Test accuracy, % by number of labels: CIFAR-10, logistic regression"
TABLES = {
    "race": lambda runs: section(runs / "race.logistic" / "tables.md", TOGETHER),
    "race thirds": lambda runs: section(runs / "race.logistic" / "tables.md", TOGETHER + THIRDS),
    "race once": lambda runs: section(runs / "race.logistic" / "tables.md", "Groups reported once"),
    "race groups": lambda runs: section(runs / "race.logistic" / "tables.md", BY_GROUP),
    "auto": lambda runs: section(runs / "race.auto" / "tables.md", TOGETHER),
    "auto thirds": lambda runs: section(runs / "race.auto" / "tables.md", TOGETHER + THIRDS),
    "head": lambda runs: section(runs / "race.head" / "tables.md", TOGETHER),
    "head thirds": lambda runs: section(runs / "race.head" / "tables.md", TOGETHER + THIRDS),
    "budgets": lambda runs: section(runs / "race.budgets" / "tables.md", BUDGETS),
    "bait": lambda runs: section(runs / "race.bait" / "tables.md", TOGETHER),
    "bait thirds": lambda runs: section(runs / "race.bait" / "tables.md", TOGETHER + THIRDS),
    "scratch": lambda runs: against_all(runs / "askless.scratch" / "results.csv"),
    "ablation": lambda runs: against_all(runs / "askless.ablation" / "results.csv"),
    "dynamical": dynamical,
    "learners": lambda runs: learners(runs / "learners" / "results.csv"),
    "dynamical by setting": lambda runs: by_setting(runs / "outlook.dynamical" / "results.csv"),
    "dynamical by factor": lambda runs: by_factor(runs / "outlook.dynamical" / "results.csv"),
    "successors": lambda runs: by_successor(runs / "outlook.successors" / "results.csv"),
    "own and others": lambda runs: own_and_others(runs / "outlook.successors" / "results.csv"),
}


def renewed(page: str, runs: Path) -> str:
    """The page with each table between its marks, `<!-- table: scratch -->` and `<!-- end -->`, made again."""

    def one(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{TABLES[found[2]](runs)}\n\n<!-- end -->"

    return re.sub(r"(<!-- table: ([a-z ]+) -->)\n.*?<!-- end -->", one, page, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "docs" / "evidence")
    parser.add_argument("--docs", action="store_true", help="renew the pages of docs/")
    given = parser.parse_args()
    if given.docs:
        pages = {page: renewed(page.read_text(encoding="utf-8"), given.runs) for page in PAGES}
        pages[METHODS] = with_numbers(METHODS.read_text(encoding="utf-8"), given.runs)
        for page, text in pages.items():
            content = text.encode()
            write_whole(page, lambda file, content=content: file.write(content))  # type: ignore[misc]
        return
    for name, make in TABLES.items():
        try:
            print(f"{name}\n\n{make(given.runs)}\n")
        except FileNotFoundError as error:
            print(f"{name}: {error}\n", file=sys.stderr)


if __name__ == "__main__":
    main()
