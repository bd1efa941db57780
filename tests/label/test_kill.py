"""SIGKILL at any moment: nothing acknowledged is lost, nothing is stored twice, nobody gets what somebody else has.

Real processes and sockets. `ASKLESS_KILLS=1000 pytest -m slow -s tests/label/test_kill.py` kills a thousand times.
"""

import os
import random
import sys
from pathlib import Path

import pytest

from askless.base.files import put_aside
from askless.label.oracle import PageClient
from askless.run import Run

from .kill_driver import CLASSES, Server, Tally, check_views, free_port, kill_again_and_again, make_images, prepare

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


def check(tally: Tally, kills: int) -> None:
    print(tally)
    assert tally.kills == kills
    assert tally.acknowledged > 5 * kills
    at_work = sum(tally.during[step] for step in ("training", "choosing", "choosing ahead"))
    assert at_work > 0, "no kill while the model trained or chose"
    assert tally.fits > 0


def test_story_3_kill_9_loses_nothing(tmp_path: Path) -> None:
    """Three kills while eight people label, one of them while the model trains or chooses (LABELLING, story 3)."""
    check(kill_again_and_again(tmp_path, kills=3, seed=3, busy=0.4), 3)


@pytest.mark.slow
def test_kill_9_again_and_again(tmp_path: Path) -> None:
    kills = int(os.environ.get("ASKLESS_KILLS", "200"))
    check(kill_again_and_again(tmp_path, kills=kills, seed=4), kills)


def test_killed_between_two_renames(tmp_path: Path) -> None:
    """A round that is trained again takes its own place in two steps. Between them it is there under its old name only."""
    server = Server(make_images(tmp_path / "images.npz", 200), tmp_path / "run", free_port(random.Random(5)), 100)
    prepare(server, 100)
    with Run.open(server.folder) as run:
        run.tell({path: CLASSES[i % 3] for i, path in enumerate(run.waiting())})
        assert [run.advance(), run.advance()] == ["closing", "training"]
    for folder in (server.folder / "rounds" / "001", server.folder / "model"):
        folder.rename(put_aside(folder))
    url = server.start()
    try:
        check_views(server.folder)
        client = PageClient(url, "ann")
        client.label(client.next()["item"]["id"], 0) if client.next()["item"] else None
        client.close()
    finally:
        server.kill()
    assert (server.folder / "rounds" / "001" / "predictions.npz").exists()
    assert (server.folder / "model" / "model.safetensors").exists()
