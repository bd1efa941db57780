"""`askless start` and what goes with a run; the page itself is in tests/label."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from askless.base.locks import held
from askless.base.terminal import Screen
from askless.cli import doctor, main
from askless.label.web.serve import Address
from askless.run import Run

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 50, 220)}


def call(capsys, *arguments):
    """Exit code, standard output and standard error of the command line."""
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def labels_in(run):
    """The rows of a run's labels.csv."""
    return list(csv.DictReader((run / "labels.csv").read_text(encoding="utf-8").splitlines()))


def write_photos(folder, n=36, seed=0):
    """Noisy images of three colours; path -> class."""
    rng = np.random.default_rng(seed)
    truth = {}
    for i in range(n):
        name = list(COLOURS)[i % 3]
        pixels = np.clip(rng.normal(COLOURS[name], 25, (12, 12, 3)), 0, 255).astype(np.uint8)
        (folder / "a").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / "a" / f"{i:02d}.png")
        truth[f"a/{i:02d}.png"] = name
    return truth


def label_everything(truth, run):
    while not run.is_finished():
        while run.advance():
            pass
        run.tell({path: truth[path] for path in run.waiting()})


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of images, and a page on which everything is labelled at once."""
    monkeypatch.chdir(tmp_path)
    truth = write_photos(tmp_path / "photos")
    monkeypatch.setattr("askless.label.web.serve.serve", lambda run, **options: label_everything(truth, run))
    return truth


START = (
    "start",
    "photos",
    "--classes",
    "red,green,blue",
    "--budget",
    20,
    "--batch",
    8,
    "--net",
    "frozen:raw",
    "--steps",
    40,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run; tests that change it work on a copy."""
    folder = tmp_path_factory.mktemp("finished")
    truth = write_photos(folder / "photos")
    options = {"budget": 20, "batch": 8, "net": "frozen:raw", "steps": 40}
    run = Run.create(folder / "photos", folder / "run", classes=tuple(COLOURS), **options)
    label_everything(truth, run)
    run.close()
    return folder / "run"


def test_start_makes_a_run_says_the_plan_and_goes_on_next_time(photos, capsys):
    code, out, _ = call(capsys, *START)
    assert code == 0
    assert "36 images" in out
    assert "budget 20 = 16 chosen + 4 random check images · batch 8" in out
    assert "photos-run" in out
    code, out, _ = call(capsys, "start", "photos-run")
    assert code == 0
    assert "Resuming" in out
    assert len(labels_in(Path("photos-run"))) == 20
    code, out, _ = call(capsys, *START)  # the same command again goes on, too
    assert code == 0
    assert "Resuming" in out


def test_options_that_a_run_leaves_unused_are_named(photos, capsys):
    assert "not used" not in call(capsys, *START)[1]
    assert "not used" not in call(capsys, "start", "photos-run", "--no-browser", "--port", 0)[1]
    code, out, _ = call(capsys, "start", "photos", "--seed", 0, "--batch=5", "--labels-from-folders", "--keys", "cat=c")
    assert code == 0
    names = "--batch, --keys, --labels-from-folders"  # the seed is the run's
    assert f"photos-run resumes as it was started; {names} not used; pass --out for a new run" in out


def test_a_mistaken_start_does_not_stick_while_nothing_is_labelled(photos, capsys):
    begin = ("start", "photos", "--classes", "red", "--net", "frozen:raw", "--size", 32, "--no-page", "--budget")
    code, out, _ = call(capsys, *begin, 5)
    assert (code, "There is one class so far, red. A model needs at least two" in out) == (0, True)
    code, out, err = call(capsys, *begin, 6)
    assert (code, "with another --budget, and nothing is labelled in it yet; delete that folder" in err) == (2, True)
    assert call(capsys, *begin, 5)[0] == 0  # the same again
    path = next(Path("photos").rglob("*.png")).relative_to("photos")
    Path("one.csv").write_text(f"path,label\n{path},red\n")
    assert call(capsys, "import", "photos-run", "one.csv")[0] == 0
    code, out, _ = call(capsys, *begin, 6)
    assert (code, "resumes as it was started; --budget not used" in out) == (0, True)


