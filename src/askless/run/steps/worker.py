"""The background process of a run: does what is missing, then waits for answers. It never keeps people from answering.

Started by the page's process as `python -m askless.run.steps.worker FOLDER`; it ends when that one does.
"""

import contextlib
import json
import os
import shutil
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from askless.base.errors import AsklessError
from askless.base.files import ASIDE, part_of, put_aside, restore_folder
from askless.base.locks import held
from askless.run.run import Report, Run, quiet

PAUSE = 0.1  # seconds between looks for new answers
NICENESS = 10


class Status:
    """`status.json`: what the worker is doing, for the page; written a few times a second at most."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "status.json"
        self.step, self.begun, self.written = "", 0.0, 0.0

    def __call__(self, step: str, text: str, done: int, total: int) -> None:
        at = time.time()
        if step != self.step:
            self.step, self.begun, self.written = step, at, 0.0
        if at - self.written < 0.25 and done < total:
            return
        self.written = at
        left = None
        if 0 < done < total and at - self.begun > 1:
            left = round((at - self.begun) * (total - done) / done, 1)
        self.write(step, text, done=done, total=total, seconds_left=left)

    def write(self, step: str, text: str, **news: Any) -> None:
        nothing = {"problem": None, "done": 0, "total": 0, "seconds_left": None}
        news = {"pid": os.getpid(), "at": time.time(), "step": step, "text": text, **nothing, **news}
        beside = part_of(self.path)
        beside.write_text(json.dumps(news), encoding="utf-8")
        beside.chmod(0o600)
        beside.replace(self.path)

    def rest(self, finished: bool) -> None:
        self.step, text = ("finished", "Finished") if finished else ("waiting", "Waiting for labels")
        self.write(self.step, text)


def work(folder: Path) -> None:
    """Advances the run whenever there is something to do."""
    # One worker per run: a new one waits until the one before, whose page was killed, has gone.
    with held(folder / ".worker.lock", f"another worker is running on {folder}", seconds=60.0):
        clean_up_after_kill(folder)
        run = Run.open(folder)
        status = Status(folder)
        status.rest(finished=False)
        while True:
            seen = run.store.version()  # before the look, so that nothing that comes after it is missed
            if run.advance(status, reserve=True) is not None:
                continue
            status.rest(run.is_finished())
            while run.store.version() == seen:
                time.sleep(PAUSE)


def catch_up(run: Run, report: Report = quiet) -> None:
    """Does what is missing until people have to answer, for those without a page; BusyError where one is served."""
    busy = f"{run.folder} is being served; the page's worker trains and chooses"
    with held(run.folder / ".worker.lock", busy, seconds=1.0):
        clean_up_after_kill(run.folder)
        while run.advance(report, ahead=False) is not None:
            pass


def clean_up_after_kill(folder: Path) -> None:
    """Puts back what a kill left aside, and removes what was never finished; for who holds the worker's lock."""
    put_back(folder)
    rounds = folder / "rounds"
    for left in (
        put_aside(folder / "model"),
        folder / ".model.making",
        *rounds.glob(f".*{ASIDE}"),
        *rounds.glob(".*.making"),
    ):
        shutil.rmtree(left, ignore_errors=True)


def put_back(folder: Path) -> None:
    """The model and the rounds of which a kill left the folder under its old name, while a new one was put in its place."""
    for old in (put_aside(folder / "model"), *(folder / "rounds").glob(f".*{ASIDE}")):
        restore_folder(old.with_name(old.name.removeprefix(".").removesuffix(ASIDE)))


def leave_with_parent() -> None:
    """Ends this process when the one that started it is gone: its end of our standard input closes then."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    folder = Path(sys.argv[1])
    os.umask(0o077)  # what is written in a run is its owner's alone
    leave_with_parent()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICENESS)
    import torch

    torch.set_num_threads(1)
    try:
        work(folder)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (AsklessError, OSError, MemoryError) as error:
        Status(folder).write("failed", "", problem=str(error))
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    except Exception as error:
        problem = f"{type(error).__name__}: {error}; see worker.log in the run's folder"
        Status(folder).write("failed", "", problem=problem)
        (folder / "worker.log").write_text(traceback.format_exc(), encoding="utf-8")
        traceback.print_exc()
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
