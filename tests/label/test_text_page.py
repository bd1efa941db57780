"""The page of a run on texts, served by the real `askless start` and driven in headless Chromium."""

import csv
from collections.abc import Iterator
from typing import Any

import pytest

from ..texts import reviews, truth_of, write_csv
from .browser import CHROMIUM, FLAGS, Screen, Served, contexts, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]
ODD = '<img src=x onerror="alert(1)"> & <script>alert(2)</script>\n\n    indented   lovely\n' + "a long line " * 400
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


class TextScreen(Screen):
    """A tab that shows texts."""

    def ready(self, but: int | None = None) -> int:
        other = "" if but is None else f':not([data-item="{but}"])'
        self(f'#text[data-ready="true"]{other}').wait_for(state="attached")
        return self.item()

    def item(self) -> int:
        return int(self("#text").get_attribute("data-item") or -1)

    def key(self) -> str:
        return "1" if truth_of(self.whole()) == "pos" else "2"

    def whole(self) -> str:
        return self("#text").text_content() or ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install -e '.[dev]'")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    rows = [[text] for text, _ in reviews(59)] + [[ODD]]
    table = write_csv(tmp_path / "reviews.csv", ["review"], rows)
    served = Served(tmp_path / "run", table, text="review", classes="pos,neg", budget=24, batch=6, steps=30, check=0.25)
    yield served
    served.kill()


@pytest.fixture
def look(browser, served) -> Iterator[Any]:
    make = contexts(browser)
    new_context = next(make)
    screens: list[TextScreen] = []

    def show(**options: Any) -> TextScreen:
        screens.append(TextScreen(new_context(**options), served))
        return screens[-1]

    yield show
    problems = [problem for screen in screens for problem in screen.problems]
    next(make, None)
    assert problems == []


def test_texts_are_labelled_by_keyboard_to_an_accuracy(served, look):
    screen = look()
    given = dict(screen.label() for _ in range(12))
    screen.saved()
    assert len(given) == 12
    assert screen.text("#spent") == "12 / 24"
    assert served.labels() == given
    with (served.run / "skipped.csv").open() as file:
        assert list(csv.reader(file)) == [["path", "problem", "reason"]]
    assert screen("#image").is_hidden()
    assert screen("#text").get_attribute("aria-label").split(", ")[1] == "text 13 of 24"
    assert "text" in screen.text(".skip-link")
    assert "image" not in screen("body").inner_text()
    screen.page.keyboard.press("Backspace")  # undo
    until(lambda: len(served.labels()) == 11)
    screen.page.keyboard.press("g")
    tile = screen.see("#grid .tile .excerpt")
    assert tile.bounding_box()["width"] > 150
    tiles = screen("#grid .tile")
    assert all(len(tiles.nth(i).locator(".excerpt").inner_text()) > 20 for i in range(tiles.count()))
    screen.page.keyboard.press("Enter")
    until(lambda: len(screen.text("#look-image.whole-text")) > 20)  # the box is there before its text
    screen.page.keyboard.press("Escape")
    before = len(served.labels())
    screen.page.keyboard.press("Control+a")
    screen.page.keyboard.press("1")
    until(lambda: len(served.labels()) == before + tiles.count())
    screen.page.keyboard.press("Control+z")
    until(lambda: len(served.labels()) == before)
    screen.open("review")
    until(lambda: screen.text("#review-box .tile .excerpt"))
    screen("#review-box .tile").first.dblclick()
    until(lambda: screen.text("#change-image.whole-text"))
    screen.page.keyboard.press("Escape")
    screen.open("progress")
    assert "Accuracy on check texts" in screen.text("#measure")
    until(lambda: screen.text("#budget-used"))
    screen.shoot("text-progress")


def test_a_text_is_shown_as_it_is_and_never_as_html(served, look):
    screen = look()
    screen.ready()
    odd = next(i for i, columns in served.rows("SELECT id, columns FROM item") if "onerror" in columns)
    shown = screen.page.evaluate("id => fetch(`/api/text/${id}`).then((reply) => reply.json())", odd)
    assert shown == {"id": odd, "text": ODD}
    # In place of whatever text comes first, by the same functions of the page.
    screen.page.route("**/api/text/*", lambda route: route.fulfill(json=shown))
    screen.page.reload()
    screen.ready()
    assert screen.whole() == ODD
    assert screen("#text img, #text script").count() == 0
    assert screen("#text").evaluate("box => getComputedStyle(box).whiteSpaceCollapse") == "preserve"
    assert screen("#text").evaluate("box => box.scrollHeight > box.clientHeight")
    screen.page.keyboard.press("End")  # the text has the focus: its keys scroll it
    until(lambda: screen("#text").evaluate("box => box.scrollTop > 0"))
    small = screen("#text").evaluate("box => parseFloat(getComputedStyle(box).fontSize)")
    screen.page.keyboard.press("+")
    assert screen("#text").evaluate("box => parseFloat(getComputedStyle(box).fontSize)") > small
    assert not screen.scrolls_sideways()
    screen.shoot("text-long")


def test_texts_on_a_phone(served, look):
    screen = look(**PHONE)
    screen.ready()
    box = screen("#text").bounding_box()
    assert box["width"] > 300
    assert box["height"] > 150
    assert not screen.scrolls_sideways()
    item = screen.item()
    screen('#classes button[data-class="0"]').tap()
    screen.ready(but=item)
    assert len(served.labels()) == 1
    screen.shoot("text-phone")
