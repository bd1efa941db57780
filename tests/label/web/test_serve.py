"""What goes on around the page: its token, its worker, and a run that is taken away while it is served."""

import json
import os
import re
import shutil
import signal
import sys
import threading

import pytest

from askless.label.web.app import create_app
from askless.label.web.serve import PORT, SOUND, Worker, keep_views, last_port, notice_gone, own_token, redirect_file
from askless.run import Run

URL = 'http://127.0.0.1:8347/?token=a"b&c'


# --- the token -----------------------------------------------------------------------------------------------------------


def test_a_copy_of_a_run_gets_its_own_token_and_a_restart_keeps_it(make_hall, tmp_path):
    run = make_hall(4).run
    token = own_token(run)
    run.close()
    for _ in range(2):
        with Run.open(run.folder) as again:
            assert own_token(again) == token
    with Run.open(shutil.copytree(run.folder, tmp_path / "copy")) as copy:
        other = own_token(copy)
        assert other != token
        assert len(other) >= 43
        assert own_token(copy) == copy.meta("token") == other
    with Run.open(run.folder) as again:
        assert own_token(again) == again.meta("token") == token


def test_a_run_in_the_place_of_another_gets_its_own_token(make_hall, tmp_path):
    """As where a backup is put back: the path is the same, the file is not."""
    run = make_hall(4).run
    token = own_token(run)
    run.close()
    shutil.copytree(run.folder, tmp_path / "copy")
    run.folder.rename(tmp_path / "elsewhere")
    (tmp_path / "copy").rename(run.folder)
    with Run.open(run.folder) as again:
        assert own_token(again) != token


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"port": "8347"}', '{"port": null}', '{"port": 0}', "\x00"])
def test_whatever_is_left_of_the_last_server_a_port_is_found(tmp_path, text):
    assert last_port(tmp_path) == PORT
    (tmp_path / "server.json").write_text(text)
    assert last_port(tmp_path) == PORT
    (tmp_path / "server.json").write_text('{"port": 9000}')
    assert last_port(tmp_path) == 9000


def test_the_file_for_the_browser_is_private_and_leads_to_the_page(tmp_path):
    (tmp_path / "open.html").write_text("older")
    (tmp_path / "open.html").chmod(0o666)
    path = redirect_file(tmp_path, URL)
    assert path == tmp_path.resolve() / "open.html"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert 'content="0;url=http://127.0.0.1:8347/?token=a&quot;b&amp;c"' in path.read_text()


# --- the worker ----------------------------------------------------------------------------------------------------------


class Clock:
    at = 1000.0

    def __call__(self):
        return self.at


def program(text):
    return [sys.executable, "-I", "-S", "-c", f"import json, os, sys, time\n{text}"]


SLEEPS = program("time.sleep(3600)")
FAILS = """
with open(sys.argv[1], "w") as file:
    json.dump({"step": "failed", "pid": os.getpid(), "problem": "no weights"}, file)
sys.exit(1)
"""


@pytest.fixture
def hire(tmp_path):
    """`hire(command)`: a worker that is started, under a clock of the test's own."""
    workers = []

    def start(command=SLEEPS):
        workers.append(Worker(tmp_path, command, Clock()))
        workers[-1].start()
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()


def kill(worker, number=signal.SIGKILL):
    os.kill(worker.process.pid, number)
    worker.process.wait()
    worker.clock.at += 1  # so that `status` looks again


def test_what_an_earlier_process_said_is_not_taken_for_what_the_new_one_says(hire):
    """In a container both may have the same number."""
    worker = hire()
    (worker.folder / "status.json").write_text(json.dumps({"pid": 1, "step": "failed", "problem": "last week"}))
    kill(worker)
    worker.start()
    assert not (worker.folder / "status.json").exists()


