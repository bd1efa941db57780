"""The scripts in examples/ run as their first lines say."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


MANY = EXAMPLES / "train_on_many.py"
LOCAL = {"OMP_NUM_THREADS": "1"} | ({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {})


def check_that_two_trained_together(shown, folder):
    assert re.findall(r"(\d+) labels, 2 processes", shown) == ["20", "40"]
    picks = re.findall(r"rank (\d) would ask for (\[.*\])", shown)
    assert sorted(rank for rank, _ in picks) == ["0", "1"]
    assert picks[0][1] == picks[1][1]
    assert (folder / "log.jsonl").read_text().count("\n") == 2  # one line per training: only one rank writes


def test_two_processes_train_together_and_ask_alike(tmp_path, run_script):
    """With what torchrun puts into their environment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = LOCAL | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        run_script(
            *(MANY, "--folder", tmp_path / "many", "--steps", 6, "--rounds", 2),
            output=tmp_path / f"{rank}.txt",
            environment=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0, 0]
    check_that_two_trained_together("".join((tmp_path / f"{r}.txt").read_text() for r in range(2)), tmp_path / "many")


@pytest.mark.slow
def test_two_processes_under_torchrun_train_together_and_ask_alike(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(MANY), "--folder", str(tmp_path), "--steps", "6", "--rounds", "2"]
    done = subprocess.run([*torchrun, *script], env=os.environ | LOCAL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    check_that_two_trained_together(done.stdout, tmp_path)


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
