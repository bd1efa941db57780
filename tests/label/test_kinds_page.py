"""Every view of a run on texts and of one on rows of numbers: light, dark, on a phone and at 200 %, in headless Chromium."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askless.run import Run
from askless.run.store.asking import all_tasks

from ..texts import reviews, truth_of, write_csv
from .browser import CHROMIUM, ME, Screen, Served, contexts
from .test_find_page import SIZES, browser  # noqa: F401
from .test_page import sound

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]
# What a view shows once it is there.
SHOWN = {
    "single": '#text[data-ready="true"]',
    "grid": "#grid .tile",
    "items": "#items-box .tile",
    "review": "#review-box .tile",
    "sort": "#sort-grid .tile",
    "progress": "svg#curve",
    "map": "#map-box",
}


def labelled(run: Run, truth: Callable[[int], str], rounds: int) -> None:
    """Answers as many batches truly, but for one chosen item, and leaves the next one open."""
    wrong = None
    for _ in range(rounds):
        while run.advance(ahead=False) is not None:
            pass
        told = {path: truth(run.paths.index(path)) for path in run.waiting()}
        with run.store.look() as db:
            chosen = [run.paths[task.item] for task in all_tasks(db) if task.kind == "train"]
        if wrong is None and chosen:
            wrong = chosen[0]
            told[wrong] = next(name for name in told.values() if name != told[wrong])
        run.tell(told, ME)
    while run.advance(ahead=False) is not None:
        pass
    run.close()


def run_on_texts(place: Path) -> Path:
    texts = [text for text, _ in reviews(90)]
    table = write_csv(place / "reviews.csv", ["review"], [[text] for text in texts])
    options: dict[str, Any] = {"budget": 60, "batch": 12, "steps": 30, "check": 0.2}
    run = Run.create(table, place / "texts-run", text="review", classes=("pos", "neg"), **options)
    labelled(run, lambda item: truth_of(texts[item]), 3)
    return place / "texts-run"


def run_on_rows(place: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    x = rng.normal(size=(200, 12)) + 3 * np.eye(12)[y]
    np.savez(place / "rows.npz", X=x.astype(np.float32))
    options: dict[str, Any] = {"budget": 100, "check": 0.2, "batch": 20, "net": "linear", "steps": 60}
    run = Run.create(place / "rows.npz", place / "rows-run", classes=("a", "b", "c"), **options)
    labelled(run, lambda item: "abc"[y[item]], 3)
    return place / "rows-run"


@pytest.fixture(scope="module", params=["texts", "rows"])
def served(request, tmp_path_factory) -> Iterator[Served]:
    """A served run that no test changes."""
    place = tmp_path_factory.mktemp(request.param)
    served = Served({"texts": run_on_texts, "rows": run_on_rows}[request.param](place))
    yield served
    served.kill()


@pytest.fixture
def look(browser, served) -> Iterator[Callable[..., Screen]]:  # noqa: F811
    make = contexts(browser)
    new_context = next(make)
    screens: list[Screen] = []

    def show(**options: Any) -> Screen:
        screens.append(Screen(new_context(**options), served))
        return screens[-1]

    yield show
    problems = [problem for screen in screens for problem in screen.problems]
    next(make, None)
    assert problems == []


@pytest.mark.parametrize("size", list(SIZES))
def test_every_view_is_sound(look, served, size):
    screen = look(**SIZES[size])
    kind = served.run.name.removesuffix("-run")
    for view, shown in SHOWN.items():
        screen.open(view)
        screen.see(shown)
        sound(screen, f"{kind}-{view}", size)
        assert not screen("#folders-form").is_visible()  # there are no files to sort
    screen.open("review")
    screen('#review-show button[data-show="doubtful"]').click()
    screen.see("#doubt .doubt-says")
    sound(screen, f"{kind}-doubtful", size)
