"""Classes where they are, and where things lie on the page: toasts, names and thumbnails, at every size of the screen."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .browser import CHROMIUM, FLAGS, QUICK, Screen, Served, contexts, draw_shapes, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]
NAMES = ["red", "Rhinolophus ferrumequinum", "golden retriever", "grey"]
SIZES = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
        "device_scale_factor": 2,
    },
    "zoomed": {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2},  # 1280 x 800 at 200 %
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install -e '.[dev]'")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def shapes(tmp_path_factory) -> Path:
    return draw_shapes(tmp_path_factory.mktemp("pictures") / "shapes", per_class=12)


@pytest.fixture
def serve(shapes, tmp_path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(names: list[str]) -> Served:
        started.append(Served(tmp_path / "shapes-run", shapes, **{**QUICK, "batch": 12, "classes": ",".join(names)}))
        return started[-1]

    yield start
    for served in started:
        served.kill()


@pytest.fixture
def look(browser) -> Iterator[Callable[..., Screen]]:
    make = contexts(browser)
    new_context = next(make)
    screens: list[Screen] = []

    def show(served: Served, **options: Any) -> Screen:
        screens.append(Screen(new_context(**options), served))
        return screens[-1]

    yield show
    problems = [problem for screen in screens for problem in screen.problems]
    next(make, None)
    assert problems == []


def shown(screen: Screen, number: int) -> tuple[str | None, str | None]:
    """What a class button says aloud, and the colour of its mark."""
    button = screen(f'#classes [data-class="{number}"]')
    return button.get_attribute("aria-label"), button.locator(".mark").get_attribute("class")


def test_name_key_and_colour_of_a_class_by_keyboard_from_its_button(serve, look):
    served = serve(["red", "green"])
    screen = look(served)
    item = screen.ready()
    screen('#classes [data-class="1"]').focus()
    press = screen.page.keyboard.press
    press("Tab")
    assert screen("*:focus").get_attribute("aria-label") == "Change class “green”: name, key, colour, merge"
    press("Enter")
    screen.see("#class-dialog[open]")
    assert [screen(f"#class-{name}").input_value() for name in ("which", "name", "key")] == ["1", "green", "2"]
    press("Control+a")
    screen.page.keyboard.type("verdant")
    press("Tab")
    screen.page.keyboard.type("K")
    press("Tab")
    assert screen("*:focus").get_attribute("aria-label") == "Orange"
    press("ArrowRight"), press("ArrowRight")
    screen.shoot("class-dialog")
    press("Enter")
    screen.gone("#class-dialog")
    screen.see('#classes [data-class="1"][aria-label="verdant, key k"] .mark-3')
    assert screen("*:focus").get_attribute("data-menu") == "1"
    assert served.kinds() == ["class_rename", "class_look"]
    screen('#classes [data-class="1"]').focus()
    press("k")
    screen.ready(but=item)
    assert served.labels() == {item: 1}
    for said in ("label on", "colour or key of a class", "renamed class"):
        screen("#undo").press("Enter")
        until(lambda said=said: f"Undone: {said}" in screen.said())
    screen.see('#classes [data-class="1"][aria-label="green, key 2"] .mark-1')
    screen("#redo").press("Enter")
    screen.see('#classes [data-class="1"][aria-label="verdant, key 2"]')
    screen.ready()


def test_the_context_menu_and_the_page_menu_open_a_class_and_it_can_be_merged(serve, look):
    served = serve(["red", "green", "blue"])
    screen = look(served)
    screen.ready()
    screen('#classes [data-class="2"]').click(button="right")
    screen.see("#class-dialog[open]")
    assert screen("#class-which").input_value() == "2"
    screen.page.keyboard.press("Escape")
    screen.gone("#class-dialog")
    screen("#menu summary").click()
    screen("#menu-classes").click()
    screen.see("#class-dialog[open]")
    assert screen("#class-which").input_value() == "0"
    screen("#class-which").select_option("2")
    assert screen("#class-name").input_value() == "blue"
    screen("#class-merge").click()
    screen.see("#merge-dialog[open]")
    screen("#merge-into").select_option("0")
    screen("#merge-dialog .primary").click()
    screen.gone('#classes [data-class="2"]')
    assert served.kinds() == ["class_merge"]
    assert served.labels() == {}


def test_a_key_that_is_taken_is_refused_with_a_sentence(serve, look):
    served = serve(["red", "green"])
    screen = look(served)
    screen.ready()
    screen('#classes [data-menu="1"]').click()
    for key, told in (
        ("1", "1 is the key of “red”."),
        ("s", "s is the key of “Skip; the image comes back”."),
        ("-", "Type one letter"),
    ):
        screen("#class-key").fill(key)
        screen("#class-dialog .primary").click()
        screen.see(f'#class-problem:has-text("{told}")')
    screen("#class-key").fill("x")
    screen("#class-dialog .primary").click()
    screen.see('#classes [data-class="1"][aria-label="green, key x"]')
    screen("#help").click()
    screen.see('#help-classes tr:has-text("green") kbd:has-text("x")')
    screen.page.keyboard.press("Escape")
    assert served.kinds() == ["class_look"]


def test_a_colour_is_the_same_everywhere_on_the_page(serve, look):
    served = serve(["red", "green"])
    screen = look(served)
    first, _ = screen.label("1")
    screen('#classes [data-menu="0"]').click()
    screen('#class-colours input[value="6"]').check()
    screen("#class-dialog .primary").click()
    for place in ('#classes [data-class="0"]', "#last button"):
        screen.see(f"{place} .mark-6")
    for view, place in (("review", "#review-box .tile"), ("progress", "#class-table th")):
        screen.open(view)
        screen.see(f"#{view}-view {place} .mark-6")
    screen.open("grid")
    screen.see("#grid .tile").press("1")
    screen.see('#grid .tile.answered[data-mark="6"] .tag .mark-6')
    assert first in served.labels()


def test_with_one_class_the_page_says_what_is_missing(serve, look):
    served = serve(["cat"])
    screen = look(served)
    screen.ready()
    told = "There is one class so far. A model needs at least two: add another with “New class”, key n."
    assert screen.text("#one-class") == told
    screen.shoot("one-class")
    screen.page.keyboard.press("n")
    screen.page.keyboard.type("dog")
    screen("#new-class-only").click()
    screen.gone("#one-class")


PRESSED = """() => {
    const box = document.querySelector("#toast.shown").getBoundingClientRect();
    const found = new Set();
    const steps = (low, high) => Array.from({ length: 25 }, (_, i) => low + 1 + ((high - low - 2) * i) / 24);
    for (const x of steps(box.left, box.right)) for (const y of steps(box.top, box.bottom)) {
        const under = document.elementFromPoint(x, y); // the toast itself lets everything through
        const pressed = under?.closest("button, a, summary, input, select, textarea, [role=option], canvas");
        if (pressed) found.add(pressed.id || pressed.outerHTML.slice(0, 80));
    }
    return [box.width > 100 && box.height > 20 && box.bottom <= innerHeight + 1, [...found]];
}"""


@pytest.mark.parametrize("size", SIZES)
def test_toasts_cover_nothing_that_can_be_pressed(serve, look, size):
    screen = look(serve(NAMES), **SIZES[size])
    for _ in range(4):
        screen.label("1")
    for view in ("single", "grid", "review", "progress", "map"):
        screen.open(view)
        screen.page.wait_for_load_state("networkidle")
        for at in (0, 150, 10_000):
            screen.page.evaluate(
                "at => { scrollTo(0, at); const toast = document.querySelector('#toast');"
                " toast.textContent = 'shapes/0/red-00.png is now Rhinolophus ferrumequinum';"
                " toast.classList.add('shown'); }",
                at,
            )
            is_seen, covered = screen.page.evaluate(PRESSED)
            assert (is_seen, covered) == (True, []), (view, at)


BROKEN = """() => {
    const broken = [];
    for (const name of document.querySelectorAll(".name")) {
        if (!name.checkVisibility({ visibilityProperty: true }) || !name.firstChild) continue;
        for (const word of name.textContent.matchAll(/\\S+/g)) {
            const range = document.createRange();
            range.setStart(name.firstChild, word.index);
            range.setEnd(name.firstChild, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
            if (lines.size > 1) broken.push(`${word[0]} in ${name.parentElement.className}`);
        }
    }
    return broken;
}"""


@pytest.mark.parametrize("size", SIZES)
def test_names_of_classes_do_not_break_in_mid_word(serve, look, size):
    many = [
        *NAMES,
        "Erinaceus europaeus",
        "Cat",
        "aeroplane",
        "Pneumonoultramicroscopicsilicovolcanoconiosis",
        "x",
        "yy",
    ]
    screen = look(serve(many), **SIZES[size])
    screen.ready()
    screen('#classes [data-class="1"]').click()
    screen.see("#last button")
    for view in ("single", "grid", "review", "progress", "map"):
        screen.open(view)
        screen.page.wait_for_load_state("networkidle")
        assert screen.page.evaluate(BROKEN) == [], view
        assert not screen.scrolls_sideways(), view
        screen.shoot(f"names-{view}-{size}", full=view != "single")


def test_a_phone_shows_more_than_four_thumbnails_of_the_grid(serve, look):
    served = serve(NAMES)
    screen = look(served, **SIZES["phone"])
    until(lambda: served.rows("SELECT id FROM round"))
    screen.open("grid")
    screen.see("#grid .tile:nth-child(7)")
    seen = screen.page.evaluate(
        """() => [...document.querySelectorAll("#grid .tile img")].filter((image) => {
            const box = image.getBoundingClientRect();
            const at = (x, y) => document.elementFromPoint(x, y)?.closest(".tile") === image.closest(".tile");
            return at(box.left + 4, box.top + 4) && at(box.right - 4, box.bottom - 4);
        }).length"""
    )
    screen.shoot("grid-phone-first")
    assert seen > 4
