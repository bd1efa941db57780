"""What more labels are worth, on the page of a run served by the real `askless start` and driven in headless Chromium."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askless.run import Run

from .browser import CHROMIUM, FLAGS, Screen, Served, contexts
from .test_page import PHONE, ZOOMED, sound

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run on rows of numbers of three classes that overlap, with 30 labelled check rows and four rounds."""
    place = tmp_path_factory.mktemp("worth")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    x = rng.normal(size=(600, 12)) + 1.6 * np.eye(12)[y]
    np.savez(place / "rows.npz", X=x.astype(np.float32))
    options: dict[str, Any] = {"budget": 120, "check": 0.25, "batch": 18, "net": "linear", "learner": "supervised"}
    run = Run.create(place / "rows.npz", place / "run", classes=("a", "b", "c"), steps=60, price=0.08, **options)
    for _ in range(4):
        while run.advance(ahead=False) is not None:
            pass
        run.tell({path: "abc"[y[int(path)]] for path in run.waiting()})
    while run.advance(ahead=False) is not None:
        pass
    run.close()
    return place / "run"


@pytest.fixture(scope="module")
def served(folder) -> Iterator[Served]:
    served = Served(folder)
    yield served
    served.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install -e '.[dev]'")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def look(browser, served) -> Iterator[Any]:
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


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_person_sees_how_sure_the_accuracy_is_and_what_the_next_labels_would_bring(look, colours):
    screen = look(color_scheme=colours)
    screen.open("progress")
    screen.see("#worth tbody tr")
    assert "in 100 rows; probably between" in screen.text("#measure-interval")
    assert screen.text("#worth-text").startswith("50 more labels would bring about ")
    rows = [row.inner_text().split("\t") for row in screen("#worth tbody tr").all()]
    assert [(row[0], row[5]) for row in rows] == [("50", "4.00"), ("100", "8.00"), ("200", "16.00")]
    assert "The answers so far cost 8.16." in screen.text("#worth-note")
    screen.see("#curve polygon.ahead")
    assert "forecast for 122 labels: " in (screen("#curve").get_attribute("aria-label") or "")
    screen("#measure-how summary").press("Enter")
    assert "Clopper" in screen.text("#measure-how p")
    sentence = screen.text("#advice-text")
    assert all(reason not in sentence.lower() for reason in screen("#advice-reasons li").all_inner_texts())
    screen.shoot(f"worth-{colours}", full=True)


@pytest.mark.parametrize(("name", "options"), [("phone", PHONE), ("zoomed", ZOOMED)])
def test_on_a_phone_and_at_200_percent_only_the_tables_scroll_sideways(look, name, options):
    screen = look(**options)
    screen.open("progress")
    screen.see("#worth tbody tr")
    sound(screen, "worth", name, full=True)
