"""No command line ends in a traceback, hangs, or leaves without a word: hostile ones, made from the commands themselves."""

import json
import os
from pathlib import Path

import pytest

from askless.run import Run

from .test_run import COLOURS, label_everything, write_photos

DRIVER = Path(__file__).parent / "command_lines.py"
AT_ONCE = 250  # command lines of one process


@pytest.fixture(scope="module")
def furniture(tmp_path_factory):
    """A small run, its model and its images, for the command lines to work on copies of."""
    folder = tmp_path_factory.mktemp("furniture")
    truth = write_photos(folder / "photos")
    options = {"budget": 12, "batch": 6, "net": "frozen:raw", "steps": 5}
    with Run.create(folder / "photos", folder / "run", classes=tuple(COLOURS), **options) as run:
        label_everything(truth, run)
        run.export_model(folder / "model")
    return folder


def tried(run_script, folder, seed, first, last):
    """What became of each of these command lines; one that ends its process is the last of it, with that as its fault."""
    results = []
    while first < last:
        output = folder / f"said-{first}.jsonl"
        process = run_script(DRIVER, seed, first, min(last, first + AT_ONCE), folder, output=str(output))
        process.join()
        said = [json.loads(line) for line in output.read_text().splitlines()]
        done = [each for each in said if "code" in each]
        if process.exitcode and len(done) < len(said):
            done.append(
                {**said[-1], "code": process.exitcode, "err": "", "fault": f"it ended the process, {process.exitcode}"}
            )
        assert done, "the driver does not start"
        results += done
        first = done[-1]["number"] + 1
    return results


def told(results):
    return [
        f"{each['number']} {each['words']}: {each['fault']}: {each['err'][:300]}" for each in results if each["fault"]
    ]


def test_a_sample_of_hostile_command_lines(run_script, furniture):
    results = tried(run_script, furniture, 5, 0, 60)
    assert told(results) == []
    assert {each["code"] for each in results} >= {0, 2, 3}
    assert len({each["words"][0] for each in results}) > 10


@pytest.mark.slow
def test_many_hostile_command_lines(run_script, furniture):
    n = int(os.environ.get("ASKLESS_CLI_FUZZ", "3000"))
    results = tried(run_script, furniture, 0, 0, n)
    faults = told(results)
    print(f"\ncommand lines {len(results)}: {len(faults)} tracebacks")
    assert faults == []
    assert len(results) == n
