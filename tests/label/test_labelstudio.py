"""Label Studio without a server: shapes that a real one gave (recorded/), and a run. The server's own tests are beside."""

import base64
import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from askless.base.errors import BusyError, InputError, OptionError
from askless.base.locks import held
from askless.cli import main
from askless.label.labelstudio import Client, Images, LabelStudioError, push, read_export, take_annotations, write_tasks
from askless.label.labelstudio.batch import batch, made_smaller
from askless.label.labelstudio.client import token_kind
from askless.label.labelstudio.tasks import (
    TEXT,
    Annotation,
    Asked,
    Control,
    Guess,
    annotations_in,
    chunks,
    config_xml,
    read_config,
    task,
    with_choices,
)
from askless.run import Run
from askless.run.pictures import JPEG, PNG, Picture, encoded
from askless.run.steps.worker import catch_up
from askless.run.store.answering import Given, answer, undo
from askless.run.store.asking import Desk, take
from askless.run.store.classes import all_classes, merge_class, rename_class
from askless.run.store.labels import agreed, train_labels
from askless.run.store.progress import progress_of
from askless.sources import UnreadableError

from ..log import replay, stored
from ..texts import reviews, truth_of, write_csv

RECORDED = Path(__file__).parent / "recorded"
LEGACY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def run(shapes, tmp_path):
    """A run whose first batch is chosen."""
    with shapes.start(tmp_path / "run") as run:
        catch_up(run)
        yield run


def said(path, name="red", uid="1", who="ann", version="2026-11-16T15:00:00.000Z", **more):
    return Annotation(path, "", uid, version, who, (name,), **more)


def answers(run):
    with run.store.look() as db:
        assert replay(db) == stored(db)  # the log alone gives the same answers
        rows = db.execute(
            "SELECT i.path, a.annotator, c.name FROM answer a JOIN item i ON i.id = a.item "
            "LEFT JOIN class c ON c.id = a.class ORDER BY a.seq, a.item"
        )
        return [tuple(row) for row in rows]


def events(run):
    with run.store.look() as db:
        return db.execute("SELECT count(*) FROM event").fetchone()[0]


# --- tasks and the configuration -----------------------------------------------------------------------------------------


def test_a_configuration_reads_back_and_takes_further_classes():
    names = ["cat", 'a "b" & <c>', "ünder"]
    control = read_config(config_xml(names))
    assert control == Control(choices=tuple(names))
    assert read_config(with_choices(config_xml(names), [*names, "owl"])).choices == (*names, "owl")


def test_a_configuration_of_the_users_own_is_used_as_it_is():
    xml = """<View><Text name="t" value="$t"/><Choices name="mood" toName="t"><Choice value="x"/></Choices>
    <Image name="img" value="$photo"/><Choices name="kind" toName="img" choice="multiple">
    <Choice value="cat" alias="c"/><Choice value="dog"/></Choices></View>"""
    control = read_config(xml)
    assert control == Control("kind", "img", "photo", ("c", "dog"), single=False)
    made = task("r", Asked(3, "a.png", 1, 2, Guess("dog", 0.75)), "data:,", "m", control)
    assert made["data"]["photo"] == "data:,"
    assert made["predictions"][0]["result"][0] == {
        **{"from_name": "kind", "to_name": "img", "type": "choices", "value": {"choices": ["dog"]}}
    }


@pytest.mark.parametrize("xml", ["<View", "<View/>", '<View><Image name="i" value="$i"/></View>'])
def test_a_configuration_without_choices_for_an_image_is_refused(xml):
    with pytest.raises(InputError, match="labelling configuration: expected"):
        read_config(xml)


def test_a_task_has_the_item_in_its_data_and_a_guess_only_where_there_is_one():
    made = task("run1", Asked(3, "a/b.png", 2, 1), "data:,x", "m", Control())
    known = {"askless_run": "run1", "askless_item": "a/b.png", "askless_round": 2, "askless_rank": 1}
    assert made == {"data": {"image": "data:,x", **known}, "meta": known}
    guess = task("run1", Asked(3, "a/b.png", 2, 1, Guess("cat", 0.5)), "data:,x", "m-2", Control())["predictions"]
    assert [(p["model_version"], p["score"]) for p in guess] == [("m-2", 0.5)]


