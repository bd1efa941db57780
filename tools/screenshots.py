"""The pictures of the page in docs/pictures, from a run on photographs of fruit, in headless Chromium.

    askless data fetch groceries         # once
    python tools/screenshots.py          # or `make screenshots`

Most of the budget is answered from the known labels, a few of them wrongly, so that there is something to see; then the page
is opened as a person would see it. The environment variable CHROMIUM names another browser than Debian's. The photographs
are of the Grocery Store data set (Klasson, Zhang and Kjellström 2019, MIT licence).
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import askless as al
from askless.base.files import write_whole

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT / "tests" / "label"))
import browser  # noqa: E402  (how the tests drive the page)

KINDS = {
    "apple": ("Golden-Delicious", "Granny-Smith", "Pink-Lady", "Red-Delicious", "Royal-Gala"),
    "pear": ("Anjou", "Conference", "Kaiser"),
    "melon": ("Cantaloupe", "Galia-Melon", "Honeydew-Melon", "Watermelon"),
    "orange": ("Orange",),
    "satsuma": ("Satsumas",),
}
BUDGET, ANSWERED, BATCH, WRONG = 150, 100, 20, 3
WIDTH, HEIGHT = 1120, 700
MOST = 400_000  # bytes
LOADED = """() => [...document.querySelectorAll("#sort-grid img")]
    .filter(image => image.getBoundingClientRect().top < innerHeight).every(image => image.complete && image.naturalWidth)"""

SEEN = "[...document.querySelectorAll('#doubt img')].every(image => image.complete && image.naturalWidth)"


def write_fruit(folder: Path) -> dict[str, str]:
    """The photographs as files, and what each shows."""
    pool = al.data.groceries()
    kinds = {sort: kind for kind, sorts in KINDS.items() for sort in sorts}
    truth = {f"fruit-{i:03d}.jpg": kinds[pool.classes[label]] for i, label in enumerate(pool.labels)}
    folder.mkdir()
    for i, name in enumerate(truth):
        Image.fromarray(pool.take([i])[0].numpy().transpose(1, 2, 0)).save(folder / name, quality=92)
    return truth


def answer(run: al.Run, truth: dict[str, str], most: int, wrong: int = 0) -> None:
    """Answers what the run asks until it has `most` answers or its budget is used; the last `wrong` chosen apples of the
    first batch become pears."""
    given = 0
    while not run.is_finished() and given < most:
        while run.advance():
            pass
        said = {path: truth[path] for path in run.waiting()}
        for path in [path for path, kind in said.items() if kind == "apple"][-wrong:] if wrong else ():
            said[path] = "pear"
        wrong = 0 if run.predictions() is not None else wrong
        run.tell(said)
        given += len(said)
    while run.advance():
        pass


def shoot(page: Page, name: str, height: int = HEIGHT) -> None:
    """What is on the screen as a PNG; with fewer colours where it would not be small."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.evaluate("document.querySelector('#toast')?.classList.remove('shown')")
    page.mouse.move(0, 0)
    whole = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    content = png(whole)
    if len(content) > MOST:
        content = png(whole.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE))
    write_whole(PICTURES / f"{name}.png", lambda file: file.write(content))
    print(f"docs/pictures/{name}.png: {len(content) / 1000:.0f} kB")


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        truth = write_fruit(place / "fruit")
        with al.Run.create(place / "fruit", place / "fruit-run", classes=[*KINDS], budget=BUDGET, batch=BATCH) as run:
            answer(run, truth, ANSWERED, wrong=WRONG)
        served = browser.Served(place / "fruit-run")
        try:
            with sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=browser.FLAGS)
                screen = browser.Screen(chromium.new_context(color_scheme="light", reduced_motion="reduce"), served)
                for given in range(40):  # for the strip of last answers; then an apple
                    screen.ready()
                    if given >= 8 and truth[screen.text("#name")] == "apple":
                        break
                    screen.label(str([*KINDS].index(truth[screen.text("#name")]) + 1))
                screen.saved()
                shoot(screen.page, "single")
                screen.open("grid")
                tiles = screen("#grid [role=option]")
                tiles.first.wait_for()
                for k in range(min(3, tiles.count())):
                    tiles.nth(k).click(modifiers=["Control"] if k else [])
                screen.page.wait_for_load_state("networkidle")
                shoot(screen.page, "grid")
                screen.open("progress")
                screen.see("#progress-view svg")
                shoot(screen.page, "progress", 940)
                screen.open("sort")
                screen.see("#sort-grid .tile")
                screen.page.wait_for_function(LOADED)
                shoot(screen.page, "sort")
                screen.open("review")
                screen('#review-show button[data-show="doubtful"]').click()
                screen.see("#doubt #doubt-image")
                screen.page.wait_for_function(SEEN)
                shoot(screen.page, "doubtful", 820)
                served.stop()
                with al.Run.open(place / "fruit-run") as run:
                    answer(run, truth, BUDGET)
                    report = run.write_report()
                screen.page.goto(report.resolve().as_uri())
                screen.page.set_viewport_size({"width": WIDTH, "height": 900})  # before scrolling: it changes the place
                heading = screen.page.locator("h2", has_text="Accuracy by number of labels").first
                heading.evaluate("heading => heading.scrollIntoView({behavior: 'instant'})")
                shoot(screen.page, "report", 900)
                chromium.close()
        finally:
            served.stop()


if __name__ == "__main__":
    main()
