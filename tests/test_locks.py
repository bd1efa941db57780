import subprocess
import sys

import pytest

from askless.errors import BusyError
from askless.locks import held, is_held

HOLD = """
import sys, time
from pathlib import Path
from askless.locks import held
with held(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_once_and_given_back(tmp_path):
    path = tmp_path / "lock"
    assert not is_held(path)
    with held(path, "busy"):
        assert is_held(path)
        with pytest.raises(BusyError, match="in use"), held(path, "in use", seconds=0.1):
            pass
    assert not is_held(path)


def test_a_killed_process_gives_its_lock_back(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert is_held(path)
        process.kill()
    with held(path, "busy"):
        pass