def test_tasks_go_in_parts_that_keep_their_order():
    tasks = [{"data": {"image": "x" * size, "n": n}} for n, size in enumerate([10, 10, 5000, 10, 10])]
    parts = list(chunks(tasks, most_bytes=3000))
    assert [[each["data"]["n"] for each in part] for part in parts] == [[0, 1], [2], [3, 4]]
    assert [len(part) for part in chunks(tasks, most_bytes=10**9, most=2)] == [2, 2, 1]
    chinese = [{"data": {"text": "\u732b" * 100}}] * 4  # six bytes each, as they are sent
    assert [len(part) for part in chunks(chinese, most_bytes=1300)] == [2, 2]


# --- annotations, as a real server gave them -----------------------------------------------------------------------------


def test_an_export_and_the_servers_list_give_the_same_annotations():
    exported, foreign = read_export(RECORDED / "labelstudio_export.json")
    listed, _ = annotations_in(json.loads((RECORDED / "labelstudio_tasks.json").read_text())["tasks"], Control())
    assert exported == listed
    assert foreign == 0
    told = [(a.path, a.who, a.choices, a.cancelled, a.seconds) for a in exported]
    assert told == [
        ("0/red-00.png", "labelstudio user 1", ("red",), False, 3.25),
        ("2/blue-08.png", "labelstudio user 1", (), True, 1.5),
        ("0/green-00.png", "labelstudio user 1", ("blue",), False, 2.0),
        ("0/green-00.png", "labelstudio user 2", ("grey",), False, None),
    ]
    assert exported[0].at == "2026-11-16T15:48:00.318Z"
    assert len({a.request_id for a in exported}) == 4


def test_users_have_their_names_where_they_are_known():
    tasks = json.loads((RECORDED / "labelstudio_export.json").read_text())
    found, _ = annotations_in(tasks, names={1: "ann@example.com"})
    assert {a.who for a in found} == {"ann@example.com", "labelstudio user 2"}
    tasks[0]["annotations"][0]["completed_by"] = {"id": 1, "email": "bo@example.com"}
    assert annotations_in(tasks)[0][0].who == "bo@example.com"


def test_tasks_that_are_not_ours_are_counted():
    tasks = json.loads((RECORDED / "labelstudio_export.json").read_text())
    for each in tasks[:2]:
        each["data"], each["meta"] = {"image": "x"}, {}
    found, foreign = annotations_in(tasks)
    assert (len(found), foreign) == (2, 2)


@pytest.mark.parametrize("content", ["", "{", "{}", "[1]", '[{"image": "x", "label": "cat", "annotator": 1}]'])
def test_another_file_is_no_export(tmp_path, content):
    (tmp_path / "export.json").write_text(content)
    with pytest.raises(InputError, match="Label Studio's JSON export"):
        read_export(tmp_path / "export.json")


def test_an_export_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match="found nothing there"):
        read_export(tmp_path / "nowhere.json")


# --- the batch -----------------------------------------------------------------------------------------------------------


def test_the_batch_is_in_rank_order_with_its_share_of_check_images(run):
    asked = batch(run)
    waiting = run.waiting()
    with run.store.look() as db:
        kinds = dict(db.execute("SELECT i.path, t.kind FROM task t JOIN item i ON i.id = t.item"))
    chosen = [a.path for a in asked if kinds[a.path] == "train"]
    assert chosen == [path for path in waiting if kinds[path] == "train"]
    assert [a.rank for a in asked] == list(range(1, len(asked) + 1))
    assert sum(kinds[a.path] == "check" for a in asked) == 2  # 6 of 18 chosen are out, and so 2 of the 6 check images
    assert asked[-1].path in chosen
    assert asked[0].path in chosen


def test_what_is_there_is_not_asked_again_and_counts(run):
    asked = [a.path for a in batch(run)]
    assert batch(run, frozenset(asked)) == []
    assert [a.path for a in batch(run, frozenset(asked[:3]))] == asked[3:]


def test_check_images_never_have_a_guess_and_chosen_ones_have(run, shapes):
    take_annotations(run, [said(a.path, shapes.truth[a.path], uid=a.path) for a in batch(run)])
    catch_up(run)
    with run.store.look() as db:
        check = {r[0] for r in db.execute("SELECT item FROM task WHERE kind = 'check'")}
    asked = batch(run)
    assert {a.item in check for a in asked} == {True, False}
    for a in asked:
        assert (a.guess is None) == (a.item in check)


