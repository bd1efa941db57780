"""Disagreements, on the page of a run served by the real `askless start` and driven in headless Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from askless.run import Run

from .browser import CHROMIUM, COLOURS, FLAGS, Screen, Served, contexts, draw_shapes, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
NAMES = list(COLOURS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Sixteen pictures that three people labelled: on the first all differ, on the second cy does."""
    place = tmp_path_factory.mktemp("opinions")
    options: dict[str, Any] = {"budget": 16, "check": 0, "batch": 16, "net": "frozen:raw", "size": 48, "steps": 20}
    run = Run.create(draw_shapes(place / "shapes", 8), place / "run", classes=tuple(NAMES), annotators=3, **options)
    while run.advance(ahead=False) is not None:
        pass
    items = sorted(run.waiting())
    for k, who in enumerate(("ann", "bo", "cy")):
        true = [NAMES.index(path.split("/")[1].split("-")[0]) for path in items]
        said = [(c + k) % 4 if i == 0 or (i == 1 and who == "cy") else c for i, c in enumerate(true)]
        run.tell({path: NAMES[c] for path, c in zip(items, said, strict=True)}, who)
    run.close()
    return place / "run"


@pytest.fixture
def served(folder, tmp_path) -> Iterator[Served]:
    served = Served(shutil.copytree(folder, tmp_path / "run"))
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
        screens[-1].see("#name-dialog[open]")
        screens[-1]("#name-input").fill("dora")
        screens[-1].page.keyboard.press("Enter")
        screens[-1].see("#waiting")  # everything is answered
        screens[-1].open("review")
        screens[-1]('#review-show button[data-show="conflicts"]').click()
        screens[-1].see("#doubt #doubt-image")
        return screens[-1]

    yield show
    problems = [problem for screen in screens for problem in screen.problems]
    next(make, None)
    assert problems == []


def decided(served: Served) -> list[tuple[int, int]]:
    return served.rows("SELECT item, class FROM decision ORDER BY item")


def test_somebody_decides_by_keys_and_takes_it_back(look, served):
    screen = look()
    answers = served.rows("SELECT * FROM answer ORDER BY item, annotator")
    assert screen.text("#review-total") == "2 images"
    says = screen.text(".doubt-says")
    assert [part.split(": ")[0] for part in says.split(" · ")] == ["ann", "bo", "cy"]
    assert screen('#doubt [data-do="keep"]').count() == 0  # nobody has a majority
    first = int(screen("#doubt").get_attribute("data-item") or -1)
    assert len(screen(".doubt-side").all()) == 2
    screen.page.keyboard.press("k")  # means nothing here
    screen.page.keyboard.press("3")
    until(lambda: decided(served) == [(first, 2)])
    screen.see('#doubt [data-do="keep"]')
    second = int(screen("#doubt").get_attribute("data-item") or -1)
    assert second != first
    names = [str(button.get_attribute("aria-label")) for button in screen("#doubt .buttons button").all()]
    assert names[0].startswith("Keep the majority, “")
    assert names[0].endswith(", key k")
    screen.page.keyboard.press("k")
    screen.see('#review-text:has-text("No disagreements")')
    majority = served.rows("SELECT class FROM answer WHERE item = ? AND annotator = 'ann'", second)[0][0]
    assert dict(decided(served)) == {first: 2, second: majority}
    screen.page.keyboard.press("Backspace")
    screen.see('#doubt [data-do="keep"]')
    assert decided(served) == [(first, 2)]
    assert served.rows("SELECT * FROM answer ORDER BY item, annotator") == answers
    assert served.kinds() == ["decide", "decide", "undo"]


def test_another_answer_than_those_given_is_decided_by_a_dialog(look, served):
    screen = look()
    screen('#doubt [data-do="other"]').click()
    screen.see("#change-dialog[open]")
    assert screen.text("#change-now") == screen.text(".doubt-says")
    screen('#change-classes button:has-text("cannot be seen")').click()
    until(lambda: served.rows("SELECT class, unsure FROM decision") == [(None, "quality")])


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_looks_well_in_both_themes(look, colours):
    screen = look(color_scheme=colours)
    screen.shoot(f"disagree-{colours}", full=True)
    screen('#doubt [data-do="after"]').click()
    screen.see('#doubt [data-do="keep"]')
    screen.shoot(f"disagree-majority-{colours}", full=True)


def test_on_a_phone_and_at_twice_the_size_nothing_scrolls_sideways(look):
    for name, options in (("phone", PHONE), ("zoomed", {"viewport": {"width": 640, "height": 400}})):
        screen = look(**options)
        assert not screen.scrolls_sideways()
        screen.shoot(f"disagree-{name}", full=True)
