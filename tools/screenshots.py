"""The pictures of the page in docs/pictures, from a run on the digits, in headless Chromium.

    python tools/screenshots.py          # or `make screenshots`

Most of the budget is answered from the known labels, so that there is something to see; then the page is opened as a person
would see it. The environment variable CHROMIUM names another browser than Debian's.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import askless as al
from askless.base.files import write_whole
from askless.bench.demo import write_images

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT / "tests" / "label"))
import browser  # noqa: E402  (how the tests drive the page)

BUDGET, ANSWERED, BATCH = 120, 80, 20
WIDTH, HEIGHT = 1120, 700
MOST = 120_000  # bytes
LOADED = """() => [...document.querySelectorAll("#sort-grid img")]
    .filter(image => image.getBoundingClientRect().top < innerHeight).every(image => image.complete && image.naturalWidth)"""

SEEN = "[...document.querySelectorAll('#doubt img')].every(image => image.complete && image.naturalWidth)"


def answer(run: al.Run, truth: dict[str, str], most: int) -> None:
    """Answers what the run asks until it has `most` answers or its budget is used."""
    given = 0
    while not run.is_finished() and given < most:
        while run.advance():
            pass
        asked = run.waiting()
        run.tell({path: truth[path] for path in asked})
        given += len(asked)
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
        images = write_images(place)
        truth = dict(line.split(",") for line in (place / "truth.csv").read_text().splitlines()[1:])
        classes = [str(i) for i in range(10)]
        options = {"classes": classes, "budget": BUDGET, "batch": BATCH, "net": "frozen:raw", "steps": 60}
        with al.Run.create(images, place / "digits-run", **options) as run:
            answer(run, truth, ANSWERED)
        served = browser.Served(place / "digits-run")
        try:
            with sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=browser.FLAGS)
                screen = browser.Screen(chromium.new_context(color_scheme="light", reduced_motion="reduce"), served)
                screen.ready()
                screen.see('#worker-text:has-text("Waiting for labels")')
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
                shoot(screen.page, "doubtful", 800)
                served.stop()
                with al.Run.open(place / "digits-run") as run:
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