def test_a_large_picture_is_made_smaller_until_it_fits():
    pixels = np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)
    picture = encoded(Image.fromarray(pixels), PNG)
    small = made_smaller(picture, 20_000)
    assert len(small.content) <= 20_000
    with Image.open(BytesIO(small.content)) as image:
        assert (image.format, image.width > image.height) == ("JPEG", True)
    assert made_smaller(picture, 10**6) is picture
    with pytest.raises(UnreadableError, match="raise --largest"):
        made_smaller(Picture(encoded(Image.fromarray(pixels[:30, :30]), JPEG).content, JPEG), 100)


# --- answers into a run --------------------------------------------------------------------------------------------------


def test_answers_are_taken_once_with_their_time_and_seconds(run):
    path = batch(run)[0].path
    one = said(path, at="2026-01-02T03:04:05.678Z", seconds=2.5)
    taken = take_annotations(run, [one])
    assert (taken.new, taken.known, taken.unasked) == (1, 0, 0)
    before = events(run)
    again = take_annotations(run, [one])
    assert (again.new, again.known, events(run)) == (0, 1, before)
    assert answers(run) == [(path, "ann", "red")]
    with run.store.look() as db:
        assert tuple(db.execute("SELECT at, seconds FROM answer").fetchone()) == ("2026-01-02T03:04:05.678Z", 2.5)
        assert progress_of(db).spent == 1


def test_cancelled_is_skipped_and_can_be_answered_later(run):
    path = batch(run)[0].path
    skipped = Annotation(path, "", "1", "v1", "ann", cancelled=True)
    assert take_annotations(run, [skipped]).skipped == 1
    assert take_annotations(run, [skipped]).skipped == 0
    assert answers(run) == []
    with run.store.look() as db:
        assert db.execute("SELECT sum(skips) FROM task").fetchone()[0] == 1
        assert db.execute("SELECT count(*) FROM lease").fetchone()[0] == 0
    assert take_annotations(run, [said(path, version="v2")]).new == 1
    assert take_annotations(run, [Annotation(path, "", "9", "v1", "bo", cancelled=True)]).known == 1


def test_a_changed_annotation_changes_the_answer(run):
    path = batch(run)[0].path
    take_annotations(run, [said(path)])
    assert take_annotations(run, [said(path, "blue", version="v2")]).changed == 1
    assert answers(run) == [(path, "ann", "blue")]
    assert take_annotations(run, [said(path, "blue", version="v3")]).known == 1  # touched there, but the same


def test_what_was_changed_here_is_not_changed_back_by_a_repeated_pull(run):
    path = batch(run)[0].path
    take_annotations(run, [said(path)])
    item = run.paths.index(path)
    with run.store.change() as db:
        answer(db, Desk("ann", "tab"), "changed-here", [item], Given(label=3), overlap=1, change=True)
    assert take_annotations(run, [said(path)]).known == 1
    assert answers(run) == [(path, "ann", "grey")]
    with run.store.change() as db:
        undo(db, Desk("ann", "tab"), "undo-1", overlap=1)
        undo(db, Desk("ann", "tab"), "undo-2", overlap=1)
    assert take_annotations(run, [said(path)]).known == 1
    assert answers(run) == []


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("second", ["bo", "ann"])
def test_annotations_that_disagree_go_to_review_and_are_not_trained_on(run, at_once, second):
    """Of two people, or twice of one; in one pull or in two."""
    path, other = (a.path for a in batch(run)[:2])
    given = [said(path, "red"), said(path, "blue", uid="2", who=second), said(other, "red", uid="3")]
    taken = take_annotations(run, given[:1] + given[2:])
    assert taken.disagree == []
    taken = take_annotations(run, given if at_once else given[1:2])
    assert taken.disagree == [path]
    second = "bo" if second == "bo" else "ann #2"
    assert answers(run) == [(path, "ann", "red"), (other, "ann", "red"), (path, second, "blue")]
    with run.store.look() as db:
        assert [run.paths[a.item] for a in agreed(db) if a.conflict] == [path]
        assert run.paths.index(path) not in train_labels(db)
        assert progress_of(db).spent == 2
    before = events(run)
    take_annotations(run, given)
    assert events(run) == before