def test_a_killed_worker_starts_again_after_longer_and_longer_waits(hire):
    worker, waits = hire(), []
    for _ in range(8):
        killed = worker.process.pid
        kill(worker)
        status = worker.status()
        assert (status["step"], status["problem"]) == ("restarting", None)
        found = re.fullmatch(
            r"The training process was killed \(SIGKILL; perhaps .*\); it starts again after (\d+) s", status["text"]
        )
        waits.append(int(found[1]))
        worker.clock.at += waits[-1] - 0.5
        assert worker.status() == status
        assert worker.process.pid == killed
        worker.clock.at += 0.6
        assert worker.status()["step"] == "starting"
        assert worker.process.pid != killed
        assert worker.process.poll() is None
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    worker.clock.at += SOUND
    kill(worker, signal.SIGTERM)
    assert worker.status()["text"].endswith("was killed (SIGTERM); it starts again after 1 s")


def test_the_page_says_that_the_worker_was_killed(hire, make_hall):
    office, worker = make_hall(4, ask=False), hire()
    office.app = create_app(office.run, office.gate, worker.status, worker.start)
    ann = office.browser("ann")
    kill(worker)
    text = ann.get("/api/state")["worker"]["text"]
    assert text.endswith("it starts again after 1 s")
    found = ann.next()
    assert (found["code"], found["why"]) == ("training", text)  # no reason to give up, for `askless oracle` neither


def test_a_worker_that_is_started_by_hand_does_not_wait(hire):
    worker = hire()
    kill(worker)
    assert worker.status()["step"] == "restarting"
    worker.start()
    worker.clock.at += 1
    assert worker.status()["step"] == "starting"
    kill(worker)
    assert worker.status()["text"].endswith("after 1 s")


def test_a_worker_that_says_why_it_failed_is_not_started_again(hire, tmp_path):
    worker = hire([*program(FAILS), str(tmp_path / "status.json")])
    worker.process.wait()
    failed = worker.process.pid
    for _ in range(3):
        worker.clock.at += 1000
        status = worker.status()
        assert (status["step"], status["problem"]) == ("failed", "no weights")
    assert worker.process.pid == failed


def test_a_worker_that_ends_without_a_word_is_started_again(hire):
    worker = hire(program("sys.exit(3)"))
    worker.process.wait()
    worker.clock.at += 1
    assert "ended (code 3; see worker.out in the run's folder); it starts again after 1 s" in worker.status()["text"]


def test_a_worker_that_cannot_be_started_is_tried_again_later(hire):
    worker = hire()
    worker.command = ["/nowhere/python"]
    kill(worker)
    assert worker.status()["text"].endswith("after 1 s")
    worker.clock.at += 2
    assert worker.status()["text"].endswith("after 2 s")
    worker.command = SLEEPS
    worker.clock.at += 3
    assert worker.status()["step"] == "starting"


def test_a_worker_that_was_stopped_stays_so(hire):
    worker = hire()
    worker.stop()
    worker.clock.at += 1000
    assert worker.status()["step"] == "stopped"
    assert worker.process is None


# --- a run that goes -----------------------------------------------------------------------------------------------------


def test_a_run_that_goes_is_said_once_and_its_worker_stops_until_it_is_back(make_hall):
    run = make_hall(4).run
    worker = Worker(run.folder, SLEEPS)
    worker.start()
    said, gone = [], notice_gone(run, worker, pytest.fail, False)
    try:
        for times in (1, 2):
            assert not gone
            assert worker.process.poll() is None
            run.folder.rename(run.folder.with_name("elsewhere"))
            for _ in range(3):
                gone = notice_gone(run, worker, said.append, gone)
                assert (gone, len(said), worker.process) == (True, times, None)
            run.folder.with_name("elsewhere").rename(run.folder)
            gone = notice_gone(run, worker, pytest.fail, gone)
        assert "was deleted, moved or replaced, and answers are not saved" in said[0]
    finally:
        worker.stop()


class OneRound:
    """An event that comes after one round of a loop."""

    asked = 0

    def is_set(self):
        self.asked += 1
        return self.asked > 1

    def wait(self, seconds):
        return True


def test_labels_are_not_written_into_another_run(make_hall):
    run = make_hall(4).run
    changed = threading.Event()
    changed.set()
    run.folder.rename(run.folder.with_name("elsewhere"))
    run.folder.mkdir()
    (run.folder / "state.sqlite").write_bytes(b"")
    keep_views(run, changed, OneRound())
    assert [path.name for path in run.folder.iterdir()] == ["state.sqlite"]
    assert changed.is_set()  # later, where it is put back
