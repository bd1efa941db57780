"""Progress bars on a terminal; nothing where nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

SHOWN = ("loss", "labelled", "unlabelled", "kept", "validation")  # of the numbers of a training step


def _bar(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[latest]}"),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def progress_bar(text: str, console: Console) -> Iterator[Callable[[int, int], None]]:
    """A function (done, total) that moves the bar; the bar goes away at the end."""
    with _bar(console) as bar:
        task = bar.add_task(text, total=None, latest="")
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def text_bar(text: str, console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """A function (done, total, latest) that moves the bar and shows the latest news beside it."""
    with _bar(console) as bar:
        task = bar.add_task(text, total=None, latest="")
        yield lambda done, total, latest: bar.update(task, completed=done, total=total, latest=latest)


@contextmanager
def training_bar(text: str, console: Console | None = None) -> Iterator[Callable[[int, int, dict[str, float]], None]]:
    """A function (done, total, numbers) that moves the bar and shows the latest numbers beside it."""
    with _bar(Console(stderr=True) if console is None else console) as bar:
        task = bar.add_task(text, total=None, latest="")

        def move(done: int, total: int, numbers: dict[str, float]) -> None:
            latest = "  ".join(f"{name} {numbers[name]:.3f}" for name in SHOWN if name in numbers)
            bar.update(task, completed=done, total=total, latest=latest)

        yield move
