"""Seconds until askless is there: `import askless`, `askless --help` and `askless start --help`, each in a fresh process.

The floor is `python -c pass`, the bare interpreter; the reference imports torch, which askless does only when it is used.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from suite import Line, Other, arguments, finish

import askless

HELP = "from askless.cli import main; main()"  # what the console script does
COMMANDS = {
    "floor": ["-c", "pass"],
    "torch": ["-c", "import torch"],
    "import": ["-c", "import askless"],
    "help": ["-c", HELP, "--help"],
    "start": ["-c", HELP, "start", "--help"],
}


def medians(repeats: int) -> dict[str, float]:
    """Median seconds of each command, all in turn; the first round, which fills the disk's cache, is left out."""
    source = str(Path(askless.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for round_ in range(repeats + 1):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], env=environment, check=True, stdout=subprocess.DEVNULL)
            if round_ > 0:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    given = arguments(__doc__)
    took = medians(1 if given.quick else 7)
    floor, torch = Other("python -c pass", took["floor"]), Other("import torch", took["torch"])
    lines = [
        Line("import askless", took["import"], floor=floor, reference=torch, most=0.5),
        Line("askless --help", took["help"], floor=floor, reference=torch, most=0.7, note="typer, rich and numpy"),
        Line("askless start --help", took["start"], floor=floor, reference=torch),
    ]
    finish("imports", lines, given)


if __name__ == "__main__":
    main()
