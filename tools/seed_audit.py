"""Runs every fast test that draws numbers under many seeds: a tolerance that only luck meets shows itself.

    python tools/seed_audit.py [--seeds 50] [--below 1.0] [PATH ...]

First all tests of the paths run once, to learn which of them draw and how long they take; then those that draw and take
less than `--below` seconds run once for each seed, in one process. Both are kept in build/seeds, so that the same
command resumes an audit; delete the folder to start again. The last line names every test that failed, with its seeds.
See the root's conftest.py for what a seed changes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(arguments: list[str], seed: int = 0) -> str:
    """What pytest said, without colours and with whole lines."""
    environment = {**os.environ, "ASKLESS_TEST_SEED": str(seed), "COLUMNS": "1000"}
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{done.stdout}\npytest ended with code {done.returncode}")
    return done.stdout


def failures(said: str) -> dict[str, str]:
    """Test -> reason, of the lines of the short summary."""
    found = [re.match(r"(?:FAILED|ERROR) (.*?)(?: - (.*))?$", line) for line in said.splitlines()]
    return {match[1]: match[2] or "" for match in found if match}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=["tests"])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--below", type=float, default=1.0, help="seconds; slower tests are left out")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "seeds")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    draws, done = given.folder / "draws.jsonl", given.folder / "failures.jsonl"
    if not draws.exists():
        part = draws.with_suffix(".part")
        part.unlink(missing_ok=True)
        print(run(["--draws", str(part), *given.paths]).splitlines()[-1])
        part.rename(draws)
    rows = [json.loads(line) for line in draws.read_text().splitlines()]
    tests = [row["test"] for row in rows if row["draws"] and row["seconds"] < given.below]
    (given.folder / "tests.txt").write_text("\n".join(tests))
    print(f"{len(tests)} of {len(rows)} tests draw and take less than {given.below} s")
    known = {row["seed"] for row in map(json.loads, done.read_text().splitlines())} if done.exists() else set()
    for seed in sorted(set(range(1, given.seeds + 1)) - known):
        said = run([f"@{given.folder / 'tests.txt'}"], seed)
        failed = failures(said)
        with done.open("a") as log:
            log.write(f"{json.dumps({'seed': seed, 'failed': failed})}\n")
        print(f"seed {seed}: {said.splitlines()[-1]}", flush=True)
    by_test = defaultdict(list)
    for row in map(json.loads, done.read_text().splitlines()):
        for test in row["failed"]:
            by_test[test].append(row["seed"])
    for test, seeds in sorted(by_test.items()):
        print(f"{test}: {len(seeds)} of {given.seeds} seeds: {seeds}")
    if by_test:
        raise SystemExit(f"{len(by_test)} tests fail under some seeds")


if __name__ == "__main__":
    main()
