import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image, ImageDraw

from askless.run.out import account as told
from askless.run.out import report, report_pictures
from askless.run.steps.advice import Standing, advise
from askless.run.steps.measure import confusion, per_class, share

VOID = {"meta", "img", "br", "hr", "link", "input"}
NAMES = ["cat", "dog", "<script>alert(1)</script>", 'owl & "friends" \'n co']


class Page(HTMLParser):
    """Fails on tags that do not close in order; collects text and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tags, self.attributes = [], "", [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):  # of SVG
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += data


def picture(item, side=128):
    """A small scene in the colours of its item."""
    rng = np.random.default_rng(item)
    image = Image.new("RGB", (side, side * 3 // 4), tuple(rng.integers(90, 240, 3).tolist()))
    draw = ImageDraw.Draw(image)
    for _ in range(5):
        x, y, r = rng.integers(0, side), rng.integers(0, side), rng.integers(6, side // 3)
        draw.ellipse((x - r, y - r, x + r, y + r), fill=tuple(rng.integers(0, 255, 3).tolist()))
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


def some_facts(pool=600):
    """A run of six rounds over photographs of four classes, one of them with a hostile name."""
    rng = np.random.default_rng(0)
    home = np.array([[0.25, 0.3], [0.7, 0.7], [0.3, 0.75], [0.75, 0.25]])
    kinds = rng.choice(4, pool, p=[0.45, 0.3, 0.15, 0.1])
    points = np.clip(home[kinds] + 0.09 * rng.standard_normal((pool, 2)), 0, 1)
    labels, rounds = np.full(pool, -1), np.zeros(pool, int)
    picked, check = rng.choice(pool, 160, replace=False)[:120], rng.choice(pool, 40, replace=False)
    labels[check] = kinds[check]
    labels[picked], rounds[picked] = kinds[picked], np.repeat(np.arange(1, 7), 20)
    path = [f"holiday/2024/IMG_{i:04d} ä.jpg" for i in range(pool)]
    reasons = ["covers a new region", "the model hesitates", "unlike its neighbours"]

    def shown(i, **more):
        return told.Shown(int(i), path[i], NAMES[kinds[i]], **more)

    truth = kinds[check]
    said = np.where(rng.random(40) < 0.85, truth, rng.integers(0, 4, 40))
    measure = share(int((truth == said).sum()), 40)
    curve = [
        told.Point(k, 20 * k, **share(n, 40), seconds=31.5 + 14 * k, change=c, margin=m, new_classes=new)
        for k, n, c, m, new in [
            (1, 22, None, 0.31, NAMES[:2]), (2, 27, 0.31, 0.42, [NAMES[2]]), (3, 30, 0.16, 0.55, [NAMES[3]]),
            (4, 33, 0.06, 0.61, []), (5, 34, 0.018, 0.66, []), (6, measure["correct"], 0.008, 0.68, []),
        ]
    ]  # fmt: skip
    of_class, given = per_class(said, truth, range(4)), np.bincount(labels[picked])
    mistakes = [
        told.Mistake(i, j, [shown(check[k], model_label=NAMES[j], model_prob=0.7) for k in at])
        for i in range(4)
        for j in range(4)
        if i != j and len(at := np.flatnonzero((truth == i) & (said == j)))
    ]
    where = Standing(160, 160, 6, dict(zip(NAMES, [54, 36, 18, 12], strict=True)), measure, 0.9,
                     [p.change for p in curve], since_new_class=100)  # fmt: skip
    return told.Facts(
        name="photos-run <b>",
        made_at="2026-03-01T09:41:07Z",
        command="askless start '/home/ann/photos' --classes 'cat,dog' --budget 160 --seed 7",
        data=told.Data("/home/ann/photos", pool + 40, pool, 40, 0, "various"),
        labels=told.Labels(160, 160, 157, 3, 117, 40, 14.2, 11.3, "2026-03-01T09:00:00Z", "2026-03-01T09:40:00Z"),
        advice=advise(where),
        curve=curve,
        classes=[
            told.OfClass(k, k, NAMES[k], int(given[k]), c["n"], int((kinds == k).sum()), c["precision"], c["recall"])
            for k, c in enumerate(of_class)
        ],
        chosen=told.Chosen(
            "typiclust, then margin",
            {"batch": 20, "neighbours": 20},
            7,
            [
                told.Batch(k, by, [shown(i, reason=reasons[i % 3]) for i in picked[rounds[picked] == k]], 2.3)
                for k, by in enumerate(["typiclust", *["margin"] * 5], 1)
            ],
            told.Map([*points.round(4).tolist()[:-1], None], labels.tolist(), rounds.tolist(), "PCA"),
        ),
        process=told.Process(
            [told.Person("ann", 120, 2, 2.1, 14.2), told.Person("<img src=x onerror=alert(1)>", 40, 1, 3.4, 9.0)],
            2.3, 6, 2, 4, 12, told.Disagreements(2, 1),
            told.Agreement(20, 2, share(18, 20), 0.81, 0.8, 0.61, 0.95), [told.Confused("ann", 0, 9, 7, 1, 2)],
            told.Suggestions("peek", {"none": 140, "peek": 20}, share(17, 20), share(17, 20), share(96, 140)),
        ),
        measure=measure,
        baseline=0.45,
        target=0.9,
        confusion=confusion(said, truth, range(4)).tolist(),
        mistakes=mistakes,
        problems=told.Problems(
            [("broken.jpg", "not an image, or an unknown format"), ("<i>.png", "truncated")],
            [("link.png", "a link that leaves the folder; use follow_links")],
            [[path[0], "copy of 0.jpg"], [path[3], "a.jpg", "b.jpg"]],
            2,
            [shown(i, model_label=NAMES[(kinds[i] + 1) % 4], model_prob=0.97, score=0.96) for i in picked[[3, 8, 20]]],
        ),
        model=told.Model(
            "WRN-28-2 (1.5 M weights)", "FixMatch", "model/model.safetensors", "9f" * 32,
            {"size": "32 × 32", "mean": "0.49 0.48 0.45", "interpolation": "bicubic"}, NAMES, 117, 483,
            {"askless": "0.1.0", "torch": "2.6.0", "numpy": "1.26"}, {"steps": 3000, "seed": 7},
            ["it knows only these four classes and calls everything one of them", "probabilities are not calibrated"],
            chose="Similar images count 75 %.",
        ),
        files=[
            told.FileFact("labels.csv", 20_412, "ab" * 32),
            told.FileFact("model/model.safetensors", 5_912_004, "9f" * 32),
        ],
    )  # fmt: skip


@pytest.fixture(scope="module")
def facts():
    return some_facts()


@pytest.fixture(scope="module")
def written(facts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    assert report.write(facts, folder, picture) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def text(written):
    return (written / "report.html").read_text(encoding="utf-8")


def test_the_model_card_says_what_the_training_chose(text, facts):
    assert "Chosen by itself" in text
    assert "Similar images count 75 %." in text
    silent = replace(facts, model=replace(facts.model, chose=""))
    assert "Chosen by itself" not in report.page(silent, picture)


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(text):
    page = Page(text)
    assert not {"script", "link", "iframe", "object", "base", "form"} & set(page.tags)
    links = [value for name, value in page.attributes if name in ("src", "href")]
    assert links
    assert all(value.startswith(("data:image/", "#")) for value in links)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_every_inner_link_leads_somewhere(text):
    page = Page(text)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {v[1:] for n, v in page.attributes if n == "href" and v.startswith("#")} <= set(ids)


def test_what_users_wrote_is_text(text):
    page = Page(text)
    for said in (NAMES[2], NAMES[3], "<img src=x onerror=alert(1)>", "<i>.png", "photos-run <b>"):
        assert said in page.text
    assert "<script" not in text
    assert not {"b>", "i"} & set(page.tags)


@pytest.mark.parametrize(
    "said",
    [
        "/home/ann/photos has 640 images",
        "Budget used: 160 of 160 labels given.",
        "Always predicting the most common class would score 0.45.",
        "n = 40",
        "Images the model puts here",
        "Right and wrong on the check images",
        "typiclust, then margin",
        "covers a new region",
        "2 files could not be read",
        "3 exact copies in 2 groups",
        "2 images are nearly the same as a check image",
        "3 labels to look at again",
        "1 for perfect agreement: 0.80 (0.61–0.95 with 95 % confidence); Cohen's kappa: 0.81",
        "2 open, 1 of them without a majority",
        "Agreement with the others, or with the decision",
        "6 answers undone",
        "none 140, peek 20",
        "WRN-28-2 (1.5 M weights)",
        "0 cat, 1 dog",
        "It knows only these four classes",
        "model.safetensors",
        "ab" * 32,
        "askless start '/home/ann/photos'",
        "14 min",
    ],
)
def test_what_the_page_tells(text, said):
    assert said in " ".join(Page(text).text.split())


def test_the_numbers_for_machines(written, facts):
    data = json.loads((written / "report.json").read_text(encoding="utf-8"))
    assert len(data["curve"]) == 6
    assert all(
        {"n", "low", "high", "accuracy", "correct", "labels", "round", "change"} <= set(p) for p in data["curve"]
    )
    assert data["measure"] == facts.measure
    assert data["advice"]["verdict"] == "budget used"
    assert data["classes"][2]["name"] == NAMES[2]
    assert data["confusion"] == facts.confusion
    assert data["chosen"]["map"]["points"][-1] is None
    assert data["files"][0]["sha256"] == "ab" * 32
    assert data["problems"]["unreadable"][0] == ["broken.jpg", "not an image, or an unknown format"]


def test_without_check_images_nothing_is_measured(facts, tmp_path):
    bare = [replace(p, n=0, correct=0, accuracy=None, low=None, high=None) for p in facts.curve]
    classes = [replace(c, precision=None, recall=None, check=0) for c in facts.classes]
    found = replace(facts, measure=None, baseline=None, confusion=[], mistakes=[], curve=bare, classes=classes,
                    data=replace(facts.data, check=0), advice=advise(Standing(9, 3, 2, {"a": 9})))  # fmt: skip
    report.write(found, tmp_path, picture)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.text.count("not measured") > 10
    assert not re.search(r"accuracy (of )?[01]\.\d", page.text)
    assert "check accuracy, 0" not in page.text
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["measure"] is None
    assert {p["accuracy"] for p in data["curve"]} == {None}


def test_a_run_that_has_hardly_begun(tmp_path):
    empty = told.Facts(
        "new", "2026-03-01T09:00:00Z", "", told.Data("photos", 10, 10, 0), told.Labels(20, 0, 0, 0, 0, 0),
        advise(Standing(20, 0, 0, {})), [], [], told.Chosen("typiclust", {}, 0, []), told.Process([]),
    )  # fmt: skip
    report.write(empty, tmp_path, lambda item: None)
    page = Page((tmp_path / "report.html").read_text())
    assert "No model has been trained yet." in page.text
    assert "None found" in page.text
    assert "img" not in page.tags


def test_pictures_stay_within_their_limits(facts, tmp_path, monkeypatch):
    many = [replace(b, items=b.items * 5) for b in facts.chosen.batches] * 3
    found = replace(facts, chosen=replace(facts.chosen, batches=many))
    asked = []

    def noisy(item):
        asked.append(item)
        pixels = np.random.default_rng(item).integers(0, 255, (200, 300, 3), np.uint8)
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, format="PNG")
        return out.getvalue()

    text = report.page(found, noisy)
    sizes = [len(uri) for uri in re.findall(r'<img[^>]*src="([^"]*)"', text)]
    assert len(sizes) == report_pictures.THUMBS
    assert sum(sizes) < report_pictures.BYTES
    assert len(asked) == len(set(asked))  # each is drawn once
    assert "more images" in text
    monkeypatch.setattr(report_pictures, "BYTES", 50_000)
    text = report.page(found, noisy)
    assert 0 < sum(len(uri) for uri in re.findall(r'<img[^>]*src="([^"]*)"', text)) < 50_000


def test_pictures_are_written_anew_whatever_comes(facts):
    text = report.page(facts, lambda item: b"<svg onload=alert(1)>" if item % 2 else picture(item, 32))
    assert "svg onload" not in text
    kinds = set(re.findall(r'<img[^>]*src="data:image/(\w+)', text))
    assert kinds <= {"png", "jpeg"}
    assert 'class="tiny"' in text


def test_every_picture_says_what_it_shows(text):
    images = re.findall(r"<img[^>]*>", text)
    assert images
    assert all(re.search(r'alt="[^"]+"', image) for image in images)
    assert all("aria-" in svg for svg in re.findall(r"<svg[^>]*>", text))


def test_a_run_with_a_hundred_classes(facts):
    names = [f"class {k}" for k in range(100)]
    wide = replace(
        facts,
        classes=[told.OfClass(k, k % 8, name, 3, 1, 6, share(1, 1), share(1, 2)) for k, name in enumerate(names)],
        confusion=(np.eye(100, dtype=int) + np.eye(100, k=1, dtype=int)).tolist(),
    )
    text = report.page(wide, lambda item: None)
    page = Page(text)
    assert "The matrix of 100 classes is in report.json" in page.text
    assert "class 98 mistaken for class 99" in page.text


def test_a_class_has_the_colour_that_somebody_chose_in_the_table_and_on_the_map(facts):
    first = replace(facts.classes[0], colour=6)
    text = report.page(replace(facts, classes=[first, *facts.classes[1:]]), lambda item: None)
    used = set(re.findall(r'class="(?:mark|hollow) mark-(\d)"', text))
    assert "6" in used
    told = re.findall(rf'mark-(\d)"[^<]*(?:</path>|/>)?</svg>{re.escape(first.name)}', text)
    assert told == ["6", "6"]  # in the table and in the legend of the map
