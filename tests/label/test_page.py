"""The page as people use it: served by the real `askless start`, driven in headless Chromium.

A run is started anew for each story: from the folder of pictures where the beginning matters, else as a copy of one that
waits with its first batch (`first_batch`) or has trained once (`trained`). Every screen is checked at its end: no error on
the console (the content security policy speaks there too), no dialog of the browser, no request to another host.
"""

import json
import re
import shutil
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from askless.label.web.serve import redirect_file
from askless.run import Run
from askless.run.steps.round_files import read_status
from askless.run.store.asking import all_tasks

from .browser import CHROMIUM, COLOURS, DELAY, FLAGS, ME, QUICK, Screen, Served, contexts, draw_shapes, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]
CLASSES = ",".join(COLOURS)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
ZOOMED = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}  # 1280 x 800 at 200 %


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install -e '.[dev]'")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def shapes(tmp_path_factory) -> Path:
    return draw_shapes(tmp_path_factory.mktemp("pictures") / "shapes")


@pytest.fixture(scope="module")
def first_batch(shapes, tmp_path_factory) -> Path:
    """A run whose first batch is chosen; to be copied."""
    served = Served(tmp_path_factory.mktemp("first") / "shapes-run", shapes, classes=CLASSES, **QUICK)
    until(lambda: served.rows("SELECT id FROM round"))
    served.stop()
    return served.run


@pytest.fixture(scope="module")
def trained(first_batch, tmp_path_factory) -> Path:
    """A run with one model and its second batch, of which the first image to come is a check image; to be copied."""
    folder = tmp_path_factory.mktemp("trained") / "shapes-run"
    run = Run.open(shutil.copytree(first_batch, folder))
    run.tell({path: path.split("/")[1].split("-")[0] for path in run.waiting()[: 10 + 2]}, ME)
    while run.advance():
        pass
    run.close()
    return folder


@pytest.fixture
def serve(shapes, tmp_path) -> Iterator[Callable[..., Served]]:
    """`serve(first_batch)`: a copy of a run, served. `serve(classes=..., budget=...)`: a new one on the pictures."""
    all_served: list[Served] = []

    def start(copied: Path | None = None, **options: Any) -> Served:
        run = tmp_path / "shapes-run"
        if copied is None:
            all_served.append(Served(run, shapes, **{**QUICK, **options}))
        else:
            all_served.append(Served(shutil.copytree(copied, run)))
        return all_served[-1]

    yield start
    for served in all_served:
        served.kill()  # nothing is lost by it, and it is quick


@pytest.fixture(scope="module")
def served_to_look(trained, tmp_path_factory) -> Iterator[Served]:
    """A served run that no test changes."""
    served = Served(shutil.copytree(trained, tmp_path_factory.mktemp("look") / "shapes-run"))
    yield served
    served.kill()


@pytest.fixture
def look(browser) -> Iterator[Callable[..., Screen]]:
    """`look(served)`: the page in a browser of its own; options are those of a browser context."""
    make = contexts(browser)
    new_context = next(make)
    screens: list[Screen] = []

    def show(served: Served, context: Any = None, **options: Any) -> Screen:
        screens.append(Screen(context or new_context(**options), served))
        return screens[-1]

    yield show
    problems = [problem for screen in screens for problem in screen.problems]
    next(make, None)
    assert problems == []


def test_twenty_labels_by_keyboard_from_a_folder_to_an_accuracy(serve, look):
    served = serve(classes=CLASSES)
    screen = look(served)
    given = dict(screen.label() for _ in range(20))
    assert len(given) == 20
    screen.saved()
    assert screen.text("#spent") == "20 / 40"
    assert screen.text("#batch").startswith("batch 2 (")
    assert screen.said().endswith(", 20 of 40")
    assert served.labels() == given
    run = Run.open(served.run)
    paths, names = run.paths, list(COLOURS)
    run.close()
    assert {paths[item].split("/")[1].split("-")[0] for item, c in given.items() if names[c] == "red"} <= {"red"}
    screen.open("progress")
    screen.see('#measure:not(.none) #measure-value:has-text("%")')
    assert re.match(
        r"Right for about \d+ in 100 images; probably between \d+ and \d+\.$", screen.text("#measure-interval")
    )
    screen.see("svg#curve")
    answered = served.rows("SELECT annotator, bulk, suggestion_shown, seconds FROM answer")
    assert {row[:3] for row in answered} == {(ME, 0, "none")}
    assert all(0 <= row[3] < 60 for row in answered)