def test_annotations_that_agree_are_no_trouble(run):
    path = batch(run)[0].path
    taken = take_annotations(run, [said(path), said(path, uid="2"), said(path, uid="3", who="bo")])
    assert (taken.new, taken.known, taken.disagree) == (2, 1, [])
    assert answers(run) == [(path, "ann", "red"), (path, "bo", "red")]


def test_an_answer_given_on_the_page_stays_and_may_be_contradicted(run):
    path = batch(run)[0].path
    run.tell({path: "grey"}, "page")
    assert take_annotations(run, [said(path)]).disagree == [path]
    assert answers(run) == [(path, "page", "grey"), (path, "ann", "red")]


def test_unknown_classes_are_named_and_nothing_is_taken(run):
    first, second = (a.path for a in batch(run)[:2])
    given = [said(first), said(second, "owl", uid="2"), said(second, "elk", uid="3", who="bo")]
    before = events(run)
    with pytest.raises(
        InputError, match=r"classes that the run lacks: owl, elk; its classes are red, green, blue, grey.*--add-classes"
    ):
        take_annotations(run, given)
    assert (answers(run), events(run)) == ([], before)
    taken = take_annotations(run, given, add_classes=True)
    assert taken.added_classes == ["owl", "elk"]
    assert taken.disagree == [second]
    with run.store.look() as db:
        assert [c.name for c in all_classes(db)][4:] == ["owl", "elk"]


def test_classes_are_known_by_the_names_they_had(run):
    first, second, third = (a.path for a in batch(run)[:3])
    with run.store.change() as db:
        rename_class(db, "r1", "ann", 0, "crimson")
        merge_class(db, "r2", "ann", 2, 3)
    given = [said(first, "RED"), said(second, "blue", uid="2"), said(third, "crimson", uid="3")]
    assert take_annotations(run, given).new == 3
    assert answers(run) == [(first, "ann", "crimson"), (second, "ann", "grey"), (third, "ann", "crimson")]


def test_items_that_are_not_asked_are_knowledge_that_costs_nothing(run):
    with run.store.look() as db:
        path = db.execute(
            "SELECT path FROM item WHERE split = 'pool' AND id NOT IN (SELECT item FROM task)"
        ).fetchone()[0]
    taken = take_annotations(run, [said(path), said("nowhere.png", uid="2")])
    assert (taken.new, taken.unasked, taken.left_out) == (1, 1, [("nowhere.png", "not an item of the run")])
    with run.store.look() as db:
        assert progress_of(db).spent == 0
        assert len(train_labels(db)) == 1
    assert take_annotations(run, [said(path)]).known == 1


def test_annotations_with_several_classes_or_none_are_told(run):
    path = batch(run)[0].path
    given = [Annotation(path, "", str(i), "v", "ann", chosen) for i, chosen in enumerate([("red", "blue"), ()])]
    assert [text for _, text in take_annotations(run, given).left_out] == [
        "expected one class, ann chose red and blue",
        "expected one class, ann chose nothing",
    ]


def test_an_answer_that_is_cancelled_afterwards_stays_and_is_told(shapes, tmp_path):
    with shapes.start(tmp_path / "run", annotators=2) as run:
        catch_up(run)
        path = batch(run)[0].path
        take_annotations(run, [said(path)])
        taken = take_annotations(run, [Annotation(path, "", "1", "v2", "ann", cancelled=True)])
        assert taken.left_out[0][0] == path
        assert answers(run) == [(path, "ann", "red")]
        assert take_annotations(run, [said(path, "blue", uid="2", who="bo")]).disagree == [path]
        with run.store.look() as db:
            assert progress_of(db).spent == 1  # two answers were wanted, and have come


def test_whether_the_guess_was_seen_is_kept(run, shapes):
    take_annotations(run, [said(a.path, shapes.truth[a.path], uid=a.path) for a in batch(run)])
    catch_up(run)
    first, second = [a for a in batch(run) if a.guess is not None][:2]
    take_annotations(run, [said(first.path, uid="x", prefilled=True), said(second.path, uid="y")])
    with run.store.look() as db:
        query = "SELECT suggestion_shown, suggestion, suggestion_prob FROM answer WHERE item = ?"
        seen, unseen = (tuple(db.execute(query, (a.item,)).fetchone()) for a in (first, second))
        names = [c.name for c in all_classes(db)]
    assert (seen[0], names[seen[1]], unseen[0]) == ("prefill", first.guess.label, "none")
    assert seen[2] == pytest.approx(first.guess.prob, abs=1e-4)


