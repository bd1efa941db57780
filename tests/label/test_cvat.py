"""CVAT without a server: the files of a task as its documentation asks for them, and exports as it writes them."""

import json
import zipfile
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from askless.base.errors import InputError, OptionError
from askless.cli import main
from askless.label.cvat import read_tags, write_task
from askless.label.labelstudio.batch import batch
from askless.run import Run
from askless.run.steps.worker import catch_up

from ..texts import reviews, write_csv


@pytest.fixture
def run(shapes, tmp_path):
    """A run whose first batch is chosen."""
    with shapes.start(tmp_path / "run", batch=8) as run:
        catch_up(run)
        yield run


def export_of(tags, more=""):
    """What CVAT writes, by its documentation: image -> the tags it has."""
    lines = [
        f'<image id="{i}" name="{name}" width="32" height="32">'
        + "".join(f'<tag label="{label}" source="{source}"></tag>' for label, source in found)
        + more
        + "</image>"
        for i, (name, found) in enumerate(tags.items())
    ]
    head = (
        "<version>1.1</version><meta><task><id>4</id><labels><label><name>red</name></label></labels></task>"
        "<dumped>2026-11-16 11:38:28.799808+03:00</dumped></meta>"
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n<annotations>{head}{"".join(lines)}</annotations>\n'


def write_zip(path, xml, name="annotations.xml"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images/x.png", b"")
        archive.writestr(name, xml)
    return path


def call(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def answers(run):
    with run.store.look() as db:
        rows = db.execute(
            "SELECT i.path, c.name FROM answer a JOIN item i ON i.id = a.item LEFT JOIN class c ON c.id = a.class"
        )
        return dict(tuple(row) for row in rows)


# --- a task ----------------------------------------------------------------------------------------------------------


def test_a_task_has_the_batch_in_rank_order_and_the_classes_as_tags(run, shapes, tmp_path):
    out = tmp_path / "task"
    written = write_task(run, out)
    asked = [each.path for each in batch(run)]
    assert (written.images, written.notes) == (len(asked), [])
    assert sorted(path.name for path in out.iterdir()) == ["images.zip", "labels.json", "manifest.jsonl"]
    version, kind, *rows = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert (version, kind) == ({"version": "1.1"}, {"type": "images"})
    assert [row["name"] + row["extension"] for row in rows] == asked
    assert {(row["width"], row["height"]) for row in rows} == {(32, 32)}
    with zipfile.ZipFile(out / "images.zip") as archive:
        assert archive.namelist() == asked
        assert archive.read(asked[0]) == (shapes.folder / asked[0]).read_bytes()
    labels = json.loads((out / "labels.json").read_text())
    assert [(each["name"], each["type"]) for each in labels] == [(n, "tag") for n in ("red", "green", "blue", "grey")]


def test_only_an_earlier_task_is_replaced(run, tmp_path):
    out = tmp_path / "task"
    write_task(run, out)
    with pytest.raises(OptionError, match="--overwrite"):
        write_task(run, out)
    assert write_task(run, out, overwrite=True).images == len(batch(run))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="other files"):
        write_task(run, tmp_path / "mine", overwrite=True)


def test_an_image_that_is_gone_is_left_out_with_a_note(draw_own, tmp_path):
    shapes = draw_own()
    with shapes.start(tmp_path / "run") as run:
        catch_up(run)
        first, second, *rest = [each.path for each in batch(run)]
        (shapes.folder / first).unlink()
        (shapes.folder / second).write_bytes(b"no image")
        written = write_task(run, tmp_path / "task")
    assert [path for path, _ in written.notes] == [first, second]
    rows = (tmp_path / "task" / "manifest.jsonl").read_text().splitlines()[2:]
    assert [json.loads(row)["name"] + ".png" for row in rows] == rest
    with zipfile.ZipFile(tmp_path / "task" / "images.zip") as archive:
        assert archive.namelist() == rest


def test_rows_of_an_array_go_as_images_and_their_tags_come_back(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (30, 12, 12, 3), dtype=np.uint8)
    np.savez(tmp_path / "rows.npz", X=x)
    options = {"classes": ("a", "b"), "budget": 6, "check": 0.0, "batch": 4, "net": "frozen:raw", "size": 12}
    with Run.create(tmp_path / "rows.npz", tmp_path / "run", **options) as run:
        catch_up(run)
        write_task(run, tmp_path / "task")
        asked = [each.path for each in batch(run)]
        with zipfile.ZipFile(tmp_path / "task" / "images.zip") as archive:
            names = archive.namelist()
            first = np.asarray(Image.open(BytesIO(archive.read(names[0]))))
        assert names == [f"{path}.png" for path in asked]
        assert (first == x[run.paths.index(asked[0])]).all()
        (tmp_path / "back.xml").write_text(export_of({name: [("a", "manual")] for name in names}))
        rows, _ = read_tags(tmp_path / "back.xml", run)
        assert [row.path for row in rows] == asked


def test_texts_are_no_images(tmp_path):
    table = write_csv(tmp_path / "reviews.csv", ["review"], [[text] for text, _ in reviews(20)])
    with (
        Run.create(table, tmp_path / "run", text="review", classes=("pos", "neg"), budget=4) as run,
        pytest.raises(InputError, match="CVAT shows images"),
    ):
        write_task(run, tmp_path / "task")


# --- its tags --------------------------------------------------------------------------------------------------------


def test_tags_become_labels_from_xml_and_from_the_whole_export(run, shapes, tmp_path, capsys):
    asked = [each.path for each in batch(run)]
    xml = export_of({path: [(shapes.truth[path], "manual")] for path in asked})
    (tmp_path / "annotations.xml").write_text(xml)
    code, said, _ = call(capsys, "import", run.folder, tmp_path / "annotations.xml", "--from", "cvat")
    assert (code, f"{len(asked)} labels imported" in said) == (0, True)
    assert answers(run) == {path: shapes.truth[path] for path in asked}
    assert run.waiting() == [path for path in run.waiting() if path not in asked]
    code, said, _ = call(capsys, "import", run.folder, write_zip(tmp_path / "whole.zip", xml), "--from", "cvat")
    assert (code, f"0 labels imported, {len(asked)} known before" in " ".join(said.split())) == (0, True)


def test_only_tags_of_people_count_and_one_for_each_image(run, tmp_path):
    tags = {
        "0/red-00.png": [("red", "manual")],
        "0/green-00.png": [("green", "manual"), ("green", "file"), ("blue", "auto")],
        "0/blue-00.png": [("blue", "manual"), ("red", "manual")],
        "0/grey-00.png": [("grey", "auto")],
        "0/grey-03.png": [],
    }
    (tmp_path / "annotations.xml").write_text(export_of(tags, more='<box label="red" xtl="0"><tag label="x"/></box>'))
    rows, notes = read_tags(tmp_path / "annotations.xml", run)
    assert [(row.path, row.label) for row in rows] == [("0/red-00.png", "red"), ("0/green-00.png", "green")]
    assert [(path, text.partition("got ")[2]) for path, text in notes] == [
        ("0/blue-00.png", "blue and red"),
        ("0/grey-00.png", "those of a model alone"),
    ]


BOMB = '<!DOCTYPE annotations [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><annotations>&b;</annotations>'
OUTSIDE = '<!DOCTYPE annotations SYSTEM "file:///etc/passwd"><annotations/>'


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "got something else"),
        ("path,label\na.png,cat\n", "got something else"),
        ("<annotations><image name='a'>", "got something else"),
        ("<annotation><filename>a</filename></annotation>", "got XML of <annotation>"),
        (BOMB, "document type"),
        (OUTSIDE, "document type"),
        (
            export_of({"a.png": []}, more='<box label="cat"/><polygon label="cat"/>'),
            "got box, polygon; label each image",
        ),
        (export_of({}), "got none"),
    ],
)
def test_what_is_no_export_with_tags_is_refused(run, tmp_path, capsys, content, told):
    (tmp_path / "annotations.xml").write_text(content)
    with pytest.raises(InputError, match="expected") as problem:
        read_tags(tmp_path / "annotations.xml", run)
    assert told in str(problem.value)
    code, _, said = call(capsys, "import", run.folder, tmp_path / "annotations.xml", "--from", "cvat")
    assert (code, "Traceback" in said) == (3, False)
    assert answers(run) == {}


def test_archives_are_read_within_limits(run, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"without annotations\.xml"):
        read_tags(write_zip(tmp_path / "coco.zip", "{}", "instances.json"), run)
    with pytest.raises(InputError, match="nothing there"):
        read_tags(tmp_path / "nowhere.zip", run)
    monkeypatch.setenv("ASKLESS_MAX_BYTES", "1000")
    big = export_of({f"{i}.png": [("red", "manual")] for i in range(100)})
    with pytest.raises(InputError, match="ASKLESS_MAX_BYTES"):
        read_tags(write_zip(tmp_path / "big.zip", big), run)


def test_the_command_writes_a_task_and_says_what_to_do(run, tmp_path, capsys):
    code, said, _ = call(capsys, "export", run.folder, "--to", "cvat", "--out", tmp_path / "task")
    assert (code, "manifest.jsonl" in said) == (0, True)
    assert (tmp_path / "task" / "images.zip").is_file()
