import csv
import json
import os

import numpy as np
import pytest
from PIL import Image

from askless.base.errors import InputError, OptionError
from askless.run.out import export as exporting
from askless.run.out.answers import COLUMNS, LabelRow, read_answers
from askless.run.out.export import Job, folder_names
from askless.run.out.label_table import Predicted, by_majority, write_labels_csv
from askless.sources import image_size, read_image

FORMATS = [to for to in exporting.FORMATS if to != "datasets"]  # which needs a package; see tests/data/test_hf_out.py
CLASSES = ["cat", "dog", "=1+1", "a/b"]
HEADER = (
    "path,label,status,split,annotator,labelled_at,seconds,round,rank,picked_by,model_label,model_prob,suggestion_shown,"
    "note,kind,decided,decided_by"
)


def export(to, out, rows, classes, predicted=(), columns=None, file_of=lambda item: None, **more):
    given = {"pixels_of": None, "text_of": None, "what": "human", "min_prob": 0.0, "link": "copy", "by_split": False}
    given |= {"safe_cells": None, "overwrite": False}
    return exporting.export(Job(to, out, rows, classes, predicted, columns or {}, file_of, **(given | more)))


def row(item, path, label, status="labelled", split="train", **more):
    given = {
        "annotator": "ann",
        "labelled_at": "2026-03-01T09:00:00Z",
        "seconds": 0.1 + item / 3,
        "round": 1,
        "rank": item,
        "picked_by": "typiclust",
        "model_label": "cat",
        "model_prob": 1 / 3,
        "suggestion_shown": "none",
    }
    return LabelRow(path, label, status, split, **(given | more), item=item)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Twelve small images, two of one name in two folders."""
    root = tmp_path_factory.mktemp("photos")
    names = ["one/x.png", "two/x.png", "=cmd.png", "a, b.png", 'say "hi".png', "ünï cødé 猫.png", "train/test_1.jpg"]
    names += [f"more/{i}.png" for i in range(5)]
    for i, name in enumerate(names):
        (root / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 6), (20 * i, 100, 50)).save(root / name)
    return root, names


@pytest.fixture(scope="module")
def rows(photos):
    names = photos[1]
    return [
        row(0, names[0], "cat"),
        row(1, names[1], "cat", round=None, rank=None, seconds=None),
        row(2, names[2], "=1+1", note="-5 or @home\nsecond line"),
        row(3, names[3], "dog", split="check", model_label="", model_prob=None, annotator="Bo, the 2nd"),
        row(4, names[4], "a/b", note="tab\there, cr\rthere"),
        row(5, names[5], "", status="unsure", note="quality"),
        row(6, names[6], "dog", split="check", note="'=quoted already"),
    ]


@pytest.fixture(scope="module")
def predicted(photos):
    return [Predicted(7 + i, photos[1][7 + i], "dog", 0.5 + i / 10) for i in range(5)]


@pytest.fixture(scope="module")
def images(photos):
    root, names = photos
    return {"file_of": lambda item: root / names[item]}


def arrays(photos):
    root, names = photos
    return {"file_of": lambda item: None, "pixels_of": lambda item: read_image(root / names[item])}


def labels_of(answers):
    return sorted((a.path, a.label, a.status) for a in answers)


# ---- labels.csv


def test_a_decision_counts_instead_of_the_majority():
    def given(path, label, **more):
        return LabelRow(path, label, "labelled" if label else "unsure", annotator="ann", **more)

    rows = [
        *(given("a", label, decided="dog", decided_by="bo") for label in ("cat", "cat", "dog")),
        *(given("b", label, decided="owl", decided_by="bo") for label in ("cat", "")),
        *(given("c", "cat", decided_by="bo") for _ in range(3)),
    ]
    settled, left_out = by_majority(rows)
    assert [(row.path, row.label, row.status, row.annotator) for row in settled] == [
        ("a", "dog", "labelled", "ann"),
        ("b", "owl", "labelled", "bo"),
    ]
    assert left_out == [("c", "unsure, as bo decided")]


def test_the_columns_are_those_of_the_specification(tmp_path, rows):
    write_labels_csv(tmp_path / "labels.csv", rows)
    assert (tmp_path / "labels.csv").read_text().splitlines()[0] == HEADER == ",".join(COLUMNS)


def test_labels_csv_comes_back_as_it_was(tmp_path, rows):
    write_labels_csv(tmp_path / "labels.csv", rows)
    assert read_answers(tmp_path / "labels.csv") == rows
    write_labels_csv(tmp_path / "again.csv", read_answers(tmp_path / "labels.csv"))
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "labels.csv").read_bytes()
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        assert [r["note"] for r in csv.DictReader(file)] == [r.note for r in rows]


NASTY = [
    "",
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\r\n",
    "'",
    '"',
    ",",
    ";",
    " ",
    "a",
    "é",
    "猫",
    "\ufeff",
    "\x00",
    "\x1f",
    "\u2028",
]


@pytest.mark.parametrize("safe", [False, True])
def test_any_text_comes_back_plain_or_safe(tmp_path, safe):
    rng = np.random.default_rng(0)

    def text():
        return "".join(rng.choice(NASTY, rng.integers(0, 5)))

    rows = [
        LabelRow(
            "p" + text() if i % 2 else text() + "p", text() + "c", annotator=text(), note=text(), seconds=rng.random()
        )
        for i in range(400)
    ]
    export("csv", tmp_path / "any.csv", rows, [r.label for r in rows], safe_cells=safe)
    assert read_answers(tmp_path / "any.csv") == rows
    export("jsonl", tmp_path / "any.jsonl", rows, [r.label for r in rows])
    assert read_answers(tmp_path / "any.jsonl") == read_answers(tmp_path / "any.csv")


def test_numbers_of_numpy_are_written_as_numbers(tmp_path):
    write_labels_csv(tmp_path / "l.csv", [LabelRow("a", "b", seconds=np.float32(0.5), round=np.int64(2))])
    assert "0.5,2," in (tmp_path / "l.csv").read_text()
    export("jsonl", tmp_path / "l.jsonl", [LabelRow("a", "b", seconds=np.float32(0.5), round=np.int64(2))], ["b"])
    assert json.loads((tmp_path / "l.jsonl").read_text())["seconds"] == 0.5


def test_columns_of_the_users_table_are_kept(tmp_path, rows):
    columns = {rows[0].path: {"camera": "left", "label": "old"}, rows[2].path: {"camera": "=right"}}
    write_labels_csv(tmp_path / "labels.csv", rows, columns)
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [r["camera"] for r in found][:3] == ["left", "", "=right"]
    assert found[0]["given_label"] == "old"
    assert read_answers(tmp_path / "labels.csv") == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        (HEADER + "\na,b,labelled\n", "line 2 has 3 fields"),
        (HEADER + "\na,b,labelled,,,,soon,,,,,,,,,,\n", "seconds, got 'soon'"),
        (HEADER + "\na,b,maybe,,,,,,,,,,,,,,\n", "status labelled or unsure"),
    ],
)
def test_a_labels_csv_that_is_none(tmp_path, text, said):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_answers(tmp_path / "labels.csv")


# ---- spreadsheets


def test_safe_cells_leave_no_formula(tmp_path, rows):
    export("csv", tmp_path / "safe.csv", rows, CLASSES, columns={rows[0].path: {"+col": "@x"}}, safe_cells=True)
    with (tmp_path / "safe.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert "'=1+1" in cells
    assert "'+col" in cells
    assert read_answers(tmp_path / "safe.csv") == rows
    assert labels_of(read_answers(tmp_path / "safe.csv")) == labels_of(rows)


def test_by_default_cells_are_guarded_where_one_would_be_a_formula(tmp_path, rows, images):
    tame = [row(0, "a.png", "cat", note="-0.5"), row(1, "b.png", "cat", note="+3e-2")]
    done = export("csv", tmp_path / "tame.csv", tame, CLASSES)
    export("csv", tmp_path / "raw.csv", tame, CLASSES, safe_cells=False)
    assert (tmp_path / "tame.csv").read_bytes() == (tmp_path / "raw.csv").read_bytes()
    assert done.notes == []
    for to, name in (("csv", "safe.csv"), ("imagefolder", "imagefolder/labels.csv"), ("hf", "hf/labels.csv")):
        done = export(to, tmp_path / name.removesuffix("/labels.csv"), rows, CLASSES, **images)
        with (tmp_path / name).open(newline="", encoding="utf-8") as file:
            assert not [cell for line in csv.reader(file) for cell in line if cell.startswith(("=", "@"))]
        assert "3 cells start like a formula, such as '=cmd.png'; they are prefixed with '" in done.notes[-1]
        assert "--no-safe-cells" in done.notes[-1]
        assert read_answers(tmp_path / name) == rows
    assert list((tmp_path / "hf").rglob("metadata.csv")) == []  # nothing would take the ' off again there
    export("csv", tmp_path / "raw.csv", rows, CLASSES, safe_cells=False, overwrite=True)
    assert ",=1+1," in (tmp_path / "raw.csv").read_text()


def test_plain_cells_that_look_guarded_stay(tmp_path):
    rows = [row(0, "'=x.png", "cat")]
    export("csv", tmp_path / "plain.csv", rows, CLASSES)
    assert read_answers(tmp_path / "plain.csv")[0].path == "'=x.png"


# ---- every format


@pytest.mark.parametrize("to", [to for to in FORMATS if to != "coco"])  # which import does not read
def test_what_goes_out_comes_in_again(tmp_path, to, rows, images):
    done = export(to, tmp_path / f"out.{to}", rows, CLASSES, **images)
    found = labels_of(read_answers(done.path))
    if to == "npz":  # which has no place for unsure
        assert found == labels_of(r for r in rows if r.status == "labelled")
    else:
        assert found == labels_of(rows)
    assert done.labels == 6
    assert done.pseudo == 0


@pytest.mark.parametrize("to", FORMATS)
def test_an_export_is_never_half_there(tmp_path, to, rows, images, monkeypatch):
    out = tmp_path / "out"

    def stop(*a, **k):
        raise KeyboardInterrupt

    for step in ("askless.run.out.export.os.replace", "askless.run.out.export.shutil.copyfile"):
        with monkeypatch.context() as patch:
            patch.setattr(step, stop)
            if to in ("imagefolder", "hf") or step.endswith("replace"):
                with pytest.raises(KeyboardInterrupt):
                    export(to, out, rows, CLASSES, **images)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", FORMATS)
def test_nothing_is_overwritten_unless_asked(tmp_path, to, rows, images):
    out = tmp_path / "out"
    export(to, out, rows[:2], CLASSES, **images)
    with pytest.raises(InputError, match="overwrite"):
        export(to, out, rows, CLASSES, **images)
    assert export(to, out, rows, CLASSES, overwrite=True, **images).labels == 6
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("to", ["imagefolder", "hf"])
def test_overwrite_deletes_only_what_export_wrote(tmp_path, to, rows, images):
    out = tmp_path / "holiday"
    out.mkdir()
    (out / "dear.txt").write_text("do not lose")
    with pytest.raises(InputError, match="delete it yourself"):
        export(to, out, rows, CLASSES, overwrite=True, **images)
    assert (out / "dear.txt").exists()


def test_a_failure_while_overwriting_leaves_the_old_export(tmp_path, rows, images, monkeypatch):
    out = tmp_path / "out"
    export("imagefolder", out, rows, CLASSES, **images)
    before = sorted(p.relative_to(out) for p in out.rglob("*"))
    real = os.replace

    def fail(a, b):
        if str(a).endswith(".part"):
            raise OSError("disk full")
        real(a, b)

    monkeypatch.setattr(exporting.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        export("imagefolder", out, rows[:1], CLASSES, overwrite=True, **images)
    assert sorted(p.relative_to(out) for p in out.rglob("*")) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_table_goes_into_a_folder_that_exists(tmp_path, rows, images):
    assert export("csv", tmp_path, rows, CLASSES).path == tmp_path / "labels.csv"
    assert export("coco", tmp_path, rows, CLASSES, **images).path == tmp_path / "labels.json"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"classes": ["cat"]}, "is missing"),
    ],
)
def test_what_export_refuses(tmp_path, rows, more, said):
    with pytest.raises(InputError, match=said):
        export(**({"to": "csv", "out": tmp_path / "out", "rows": rows, "classes": CLASSES} | more))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"to": "xlsx"}, "expected csv or jsonl or imagefolder"),
        ({"what": "all"}, "expected human or human"),
        ({"link": "soft"}, "expected copy or hard or sym"),
    ],
)
def test_options_that_export_does_not_know(tmp_path, rows, more, said):
    with pytest.raises(OptionError, match=said):
        export(**({"to": "csv", "out": tmp_path / "out", "rows": rows, "classes": CLASSES} | more))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("to", ["imagefolder", "hf", "npz", "coco"])
def test_images_without_a_label_are_no_export(tmp_path, to, rows, images):
    with pytest.raises(InputError, match="at least one labelled item"):
        export(to, tmp_path / "out", [r for r in rows if r.status == "unsure"], CLASSES, **images)


def test_two_annotators(tmp_path, photos, images):
    name = photos[1]
    rows = [
        *(row(0, name[0], label, annotator=who) for who, label in (("a", "cat"), ("b", "cat"))),
        *(row(1, name[1], label, annotator=who) for who, label in (("a", "cat"), ("b", "dog"))),
        *(row(2, name[2], label, annotator=who) for who, label in (("a", "cat"), ("b", "dog"), ("c", "dog"))),
        row(3, name[3], "dog"),
        row(3, name[3], "", status="unsure", annotator="b"),
        row(4, name[4], "dog", split="reserve"),
    ]
    done = export("imagefolder", tmp_path / "out", rows, CLASSES, **images)
    assert done.left_out == [
        (name[1], "the annotators disagree: cat, dog"),
        (name[3], "the annotators disagree: dog, unsure"),
    ]
    assert sorted(p.relative_to(done.path).as_posix() for p in done.path.rglob("*.png")) == [
        f"cat/{name[0]}", f"dog/{name[2]}", "dog/say %22hi%22.png"]  # fmt: skip
    assert len(read_answers(done.path)) == len(rows)


# ---- the model's labels


def test_pseudo_labels_have_columns_of_their_own(tmp_path, rows, predicted):
    done = export("csv", tmp_path / "l.csv", rows, CLASSES, predicted, what="human+model", min_prob=0.7)
    with done.path.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert done.pseudo == 3
    assert [r["pseudo_label"] for r in found] == [""] * 7 + ["dog"] * 3
    assert [r["label"] for r in found][7:] == [""] * 3
    assert {r["status"] for r in found[7:]} == {"pseudo"}
    assert min(float(r["pseudo_prob"]) for r in found[7:]) == 0.7
    assert read_answers(done.path) == rows
    assert labels_of(read_answers(done.path)) == labels_of(rows)
    done = export("jsonl", tmp_path / "l.jsonl", rows, CLASSES, predicted, what="human+model")
    assert labels_of(read_answers(done.path)) == labels_of(rows)


@pytest.mark.parametrize("to", FORMATS)
def test_pseudo_labels_never_mix_with_human_ones(tmp_path, to, rows, predicted, images):
    human = export(to, tmp_path / f"human.{to}", rows, CLASSES, predicted, **images)
    both = export(to, tmp_path / f"both.{to}", rows, CLASSES, predicted, what="human+model", **images)
    assert (human.pseudo, both.pseudo, both.labels) == (0, 5, human.labels)
    if to not in ("parquet", "coco"):
        assert labels_of(read_answers(both.path)) == labels_of(read_answers(human.path))


def test_folders_of_pseudo_labels(tmp_path, rows, predicted, images):
    out = export("imagefolder", tmp_path / "out", rows, CLASSES, predicted, what="human+model", **images).path
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == ["human", "pseudo"]
    assert len(list((out / "pseudo/dog").rglob("*.png"))) == 5
    (out / "labels.csv").unlink()
    assert "dog" not in {a.label for a in read_answers(out) if a.path.startswith("pseudo")}
    none = export(
        "imagefolder", tmp_path / "none", rows, CLASSES, predicted, what="human+model", min_prob=1, **images
    ).path
    assert [p.name for p in none.iterdir() if p.is_dir()] == ["human"]


# ---- imagefolder


def image_folder(root):
    """torchvision.datasets.ImageFolder in short: (file, class) of everything below each folder of the root."""
    suffixes = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    found = []
    for name in classes:
        here = [os.path.join(at, f) for at, _, files in sorted(os.walk(root / name)) for f in sorted(files)]
        here = [f for f in here if f.lower().endswith(suffixes)]
        assert here, "torchvision refuses empty classes"
        found += [(f, name) for f in here]
    return found


@pytest.mark.parametrize("link", ["copy", "hard", "sym"])
def test_imagefolder_has_the_same_counts(tmp_path, rows, images, photos, link):
    out = export("imagefolder", tmp_path / "out", rows, CLASSES, link=link, **images).path
    found = image_folder(out)
    assert sorted(c for _, c in found) == ["=1+1", "a%2Fb", "cat", "cat", "dog", "dog"]
    for file, _ in found:
        assert os.path.islink(file) == (link == "sym")
        assert (os.stat(file).st_nlink > 1) == (link == "hard") or link == "sym"
    assert (out / "cat/one/x.png").read_bytes() == (photos[0] / "one/x.png").read_bytes()
    assert (out / "cat/two/x.png").read_bytes() == (photos[0] / "two/x.png").read_bytes()
    assert (out / "classes.txt").read_text().splitlines() == CLASSES
    with (out / "labels.csv").open(newline="", encoding="utf-8") as file:
        names = {r["path"]: r["file_name"] for r in csv.DictReader(file)}
    assert names["one/x.png"] == "cat/one/x.png"
    assert names[photos[1][5]] == ""  # unsure


def test_the_data_folder_stays_as_it_is(tmp_path, rows, images, photos):
    before = {p: p.read_bytes() for p in photos[0].rglob("*") if p.is_file()}
    for link in ("sym", "hard"):
        export("imagefolder", tmp_path / "out", rows, CLASSES, link=link, overwrite=True, **images)
    export("imagefolder", tmp_path / "out", rows, CLASSES, overwrite=True, **images)
    assert {p: p.read_bytes() for p in photos[0].rglob("*") if p.is_file()} == before


def test_images_of_arrays_are_written_as_png(tmp_path, rows, photos):
    numbered = [LabelRow(str(r.item), r.label, r.status, r.split, item=r.item) for r in rows]
    out = export("imagefolder", tmp_path / "out", numbered, CLASSES, **arrays(photos)).path
    assert (out / "cat/0.png").exists()
    assert read_image(out / "cat/1.png")[0, 0].tolist() == [20, 100, 50]
    grey = export(
        "imagefolder", tmp_path / "grey", numbered, CLASSES, pixels_of=lambda i: np.full((4, 5, 1), 7, np.uint8)
    ).path
    assert image_size(grey / "cat/0.png") == (4, 5)


def test_names_that_collide_or_climb_stay_apart_and_inside(tmp_path, photos):
    paths = ["../x.png", "/x.png", "a/../x.png", "X.png", "./x.png", "..", "a\\x.png", "a/x.png"]
    rows = [row(i, path, "cat") for i, path in enumerate(paths)]
    done = export("imagefolder", tmp_path / "deep/out", rows, CLASSES, **arrays(photos))
    files = [p for p in (tmp_path / "deep").rglob("*.png")]
    assert len(files) == len(paths) == done.labels
    assert len({str(p).casefold() for p in files}) == len(paths)
    assert all((done.path / "cat") in p.parents for p in files)
    assert not list(tmp_path.glob("*.png"))


def test_an_image_that_is_gone_is_left_out_and_told(tmp_path, rows, photos):
    root, names = photos
    done = export(
        "imagefolder", tmp_path / "out", rows, CLASSES, file_of=lambda i: root / (names[i] if i else "no.png")
    )
    assert (names[0], "the file is missing") in done.left_out
    assert done.labels == 5
    done = export("coco", tmp_path / "c.json", rows, CLASSES, file_of=lambda i: root / (names[i] if i else "no.png"))
    assert done.labels == 5


def test_splits_in_folders_of_their_own(tmp_path, rows, images):
    out = export("imagefolder", tmp_path / "out", rows, CLASSES, by_split=True, **images).path
    assert [c for _, c in image_folder(out / "check")] == ["dog", "dog"]
    assert sorted({c for _, c in image_folder(out / "train")}) == ["=1+1", "a%2Fb", "cat"]
    (out / "labels.csv").unlink()
    assert sorted(a.label for a in read_answers(out)) == ["=1+1", "a%2Fb", "cat", "cat", "dog", "dog"]


def test_what_people_do_not_agree_on_is_unsorted(shapes, tmp_path):
    with shapes.start(tmp_path / "run", annotators=2) as run:
        same, differ = run.waiting()[:2]
        for who, label in (("ann", "red"), ("bo", "blue")):
            run.tell({same: "red", differ: label}, who)
        done = exporting.export_run(run, "imagefolder", tmp_path / "out", unsorted=True)
        assert done.left_out == []
        unsorted = {path.name for path in (tmp_path / "out" / "unsorted").rglob("*.png")}
        assert len(unsorted) == len(run.paths) - 1
        done = exporting.export_run(run, "imagefolder", tmp_path / "out", overwrite=True)
        assert done.left_out == [(differ, "the annotators disagree: blue, red")]


def test_folder_names_suit_every_file_system():
    names = [
        "",
        ".",
        "..",
        "a/b",
        "a\\b",
        "con",
        "COM1.x",
        "x ",
        " x",
        "x.",
        "tab\t",
        "é",
        "Straße",
        "STRASSE",
        "labels.csv",
    ]
    names += ["猫" * 100, "猫" * 100 + "x", "100%", "<script>"]
    found = folder_names(names)
    assert len({f.casefold() for f in found.values()}) == len(names)
    for folder in found.values():
        assert folder not in ("", ".", "..", "labels.csv")
        assert not set(folder) & set('/\\:*?"<>|\t')
        assert folder == folder.strip().rstrip(".")
        assert len(folder.encode()) < 255
    assert found["é"] == "é"


# ---- npz, parquet, hf, coco


def test_npz_holds_the_pixels_of_images_of_one_size(tmp_path, rows, predicted, images):
    done = export("npz", tmp_path / "l.npz", rows, CLASSES, predicted, what="human+model", **images)
    with np.load(done.path, allow_pickle=False) as file:
        assert file["X"].shape == (12, 6, 8, 3)
        assert file["X"].dtype == np.uint8
        assert file["y"].tolist() == [0, 0, 2, 1, 3, -1, 1] + [-1] * 5
        assert file["pseudo_y"].tolist() == [-1] * 7 + [1] * 5
        assert np.isnan(file["pseudo_prob"][:7]).all()
        assert file["ids"].tolist()[:7] == [r.path for r in rows]
        assert file["classes"].tolist() == CLASSES
        assert file["split"].tolist()[:4] == ["train", "train", "train", "check"]
    assert done.notes == []


def test_npz_without_pixels_says_why(tmp_path, rows, monkeypatch, images):
    sizes = export("npz", tmp_path / "a.npz", rows, CLASSES, pixels_of=lambda i: np.zeros((4, 4 + i, 3), np.uint8))
    assert "differ in size" in sizes.notes[0]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert "X" not in file.files
    monkeypatch.setattr(exporting, "LARGEST", 100)
    assert "too many" in export("npz", tmp_path / "b.npz", rows, CLASSES, **images).notes[0]


def test_parquet(tmp_path, rows, predicted):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = export("parquet", tmp_path / "l.parquet", rows, CLASSES, predicted, what="human+model").path
    table = parquet.read_table(path)
    assert table.column_names == [*COLUMNS, "pseudo_label", "pseudo_prob"]
    assert str(table.schema.field("seconds").type) == "double"
    assert str(table.schema.field("round").type) == "int64"
    found = [LabelRow(*(r[c] for c in COLUMNS)) for r in table.to_pylist() if r["status"] != "pseudo"]
    assert found == rows


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, rows, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("askless.run.out.label_table.import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'askless\[parquet\]'"):
        export("parquet", tmp_path / "l.parquet", rows, CLASSES)
    assert list(tmp_path.iterdir()) == []


def load_imagefolder(data_dir):
    """datasets.load_dataset("imagefolder", data_dir=...) in short: the files below each folder called train or test, with
    the metadata of that folder; all metadata files must have one set of columns."""
    splits = {}
    for split in ("train", "test"):
        files = sorted(p for p in data_dir.rglob("*") if split in p.relative_to(data_dir).parts[:-1] and p.is_file())
        metadata = [p for p in files if p.name in ("metadata.csv", "metadata.jsonl")]
        if not files:
            continue
        assert len(metadata) == 1
        if metadata[0].suffix == ".csv":
            with metadata[0].open(newline="", encoding="utf-8") as file:
                lines = list(csv.DictReader(file))
        else:
            lines = [json.loads(line) for line in metadata[0].read_text(encoding="utf-8").splitlines()]
        told = {metadata[0].parent / line["file_name"]: line for line in lines}
        assert set(told) == {p for p in files if p.suffix in (".png", ".jpg")}
        splits[split] = list(told.values())
    return splits


def test_hf(tmp_path, rows, predicted, images, photos):
    done = export("hf", tmp_path / "test/out", rows, CLASSES, predicted, what="human+model", **images)
    found = load_imagefolder(done.path)
    assert [line["label"] for line in found["train"]] == ["cat", "cat", "=1+1", "a/b"]
    assert [line["path"] for line in found["test"]] == [photos[1][3], photos[1][6]]
    assert list(found["train"][0]) == ["file_name", "label", "label_id", "path"]
    assert (done.path / "pseudo/metadata.jsonl").exists()  # =1+1 would be a formula in a .csv
    tame = [r for r in rows if r.label == "cat"][1:]
    assert (export("hf", tmp_path / "tame", tame, CLASSES, **images).path / "train/metadata.csv").exists()
    assert len(list((done.path / "pseudo").glob("*.png"))) == 5
    assert (done.labels, done.pseudo) == (6, 5)


@pytest.mark.parametrize("name", ["None", "NA", "007", "1e5", "true"])
def test_hf_classes_that_pandas_would_change(tmp_path, photos, images, name):
    done = export("hf", tmp_path / "out", [row(0, photos[1][0], name)], [name], **images)
    assert not list(done.path.rglob("metadata.csv"))
    assert load_imagefolder(done.path)["train"][0]["label"] == name


def test_coco(tmp_path, rows, predicted, images):
    path = export("coco", tmp_path / "l.json", rows, CLASSES, predicted, what="human+model", **images).path
    found = json.loads(path.read_text(encoding="utf-8"))
    names = {c["id"]: c["name"] for c in found["categories"]}
    files = {i["id"]: i["file_name"] for i in found["images"]}
    assert list(names.values()) == CLASSES
    assert {files[a["image_id"]]: names[a["category_id"]] for a in found["annotations"]} == {
        r.path: r.label for r in rows if r.status == "labelled"
    }
    assert (found["images"][0]["width"], found["images"][0]["height"]) == (8, 6)
    assert len(found["pseudo_annotations"]) == len(found["pseudo_images"]) == 5
    ids = [i["id"] for i in found["images"] + found["pseudo_images"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("to", ["imagefolder", "hf", "coco"])
def test_an_export_without_images_does_not_replace_an_earlier_one(tmp_path, to, rows, images, photos):
    out = tmp_path / "out"
    done = export(to, out, rows, CLASSES, **images)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    away = {"file_of": lambda item: tmp_path / "gone" / photos[1][item]}
    with pytest.raises(InputError, match=r"expected readable images, found none; .*Nothing was written"):
        export(to, out, rows, CLASSES, overwrite=True, **away)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
    assert export(to, out, rows, CLASSES, overwrite=True, **images).labels == done.labels
