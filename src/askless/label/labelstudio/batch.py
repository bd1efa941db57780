"""A run -> what is to be asked in Label Studio now, in its order, and the images or texts that go with it."""

import base64
import math
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from PIL import Image

from askless.base.errors import InputError, OptionError
from askless.label.labelstudio.tasks import IMAGE, TEXT, Asked, Control, Guess
from askless.label.labelstudio.tasks import task as task_for
from askless.run.pictures import JPEG, Picture, encoded
from askless.run.steps.round_files import last_predictions
from askless.run.store.asking import (
    count_chosen,
    current_round,
    done_tasks,
    left_to_choose,
    left_to_pay,
    open_tasks,
    plan,
)
from askless.run.store.classes import class_names
from askless.sources import UnreadableError

if TYPE_CHECKING:
    from askless.run import Run

LARGEST = 2**19  # bytes of an image in a task, unless told otherwise
SMALLEST = 32  # pixels of the longer side, below which nothing is made smaller


@dataclass(frozen=True)
class Images:
    """How the images come to Label Studio: `inline`, in the tasks themselves (as data URLs; those of more than `largest`
    bytes are made smaller), or as `local-files` that the server reads itself below `root`, which is its document root."""

    how: Literal["inline", "local-files"] = "inline"
    root: Path | None = None
    largest: int = LARGEST

    def __post_init__(self) -> None:
        if self.how not in ("inline", "local-files"):
            raise OptionError(f"--images: expected inline or local-files, got {self.how!r}")
        if (self.how == "local-files") != (self.root is not None):
            raise OptionError(
                "--images local-files and --root go together: --root is the folder that the server knows as "
                "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT"
            )
        if self.largest < 1024:
            raise OptionError(f"--largest: expected at least 1 KB, got {self.largest} bytes")


INLINE = Images()


def nothing_open(run: "Run") -> InputError:
    """Why there is no batch to export, and what to do."""
    with run.store.look() as db:
        budget, left, paid = plan(db).budget, left_to_choose(db), left_to_pay(db) == 0
    if left:
        why = f"; choose one with `askless start {run.folder} --no-page`"
    elif paid:
        why = f", because the budget of {budget} is used; raise it on the page (`askless start {run.folder}`)"
    else:
        why = f", because every {run.noun} is labelled; export the labels with --to csv"
    return InputError(f"{run.folder}: expected an open batch, found none{why}")


def batch(run: "Run", there: frozenset[str] = frozenset(), guesses: bool = True) -> list[Asked]:
    """What is open and not `there` yet: the chosen items in the order of their ranks, and between them as many check images
    as keep their share of the budget. Check images come without the model's guess, always; the others with `guesses`."""
    with run.store.look() as db:
        tasks = sorted(open_tasks(db), key=lambda task: (task.round or 0, task.rank))
        wanted, done, number = checks_by_now(db), done_tasks(db)["check"], current_round(db)
        predictions = last_predictions(db, run.folder) if guesses else None
        names = class_names(db)
    chosen = [task for task in tasks if task.kind == "train"]
    checks = sorted((task for task in tasks if task.kind == "check"), key=lambda task: task.path not in there)
    result = []
    # Mixed before what is there is left out, so that an interrupted push resumes in the same order.
    for rank, task in enumerate(mixed(chosen, checks[: max(0, wanted - done)]), start=1):
        if task.path in there:
            continue
        best = None if predictions is None or task.kind == "check" else predictions.best(task.item)
        guess = None if best is None else Guess(names[best[0]], best[1])
        result.append(Asked(task.item, task.path, number, rank, guess))
    return result


def checks_by_now(db: sqlite3.Connection) -> int:
    """How many check images should have been asked, by the share of the chosen ones that have been; in the end all."""
    budget, planned = plan(db)
    if left_to_choose(db) == 0 or budget <= planned:
        return planned
    return min(planned, math.ceil(planned * count_chosen(db) / (budget - planned)))


def mixed(chosen: Sequence[Any], checks: Sequence[Any]) -> list[Any]:
    """Both in their order, the second spread evenly among the first.

    >>> mixed("abcdef", "12")
    ['a', 'b', '1', 'c', 'd', '2', 'e', 'f']
    """
    places = [((i + 0.5) / len(chosen), 0, i) for i in range(len(chosen))]
    places += [((i + 1) / (len(checks) + 1), 1, i) for i in range(len(checks))]
    return [(chosen, checks)[which][i] for _, which, i in sorted(places)]


# --- images and texts --------------------------------------------------------------------------------------------------


def control_for(run: "Run") -> Control:
    """What Label Studio shows of the run's items, without its classes."""
    if run.kind == "texts":
        return TEXT
    if not run.pictures.has_pictures:
        raise InputError(f"{run.folder}: the run is on rows of numbers, which Label Studio cannot show")
    return IMAGE


def tasks_of(
    run: "Run",
    asked: Sequence[Asked],
    images: Images,
    control: Control,
    model: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The tasks for these items, and notes (path, what was done or why it is left out)."""
    name, tasks, notes = str(run.meta("run")), [], []
    for place, each in enumerate(asked):
        try:
            shown, note = what_is_shown(run, each.item, images)
        except UnreadableError as error:
            notes.append((each.path, f"left out: {error}"))
            continue
        if note:
            notes.append((each.path, note))
        tasks.append(task_for(name, each, shown, model, control))
        progress(place + 1, len(asked))
    return tasks, notes


def what_is_shown(run: "Run", item: int, images: Images) -> tuple[str, str]:
    """The text, or the address of the image, that stands in a task, and what had to be done to it."""
    if run.kind == "texts":
        if images.root is not None:
            raise InputError("--images local-files: the run is on texts, which the tasks contain; leave it out")
        return run.texts([item])[item], ""
    if images.root is not None:
        return local_file(run, item, images.root), ""
    picture = run.pictures.full(item)
    small = made_smaller(picture, images.largest)
    note = "" if small is picture else f"scaled down from {len(picture.content):,} to {len(small.content):,} bytes"
    return f"data:{small.content_type};base64,{base64.b64encode(small.content).decode()}", note


def made_smaller(picture: Picture, largest: int) -> Picture:
    """The picture in at most this many bytes: as JPEG, then with fewer and fewer pixels."""
    small = picture
    while len(small.content) > largest:
        with Image.open(BytesIO(small.content)) as image:
            plain = image.convert("RGB")
        if small.content_type == JPEG:
            if max(plain.size) <= SMALLEST:
                raise UnreadableError(f"cannot be scaled below {largest:,} bytes; raise --largest")
            plain = plain.resize([max(1, side * 3 // 4) for side in plain.size], Image.Resampling.BICUBIC)
        small = encoded(plain, JPEG)
    return small


def local_file(run: "Run", item: int, root: Path) -> str:
    """The address at which the server itself serves a file below its document root."""
    file = run.pictures.file(item)
    if file is None:
        raise InputError("--images local-files: the run's images are rows of an array, not files; use --images inline")
    try:
        inside = Path(file).relative_to(root.resolve())
    except ValueError:
        raise InputError(
            f"--root {root}: expected a folder above the images, which the server knows as "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT; {file} is not inside"
        ) from None
    return f"/data/local-files/?d={quote(inside.as_posix())}"
