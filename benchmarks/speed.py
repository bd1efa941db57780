"""The whole speed suite: each benchmark in a process of its own, its results in benchmarks/results, one table at the end.

    make speed                                   # everything, with the peers installed first
    python benchmarks/speed.py --only npc_search fixmatch
    python benchmarks/speed.py --quick           # small sizes, writes nothing: shows that all of it works
    python benchmarks/speed.py --table           # only print the table of existing results
    python benchmarks/speed.py --docs            # only write that table into docs/evidence/speed.md

One thread in most of them: two beside other work are slower than one.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from growth import exponents_table
from suite import HERE, RESULTS, table

from askless.base.files import write_whole

SUITE = {  # script -> torch threads and title, in the order of the table
    "npc_search": (1, "NPC's search"),
    "gradients": (1, "Gradient numbers"),
    "selection": (1, "BADGE, coreset, TypiClust, askless"),
    "covering": (1, "Covering"),
    "million": (1, "A million rows"),
    "scale": (1, "Ten million rows in shards"),
    "fixmatch": (1, "FixMatch's step"),
    "frozen_round": (1, "A round on frozen features"),
    "embedding": (2, "Embedding"),
    "imports": (1, "Imports"),
}
PAGE = HERE.parent / "docs" / "evidence" / "speed.md"


def run(name: str, quick: bool) -> bool:
    threads = SUITE[name][0]
    out = [] if quick else ["--out", str(RESULTS / f"{name}.json")]
    command = [sys.executable, str(HERE / f"{name}.py"), *out, *(["--quick"] if quick else [])]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    print(f"== {SUITE[name][1]} ({threads} thread{'s' if threads > 1 else ''})", flush=True)
    start = time.perf_counter()
    code = subprocess.run(command, env=environment).returncode
    print(f"   {time.perf_counter() - start:.0f} s" + (f", ended with {code}" if code else ""), flush=True)
    return code == 0


def whole_table(results: Path = RESULTS) -> str:
    """Every result that is there, as Markdown, each part with its machine, its date and its command."""
    parts = []
    for name, (_, title) in SUITE.items():
        path = results / f"{name}.json"
        if not path.exists():
            continue
        record = json.loads(path.read_text())
        machine = record["machine"]
        made = (
            f"`python benchmarks/{name}.py`, {record['date']}: {machine['processor']}, {machine['cores']} cores, "
            f"{record['threads']} torch thread{'s' if record['threads'] > 1 else ''}, load {machine['load']} at the end; "
            + ", ".join(
                f"{package} {version}" for package, version in record["versions"].items() if package != "askless"
            )
        )
        parts.append(f"### {title}\n\n{made}\n\n" + "\n".join(table(record["lines"])))
    return "\n\n".join(parts)


def growth_table(results: Path = RESULTS) -> str:
    record = json.loads((results / "growth.json").read_text())
    return exponents_table(record["axes"], record["seconds"])


TABLES: dict[str, Callable[[], str]] = {"speed": whole_table, "growth": growth_table}


def mark(name: str, which: str) -> str:
    return f"<!-- {name} from benchmarks/results: {which} -->"


def shown_in_docs() -> dict[str, str]:
    """Each table as docs/evidence/speed.md has it."""
    text = PAGE.read_text()
    return {name: text.split(mark(name, "begin"))[1].split(mark(name, "end"))[0].strip() for name in TABLES}


def write_docs() -> None:
    text = PAGE.read_text()
    for name, make in TABLES.items():
        before, rest = text.split(mark(name, "begin"))
        after = rest.split(mark(name, "end"))[1]
        text = f"{before}{mark(name, 'begin')}\n\n{make()}\n\n{mark(name, 'end')}{after}"
    write_whole(PAGE, lambda file: file.write(text.encode()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SUITE), default=list(SUITE), help="only these")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written")
    parser.add_argument("--table", action="store_true", help="only print the table of benchmarks/results")
    parser.add_argument("--docs", action="store_true", help="only write the table into docs/evidence/speed.md")
    given = parser.parse_args()
    if given.docs:
        write_docs()
        return 0
    failed = [] if given.table else [name for name in given.only if not run(name, given.quick)]
    if not given.quick:
        print(whole_table())
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
