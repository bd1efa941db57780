"""The view "Sort" and the buttons for files, served by the real `askless start` and driven in headless Chromium."""

import pytest

from .browser import CHROMIUM, until
from .test_page import PHONE, ZOOMED, browser, first_batch, look, serve, shapes, trained  # noqa: F401

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]


def items(screen):
    return screen("#sort-grid .tile").evaluate_all("all => all.map((one) => Number(one.dataset.item))")


def chunk(screen, but=()):
    """Waits for a chunk of other items than these."""
    return until(lambda: (now := items(screen)) and not {*now} & {*but} and now)


def accepted(served):
    return {item for (item,) in served.rows("SELECT item FROM task WHERE kind = 'accepted'")}


def test_a_chunk_is_accepted_put_right_undone_and_done_again_by_keyboard(serve, look, trained):  # noqa: F811
    served = serve(trained)
    screen = look(served)
    screen.open("sort")
    first = chunk(screen)
    name = screen.text("#sort-classes [aria-pressed=true] .name")
    keys = screen.page.keyboard
    keys.press("Space")  # the first one is out
    screen.see("#sort-grid .tile.out")
    keys.press("ArrowRight")
    number = screen("#sort-classes button").evaluate_all("all => all.map((one) => one.textContent)")
    other = next(i for i, text in enumerate(number) if not text.startswith(name))
    keys.press(str(other + 1))
    screen.see("#sort-grid .tile.answered")
    assert screen.text("#sort-changed") == "1 taken out, 1 corrected"
    assert screen.text("#sort-accept") == f"Accept {len(first) - 2} as {name}"
    assert screen.text("#sort-left").startswith("If you stop here, about ")
    screen.shoot("sort-light")
    keys.press("Enter")
    chunk(screen, but=first)
    screen.saved()
    assert accepted(served) == {*first[2:]}
    assert dict(served.rows("SELECT item, kind FROM task WHERE kind = 'found'")) == {first[1]: "found"}
    assert served.kinds() == ["accepted"]
    keys.press("Backspace")
    until(lambda: not accepted(served))
    until(lambda: {*first} & {*items(screen)})
    keys.press("Control+Shift+z")
    until(lambda: accepted(served) == {*first[2:]})
    assert served.kinds() == ["accepted", "undo", "redo"]


def test_a_chunk_is_accepted_by_mouse_and_its_precision_is_told(serve, look, trained):  # noqa: F811
    served = serve(trained)
    screen = look(served, color_scheme="dark")
    screen.open("sort")
    first = chunk(screen)
    screen(f'#sort-grid .tile[data-item="{first[3]}"]').click()
    screen.see("#sort-grid .tile.out")
    screen(f'#sort-grid .tile[data-item="{first[3]}"]').click()
    screen.gone("#sort-grid .tile.out")
    screen(f'#sort-grid .tile[data-item="{first[4]}"]').click()
    screen.see("#sort-grid .tile.out")
    screen("#sort-accept").click()
    chunk(screen, but=set(first) - {first[4]})
    assert accepted(served) == {*first} - {first[4]}
    screen("#sort-precision summary").click()
    row = screen.text("#sort-precision tbody tr")
    assert f"1 of {len(first)}" in row
    screen.shoot("sort-dark", full=True)
    screen.open("progress")
    until(lambda: f"+ {len(first) - 1} accepted" in screen.text("#class-table"))
    screen.open("review")
    screen.see("#review-box .tile")


def test_images_are_sorted_into_folders_by_a_button_that_replaces_nothing_unasked(serve, look, trained):  # noqa: F811
    served = serve(trained)
    screen = look(served)
    screen.open("progress")
    until(lambda: "MB to copy" in screen.text("#files-plan"))
    screen('#folders-form input[value="unsorted"]').check()
    screen("#sort-folders").click()
    out = served.run.with_name("shapes-run-sorted")
    until(lambda: str(out) in screen.text("#files-state"))
    count = len(served.rows("SELECT id FROM item"))
    until(lambda: len([*out.rglob("*.png")]) == count)
    screen("#files-panel").scroll_into_view_if_needed()
    screen.shoot("files-light")
    screen('#folders-form input[value="leave"]').check()
    screen("#sort-folders").click()
    screen.see("#confirm-dialog[open]")
    screen("#confirm-dialog [data-close]").click()
    assert len([*out.rglob("*.png")]) == count
    screen("#sort-folders").click()
    screen("#confirm-yes").click()
    until(lambda: out.is_dir() and not (out / "unsorted").exists())
    screen("#folders-out").fill("/etc/sorted")
    screen("#sort-folders").click()
    until(lambda: "expected a folder below" in screen.text("#files-state"))
    screen.forgive("400")
    screen("#write-report").click()
    until(lambda: "report.html" in screen.text("#files-state"))


@pytest.mark.parametrize(("name", "options"), [("phone", PHONE), ("zoomed", ZOOMED)])
def test_sorting_fits_a_phone_and_200_percent(serve, look, trained, name, options):  # noqa: F811
    served = serve(trained)
    screen = look(served, **options)
    screen.open("sort")
    first = chunk(screen)
    assert not screen.scrolls_sideways()
    screen.shoot(f"sort-{name}", full=True)
    screen(f'#sort-grid .tile[data-item="{first[0]}"]').click()
    number = screen("#sort-give button").nth(0).get_attribute("data-give")
    screen("#sort-give button").nth(0).click()
    screen("#sort-accept").click()
    chunk(screen, but={*first[1:]})
    assert accepted(served) >= {*first[1:]}
    kinds = dict(served.rows("SELECT item, class FROM answer WHERE item = ?", first[0]))
    assert kinds == {first[0]: int(number)}
    screen.open("progress")
    screen.see("#files-plan")
    assert not screen.scrolls_sideways()
