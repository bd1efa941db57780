"""Finding items on the page: filters, more like these, the map's selection; served by the real `askless start`."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from askless.run import Run

from .browser import CHROMIUM, COLOURS, FLAGS, ME, QUICK, Screen, Served, contexts, draw_shapes, until
from .test_page import CONTRAST, NAMELESS, PHONE, SMALL, ZOOMED

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]
NAMES = list(COLOURS)
SIZES = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": PHONE,
    "zoomed": ZOOMED,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install -e '.[dev]'")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run with one model, its second batch out, and a check share of a quarter; to be copied."""
    pictures = draw_shapes(tmp_path_factory.mktemp("pictures") / "shapes", per_class=40)
    folder = tmp_path_factory.mktemp("trained") / "shapes-run"
    run = Run.create(pictures, folder, classes=NAMES, check=0.25, **QUICK)
    while run.advance():
        pass
    run.tell({path: class_of(path) for path in run.waiting()[:12]}, ME)
    while run.advance():
        pass
    run.close()
    return folder


def class_of(path: str) -> str:
    return path.split("/")[-1].split("-")[0]


@pytest.fixture
def served(trained, tmp_path) -> Iterator[Served]:
    served = Served(shutil.copytree(trained, tmp_path / "shapes-run"))
    yield served
    served.kill()


@pytest.fixture(scope="module")
def served_to_look(trained, tmp_path_factory) -> Iterator[Served]:
    served = Served(shutil.copytree(trained, tmp_path_factory.mktemp("look") / "shapes-run"))
    yield served
    served.kill()


@pytest.fixture
def look(browser) -> Iterator[Callable[..., Screen]]:
    make = contexts(browser)
    new_context = next(make)
    screens: list[Screen] = []

    def show(served: Served, **options: Any) -> Screen:
        screens.append(Screen(new_context(**options), served))
        screens[-1].ready()
        return screens[-1]

    yield show
    problems = [problem for screen in screens for problem in screen.problems]
    next(make, None)
    assert problems == []


def tiles(screen: Screen, box: str = "#items-box") -> list[int]:
    return screen(f"{box} .tile").evaluate_all("tiles => tiles.map((tile) => Number(tile.dataset.item))")


def pick(screen: Screen, name: str, value: str, box: str = "#items-box") -> None:
    """Chooses in a filter and waits for what it brings."""
    with screen.page.expect_response(lambda reply: "/api/items?" in reply.url):
        screen(f'{box} [data-filter="{name}"]').select_option(value)


def found(served: Served) -> dict[int, int]:
    return dict(
        served.rows("SELECT a.item, a.class FROM answer a JOIN task t ON t.item = a.item WHERE t.kind = 'found'")
    )


def test_a_rare_class_is_found_by_likeness_and_labelled_by_keys_alone(look, served):
    """One labelled image -> those like it -> select -> a digit; it costs no budget, and one undo takes it all back."""
    screen = look(served)
    spent = screen.text("#spent")
    last = screen("#last button").first
    name = class_of(last.get_attribute("title"))
    screen.page.keyboard.press("l")
    screen.see('body[data-view="items"] #items-box .tile')
    assert screen.text(".found-by").startswith(f"Most like {name}-")
    assert screen("#items-box .tile.answered").count() == 0
    screen.see("#items-box .tile:focus")
    screen.page.keyboard.press("Space")
    for _ in range(3):
        screen.page.keyboard.press("Shift+ArrowRight")
    assert screen("#items-box .tile[aria-selected=true]").count() == 4
    chosen = tiles(screen)[:4]
    key = str(NAMES.index(name) + 1)
    held = {i for (i,) in served.rows("SELECT id FROM item WHERE split IN ('check', 'reserve')")}
    screen.page.keyboard.press(key)
    until(lambda: found(served))
    free = {i for i in chosen if i not in held}
    assert set(found(served)) | {i for (i,) in served.rows("SELECT item FROM answer")} >= free
    assert not held & set(found(served))
    assert screen.text("#spent") == spent or free != set(found(served))  # the batch's own count as ordinary answers
    assert served.kinds() == ["label"]
    n = len(found(served))
    screen.page.keyboard.press("Control+z")
    until(lambda: found(served) == {})
    until(lambda: screen("#items-box .tile.answered").count() == 0)
    screen.page.keyboard.press("Control+Shift+z")
    until(lambda: len(found(served)) == n)
    screen.page.keyboard.press("m")  # and on from what is in focus
    until(lambda: screen("#items-box .tile.answered").count() == 0)
    screen.open("progress")
    screen.see(f'#budget-lines:has-text("{n} found by search")')


