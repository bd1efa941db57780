"""Embedding on Ray: the arrays of one process, also when a worker is killed in the middle."""

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray")
import ray

from askless import embed

sys.path.insert(0, str(Path(__file__).parent))
from pools import images, write_tars

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module", autouse=True)
def running():
    """One Ray for all of them; its workers have the priority of anything else here."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2**27)
    yield
    ray.shutdown()


def actors():
    """The processes of the engine's actors that were started from here: others on this machine are not ours to kill."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(b"ray::Actor") and os.getpid() in ancestors(int(entry.name)):
                found.append(int(entry.name))
    return found


def ancestors(pid):
    found = []
    with contextlib.suppress(OSError):  # one that has just ended
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            found.append(pid)
    return found


def stamps(folder):
    return {f.name: (f.stat().st_ino, f.stat().st_mtime_ns) for f in folder.glob("*.arrow")}


def test_the_arrays_of_one_process_though_a_worker_is_killed(tmp_path):
    """EfficientNet-Lite0 on 600 images in 30 tars; one of two workers is killed once some shards are there."""
    x = images(600, side=32)
    write_tars(tmp_path / "pool", x)
    alone = embed(tmp_path / "pool", tmp_path / "alone", batch=20)
    killed = []

    def kill_one():
        while len(stamps(tmp_path / "out")) < 4:
            time.sleep(0.02)
        pid = actors()[0]
        os.kill(pid, signal.SIGKILL)
        killed.append((pid, stamps(tmp_path / "out")))

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    shards = embed(tmp_path / "pool", tmp_path / "out", batch=20, engine="ray", workers=2)
    thread.join(60)
    [(_, before)] = killed
    assert 4 <= len(before) < 30, "it was over before anybody was killed"
    assert before.items() <= stamps(tmp_path / "out").items()
    np.testing.assert_array_equal(np.asarray(shards["features"]), np.asarray(alone["features"]))
    at = np.arange(600)
    assert shards.texts("id", at) == alone.texts("id", at)
    now = stamps(tmp_path / "out")
    embed(tmp_path / "pool", tmp_path / "out", batch=20, engine="ray", workers=2)
    assert stamps(tmp_path / "out") == now