def test_a_lease_of_the_page_is_no_obstacle(run):
    path = batch(run)[0].path
    with run.store.change() as db:
        take(db, Desk("page", "tab"), [run.paths.index(path)])
    assert take_annotations(run, [said(path)]).new == 1


# --- files, on the command line ------------------------------------------------------------------------------------------


def call(capsys, *arguments):
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def labelled(tasks, truth, first):
    """The tasks as Label Studio would export them once they are annotated."""
    exported = []
    for number, each in enumerate(tasks, first):
        region = {"from_name": "label", "to_name": "image", "type": "choices"}
        at = f"2026-11-16T15:{number // 60:02d}:{number % 60:02d}.000000Z"
        annotation = {
            **{
                "id": number,
                "completed_by": 1,
                "was_cancelled": False,
                "created_at": at,
                "updated_at": at,
                "lead_time": 1.0,
            },
            "result": [{**region, "value": {"choices": [truth[each["data"]["askless_item"]]]}}],
        }
        exported.append({"id": number, "annotations": [annotation], "data": each["data"], "meta": each["meta"]})
    return exported


def test_the_file_route_from_start_to_report(shapes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = "--classes red,green,blue,grey --budget 24 --check 0.25 --batch 9 --net frozen:raw --size 32 --steps 40"
    options += " --suggestions prefill"
    start = ("start", shapes.folder, "--out", "run", *options.split(), "--learner", "supervised", "--no-page")
    assert call(capsys, *start)[0] == 0
    for number in (1, 2):
        code, said_, _ = call(capsys, "export", "run", "--to", "labelstudio", "--out", f"tasks{number}.json")
        assert (code, f"12 tasks: tasks{number}.json" in said_) == (0, True)
        tasks = json.loads(Path(f"tasks{number}.json").read_text())
        assert [each["data"]["askless_rank"] for each in tasks] == list(range(1, 13))
        versions = {p["model_version"] for each in tasks for p in each.get("predictions", [])}
        assert [v.endswith(f"-round-{number:03d}") for v in versions] == [True] * (number - 1)
        head, _, content = tasks[0]["data"]["image"].partition(",")
        assert head == "data:image/png;base64"
        with Image.open(BytesIO(base64.b64decode(content))) as image:
            assert image.size == (32, 32)
        assert read_config(Path(f"tasks{number}.xml").read_text()).choices == ("red", "green", "blue", "grey")
        Path("export.json").write_text(json.dumps(labelled(tasks, shapes.truth, 100 * number)))
        code, said_, _ = call(capsys, "import", "run", "--from", "labelstudio", "export.json")
        assert (code, said_.splitlines()[0]) == (0, "12 labels imported, 0 changed, 0 skipped, 0 known before")
        assert "0 labels imported" in call(capsys, "import", "run", "--from", "labelstudio", "export.json")[1]
        assert call(capsys, "start", "run", "--no-page")[0] == 0
    assert call(capsys, "report", "run", "--no-browser")[0] == 0
    assert json.loads(Path("run/report.json").read_text())["labels"]["spent"] == 24
    code, _, problem = call(capsys, "export", "run", "--to", "labelstudio", "--out", "tasks3.json")
    assert (code, "because the budget of 24 is used; raise it on the page (`askless start run`)" in problem) == (
        3,
        True,
    )


def test_texts_go_by_files_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = [*reviews(60), ('<b>lovely & great</b>\n\n"quoted" \u00fc', "pos")]
    write_csv(Path("reviews.csv"), ["review", "secret"], [[text, "by Ann"] for text, _ in made])
    options = (
        "--text review --classes pos,neg --budget 16 --check 0 --batch 8 --steps 20 --learner supervised --no-page"
    )
    assert call(capsys, "start", "reviews.csv", "--out", "run", *options.split())[0] == 0
    with Run.open("run") as run:
        texts = dict(zip(run.paths, run.texts().values(), strict=True))
    for number in (1, 2):
        assert call(capsys, "export", "run", "--to", "labelstudio", "--out", f"tasks{number}.json")[0] == 0
        tasks = json.loads(Path(f"tasks{number}.json").read_text())
        assert [each["data"]["text"] for each in tasks] == [texts[each["data"]["askless_item"]] for each in tasks]
        assert "by Ann" not in json.dumps(tasks)
        assert not any("predictions" in each for each in tasks)  # as the run was not told to show them
        config = Path(f"tasks{number}.xml").read_text()
        assert read_config(config, "Text") == replace(TEXT, choices=("pos", "neg"))
        with pytest.raises(InputError, match="expected <Image>"):
            read_config(config)
        truth = {path: truth_of(text) for path, text in texts.items()}
        Path("export.json").write_text(json.dumps(labelled(tasks, truth, 100 * number)))
        said_ = call(capsys, "import", "run", "--from", "labelstudio", "export.json")[1]
        assert said_.splitlines()[0] == "8 labels imported, 0 changed, 0 skipped, 0 known before"
        assert call(capsys, "start", "run", "--no-page")[0] == 0
    with Run.open("run") as run:
        assert run.is_finished()
    words = ("export", "run", "--to", "labelstudio", "--out", "t.json", "--images", "local-files", "--root", tmp_path)
    assert call(capsys, *words)[0] == 3


def test_answers_to_another_run_are_left_out(run, shapes, tmp_path):
    """Its items may have the same names: rows of texts without an id are called 1, 2, 3."""
    path = run.waiting()[0]
    other = replace(said(path), run="another")
    taken = take_annotations(run, [other])
    assert (taken.new, taken.left_out) == (0, [(path, "asked by another run")])
    assert answers(run) == []
    assert take_annotations(run, [replace(other, run=run.meta("run"))]).new == 1


def test_files_are_not_replaced_unless_told(run, tmp_path):
    write_tasks(run, tmp_path / "a.json")
    with pytest.raises(InputError, match="--overwrite"):
        write_tasks(run, tmp_path / "a.json")
    assert write_tasks(run, tmp_path / "a.json", overwrite=True)[0] == len(batch(run))
    with pytest.raises(InputError, match=r"ends in \.json"):
        write_tasks(run, tmp_path / "a.txt")
    with pytest.raises(OptionError, match="go together"):
        Images("local-files")
    with pytest.raises(OptionError, match="inline or local-files"):
        Images("upload")


def test_local_files_are_addressed_below_the_servers_root(run, shapes, tmp_path):
    write_tasks(run, tmp_path / "a.json", Images("local-files", shapes.folder.parent))
    tasks = json.loads((tmp_path / "a.json").read_text())
    assert tasks[0]["data"]["image"] == f"/data/local-files/?d={shapes.folder.name}/{tasks[0]['data']['askless_item']}"
    with pytest.raises(InputError, match="expected a folder above the images"):
        write_tasks(run, tmp_path / "b.json", Images("local-files", tmp_path / "elsewhere"))


def test_a_run_on_numbers_has_nothing_to_show(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32))
    run = Run.create(tmp_path / "rows.npz", tmp_path / "run", classes=("a", "b"), budget=10)
    with run, pytest.raises(InputError, match="rows of numbers"):
        write_tasks(run, tmp_path / "a.json")