def test_all_items_are_filtered_searched_and_sorted_and_check_images_never_show_a_prediction(look, served):
    screen = look(served)
    screen.open("items")
    screen.see("#items-box .tile .said .name")
    held = {i for (i,) in served.rows("SELECT id FROM item WHERE split IN ('check', 'reserve')")}
    assert "160 images" in screen.text(".browse-total")
    assert len(tiles(screen)) < 160  # a page of them
    screen.page.keyboard.press("End")
    until(lambda: len(set(tiles(screen))) == 160)
    silent = screen("#items-box .tile").evaluate_all(
        "tiles => tiles.filter((tile) => !tile.querySelector('.said').textContent).map((tile) => Number(tile.dataset.item))"
    )
    assert set(silent) >= held
    assert 0 < len(held) <= len(silent) < 60
    screen('[data-filter="text"]').fill("BLUE-1")
    until(lambda: len(tiles(screen)) == 10)
    assert all("blue-1" in name for name in screen("#items-box .tile .caption").all_inner_texts())
    screen.page.keyboard.press("Enter")
    screen.see("#items-box .tile:focus")
    screen.page.keyboard.press("Control+a")
    free = served.rows(
        "SELECT count(*) FROM item WHERE path LIKE '%blue-1%' AND split <> 'check' AND id NOT IN (SELECT item FROM answer)"
    )
    screen.page.keyboard.press("3")
    until(lambda: served.kinds() == ["label"])
    assert len(served.labels()) == 12 + free[0][0]
    screen('[data-filter="text"]').first.fill("")
    screen.see('.browse-total:has-text("160 images")')
    pick(screen, "show", "unanswered")
    pick(screen, "order", "sure")
    until(lambda: not set(tiles(screen)) & set(served.labels()))
    shares = screen("#items-box .tile .said").all_inner_texts()
    sure = [float(text.removesuffix("\u00a0%").split()[-1]) for text in shares if text]
    assert sure == sorted(sure, reverse=True)
    assert shares[len(sure) :] == [""] * (len(shares) - len(sure))  # what is held out comes last, without a prediction
    pick(screen, "predicted", "1")
    until(lambda: {text.split()[1] for text in screen("#items-box .said").all_inner_texts()} == {"green"})
    assert not held & set(tiles(screen))


def test_many_answers_are_changed_at_once_in_review(look, served):
    screen = look(served)
    screen.open("review")
    screen.see("#review-box .tile")
    assert len(tiles(screen, "#review-box")) == 12
    assert screen("#review-box .said .name").count() == 0  # what the model thinks is not shown unless asked for
    red = [item for item, label in served.labels().items() if label == 0]
    pick(screen, "label", "0", "#review-box")
    until(lambda: sorted(tiles(screen, "#review-box")) == sorted(red))
    screen.page.keyboard.press("Control+a")
    screen.page.keyboard.press("4")
    until(lambda: [served.labels()[item] for item in red] == [3] * len(red))
    assert served.kinds() == ["change"]
    screen('#review-box [data-tool="undo"]').click()
    until(lambda: [served.labels()[item] for item in red] == [0] * len(red))
    screen("#review-box .tile").first.click()
    screen.page.keyboard.press("Enter")
    screen.see("#change-dialog[open]")
    screen.page.keyboard.press("Escape")
    screen('#review-show button[data-show="conflicts"]').click()
    screen.gone("#review-box")