def test_the_same_command_goes_on_whatever_its_options_become(photos, capsys):
    begin = ["start", "photos", "--classes", "red,green", "--keys", "red=r,green=g", "--track", "jsonl:told.jsonl"]
    begin += ["--net", "frozen:raw", "--size", 32, "--no-page"]
    assert call(capsys, *begin)[0] == 0
    code, out, err = call(capsys, *begin)  # keys are kept as a table, and paths in full
    assert (code, "Resuming" in out, err) == (0, True, "")
    begin[begin.index("red=r,green=g")] = "red=r,green=n"
    code, _, err = call(capsys, *begin)
    assert (code, "with another --keys, and nothing" in err) == (2, True)


def test_a_misspelt_class_is_not_added_unless_told(finished, tmp_path, capsys):
    path, label = next((row["path"], row["label"]) for row in labels_in(finished))
    (tmp_path / "typo.csv").write_text(f"path,label\n{path},{label}x\n")
    before = (finished / "labels.csv").read_bytes()
    code, _, err = call(capsys, "import", finished, tmp_path / "typo.csv", "--on-conflict", "replace")
    assert (code, f"got '{label}x' (1)" in err, "--add-classes" in err) == (3, True, True)
    assert (finished / "labels.csv").read_bytes() == before
    shutil.copytree(finished, tmp_path / "copy")
    words = ("--on-conflict", "replace", "--add-classes")
    assert call(capsys, "import", tmp_path / "copy", tmp_path / "typo.csv", *words)[0] == 0
    assert {row["path"]: row["label"] for row in labels_in(tmp_path / "copy")}[path] == f"{label}x"


def test_the_run_of_other_images_is_not_opened(photos, tmp_path, capsys):
    call(capsys, *START)
    write_photos(tmp_path / "b" / "photos")
    for more in ((), ("--out", "photos-run")):
        code, _, err = call(capsys, "start", "b/photos", *more)
        assert code == 3
        assert f"photos-run belongs to {tmp_path / 'photos'}; pass --out for another run" in err
    assert call(capsys, "start", tmp_path / "photos")[0] == 0
    assert call(capsys, "start", "b/photos", *START[2:], "--out", "b-run")[0] == 0