def test_undo_survives_a_killed_server(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    given = [screen.label("1") for _ in range(3)]
    served.kill()
    screen.see("#trouble")
    served.again()
    screen.gone("#trouble")
    third = given[2][0]
    following = screen.ready()
    screen.page.keyboard.press("Backspace")
    assert screen.ready(but=following) == third
    assert served.labels() == dict(given[:2])
    assert screen.text("#spent") == "2 / 40"
    screen.page.keyboard.press("2")
    screen.ready(but=third)
    assert served.labels() == {**dict(given[:2]), third: 1}
    assert served.kinds() == ["label", "label", "label", "undo", "label"]
    screen.forgive("net::ERR_CONNECTION_REFUSED")


def test_keys_undo_and_redo(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    first, _ = screen.label("1")
    second, _ = screen.label("2")
    screen.page.keyboard.press("Backspace")
    screen.see(f'#image[data-item="{second}"][data-ready="true"]')
    screen.page.keyboard.press("Control+z")
    screen.see(f'#image[data-item="{first}"][data-ready="true"]')
    assert served.labels() == {}
    screen.page.keyboard.press("Control+Shift+z")
    screen.ready(but=first)
    assert served.labels() == {first: 0}
    assert screen.ready() == second
    screen.label("3")
    assert served.labels() == {first: 0, second: 2}
    assert screen("#redo").is_disabled()


def test_new_class_by_n(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    item = screen.ready()
    screen.page.keyboard.press("n")
    screen.see("#new-class-dialog[open]")
    screen.page.keyboard.type("owl 123")
    assert screen("#new-class-name").input_value() == "owl 123"
    assert served.labels() == {}
    screen.page.keyboard.press("Enter")
    screen.ready(but=item)
    assert served.labels() == {item: 4}
    assert screen("#classes .class").last.get_attribute("aria-label") == "owl 123, key 5"

    hostile = "<img src=x onerror=alert(1)>"
    images = screen.page.locator("img").count()
    item = screen.ready()
    screen.page.keyboard.press("n")
    screen.see("#new-class-dialog[open]")
    screen.page.keyboard.type(hostile)
    screen.page.keyboard.press("Enter")
    screen.ready(but=item)
    assert screen.text('#classes button[data-class="5"] .name') == hostile
    screen.see(f'#last button:has-text("{hostile}")')
    assert screen.page.locator('img[src="x"]').count() == 0
    assert screen.page.locator("img").count() == images + 1  # one more in the strip, of the answer itself
    for view, where in (("items", ".tile"), ("review", ".tile"), ("progress", ""), ("map", "")):
        screen.open(view)
        screen.see(f'#{view}-view {where} :text("{hostile}")')
    assert screen.page.locator('img[src="x"]').count() == 0
    screen.open("single")
    screen.ready()

    screen.page.keyboard.press("n")
    screen.see("#new-class-dialog[open]")
    for refused, why in (("  ", "Type a name"), ("OWL 123", "already")):
        screen("#new-class-name").fill(refused)
        screen.page.keyboard.press("Enter")
        screen.see(f'#new-class-problem:has-text("{why}")')
    screen.page.keyboard.press("Escape")
    screen.gone("#new-class-dialog")
    assert served.classes() == [*COLOURS, "owl 123", hostile]
    assert served.kinds() == ["class_add", "label"] * 2

    for key in "1234":
        screen.label(key)
    screen.open("progress")
    screen("#train-now").click()
    screen("#confirm-yes").click()
    screen.see('#rounds tbody td:has-text("1")')
    assert Run.open(served.run).predictions().probs.shape == (120, 6)
    screen.open("single")
    screen.ready()
    until(lambda: screen.text("#batch").startswith("batch 2"))


def test_grid_labels_a_range_and_the_rest_and_undoes_one_bulk(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    screen.ready()
    screen.page.keyboard.press("g")
    screen.see("#grid .tile")
    tiles = [int(tile.get_attribute("data-item")) for tile in screen("#grid .tile").all()]
    assert sorted(tiles) == sorted(i for (i,) in served.rows("SELECT item FROM task WHERE round = 1"))
    for _ in range(3):
        screen.page.keyboard.press("Shift+ArrowRight")
    assert screen('#grid .tile[aria-selected="true"]').count() == 4
    screen.page.keyboard.press("2")
    screen.saved()
    assert served.labels() == dict.fromkeys(tiles[:4], 1)
    assert screen("#grid .tile.answered").count() == 4
    assert screen.text(f'#grid .tile[data-item="{tiles[0]}"] .tag') == "green"
    screen.page.keyboard.press("Control+a")
    assert screen('#grid .tile[aria-selected="true"]').count() == 6
    screen.page.wait_for_timeout(130)  # within 120 ms of an answer the next one counts as the same press
    screen.page.keyboard.press("3")
    screen.see("#grid-done")
    screen.saved()
    assert served.labels() == {**dict.fromkeys(tiles[:4], 1), **dict.fromkeys(tiles[4:], 2)}
    assert served.rows("SELECT DISTINCT bulk FROM answer") == [(1,)]
    screen.page.keyboard.press("Backspace")
    until(lambda: screen("#grid .tile.answered").count() == 4)
    assert served.labels() == dict.fromkeys(tiles[:4], 1)
    assert served.kinds() == ["label", "label", "undo"]
    screen(f'#grid .tile[data-item="{tiles[-1]}"]').hover()
    screen.page.keyboard.press("4")  # goes to the image under the pointer
    screen.see(f'#grid .tile.answered[data-item="{tiles[-1]}"]')
    screen.saved()
    assert served.labels()[tiles[-1]] == 3


def test_skipped_image_comes_back_and_nobody_waits_for_the_next_batch(serve, look):
    served = serve(classes=CLASSES, check=0, suggestions="off")
    screen = look(served)
    screen.see('#waiting[data-code="training"] #waiting-items')
    assert "appear here automatically" in screen.text("#waiting-next")
    skipped = screen.ready()
    screen.page.keyboard.press("s")
    screen.ready(but=skipped)
    assert screen.said() == "skipped; it comes back later"
    given = dict(screen.label() for _ in range(9))
    assert skipped not in given
    assert screen.ready() == skipped
    until(lambda: served.rows("SELECT 1 FROM event WHERE kind = 'ahead'"))
    given |= dict([screen.label()])  # the last of the batch: the next image comes all the same
    first_ten, ahead = set(given), json.loads(served.rows("SELECT payload FROM event WHERE kind = 'ahead'")[0][0])
    screen.see('#batch:has-text("batch 2 (0/10)")')
    assert screen.item() in ahead["items"]
    given |= dict([screen.label()])
    screen.see('#batch:has-text("batch 2 (1/10)")')
    screen.see('#toast.shown:has-text("Batch 2 ready")')
    screen.see('#worker-text:has-text("Model: trained on 10 labels (round 1).")')
    batches = [{i for (i,) in served.rows("SELECT item FROM task WHERE round = ?", n)} for n in (1, 2)]
    assert batches[0] == first_ten
    assert {*given, screen.item()} - first_ten <= batches[1]
    assert len(batches[1]) == 10
    assert not batches[0] & batches[1]
    assert served.labels() == given
    screen.open("progress")
    screen.see('#measure-value:has-text("not measured")')
    assert "check share 0" in screen.text("#measure-text")


def test_one_press_is_one_label(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    first = screen.ready()
    for _ in range(10):
        screen.page.keyboard.down("1")  # held: the first, then repeats
    screen.page.keyboard.up("1")
    second = screen.ready(but=first)
    assert served.labels() == {first: 0}

    screen.page.evaluate(  # a bouncing key: ten presses in as many ms, each by itself, none of them marked as a repeat
        """() => new Promise((done) => {
            const begun = performance.now();
            const turn = new MessageChannel(); // the next turn of the page's loop, without a timer's wait
            let left = 10;
            const send = (kind) => {
                const event = new KeyboardEvent(kind, { key: "2", code: "Digit2", bubbles: true, cancelable: true });
                Object.defineProperty(event, "timeStamp", { value: begun + 10 - left }); // however busy this machine is
                document.body.dispatchEvent(event);
            };
            turn.port1.onmessage = () => {
                send("keydown");
                send("keyup");
                left -= 1;
                if (left) turn.port2.postMessage(0);
                else done();
            };
            turn.port2.postMessage(0);
        })"""
    )
    third = screen.ready(but=second)
    assert served.labels() == {first: 0, second: 1}

    screen('#classes button[data-class="2"]').dblclick()
    after = screen.ready(but=third)
    assert served.labels() == {first: 0, second: 1, third: 2}
    third = after
    given = served.labels()

    held: list[Any] = []
    let_go = False
    screen.page.route("**/image/*?size=full", lambda route: route.continue_() if let_go else held.append(route))
    screen.page.reload()
    until(lambda: screen.page.wait_for_timeout(20) or held)
    screen.page.keyboard.press("1")  # before the image is there
    screen.page.keyboard.press("2")
    let_go = True
    for route in held:
        route.continue_()
    assert screen.ready() == third
    assert served.labels() == given
    assert screen.label("4") == (third, 3)
    assert served.labels() == {**given, third: 3}

    tab = screen.page.evaluate("sessionStorage.getItem('askless.tab')")
    stale = {"request_id": "an-old-answer", "tab": tab, "items": [third], "class": 0, "seconds": 1}
    address = served.url.split("?")[0] + "api/answers"
    reply = screen.page.context.request.post(address, data=stale, headers={"X-Askless": "1"})
    assert reply.status == 409
    assert served.labels()[third] == 3


def test_shortcuts_can_be_switched_off_and_keys_remapped(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    first = screen.ready()
    screen.page.keyboard.press("?")
    screen.see("#help-dialog[open]")
    screen.see('#help-grid tr:has-text("Doubtful: keep the label") kbd:has-text("k, c")')
    screen.page.keyboard.press("1")  # no answer while a dialog is open
    screen('#help-classes button[data-target="class:0"]').click()
    screen.page.keyboard.press("x")
    screen.see('#help-classes kbd:has-text("x")')
    screen.page.keyboard.press("Escape")
    screen.gone("#help-dialog")
    assert screen('#classes button[data-class="0"]').get_attribute("aria-label") == "red, key x"
    screen.page.keyboard.press("x")
    second = screen.ready(but=first)
    assert served.labels() == {first: 0}

    screen("#help").click()
    screen("#shortcuts-off").check()
    screen.page.keyboard.press("Escape")
    screen.gone("#help-dialog")
    for key in ("2", "x", "s", "u", "n", "g"):
        screen.page.keyboard.press(key)
    assert screen("dialog[open]").count() == 0
    assert screen.item() == second
    screen('#classes button[data-class="2"]').click()
    third = screen.ready(but=second)
    screen.page.keyboard.press("Backspace")  # not a character: still works
    assert screen.ready(but=third) == second
    assert served.labels() == {first: 0}
    assert served.kinds() == ["label", "label", "undo"]


FOCUSED = """() => {
    const one = document.activeElement;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    return { what: one.id || one.dataset.class && `class ${one.dataset.class}`
        || one.dataset.menu && `menu ${one.dataset.menu}` || one.dataset.view || one.dataset.action
        || one.dataset.item && "item" || one.tagName,
        seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.height > 0 };
}"""


def test_everything_is_reached_by_tab_and_enter(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    screen.label("1")

    def tab_to(wanted: str) -> None:
        for _ in range(60):
            screen.page.keyboard.press("Tab")
            if screen.page.evaluate(FOCUSED)["what"] == wanted:
                return
        raise AssertionError(f"Tab does not reach {wanted}")

    reached: dict[str, bool] = {}
    for _ in range(60):
        screen.page.keyboard.press("Tab")
        here = screen.page.evaluate(FOCUSED)
        if here["what"] in reached and here["what"] != "BODY":
            break
        reached[here["what"]] = here["seen"]
    wanted = [
        "single",
        "grid",
        "sort",
        "items",
        "review",
        "progress",
        "map",
        "help",
        "zoom-in",
        "zoom",
        "rotate",
        "full",
    ]
    wanted += ["class 0", "class 1", "class 2", "class 3", "new-class", "skip", "unsure", "undo", "back", "item"]
    assert [what for what in wanted if not reached.get(what)] == []
    assert [what for what in wanted if what in list(reached)] == sorted(wanted, key=list(reached).index)

    item = screen.ready()
    tab_to("class 1")
    screen.page.keyboard.press("Enter")
    following = screen.ready(but=item)
    assert served.labels()[item] == 1
    assert screen.page.evaluate(FOCUSED)["what"] == "class 1"  # the focus stays, for the next one
    tab_to("skip")
    screen.page.keyboard.press("Enter")
    item = screen.ready(but=following)
    tab_to("unsure")
    screen.page.keyboard.press("Enter")
    screen.see("#unsure-dialog[open]")
    screen.page.keyboard.press("Escape")
    screen.gone("#unsure-dialog")
    assert screen.page.evaluate(FOCUSED)["what"] == "unsure"
    tab_to("undo")
    screen.page.keyboard.press("Enter")
    assert screen.ready(but=item) == following
    tab_to("new-class")
    screen.page.keyboard.press("Enter")
    screen.see("#new-class-dialog[open]")
    screen.page.keyboard.press("Escape")
    screen.gone("#new-class-dialog")
    tab_to("review")
    screen.page.keyboard.press("Enter")
    screen.see("#review-box .tile")
    assert served.kinds() == ["label", "label", "skip", "undo"]


def test_unsure_and_changed_answers(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    unsure = screen.ready()
    screen.page.keyboard.press("u")
    screen.see("#unsure-dialog[open]")
    screen("#unsure-note").fill("12 of them")  # digits in a text do not choose a reason
    screen("#unsure-reasons button").first.focus()
    screen.page.keyboard.press("2")
    screen.ready(but=unsure)
    assert served.rows("SELECT item, class, unsure, note FROM answer") == [(unsure, None, "quality", "12 of them")]
    assert screen.text("#spent") == "1 / 40"
    assert screen.said().startswith("unsure, Cannot be seen, 1 of 40")
    first, _ = screen.label("1")
    second, _ = screen.label("1")
    here = screen.ready()

    screen.page.keyboard.press("ArrowLeft")  # the last answer, to look at or to change
    screen.see("#looking")
    assert screen.ready(but=here) == second
    screen.page.keyboard.press("4")
    screen.gone("#looking")
    assert screen.ready(but=second) == here
    assert served.labels() == {first: 0, second: 3}

    screen.open("review")
    screen.see("#review-box .tile")
    assert screen("#review-box .tile").count() == 3
    screen(f'#review-box .tile[data-item="{first}"]').dblclick()
    screen.see("#change-dialog[open]")
    screen.page.keyboard.press("3")
    screen.gone("#change-dialog")
    screen.see(f'#review-box .tile[data-item="{first}"]:has-text("blue")')
    screen('#review-show button[data-show="unsure"]').click()
    until(lambda: screen("#review-box .tile").count() == 1)
    screen.see(f'.tile[data-item="{unsure}"][aria-label*="cannot be seen"]')
    assert served.labels() == {first: 2, second: 3}
    assert served.kinds() == ["unsure", "label", "label", "change", "change"]
    screen.open("single")
    assert screen.ready() == here


@pytest.fixture
def doubted(first_batch, tmp_path) -> tuple[Path, int]:
    """A run trained twice on 30 labels, one of which is wrong; and its item."""
    folder = tmp_path / "doubted-run"
    run, wrong = Run.open(shutil.copytree(first_batch, folder)), -1
    run.set_budget("more-budget", ME, 60)
    for _ in range(3):
        told = {
            path: path.split("/")[1].split("-")[0] for path in run.waiting() if run.paths.index(path) in chosen(run)
        }
        if wrong < 0:
            path = next(path for path, name in told.items() if name == "red")
            wrong, told[path] = run.paths.index(path), "blue"
        run.tell(told, ME)
        while run.advance():
            pass
    run.close()
    return folder, wrong


def chosen(run: Run) -> set[int]:
    with run.store.look() as db:
        return {task.item for task in all_tasks(db) if task.kind == "train"}


def test_a_wrong_label_is_found_beside_its_neighbours_and_changed_or_kept_by_one_key(serve, look, doubted):
    folder, wrong = doubted
    served = serve(folder)
    screen = look(served)
    screen.ready()

    screen.open("review")
    screen('#review-show button[data-show="doubtful"]').click()
    screen.see("#doubt #doubt-image")
    assert screen("#doubt").get_attribute("data-item") == str(wrong)  # the first
    assert screen.text(".doubt-says") == "Labelled “blue”. The other labels suggest “red”."
    neighbours = [int(each.get_attribute("data-neighbour")) for each in screen(".doubt-side .card").all()]
    labels = served.labels()
    assert [labels[item] for item in neighbours] == [2, 2, 2, 0, 0, 0]
    assert wrong not in neighbours
    until(lambda: screen.page.evaluate("[...document.querySelectorAll('#doubt img')].every((i) => i.naturalWidth)"))
    screen.shoot("doubtful")
    screen.page.emulate_media(color_scheme="dark")
    screen.shoot("doubtful-dark")
    screen.page.emulate_media(color_scheme="light")
    total = served.labels()

    screen.page.keyboard.press("c")  # change
    until(lambda: served.labels()[wrong] == 0)
    until(lambda: screen("#doubt").get_attribute("data-item") != str(wrong))
    screen.page.keyboard.press("Backspace")
    until(lambda: served.labels() == total)
    screen.see(f'#doubt[data-item="{wrong}"]')  # what was taken back is on the screen

    screen('[data-do="keep"]').focus()
    screen.page.keyboard.press("k")
    until(lambda: served.kinds().count("change") == 2)
    until(lambda: screen("#doubt").get_attribute("data-item") != str(wrong))
    assert served.labels() == total
    screen.page.reload()
    screen.open("review")
    screen('#review-show button[data-show="doubtful"]').click()
    screen.see("#doubt #doubt-image, #review-text:has-text('No doubtful labels')")
    assert screen("#doubt").get_attribute("data-item") != str(wrong)
    screen.page.keyboard.press("Backspace")  # taken back: it is doubtful again
    screen.see(f'#doubt[data-item="{wrong}"]')  # what was taken back is on the screen
    screen.page.keyboard.press("4")  # any other class, by its key
    until(lambda: served.labels()[wrong] == 3)
    assert served.kinds() == ["change", "undo", "change", "undo", "change"]


@pytest.mark.parametrize(("name", "options"), [("phone", PHONE), ("zoomed", ZOOMED)])
def test_a_doubtful_label_is_changed_on_a_phone_and_at_200_percent(serve, look, doubted, name, options):
    folder, wrong = doubted
    served = serve(folder)
    screen = look(served, **options)
    screen.ready()
    screen.open("review")
    screen('#review-show button[data-show="doubtful"]').click()
    screen.see(f'#doubt[data-item="{wrong}"] #doubt-image')
    until(lambda: screen.page.evaluate("[...document.querySelectorAll('#doubt img')].every((i) => i.naturalWidth)"))
    sound(screen, "doubtful", name)
    button = screen('#doubt [data-do="change"]')
    if name == "phone":  # in reach of a thumb, without scrolling
        box = button.bounding_box()
        assert box["y"] + box["height"] <= PHONE["viewport"]["height"]
    button.click()
    until(lambda: served.labels()[wrong] == 0)


def test_rename_and_merge_change_past_labels(serve, look, trained):
    served = serve(trained)
    screen = look(served)
    before = served.rows("SELECT class, count(*) FROM answer GROUP BY class ORDER BY class")
    counts = [dict(before).get(number, 0) for number in range(4)]
    screen.open("progress")
    screen.see('[data-do="class-0"]').click()
    screen("#class-name").fill("crimson")
    screen.page.keyboard.press("Enter")
    screen.see('#class-table th:has-text("crimson")')
    screen('[data-do="class-3"]').click()
    screen("#class-merge").click()
    screen("#merge-into").select_option("2")
    screen("#merge-dialog .primary").click()
    until(lambda: screen("#class-table tbody tr").count() == 3)
    number = screen('#class-table tr:has-text("blue") .number')
    assert number.inner_text() == str(counts[2] + counts[3])
    assert served.classes() == ["crimson", "green", "blue", "grey"]
    assert served.kinds()[-2:] == ["class_rename", "class_merge"]
    screen.open("review")
    screen.see("#review-box .tile")
    assert screen('#review-box .tile:has-text("crimson")').count() == counts[0]
    assert screen('#review-box .tile .given:has-text("blue")').count() == counts[2] + counts[3]
    until(lambda: ",grey," not in (served.run / "labels.csv").read_text())
    assert ",crimson," in (served.run / "labels.csv").read_text()
    until(lambda: (served.run / "classes.txt").read_text().split() == ["crimson", "green", "blue"])
    screen.page.keyboard.press("Control+z")  # a merge can be taken back like an answer
    screen.open("progress")
    until(lambda: screen("#class-table tbody tr").count() == 4)


def test_peek_shows_and_records_the_suggestion_but_never_for_a_check_image(serve, look, trained):
    served = serve(trained)
    screen = look(served)
    checked = screen.ready()
    assert served.rows("SELECT kind FROM task WHERE item = ?", checked) == [("check",)]
    screen.page.keyboard.press("m")
    assert screen("#peeked").is_hidden()  # off by default
    screen.open("progress")
    screen('#suggestions input[value="peek"]').check()
    until(lambda: served.rows("SELECT value FROM meta WHERE name = 'suggestions'") == [('"peek"',)])
    screen.open("single")
    assert screen.ready() == checked
    assert screen("#peek").is_hidden()
    screen.page.keyboard.down("m")
    assert screen.see("#peeked").inner_text() == "No suggestion for check images: they measure the model"
    screen.page.keyboard.up("m")
    screen.gone("#peeked")
    screen.label()

    chosen = screen.ready()
    assert served.rows("SELECT kind FROM task WHERE item = ?", chosen) == [("train",)]
    screen.see("#peek")
    key = screen.key()
    screen.page.keyboard.down("m")
    assert screen.see("#peeked").inner_text().startswith("The model says: ")
    screen.shoot("peek")
    screen.page.keyboard.up("m")
    screen.gone("#peeked")
    screen.label(key)
    screen.label()
    assert [item for (item,) in served.rows("SELECT item FROM event WHERE kind = 'peek'")] == [chosen]
    shown = dict(served.rows("SELECT item, suggestion_shown FROM answer"))
    assert shown.pop(chosen) == "peek"
    assert set(shown.values()) == {"none"}
    assert served.rows("SELECT suggestion FROM answer WHERE item = ?", checked) == [(None,)]
    assert served.rows("SELECT suggestion IS NULL FROM answer WHERE item = ?", chosen) == [(0,)]


def test_prefill_is_accepted_by_enter(serve, look, trained):
    served = serve(trained)
    screen = look(served)
    screen.open("progress")
    screen('#suggestions input[value="prefill"]').check()
    screen.see('#toast.shown:has-text("saved")')
    screen.open("single")
    checked = screen.ready()
    assert screen("#classes .suggested").count() == 0
    screen.page.keyboard.press("Enter")  # nothing to accept
    screen.label()
    for _ in range(3):  # one image in ten is shown without
        item = screen.ready()
        if screen("#classes .suggested").count():
            break
        screen.label()
    number = int(screen.see("#classes .suggested").get_attribute("data-class") or -1)
    screen.page.keyboard.press("Enter")
    screen.ready(but=item)
    query = "SELECT class, suggestion, suggestion_shown FROM answer WHERE item = ?"
    assert served.rows(query, item) == [(number, number, "prefill")]
    assert served.rows(query, checked)[0][1:] == (None, "none")


def give_name(screen: Screen, name: str) -> None:
    screen("#menu summary").click()
    screen("#menu-name").click()
    screen("#name-input").fill(name)
    screen.page.keyboard.press("Enter")
    screen.gone("#name-dialog")
    screen.see(f'#toast.shown:has-text("{name}")')


def test_two_people_never_see_the_same_image(serve, look, first_batch):
    served = serve(first_batch)
    ann, bo = look(served), look(served)
    for screen, name in ((ann, "Ann"), (bo, "Bo")):
        screen.ready()
        give_name(screen, name)
    given = {}
    for _ in range(4):
        assert ann.ready() != bo.ready()
        for screen, key in ((ann, "1"), (bo, "2")):
            item, number = screen.label(key)
            assert item not in given
            given[item] = number
    other = look(served, ann.page.context)  # a second tab of the same person
    assert len({ann.ready(), bo.ready(), other.ready()}) == 3
    for screen in (ann, bo, other):
        here = screen.ready()
        screen.page.reload()
        assert screen.ready() == here
    assert served.labels() == given
    assert dict(served.rows("SELECT annotator, count(*) FROM answer GROUP BY annotator")) == {"Ann": 4, "Bo": 4}
    assert ann("#notice").is_hidden()


def test_two_answers_for_each_image_are_independent(serve, look):
    served = serve(classes=CLASSES, annotators=2, budget=4, batch=4, check=0)
    screens = [look(served), look(served)]
    for screen, name in zip(screens, ("Ann", "Bo"), strict=True):
        screen.see("#name-dialog[open]")
        screen("#name-input").fill(name)
        screen.page.keyboard.press("Enter")
        screen.ready()
    given = []
    for screen, key in zip(screens, "12", strict=True):
        given.append([screen.label(key, last=i == 3)[0] for i in range(4)])
        if key == "1":
            screen.see("#waiting")
    assert sorted(given[0]) == sorted(given[1])
    screens[1].saved()
    assert served.rows("SELECT count(*), count(DISTINCT item) FROM answer") == [(8, 4)]
    screens[0].open("review")
    screens[0]('#review-show button[data-show="conflicts"]').click()
    screens[0].see('.doubt-says:has-text("Bo: green")')


def test_an_answer_is_kept_while_the_server_is_away_and_stored_once(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    first, _ = screen.label("1")
    second = screen.ready()

    tries = []
    trouble = ["no reply"]  # until the test has seen what the page says of it: a page on a busy machine may be slow

    def lose_the_reply(route: Any) -> None:
        tries.append(route.request.post_data_json["request_id"])
        if trouble[0] == "no reply":
            if len(tries) == 1:
                route.fetch()  # stored, but the browser does not hear of it
            route.abort()
        elif trouble[0] == "disk full":
            route.fulfill(status=507, json={"error": {"code": "disk_full", "message": "no room"}})
        else:
            route.continue_()

    screen.page.route("**/api/answers", lose_the_reply)
    screen.page.reload()  # a page that is open may send one more request past a new route
    assert screen.ready() == second
    screen.page.keyboard.press("2")
    screen.see('#saved[data-state="failed"]:has-text("not saved — retrying")')
    assert screen.item() == second
    assert "Not saved yet" in (screen("#alert").text_content() or "")
    screen.page.keyboard.press("3")  # does not go to the image that waits for its answer
    trouble[0] = "disk full"
    screen.see('#saved[data-state="failed"]:has-text("the disk is full")')
    trouble[0] = ""
    third = screen.ready(but=second)
    screen.saved()
    assert len(tries) >= 3
    assert len(set(tries)) == 1
    assert served.labels() == {first: 0, second: 1}
    screen.page.unroute("**/api/answers")

    served.kill()
    screen.page.keyboard.press("4")
    screen.see('#saved[data-state="failed"]')
    screen.see('#trouble:has-text("kept in this browser")')
    assert screen.item() == third
    screen.shoot("not-saved")
    served.again()
    screen.ready(but=third)
    assert served.labels() == {first: 0, second: 1, third: 3}
    assert served.kinds() == ["label"] * 3

    fourth = screen.ready()
    served.kill()
    screen.page.keyboard.press("1")
    screen.see('#saved[data-state="failed"]')
    served.again()
    screen.page.reload()  # what was not sent is sent by the page that comes
    screen.ready(but=fourth)
    assert served.labels() == {first: 0, second: 1, third: 3, fourth: 0}
    assert screen("#trouble").is_hidden()
    screen.forgive("net::ERR_CONNECTION_REFUSED")
    screen.forgive("net::ERR_FAILED")
    screen.forgive("status of 507")


def test_a_run_that_is_taken_away_is_said_at_once_and_answers_wait_for_it(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    first, _ = screen.label("1")
    second = screen.ready()
    elsewhere = served.run.with_name("elsewhere")
    served.run.rename(elsewhere)
    screen.see('#trouble:has-text("was deleted, moved or replaced")')  # before anybody answers
    assert "was deleted, moved or replaced" in (screen("#alert").text_content() or "")
    screen.page.keyboard.press("2")
    screen.see('#saved[data-state="failed"]:has-text("not saved: the run is missing")')
    screen.see('#trouble:has-text("keeps yours")')
    assert screen.item() == second
    screen.shoot("run-gone")
    elsewhere.rename(served.run)
    screen.ready(but=second)
    screen.saved()
    until(lambda: screen("#trouble").is_hidden())
    assert served.labels() == {first: 0, second: 1}
    screen.forgive("status of 503")


def test_a_browser_that_opens_the_private_file_is_signed_in(serve, look, first_batch):
    served = serve(first_batch)
    screen = look(served)
    for at in ("127.0.0.1", "localhost"):  # two sites: the second is not signed in
        screen.page.goto("about:blank")
        screen.page.goto(redirect_file(served.run, served.url.replace("127.0.0.1", at)).as_uri())
        screen.page.wait_for_url(f"http://{at}:{served.port}/")
        screen("body[data-view]").wait_for()
        screen.ready()
    screen.forgive("request to http://localhost")
    screen.forgive("request to file:")


def test_first_screen_asks_for_the_classes(serve, look):
    served = serve()
    screen = look(served)
    screen.see('#waiting[data-code="no_classes"]')
    screen.see("#first-form")
    for scheme in ("light", "dark"):
        screen.page.emulate_media(color_scheme=scheme)
        screen.shoot(f"first-{scheme}")
    screen("#first-names").press("Control+Enter")
    screen("#first-form button").click()
    screen.see('#first-problem:has-text("at least one")')
    screen("#first-names").fill("\n".join(COLOURS))
    screen("#first-form button").click()
    given = dict(screen.label() for _ in range(2))
    assert served.classes() == list(COLOURS)
    assert served.labels() == given


def test_finished_says_what_to_type_and_goes_on_with_a_larger_budget(serve, look):
    served = serve(classes=CLASSES, budget=8, batch=6, check=0.25)
    screen = look(served)
    given = dict(screen.label() for _ in range(7))
    given |= dict([screen.label(last=True)])
    screen.see('#waiting[data-code="finished"]')
    commands = screen("#commands code").all_inner_texts()
    folder = str(served.run)
    assert commands == [
        f"askless report {folder}",
        f"askless export {folder} --to imagefolder --out labelled",
        f"askless predict {folder} NEW_IMAGES > predictions.csv",
    ]
    assert (served.run / "report.html").exists()  # not said before the last training and the report are through
    assert served.rows("SELECT labels FROM fit") == [(6,)]
    for scheme in ("light", "dark"):
        screen.page.emulate_media(color_scheme=scheme)
        screen.shoot(f"finished-{scheme}")
    screen("#waiting-more").click()
    screen("#budget-input").fill("8")
    screen.page.keyboard.press("Enter")
    screen.see('#budget-problem:has-text("above 8")')
    screen("#budget-input").fill("12")
    screen.page.keyboard.press("Enter")
    screen.see('#budget-used:has-text("8 of 12")')
    screen.open("single")
    given |= dict(screen.label(last=i == 3) for i in range(4))
    screen.see('#waiting[data-code="finished"]')
    assert len(given) == 12
    assert served.labels() == given
    assert screen.text("#spent") == "12 / 12"


CONTRAST = """() => {
    const parse = (text) => {
        const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
        return { rgb: [r, g, b], a };
    };
    const over = (top, below) => top.rgb.map((value, i) => value * top.a + below[i] * (1 - top.a));
    const light = (rgb) => {
        const [r, g, b] = rgb.map((value) => value / 255)
            .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        const layers = [];
        for (let one = element; one; one = one.parentElement) layers.push(parse(getComputedStyle(one).backgroundColor));
        return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const poor = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent.trim();
        const element = walker.currentNode.parentElement;
        if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
        if (element.closest(".hidden, noscript, :disabled")) continue;
        let opacity = 1;
        for (let one = element; one; one = one.parentElement) opacity *= Number(getComputedStyle(one).opacity);
        const back = behind(element);
        const colour = over({ ...parse(getComputedStyle(element).color), a: opacity }, back);
        const [high, low] = [light(colour), light(back)].sort((a, b) => b - a);
        const ratio = (high + 0.05) / (low + 0.05);
        if (ratio < 4.5) poor.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)}`);
    }
    return poor;
}"""

SMALL = """() => [...document.querySelectorAll("button, summary, select, input, textarea, a[href], [role=option]")]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".skip-link"))
    .map((one) => [one.id || one.className || one.tagName, one.closest("label") || one])
    .map(([name, one]) => [name, one.getBoundingClientRect()])
    .filter(([, box]) => box.width < 24 || box.height < 24)
    .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)"""

NAMELESS = """() => [...document.querySelectorAll("button, summary, select, input, textarea, a[href], img")]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }))
    .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.getAttribute("alt") !== null
        || (one.labels && one.labels.length) || one.title))
    .map((one) => one.outerHTML.slice(0, 80))"""


DIALOGS = {name: f"{name}-dialog" for name in ("unsure", "new-class", "class", "help")}


def sound(screen: Screen, name: str, size: str, full: bool = False) -> None:
    """Pictures what is on the screen: nothing scrolls sideways, is too pale, too small or nameless."""
    screen.shoot(f"{name}-{size}", full)
    assert not screen.scrolls_sideways(), name
    assert screen.page.evaluate(CONTRAST) == [], name
    assert screen.page.evaluate(SMALL) == [], name
    assert screen.page.evaluate(NAMELESS) == [], name


def views(screen: Screen, size: str) -> None:
    """Opens every view and dialog, each of which is sound."""

    def check(name: str, full: bool = False) -> None:
        sound(screen, name, size, full)

    screen.ready()
    screen.see("#last button")
    check("single")
    for action, dialog in DIALOGS.items():
        screen(f"#{action}" if action != "class" else '[data-menu="0"]').click()
        screen.see(f"#{dialog}[open]")
        check(action)
        screen.page.keyboard.press("Escape")
        screen.gone(f"#{dialog}")
    screen("#last button").first.click()
    screen.see("#looking")
    check("looking-back")
    screen("#looking-return").click()
    screen.open("grid")
    screen.see("#grid .tile")
    screen("#grid .tile").nth(1).click()
    screen("#grid .tile").nth(2).click()
    check("grid")
    screen.open("review")
    screen.see("#review-box .tile")
    check("review", full=True)
    screen("#review-box .tile").first.dblclick()
    screen.see("#change-dialog[open]")
    check("change")
    screen.page.keyboard.press("Escape")
    screen.open("progress")
    screen.see("svg#curve")
    check("progress", full=True)
    screen.open("map")
    screen.see("#map-box")
    check("map", full=True)
    screen("#menu summary").click()
    check("menu")
    screen.open("single")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views(look, served_to_look, scheme):
    screen = look(served_to_look, color_scheme=scheme)
    views(screen, scheme)
    back = screen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(20, 23, 28)") == (scheme == "dark")


def test_names_and_announcements(look, served_to_look):
    screen = look(served_to_look)
    item = screen.ready()
    names = [button.get_attribute("aria-label") for button in screen("#classes .class").all()]
    assert names == ["red, key 1", "green, key 2", "blue, key 3", "grey, key 4"]
    assert [screen(f"#{name}").get_attribute("aria-label") for name in ("skip", "unsure", "undo", "new-class")] == [
        "Skip, key s",
        "Unsure…, key u",
        "Undo, key Backspace",
        "New class, key n",
    ]
    assert screen("#image").get_attribute("alt") == f"{screen.text('#name')}, image 13 of 40"
    assert screen("#live").get_attribute("aria-live") == "polite"
    assert screen("#alert").get_attribute("aria-live") == "assertive"
    screen.label("1")
    assert screen.said() == "labelled red, 13 of 40"
    assert screen("#image").get_attribute("alt") == f"{screen.text('#name')}, image 14 of 40"
    assert screen.page.title() == "13/40 · shapes-run"
    assert screen("html").get_attribute("lang") == "en"
    screen.page.keyboard.press("r")
    assert "rotate(90deg)" in (screen("#image").get_attribute("style") or "")
    screen.page.keyboard.press("z")
    assert screen.text("#zoom-level").endswith("%")
    following = screen.ready()
    screen.page.keyboard.press("Backspace")
    assert screen.ready(but=following) == item
    assert "Undone: label on " in screen.said()


def test_twice_the_size(look, served_to_look):
    screen = look(served_to_look, **ZOOMED)
    views(screen, "zoomed")
    for button in screen("#side button:visible").all():
        button.scroll_into_view_if_needed()
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 640


def swipe(screen: Screen, dx: int, dy: int) -> None:
    box = screen("#stage").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = screen.page.context.new_cdp_session(screen.page)
    for step in range(6):
        kind = "touchMove" if step else "touchStart"
        points = [{"x": x + dx * step / 5, "y": y + dy * step / 5}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    touch.detach()


def test_phone(serve, look, trained):
    served = serve(trained)
    before = served.labels()
    screen = look(served, **PHONE)
    views(screen, "phone")
    first = screen.ready()
    screen('#classes button[data-class="1"]').tap()
    second = screen.ready(but=first)
    assert served.labels() == {**before, first: 1}
    swipe(screen, -150, 0)
    assert screen.ready(but=second) == first
    assert served.labels() == before
    swipe(screen, 0, -150)
    screen.ready(but=first)
    swipe(screen, 150, 0)  # to the right: nothing
    assert served.kinds()[-3:] == ["label", "undo", "skip"]
    assert served.labels() == before


STOPWATCH = """() => {
    window.times = [];
    let now = null;
    document.addEventListener("keydown", (event) => { now = { key: event.timeStamp }; }, true);
    new MutationObserver((changes) => {
        for (const change of changes) {
            const image = document.querySelector("#image");
            if (now && change.type === "childList" && [...change.addedNodes].includes(image)) {
                const mine = now;
                requestAnimationFrame(() => setTimeout(() => { mine.painted = performance.now(); }, 0));
            }
            if (now && change.type === "attributes" && image.dataset.ready === "true" && !now.ready) {
                now.ready = performance.now();
                window.times.push(now);
            }
        }
    }).observe(document.querySelector("#stage"), {
        subtree: true, childList: true, attributes: true, attributeFilter: ["data-ready"] });
}"""


def test_the_next_image_comes_quickly(serve, look, trained, capsys):
    served = serve(trained)
    until(lambda: read_status(served.run).get("step") == "waiting")  # the worker has come up
    screen = look(served)
    screen.ready()
    screen.page.evaluate(STOPWATCH)
    for _ in range(14):
        screen.label()
    times = screen.page.evaluate("window.times")
    assert len(times) >= 13
    lines = []
    for name in ("painted", "ready"):
        taken = [one[name] - one["key"] for one in times if one.get(name)]
        lines.append(f"{name} {statistics.median(taken):.0f} ms (most {max(taken):.0f})")
        assert statistics.median(taken) < 400 + 2 * DELAY, name
    with capsys.disabled():
        print(f"\nfrom the key to the next image, {len(times)} labels: {', '.join(lines)}")


def test_a_tab_that_is_pressed_while_the_page_starts_opens_as_soon_as_it_can(serve, look, trained):
    screen = look(serve(trained))
    screen.ready()
    held: list[Any] = []
    let_go = False
    screen.page.route("**/api/state*", lambda route: route.continue_() if let_go else held.append(route))
    screen.page.reload(wait_until="commit")
    until(lambda: screen.page.wait_for_timeout(20) or held)
    screen('#tabs button[data-view="progress"]').click()
    let_go = True
    for route in held:
        route.continue_()
    screen('body[data-view="progress"]').wait_for(state="attached")
    screen.open("single")
    screen.ready()
