"""Run by the Python of an environment that has askless from its wheel and nothing else: the three users' first steps.

python -I tests/bare/try_install.py
"""

import subprocess
import sys
import tempfile
from importlib.metadata import requires, version
from importlib.resources import files
from pathlib import Path

import numpy as np

import askless as al


def main() -> None:
    package = files("askless")
    assert "site-packages" in str(package), f"expected the installed package, got {package}"
    for needed in ("py.typed", "label/web/static", "report/style.css", "bench/paper_numbers.csv"):
        found = package / needed
        assert found.is_file() or found.is_dir(), f"{needed} is not in the wheel"

    features = np.random.default_rng(0).normal(size=(500, 16))
    assert len(al.select("npc", 5, features=features, labelled=[3], seed=0).indices) == 5  # arrays

    pool = al.data.digits()  # a loop
    learner = al.ActiveLearner(pool, net="small-cnn", learner=al.FixMatch(steps=5, batch=8, mu=2), seed=0)
    batch = learner.ask(10)
    learner.tell(batch.indices, pool.labels[batch.indices])
    learner.fit()
    assert 0 <= learner.score() <= 1

    with tempfile.TemporaryDirectory() as folder:  # a table
        command = [sys.executable, "-m", "askless", "bench", "run", "npc.table1", "--scale", "smoke", "--workers", "1"]
        done = subprocess.run([*command, "--out", folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (Path(folder) / "report.html").exists()

    core = [name for name in requires("askless") or [] if "extra ==" not in name]
    print(f"Python {sys.version.split()[0]}: askless {version('askless')} with {', '.join(map(of, core))}: works")


def of(requirement: str) -> str:
    name = requirement.split(";")[0].split(">")[0].strip()
    return f"{name} {version(name)}" if ";" not in requirement else name


if __name__ == "__main__":
    main()
