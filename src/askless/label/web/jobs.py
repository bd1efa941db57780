"""What the page's buttons write: images sorted into folders, labels, and the report. One at a time, in a thread of the
page's process, by the functions that the commands call."""

import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from askless.base.errors import AsklessError, InputError
from askless.label.web import bodies
from askless.label.web.page import Json, Page
from askless.run.out.export import export_run
from askless.run.store.labels import agreed, unanswered_items

Work = Callable[["Job"], str]


@dataclass
class Job:
    """`state`: running, done or failed; `path` is what was written, `text` what is said of it, or what went wrong."""

    kind: str
    path: str
    state: str = "running"
    done: int = 0
    total: int = 0
    text: str = ""

    def tell(self, done: int, total: int) -> None:
        self.done, self.total = done, total


class Jobs:
    """A method for each of the buttons' routes."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.job: Job | None = None
        self.request = ""
        self.starting = threading.Lock()
        self.thread: threading.Thread | None = None

    def state(self) -> Json:
        """The last job, and what sorting into folders would copy."""
        run = self.page.run
        with run.store.look() as db:
            labelled = [a.item for a in agreed(db) if a.label is not None]
            rest = len(unanswered_items(db))
        size = run.pictures.bytes_of(labelled)
        plan = {"items": len(labelled), "rest": rest, "bytes": size, "out": str(self.place("", "sorted"))}
        return {"job": None if self.job is None else asdict(self.job), "plan": plan}

    def sort_into_folders(self, body: bodies.FoldersBody) -> Json:
        """A folder for each class, with copies of the images."""
        out = self.place(body.out, "sorted")

        def work(job: Job) -> str:
            done = export_run(
                self.page.run,
                "imagefolder",
                out,
                what="human+model" if body.rest == "guess" else "human",
                unsorted=body.rest == "unsorted",
                overwrite=body.overwrite,
                progress=job.tell,
            )
            return said([f"{done.labels + done.pseudo:,} {self.page.run.noun}s", *done.notes], done.left_out)

        return self.start("folders", body.request_id, out, body.overwrite, work)

    def export(self, body: bodies.ExportBody) -> Json:
        out = self.place(body.out, f"labels.{'json' if body.to == 'coco' else body.to}")

        def work(job: Job) -> str:
            done = export_run(self.page.run, body.to, out, accepted=body.accepted, overwrite=body.overwrite)
            return said([f"{done.labels:,} labels", *done.notes], done.left_out)

        return self.start("export", body.request_id, out, body.overwrite, work)

    def report(self, body: bodies.Request) -> Json:
        def work(job: Job) -> str:
            self.page.run.write_report()
            return ""

        return self.start("report", body.request_id, self.page.run.folder / "report.html", True, work)

    def start(self, kind: str, request: str, out: Path, overwrite: bool, work: Work) -> Json:
        """Begins a job; a repeated request begins none, and nothing that is there is replaced unless that was said."""
        with self.starting:
            if request != self.request:
                if self.job is not None and self.job.state == "running":
                    raise InputError(f"{self.job.path} is being written; wait for it to finish")
                if not overwrite and out.exists() and not (out.is_dir() and not any(out.iterdir())):
                    return {"ok": False, "exists": str(out)}
                self.job, self.request = Job(kind, str(out)), request
                self.thread = threading.Thread(target=self.do, args=(self.job, work), daemon=True)
                self.thread.start()
            return {"ok": True, "exists": None}

    def do(self, job: Job, work: Work) -> None:
        try:
            job.text = work(job)
            job.state = "done"
        except Exception as error:  # whatever it is, somebody waits for the end
            known = isinstance(error, AsklessError | OSError)
            job.text = str(error) if known else f"{type(error).__name__}: {error}"
            job.state = "failed"

    def place(self, typed: str, ending: str) -> Path:
        """Where to write: beside the run, or where a person typed, which is below the run's own folder's parent or below
        their home, in a folder that belongs to them; never among the images, in the run, or in a hidden folder."""
        run = self.page.run.folder.resolve()
        if not typed.strip():
            return run.with_name(f"{run.name}-{ending}")
        if not typed.isprintable():
            raise InputError("expected the name of a folder, got unprintable characters")
        try:
            given = Path(typed.strip()).expanduser()
            out = (run.parent / given).resolve()
            above = next(folder for folder in out.parents if folder.is_dir())
            out.exists()  # an error where no file can have this name
            owner = above.stat().st_uid
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f"{typed[:100]}: cannot be written to ({error}); choose another folder") from None
        homes = [home for home in (run.parent, Path.home().resolve()) if out.is_relative_to(home) and out != home]
        if not homes:
            raise InputError(f"{out}: expected a folder below {run.parent} or {Path.home()}; choose another one")
        if any(part.startswith(".") for part in out.relative_to(homes[0]).parts):
            raise InputError(f"{out}: expected a folder that is not hidden; choose another name")
        source = Path(self.page.run.meta("root")).resolve()
        if any(out.is_relative_to(own) or own.is_relative_to(out) for own in (run, source)):
            raise InputError(
                f"{out}: expected a folder outside the run and its {self.page.run.noun}s; choose another one"
            )
        if hasattr(os, "getuid") and owner != os.getuid():
            raise InputError(f"{above}: expected a folder of your own, got another user's; choose another one")
        return out


def said(lines: list[str], left_out: list[tuple[str, str]]) -> str:
    """What was written, in words, with the first of what was left out."""
    if left_out:
        lines = [*lines, f"{len(left_out):,} left out, such as {left_out[0][0]}: {left_out[0][1]}"]
    return "; ".join(lines)