def test_a_run_of_this_folder_is_made_beside_it(photos, tmp_path, capsys, monkeypatch):
    for here in (tmp_path / "photos", tmp_path / "photos" / "a"):
        monkeypatch.chdir(here)
        assert call(capsys, "start", tmp_path / "photos", *START[2:])[0] == 0
    monkeypatch.chdir(tmp_path / "photos")
    assert "Resuming" in call(capsys, "start", ".")[1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos", "photos-run"]
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["a"]


def test_an_open_page_says_the_address_for_others(photos, capsys, monkeypatch):
    monkeypatch.setattr("askless.label.web.serve.socket.gethostname", lambda: "desk")
    monkeypatch.setattr(
        "askless.label.web.serve.serve", lambda run, host, ready, **options: ready(Address(host, 8347, "t"))
    )
    out = call(capsys, *START, "--host", "0.0.0.0", "--no-browser")[1]
    assert "Label here       http://127.0.0.1:8347/?token=t" in out
    assert "open to other computers" in out
    assert "http://desk:8347/?token=t" in out
    assert "Traffic is not encrypted: anyone on the network can read the token" in out
    assert "leave --host out and run `ssh -L 8347:127.0.0.1:8347 desk` on the other computer" in out
    events = [
        json.loads(line)
        for line in call(capsys, "start", "photos-run", "--host", "0.0.0.0", "--json")[1].split("\n")[:-1]
    ]
    assert next(e["url"] for e in events if e["event"] == "warning") == "http://desk:8347/?token=t"
    assert Address("fe80::1", 1, "t").url == Address("fe80::1", 1, "t").url_for_others == "http://[fe80::1]:1/?token=t"


def test_the_browser_is_opened_without_the_token_in_its_command_line(photos, capsys, monkeypatch):
    """Every user of the computer can read the command line of every process."""
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    monkeypatch.setattr(
        "askless.label.web.serve.serve", lambda run, host, ready, **options: ready(Address(host, 8347, "secret"))
    )
    assert "http://127.0.0.1:8347/?token=secret" in call(capsys, *START)[1]  # the terminal is the user's own
    file = Path("photos-run").resolve() / "open.html"
    (Path("photos-run") / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:8347/?token=secret"}))
    with held(Path("photos-run") / "server.lock", "busy"):
        assert "is already being served" in call(capsys, "start", "photos-run")[1]
    assert opened == [file.as_uri()] * 2
    assert "url=http://127.0.0.1:8347/?token=secret" in file.read_text()
    assert oct(file.stat().st_mode & 0o777) == "0o600"


def test_a_run_that_goes_while_it_is_served_is_said_even_when_quiet(photos, capsys, monkeypatch):
    monkeypatch.setattr("askless.label.web.serve.serve", lambda run, warn, **options: warn("[b]gone[/b]"))
    assert "[b]gone[/b]" in call(capsys, *START, "--quiet")[1]
    out = call(capsys, "start", "photos-run", "--json")[1]
    assert {"event": "warning", "text": "[b]gone[/b]"} in [json.loads(line) for line in out.splitlines()]


def test_final_goes_with_models_only(photos, capsys):
    call(capsys, *START, "--quiet")
    code, _, err = call(capsys, "export", "photos-run", "--to", "csv", "--out", "x.csv", "--final")
    assert (code, "final: works with --to model or --to onnx only, got csv; leave it out" in err) == (2, True)


def test_the_demo_page_is_a_run(tmp_path, capsys, monkeypatch):
    served = []
    monkeypatch.setattr("askless.label.web.serve.serve", lambda run, **options: served.append(run.settings))
    for _ in range(2):
        code, out, err = call(capsys, "demo", "--page", "--out", tmp_path)
        assert code == 0, err
        assert "not used" not in out
    assert [(s.budget, s.batch, s.steps, s.classes) for s in served] == [(60, 12, 300, tuple("0123456789"))] * 2


def test_json_lines_say_what_happens(photos, capsys):
    code, out, _ = call(capsys, *START, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [e["event"] for e in events] == ["indexed", "plan", "saved", "stopped"]
    assert events[1] == {"event": "plan", "budget": 20, "check": 4, "batch": 8}


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        (("--strategy", "best"), 2, "unknown strategy 'best'"),
        (("--learner", "deep"), 2, "unknown learner 'deep'"),
        (("--check", 2), 2, "check: expected a share"),
        (("--budget", 0), 2, "budget: expected a whole number of at least 1"),
        (("--keys", "cat=c"), 2, "unknown class 'cat'"),
        (("--classes", "red,Red"), 2, "there is already a class 'red'"),
        (("--suggestions", "loud"), 2, "unknown suggestions 'loud'"),
        (("--port", 99999), 2, "65535"),
        (("--host", "999.9.9.9"), 2, "host: expected a name or address of this computer, got '999.9.9.9'"),
        (("--host", "192.0.2.1"), 2, "host: expected a name or address of this computer, got '192.0.2.1'"),
        (("--host", "a..b"), 2, "host: expected a name or address of this computer, got 'a..b'"),
        (("--host", "\u202e"), 2, "host: expected a name or address of this computer, got '\\u202e'"),
    ],
)
def test_wrong_options_say_so_before_anything_is_written(photos, tmp_path, capsys, more, code, text):
    got, _, err = call(capsys, *START, *more)
    assert got == code
    assert text in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos"]


def test_nothing_there_and_nothing_to_read_are_problems_with_the_data(photos, tmp_path, capsys):
    code, _, err = call(capsys, "start", "nowhere")
    assert (code, "nothing is there" in err) == (3, True)
    (tmp_path / "empty").mkdir()
    code, _, err = call(capsys, "start", "empty")
    assert code == 3
    assert "expected images" in err


def test_a_run_that_is_served_says_where(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1/?token=t", "port": 1, "pid": 1}))
    with held(run / "server.lock", "busy"):
        code, out, _ = call(capsys, "start", run, "--no-browser")
        assert code == 0
        assert "http://127.0.0.1:1/?token=t" in out
        assert "http://127.0.0.1:1/?token=t" in call(capsys, "status", run)[1]
    assert "not served" in call(capsys, "status", run)[1]


def test_status_for_people_and_for_programs(finished, capsys):
    code, out, _ = call(capsys, "status", finished)
    assert code == 0
    assert "20 of 20 answers given" in out
    assert "Budget used" in out
    found = json.loads(call(capsys, "status", finished, "--json")[1])
    assert found["progress"]["spent"] == 20
    assert found["measure"]["n"] == 4
    assert [p["labels"] for p in found["curve"]] == [8, 16]
    assert found["advice"]["verdict"] == "budget used"
    assert found["training"] == "" or found["training"] in out.replace("\n", " ")


def test_report_writes_both_files(finished, capsys):
    code, out, _ = call(capsys, "report", finished, "--no-browser")
    assert code == 0
    assert "report.html" in out
    facts = json.loads((finished / "report.json").read_text())
    assert len(facts["curve"]) == 2
    assert all({"n", "low", "high"} <= set(p) for p in facts["curve"])
    page = re.sub(r"base64,[^\"]*", "", (finished / "report.html").read_text())  # where it may stand by chance
    assert "http" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize("to", ["csv", "jsonl", "imagefolder", "npz", "parquet", "hf", "coco"])
def test_every_format_is_exported(finished, tmp_path, capsys, to):
    place = tmp_path / ("out" if to in ("imagefolder", "hf") else f"out.{to}")
    code, out, err = call(capsys, "export", finished, "--to", to, "--out", place)
    assert code == 0, err
    assert "20 labels" in out
    assert place.exists()


def test_an_imagefolder_has_the_labelled_images_by_class(finished, tmp_path, capsys):
    call(capsys, "export", finished, "--to", "imagefolder", "--out", tmp_path / "out")
    rows = labels_in(finished)
    for name in COLOURS:
        assert len(list((tmp_path / "out" / name).rglob("*.png"))) == sum(r["label"] == name for r in rows)


def test_labels_go_into_a_fresh_run_unchanged(finished, tmp_path, capsys):
    source = finished.parent / "photos"
    Run.create(source, tmp_path / "new", classes=tuple(COLOURS), net="frozen:raw", seed=5).close()
    code, out, _ = call(capsys, "import", tmp_path / "new", finished / "labels.csv")
    assert code == 0
    assert "20 labels imported" in out
    kept = [{r["path"]: r["label"] for r in labels_in(run)} for run in (finished, tmp_path / "new")]
    assert kept[0] == kept[1]
    assert "0 labels imported, 20 known before" in call(capsys, "import", tmp_path / "new", finished / "labels.csv")[1]
    path, label = next(iter(kept[0].items()))
    other = next(name for name in COLOURS if name != label)
    (tmp_path / "other.csv").write_text(f"path,label\n{path},{other}\nnone.png,red\n")
    code, out, err = call(capsys, "import", tmp_path / "new", tmp_path / "other.csv")
    assert "0 labels imported, 0 known before, 1 kept as they were, 1 of images" in out
    assert f"kept {label}: {path}" in err
    call(capsys, "import", tmp_path / "new", tmp_path / "other.csv", "--on-conflict", "replace")
    now = {r["path"]: r["label"] for r in labels_in(tmp_path / "new")}
    assert now == {**kept[0], path: other}


def test_predictions_from_elsewhere_are_measured_and_are_no_labels(finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "run")
    with Run.open(finished) as run:
        rows = [f"{path},red,{i / 100}" for i, path in enumerate(run.paths)]
    (tmp_path / "gpt.csv").write_text(
        "\n".join(["path,label,confidence", *rows, "b/none.png,blue,0.9"]), encoding="utf-8"
    )
    labels = (tmp_path / "run" / "labels.csv").read_bytes()
    code, out, _ = call(capsys, "import", tmp_path / "run", tmp_path / "gpt.csv", "--as", "gpt")
    assert code == 0
    assert "gpt: 36 predictions imported, 1 of images that the run does not have" in out
    assert re.search(r"Right on \d of 4 \(\d+ %; 95 % interval \d+ to \d+\) check images", out)
    assert re.search(r"red +│ +4 +│", out)
    assert "0.28 or more" in out
    assert (tmp_path / "run" / "labels.csv").read_bytes() == labels
    out = call(capsys, "status", tmp_path / "run")[1]
    assert "no group of 36 predictions is shown to be 95 % right" in " ".join(out.split())
    (told,) = json.loads(call(capsys, "status", tmp_path / "run", "--json")[1])["claims"]
    assert (told["name"], told["claims"], told["measure"]["n"], told["accepted"]) == ("gpt", 36, 4, 0)
    code, _, err = call(capsys, "import", tmp_path / "run", tmp_path / "gpt.csv", "--as", "gpt", "--accept", "0.9")
    assert code == 3
    assert "4 check items cannot show that 90% of any of its predictions are right" in " ".join(err.split())
    assert call(capsys, "import", tmp_path / "run", tmp_path / "gpt.csv", "--accept", "0.9")[0] == 2


def test_predictions_that_are_right_often_enough_are_accepted_and_the_report_has_them(finished, tmp_path, capsys):
    """All four check images are right: of one level, 0.05 ** (1 / 4) = 47 %."""
    shutil.copytree(finished, tmp_path / "run")
    with Run.open(finished) as run:
        given = "\n".join(["path,label", *(f"{path},{list(COLOURS)[int(Path(path).stem) % 3]}" for path in run.paths)])
    (tmp_path / "old.csv").write_text(given, encoding="utf-8")
    assert call(capsys, "import", tmp_path / "run", tmp_path / "old.csv", "--as", "old", "--accept", "0.4")[0] == 0
    (told,) = json.loads(call(capsys, "status", tmp_path / "run", "--json")[1])["claims"]
    assert told["accepted"] == sum(row["kind"] == "accepted" for row in labels_in(tmp_path / "run")) > 0
    assert {row["picked_by"] for row in labels_in(tmp_path / "run") if row["kind"] == "accepted"} == {"old"}
    call(capsys, "report", tmp_path / "run", "--no-browser")
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<h3>Predictions from elsewhere</h3>" in report
    assert f"{told['accepted']} are accepted." in report


def test_predict_prints_a_row_per_image_and_names_what_it_cannot_read(finished, tmp_path, capsys):
    truth = write_photos(tmp_path / "new", 6, seed=1)
    (tmp_path / "new" / "broken.png").write_bytes(b"no image")
    code, out, err = call(capsys, "predict", finished, tmp_path / "new", "--probabilities")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert [r["label"] for r in rows] == list(truth.values())
    assert all(abs(sum(float(r[c]) for c in COLOURS) - 1) < 0.01 for r in rows)
    assert "broken.png" in err
    assert "1 of 7 images could not be read" in err
    (tmp_path / "broken.png").write_bytes(b"no image")
    assert call(capsys, "predict", finished, tmp_path / "broken.png")[0] == 3


@pytest.mark.parametrize("on_terminal", [False, True])
def test_predict_shows_how_far_it_is_unless_its_rows_do(finished, tmp_path, capsys, monkeypatch, on_terminal):
    for name in ("new.png", "newer.png"):
        Image.new("RGB", (40, 40), (220, 40, 40)).save(tmp_path / name)
    moves = []

    @contextmanager
    def bar(text):
        assert text == "Predicting"
        yield lambda done, total: moves.append((done, total))

    monkeypatch.setattr("askless.cli.run.progress_bar", bar)
    if on_terminal:
        monkeypatch.setattr(Screen, "is_terminal", True)
    code, said, _ = call(capsys, "predict", finished, tmp_path / "new.png", tmp_path / "newer.png")
    assert (code, len(said.splitlines())) == (0, 3)
    assert moves == ([] if on_terminal else [(0, 2), (2, 2)])


def test_predictions_are_written_whole_or_not_at_all(finished, tmp_path, capsys):
    write_photos(tmp_path / "new", 3, seed=1)
    place = tmp_path / "out.csv"
    assert call(capsys, "predict", finished, tmp_path / "new", "--out", place)[0] == 0
    before = place.read_bytes()
    assert before.count(b"\n") == 4
    (tmp_path / "broken.png").write_bytes(b"no image")
    assert call(capsys, "predict", finished, tmp_path / "broken.png", "--out", place, "--overwrite")[0] == 3
    assert place.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.png", "new", "out.csv"]


def test_a_file_that_is_there_is_replaced_only_where_that_is_said(finished, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "new", 3, seed=1)
    (tmp_path / "out.csv").write_text("mine")
    for command in (
        ("predict", finished, "new", "--out", "out.csv"),
        ("select", "-n", 2, "--strategy", "random", "--pool", 9, "--out", "out.csv"),
        ("export", finished, "--to", "csv", "--out", "out.csv"),
    ):
        code, _, err = call(capsys, *command)
        assert code == 2
        assert "out.csv: the file already exists; pass --overwrite to replace it" in err
        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        code, out, err = call(capsys, *command)
        assert (code, (tmp_path / "out.csv").read_text()) == (2, "mine")
        assert "out.csv exists. Replace it?" in out
        assert "out.csv: not replaced; nothing was written" in err
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        assert call(capsys, *command)[0] == 0
        assert (tmp_path / "out.csv").read_text() != "mine"
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        assert call(capsys, *command, "--overwrite")[0] == 0
        (tmp_path / "out.csv").write_text("mine")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_an_exported_model_says_what_the_run_says(finished, tmp_path, capsys):
    code, out, err = call(capsys, "export", finished, "--to", "model", "--out", tmp_path / "model")
    assert code == 0, err
    assert "Model: " in out
    measure = json.loads(call(capsys, "status", finished, "--json")[1])["measure"]
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"right on {measure['correct']} of {measure['n']} random check images" in card
    assert f"{measure['low']:.3f} to {measure['high']:.3f}" in card
    write_photos(tmp_path / "new", 6, seed=1)
    said = [
        call(capsys, "predict", model, tmp_path / "new", "--probabilities") for model in (finished, tmp_path / "model")
    ]
    assert said[0] == said[1]
    assert said[0][0] == 0
    code, _, err = call(capsys, "export", finished, "--to", "model", "--out", tmp_path / "model")
    assert (code, "pass overwrite" in err) == (2, True)  # as with every other format
    assert call(capsys, "export", finished, "--to", "model", "--out", tmp_path / "model", "--overwrite")[0] == 0


def test_predict_takes_rows_for_a_run_on_features(tmp_path, capsys):
    rows = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    rows[1::2] += 4
    np.savez(tmp_path / "rows.npz", X=rows)
    options = {"budget": 10, "batch": 10, "check": 0.0, "steps": 20}
    with Run.create(tmp_path / "rows.npz", tmp_path / "run", classes=("a", "b"), **options) as run:
        label_everything({str(i): "ab"[i % 2] for i in range(40)}, run)
    new = np.vstack([rows[:4], np.full((1, 5), np.nan)])
    np.savez(tmp_path / "new.npz", X=new, ids=["p", "q", "r", "s", "t"])
    code, out, err = call(capsys, "predict", tmp_path / "run", tmp_path / "new.npz")
    assert code == 0, err
    assert [(r["path"], r["label"]) for r in csv.DictReader(out.splitlines())] == list(zip("pqrs", "abab", strict=True))
    assert "t: NaN" in err
    write_photos(tmp_path / "photos", 3)
    np.save(tmp_path / "narrow.npy", rows[:, :4])
    np.save(tmp_path / "images.npy", np.zeros((2, 8, 8, 3), np.uint8))
    for given in ("photos/a/00.png", "photos", "narrow.npy", "images.npy"):
        place = tmp_path / "out.csv"
        code, out, err = call(capsys, "predict", tmp_path / "run", tmp_path / given, "--out", place)
        assert (code, out, place.exists()) == (3, "", False)
        assert "rows of 5 features" in err


def test_export_options_that_are_unknown_are_a_wrong_use(finished, tmp_path, capsys):
    for more in (("--to", "csv", "--what", "all"), ("--to", "csv", "--link", "soft")):
        code, _, err = call(capsys, "export", finished, "--out", tmp_path / "x", *more)
        assert code == 2
        assert "expected" in err


def test_what_is_no_run_is_refused_by_every_command(tmp_path, capsys, monkeypatch):
    for words in (("status",), ("report",), ("export", "--to", "csv", "--out", tmp_path / "x.csv")):
        code, _, err = call(capsys, words[0], tmp_path, *words[1:])
        assert code == 3
        assert "expected a run" in err
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos-run").mkdir()
    code, _, err = call(capsys, "predict", tmp_path / "photos", tmp_path)
    assert (code, "expected a run, the folder of an exported model" in err) == (3, True)
    assert f"there is a run in {tmp_path / 'photos-run'}" in err
    assert f"there is a run in {tmp_path / 'photos-run'}" in call(capsys, "status", tmp_path / "photos")[2]
    monkeypatch.chdir(tmp_path / "photos")
    assert "photos-run" in call(capsys, "status", ".")[2]
    assert call(capsys, "status", "/")[0] == 3


def test_doctor_finds_a_run_that_differs_from_its_log_and_images_that_are_gone(finished, tmp_path, capsys):
    code, out, _ = call(capsys, "doctor", finished, "--port", 0)
    assert code == 0
    assert "20 answers, matching" in " ".join(out.split())
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    opened = Run.open(run)
    with opened.store.change() as db:
        db.execute("DELETE FROM answer WHERE item = (SELECT min(item) FROM answer)")
    opened.close()
    (finished.parent / "photos" / "a" / "00.png").rename(tmp_path / "00.png")
    try:
        code, out, _ = call(capsys, "doctor", run, "--port", 0)
    finally:
        (tmp_path / "00.png").rename(finished.parent / "photos" / "a" / "00.png")
    assert code == 3
    assert "1 answers differ" in " ".join(out.split())
    assert "1 of 36 are missing" in " ".join(out.split())


def test_an_image_that_was_replaced_is_noticed_and_keeps_its_label(finished, tmp_path, capsys):
    shutil.copytree(finished.parent, tmp_path / "all")
    with Run.create(tmp_path / "all/photos", tmp_path / "run", classes=tuple(COLOURS), budget=12, check=0.5) as run:
        path = run.waiting()[0]
        item = run.paths.index(path)
        run.tell({path: "red"})
        run.thumb(item)
        shown = run.pictures.full(item).content
        Image.new("RGB", (9, 9), "white").save(tmp_path / "all/photos" / path)
        assert run.pictures.full(item).content != shown
        assert run.pictures.is_replaced(item)
    with Run.open(tmp_path / "run") as run:
        assert Image.open(io.BytesIO(run.thumb(item))).getpixel((0, 0)) == (255, 255, 255)
        assert not run.pictures.is_replaced(item - 1)
    said = doctor.source_of(tmp_path / "run")
    assert said.found == f"1 of 36 changed in size since the run was made, such as {path}"
    assert said.do.startswith("check their labels")
    assert call(capsys, "report", tmp_path / "run", "--no-browser")[0] == 0
    text = (tmp_path / "run" / "report.html").read_text()
    assert "1 labelled file replaced since" in text
    assert "changed in size since the run was made; check its label" in text
    assert [row["label"] for row in labels_in(tmp_path / "run")] == ["red"]
    (tmp_path / "run" / "sizes.npy").unlink()  # as in a run of before
    assert doctor.source_of(tmp_path / "run").state == "ok"


def test_doctor_looks_at_data(photos, tmp_path, capsys):
    assert call(capsys, "doctor", "photos", "--port", 0)[0] == 0
    (tmp_path / "photos" / "broken.png").write_bytes(b"")
    code, out, _ = call(capsys, "doctor", "photos", "--port", 0)
    assert code == 0
    assert "broken.png" in out


def test_the_command_line_and_the_server_start_without_torch():
    code = "import sys, askless.cli, askless.label.web.serve; print('torch' in sys.modules, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_oracle_does_not_spend_a_budget_on_a_file_of_other_images(finished, tmp_path, capsys):
    (tmp_path / "truth.csv").write_text("path,label\nelsewhere/1.png,red\n")
    code, _, err = call(capsys, "oracle", finished, "--truth", tmp_path / "truth.csv", "--wait", 0)
    assert (code, "expected labels of the run's images by path, such as " in err) == (3, True)
    assert "got elsewhere/1.png" in err
    path = labels_in(finished)[0]["path"]
    (tmp_path / "truth.csv").write_text(f"path,label\n{path},red\n")
    _, _, err = call(capsys, "oracle", finished, "--truth", tmp_path / "truth.csv", "--wait", 0)
    assert "35 of 36 images are not in" in err
    assert "is not being served" in err


def test_an_unknown_format_is_answered_with_all(finished, tmp_path, capsys):
    code, _, err = call(capsys, "export", finished, "--to", "csvs", "--out", tmp_path / "x")
    assert (code, "did you mean 'csv'?" in err, "onnx" in err) == (2, True, True)


def test_labels_can_be_had_and_labelling_resumes_after_a_power_cut(tmp_path, capsys, monkeypatch):
    """The database is safe; all that was made from it and written last may be empty."""
    monkeypatch.chdir(tmp_path)
    truth = write_photos(tmp_path / "photos")
    options = {"classes": tuple(COLOURS), "budget": 20, "batch": 6, "net": "frozen:raw", "steps": 5}
    with Run.create("photos", "photos-run", **options) as run:
        while run.advance():
            pass
        run.tell({path: truth[path] for path in run.waiting()})
        while run.advance():
            pass
        labelled = len(labels_in(run.folder))
    for path in (*Path("photos-run").glob("rounds/*/*.*"), *Path("photos-run").glob("model/*")):
        path.write_bytes(b"")
    (tmp_path / "photos-run" / "labels.csv").unlink()
    code, out, _ = call(capsys, "status", "photos-run")
    assert (code, "The model of round 1 is damaged" in " ".join(out.split())) == (0, True)
    assert call(capsys, "report", "photos-run", "--no-browser")[0] == 0
    assert len(labels_in(tmp_path / "photos-run")) == labelled
    code, out, err = call(capsys, "export", "photos-run", "--to", "csv", "--out", "labels.csv")
    assert (code, out.split()[0]) == (0, str(labelled))
    assert "The model's predictions are left out: the model of round 1 is damaged" in " ".join(err.split())
    with Run.open("photos-run") as run:
        free = run.waiting()[0]
    Path("more.csv").write_text(f"path,label\n{free},{truth[free]}\n")
    assert call(capsys, "import", "photos-run", "more.csv")[0] == 0
    for command in (("export", "photos-run", "--to", "model", "--out", "model"), ("predict", "photos-run", "photos")):
        code, _, err = call(capsys, *command)
        assert (code, "damaged" in err, "`askless start photos-run` trains it again" in " ".join(err.split())) == (
            3,
            True,
            True,
        )
    assert call(capsys, "start", "photos-run", "--no-page")[0] == 0
    code, out, _ = call(capsys, "status", "photos-run")
    assert (code, "damaged" in out) == (0, False)
    assert call(capsys, "export", "photos-run", "--to", "model", "--out", "model")[0] == 0
    assert len(labels_in(tmp_path / "photos-run")) == labelled + 1


def test_status_says_what_was_spent_at_another_price(finished, capsys):
    assert "The answers so far cost 1.60." in call(capsys, "status", finished, "--price", "0.08")[1]
    found = json.loads(call(capsys, "status", finished, "--json", "--price", "0.08")[1])["outlook"]
    assert (found["price"], found["spent"], found["ahead"]) == (0.08, 1.6, [])
    assert "a forecast needs 20 labelled check images" in found["why_not"]
    assert json.loads(call(capsys, "status", finished, "--json")[1])["outlook"]["price"] == 0
    code, _, error = call(capsys, "status", finished, "--price", "-1")
    assert code == 2
    assert "price: expected the cost of one answer" in error
