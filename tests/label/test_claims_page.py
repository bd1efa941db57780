"""Predictions from elsewhere, on the page of a run served by the real `askless start` and driven in headless Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askless.run import Run
from askless.run.out.claims import import_claims

from .browser import CHROMIUM, FLAGS, Screen, Served, contexts, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set CHROMIUM to its path"),
]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
TWICE = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}  # 1280 x 800 at 200 %


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A run with 60 labelled check rows, and two predictors of all 400: one that is right where it is sure, and one that
    says nothing of check rows."""
    place = tmp_path_factory.mktemp("claims")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    x = rng.normal(size=(400, 12)) + 1.6 * np.eye(12)[y]
    np.savez(place / "rows.npz", X=x.astype(np.float32))
    options: dict[str, Any] = {"budget": 80, "check": 0.75, "batch": 20, "net": "linear", "learner": "supervised"}
    run = Run.create(place / "rows.npz", place / "run", classes=("a", "b", "c"), steps=30, **options)
    while run.advance(ahead=False) is not None:
        pass
    run.tell({path: "abc"[y[int(path)]] for path in run.waiting()})
    sure = rng.random(400).round(3)
    said = np.where(sure > 0.2, y, (y + 1) % 3)
    import_claims(run, "a model of last year", {p: ("abc"[said[int(p)]], float(sure[int(p)])) for p in run.paths})
    check = {path for path, split in split_of(run).items() if split == "check"}
    import_claims(run, "mute", {path: ("a", None) for path in run.paths if path not in check})
    run.close()
    return place / "run"


def split_of(run: Run) -> dict[str, str]:
    with run.store.look() as db:
        return {row["path"]: row["split"] for row in db.execute("SELECT path, split FROM item")}


@pytest.fixture
def served(prepared, tmp_path) -> Iterator[Served]:
    served = Served(Path(shutil.copytree(prepared, tmp_path / "run")))
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


def accepted(served: Served) -> int:
    return served.rows("SELECT count(*) FROM task WHERE kind = 'accepted'")[0][0]


def test_a_person_sees_how_good_predictions_are_accepts_some_and_takes_them_back(look, served):
    screen = look()
    screen.open("progress")
    screen.see("#claims")
    first, mute = screen("#claims-list section").all()
    assert first.inner_text().startswith("a model of last year\n\nRight on 49 of 60 check rows: 82\u00a0%")
    assert "accuracy is unknown" in mute.inner_text()
    assert mute.locator("details").count() == 0
    assert not screen("#claims form").is_visible()  # off until asked for
    screen("#claims-0-how").press("Enter")
    assert screen("#claims table").nth(0).locator("tbody tr").count() == 5
    assert screen("#claims table").nth(1).locator("tbody tr").count() == 3
    screen("#claims-0-accept").press("Enter")
    share, button = screen("#claims-share-0"), screen("#claims form button")
    assert share.input_value() == "95"
    assert button.is_disabled()
    assert "do not show that of any group" in screen.text("#claims-said-0")
    share.fill("0")
    assert screen.text("#claims-said-0") == "Expected a number between 1 and 99."
    share.fill("85")
    assert "with 95 % certainty" in screen.text("#claims-said-0")
    number = int(button.inner_text().removeprefix("Accept ").removesuffix(" predictions"))
    assert number > 50
    assert accepted(served) == 0
    share.press("Enter")
    until(lambda: f"{number} are accepted." in first.inner_text())
    assert accepted(served) == number
    assert screen("#claims-share-0").input_value() == "85"  # what was typed and opened stays
    assert "has a label or is waiting for one" in screen.text("#claims-said-0")
    screen("#claims-undo").click()
    until(lambda: "are accepted" not in first.inner_text())
    assert accepted(served) == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [("light", {"color_scheme": "light"}), ("dark", {"color_scheme": "dark"}), ("phone", PHONE), ("200", TWICE)],
)
def test_only_the_tables_scroll_sideways(look, name, options):
    screen = look(**options)
    screen.open("progress")
    screen.see("#claims")
    screen("#claims-0-how").press("Enter")
    screen("#claims-0-accept").press("Enter")
    screen("#claims-share-0").fill("85")
    assert not screen.scrolls_sideways()
    screen("#claims").scroll_into_view_if_needed()
    screen.shoot(f"claims-{name}", full=True)
