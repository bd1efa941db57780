"""The scripts in examples/ run as their first lines say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_two_processes_under_torchrun_train_together_and_ask_alike(tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(EXAMPLES / "train_on_many.py"), "--folder", str(tmp_path), "--steps", "6", "--rounds", "2"]
    done = subprocess.run([*torchrun, *script], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"(\d+) labels, 2 processes", done.stdout) == ["20", "40"]
    picks = re.findall(r"rank (\d) would ask for (\[.*\])", done.stdout)
    assert sorted(rank for rank, _ in picks) == ["0", "1"]
    assert picks[0][1] == picks[1][1]
    assert (tmp_path / "log.jsonl").read_text().count("\n") == 2  # one line per training: only one rank writes


@pytest.mark.ecosystem
@pytest.mark.parametrize("name", ["with_scikit_activeml.py", "with_baal.py"])
def test_another_librarys_loop_learns_from_what_askless_chooses(name):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    # torchvision, which baal imports, may lack its operators beside a torch without graphics cards: askless knows how to.
    first = (
        "from askless.nets.optional import torchvision; torchvision(); import runpy, sys; runpy.run_path(sys.argv[1])"
    )
    script = [sys.executable, "-c", first, str(EXAMPLES / name)]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(\d+) labels: accuracy (0\.\d+)$", done.stdout, flags=re.MULTILINE)
    assert [int(n) for n, _ in found] == [20, 30, 40, 50]
    assert float(found[-1][1]) > float(found[0][1])
    assert float(found[-1][1]) > 0.6