def drag(screen: Screen, line: list[tuple[float, float]]) -> None:
    """Draws a line on the map by the mouse, in shares of its width and height."""
    box = screen("#map").bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in line]
    screen.page.mouse.move(*at[0])
    screen.page.mouse.down()
    for x, y in at[1:]:
        screen.page.mouse.move(x, y, steps=4)
    screen.page.mouse.up()


ALL_ROUND = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98)]


def test_a_line_on_the_map_becomes_a_grid_to_label(look, served):
    screen = look(served)
    screen.open("map")
    screen.see("#map-box")
    screen('#map-colours [value="predicted"]').check()
    screen("#map-lasso").click()
    drag(screen, ALL_ROUND)
    screen.see("#map-chosen")
    assert screen.text("#map-chosen-text") == "160 selected"
    drag(screen, [(0.02, 0.02), (0.5, 0.02), (0.5, 0.98), (0.02, 0.98)])
    until(lambda: screen.text("#map-chosen-text") != "160 selected")
    n = int(screen.text("#map-chosen-text").split()[0])
    assert 0 < n < 160
    screen("#map-show").click()
    until(lambda: len(tiles(screen)) == n)
    assert screen.text(".found-by").startswith(f"{n} images from the map")


def test_the_nearest_on_the_map_are_selected_by_keys(look, served):
    screen = look(served)
    screen.open("map")
    screen.see("#map").focus()
    screen.page.keyboard.press("ArrowRight")
    screen.see("#map-tip img")
    until(lambda: ".png, " in screen.text("#map-tip"))
    screen.page.keyboard.press("Space")
    assert screen.text("#map-chosen-text") == "24 selected"
    screen.page.keyboard.press("Space")
    assert screen.text("#map-chosen-text") == "48 selected"
    screen.page.keyboard.press("Enter")
    until(lambda: len(tiles(screen)) == 48)


def test_the_selection_on_the_map_by_touch(look, served_to_look):
    screen = look(served_to_look, **PHONE)
    screen.open("map")
    screen.see("#map-box")
    screen("#map-lasso").tap()
    screen("#map").scroll_into_view_if_needed()
    box = screen("#map").bounding_box()
    touch = screen.page.context.new_cdp_session(screen.page)
    for kind, (x, y) in zip(["touchStart", *["touchMove"] * 3], ALL_ROUND, strict=True):
        at = {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    screen.see('#map-chosen:has-text("160 selected")')


@pytest.mark.parametrize("size", list(SIZES))
def test_finding_looks_right(look, served_to_look, size):
    screen = look(served_to_look, **SIZES[size])

    def check(name: str) -> None:
        screen.shoot(f"find-{name}-{size}")
        assert not screen.scrolls_sideways(), name
        assert screen.page.evaluate(CONTRAST) == [], name
        assert screen.page.evaluate(SMALL) == [], name
        assert screen.page.evaluate(NAMELESS) == [], name

    screen.open("items")
    screen.see("#items-box .tile .said .name")
    for place in (0, 1, 3):
        screen("#items-box .tile").nth(place).click()
    check("items")
    screen('#items-box [data-tool="itemsLike"]').click()
    screen.see(".found-by select")
    screen.see("#items-box .browse-grid:not([aria-busy])")
    screen("#items-box .tile").nth(2).click()
    check("like")
    screen.open("review")
    screen.see("#review-box .tile")
    check("review")
    screen.open("map")
    screen.see("#map-box")
    screen('#map-colours [value="predicted"]').check()
    screen("#map").focus()
    screen.page.keyboard.press("ArrowRight")
    screen.page.keyboard.press("Space")
    until(lambda: ".png, " in screen.text("#map-tip"))
    check("map")