def test_import_knows_one_other_source_only(run, tmp_path, capsys):
    assert call(capsys, "import", run.folder, "--from", "elsewhere", tmp_path / "x")[0] == 2


def test_catching_up_leaves_a_served_run_to_its_worker(run):
    with held(run.folder / ".worker.lock", "busy"), pytest.raises(BusyError, match="is being served"):
        catch_up(run)


# --- the client, against a server that misbehaves ------------------------------------------------------------------------


def jwt(**claims):
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    return ".".join([*parts, "signature"])


def test_the_kind_of_a_token_shows_in_its_shape():
    assert token_kind(LEGACY) == "legacy"
    assert token_kind("a.b.c") == "legacy"
    assert token_kind(jwt(token_type="refresh")) == "refresh"
    assert token_kind(jwt(token_type="access")) == "access"


@pytest.mark.parametrize(
    ("url", "token"), [("localhost:8080", "x"), ("ftp://a", "x"), ("http://a", " "), ("http://a", "a b")]
)
def test_an_address_or_token_that_cannot_be_one_is_refused(url, token):
    with pytest.raises(InputError, match="expected"):
        Client(url, token)


class HalfMended:
    """A server that makes projects and refuses tasks at first."""

    url = "http://127.0.0.1:1"

    def __init__(self):
        self.projects, self.tasks, self.mended = [], [], False

    def get(self, path):
        return next(p for p in self.projects if path == f"/api/projects/{p['id']}")

    def pages(self, path, *_, **asked):
        return [p for p in self.projects if p["title"] == asked["title"]] if path == "/api/projects" else []

    def post(self, path, body):
        if path == "/api/projects":
            self.projects.append({**body, "id": 7 + len(self.projects)})
            return self.projects[-1]
        if not self.mended:
            raise LabelStudioError("the disk is full", 500)
        self.tasks += body


def test_a_push_that_failed_in_a_new_project_goes_on_there(run):
    server = HalfMended()
    with pytest.raises(LabelStudioError, match="the disk is full"):
        push(run, server)
    server.mended = True
    pushed = push(run, server)
    assert (pushed.project, pushed.new, len(server.projects)) == (7, len(server.tasks), 1)


@pytest.fixture
def server():
    """`server(answer)`: the address of a server for which answer(method, path, headers) gives status, headers, content."""
    begun = []

    def start(answer):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, content = answer(self.command, self.path, self.headers)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = do_GET

            def log_message(self, *_):
                pass

        made = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        begun.append(made)
        return f"http://127.0.0.1:{made.server_port}"

    yield start
    for made in begun:
        made.shutdown()
        made.server_close()


JSON = {"Content-Type": "application/json"}


def test_an_access_token_is_renewed_when_it_ends_or_is_refused(server):
    """One that is about to end before it is used; one that the server does not take any more after the refusal."""
    made, refused = [], []

    def answer(method, path, headers):
        if path == "/api/token/refresh":
            assert "Authorization" not in headers
            made.append(jwt(token_type="access", exp=time.time() + (1 if len(made) == 0 else 300), n=len(made)))
            return 200, JSON, json.dumps({"access": made[-1]}).encode()
        if len(made) == 2 and not refused:
            refused.append(headers["Authorization"])
            return 401, JSON, b"{}"
        assert headers["Authorization"] == f"Bearer {made[-1]}"
        return 200, JSON, b'{"ok": 1}'

    client = Client(server(answer), jwt(token_type="refresh"))
    assert client.get("/api/x") == {"ok": 1}
    assert len(made) == 1
    assert client.get("/api/x") == {"ok": 1}
    assert (len(made), len(refused)) == (3, 1)
    client.get("/api/x")
    assert len(made) == 3


@pytest.mark.parametrize(
    ("status", "headers", "content", "words"),
    [
        (
            302,
            {"Location": "https://elsewhere.example/"},
            b"",
            "redirects to https://elsewhere.example/; pass that address",
        ),
        (401, JSON, b"{}", "refuses the token"),
        (403, JSON, b"{}", "may not GET here"),
        (413, {}, b"", "lower --largest"),
        (500, {}, b"<h1>oops</h1>", "answered 500: <h1>oops"),
        (200, {"Content-Type": "text/html"}, b"<html>", "check that --url is Label Studio"),
    ],
)
def test_what_a_server_refuses_is_told_with_what_to_do(server, status, headers, content, words):
    calls = []

    def answer(method, path, given):
        calls.append(path)
        return status, headers, content

    with pytest.raises(LabelStudioError, match=words) as problem:
        Client(server(answer), LEGACY).get("/api/projects")
    assert LEGACY not in str(problem.value)
    assert len(calls) == 1  # a redirect was not followed with the token


def test_another_server_is_told_from_label_studio(server):
    with pytest.raises(LabelStudioError, match="expected Label Studio, got another server"):
        Client(server(lambda *_: (200, {}, b"hello")), LEGACY).alive()


def test_a_server_that_is_gone_is_told_and_the_options_are_needed(run, capsys, monkeypatch):
    for name in ("LABEL_STUDIO_URL", "LABEL_STUDIO_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    code, _, problem = call(capsys, "labelstudio", "push", run.folder)
    assert (code, "LABEL_STUDIO_URL" in problem) == (2, True)
    code, _, problem = call(capsys, "labelstudio", "push", run.folder, "--url", "http://127.0.0.1:9")
    assert (code, "LABEL_STUDIO_API_KEY" in problem) == (2, True)
    for command in ("push", "pull"):
        code, _, problem = call(
            capsys, "labelstudio", command, run.folder, "--url", "http://127.0.0.1:9", "--token", "x"
        )
        assert (code, "does not answer" in problem) == (3, True)
