"""A disk that is full, or fails, at any write of any command: one paragraph, nothing lost, nothing half-written."""

import builtins
import errno
import io
import os
import resource
import shutil
import signal
import sqlite3
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from askless.cli import main
from askless.run import Run
from askless.run.out.answers import read_answers

from .test_run import COLOURS, label_everything, write_photos

CHANGES = ("INSERT", "UPDATE", "DELETE", "CREATE", "COMMIT", "PRAGMA JOURNAL", "PRAGMA USER")
PAGE = 4096


class Faults:
    """Counts what is written below a folder, and lets the write with the number `at` fail."""

    def __init__(self, below, at=None, number=errno.ENOSPC):
        self.below, self.at, self.number, self.count = os.path.realpath(below), at, number, 0

    def step(self, path):
        """Called before each open for writing, write, fsync, rename, mkdir and change of the database."""
        if not os.path.realpath(os.fsdecode(path)).startswith(self.below):
            return
        self.count += 1
        if self.at is not None and self.count == self.at + 1:
            raise OSError(self.number, os.strerror(self.number))

    @property
    def happened(self):
        return self.at is not None and self.count > self.at


@contextmanager
def failing(faults, monkeypatch):
    """Python's own ways to write, and SQLite's statements, go through the faults."""

    class File(io.FileIO):
        def write(self, data):
            faults.step(self.name if isinstance(self.name, str | bytes) else f"/proc/self/fd/{self.name}")
            return super().write(data)

    def open_(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        if not set(mode) & set("wax+") or "r+" in mode:
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        faults.step(f"/proc/self/fd/{file}" if isinstance(file, int) else file)
        raw = File(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    class Connection(sqlite3.Connection):
        def execute(self, sql, *given):
            if sql.lstrip().upper().startswith(CHANGES):
                self.step()
            return super().execute(sql, *given)

        def executemany(self, sql, *given):
            self.step()
            return super().executemany(sql, *given)

        def step(self):
            try:
                faults.step(self.place)
            except OSError as error:
                full = error.errno == errno.ENOSPC
                raise sqlite3.OperationalError("database or disk is full" if full else "disk I/O error") from None

    def connect(path, **options):
        db = real_connect(path, factory=Connection, **options)
        db.place = path
        return db

    def before(function, place=0):
        def stepping(*given, **options):
            faults.step(f"/proc/self/fd/{given[place]}" if isinstance(given[place], int) else given[place])
            return function(*given, **options)

        return stepping

    def os_open(path, flags, *given, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            faults.step(path)
        return real_os_open(path, flags, *given, **options)

    real_open, real_connect, real_os_open = io.open, sqlite3.connect, os.open
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", open_)
        patch.setattr(io, "open", open_)
        patch.setattr(sqlite3, "connect", connect)
        patch.setattr(os, "open", os_open)
        for name, place in (
            ("fsync", 0),
            ("rename", 1),
            ("replace", 1),
            ("mkdir", 0),
            ("link", 1),
            ("symlink", 1),
            ("sendfile", 0),
        ):
            patch.setattr(os, name, before(getattr(os, name), place))
        yield


@contextmanager
def short_files(size):
    """No file may grow beyond so many bytes: also what SQLite, torch and others write by themselves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


BENCHMARK = """
from askless import Supervised
from askless.bench import Benchmark, Data, Row

common = {"data": Data(name="two-moons", items=40, test=10), "net": "mlp", "learner": Supervised(steps=2), "start": 6}
rows = (Row(method="random", strategy="random", counts=(6, 8), **common),)
benchmark = Benchmark(name="mine", title="My own", rows=rows, seeds=(0,))
"""
# The words of each command; where `out` is among them it is what the command makes.
START = "start photos --classes red,green,blue --net frozen:raw --steps 3 --budget 8 --batch 4 --no-browser --out out"
COMMANDS = {
    "start": START,
    "start-no-page": f"{START} --no-page",
    "import": "import run more.csv",
    "report": "report run --no-browser",
    "backup": "backup run --out out",
    "backup-zip": "backup run --out out.zip",
    "repair": "doctor damaged --repair",
    "labelstudio": "export open --to labelstudio --out out.json",
    "cvat": "export open --to cvat --out out",
    **{
        to: f"export run --to {to} --out out"
        for to in (
            "csv",
            "jsonl",
            "imagefolder",
            "npz",
            "parquet",
            "hf",
            "datasets",
            "coco",
            "model",
            "onnx",
        )
    },
    "predict": "predict run photos --out out.csv",
    "select": "select -n 3 --strategy albl --arrays all.npz --out out.csv --state state.json",
    "embed": "embed photos --backbone raw --out out --workers 1",
    "bench": "bench run mine.py --workers 1 --out out",
}


NEEDS = {
    "datasets": ("datasets",),
    "parquet": ("pyarrow",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "embed": ("pyarrow",),
}


@pytest.fixture(scope="module")
def furniture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("furniture")
    truth = write_photos(folder / "photos", 12)
    options = {"budget": 8, "batch": 4, "net": "frozen:raw", "steps": 5}
    with Run.create(folder / "photos", folder / "run", classes=tuple(COLOURS), **options) as run:
        label_everything(truth, run)
        paths = [
            path for path in run.paths if path not in {row.path for row in read_answers(folder / "run/labels.csv")}
        ]
    shutil.copytree(folder / "run", folder / "damaged")
    with closing(sqlite3.connect(folder / "damaged" / "state.sqlite")) as db, db:
        db.execute("DELETE FROM answer WHERE item % 2")
    with Run.create(folder / "photos", folder / "open", classes=tuple(COLOURS), **options) as run:
        while run.advance():
            pass
    (folder / "more.csv").write_text("path,label\n" + "".join(f"{path},red\n" for path in paths))
    x = np.random.default_rng(0).random((30, 3))
    np.savez(
        folder / "all.npz",
        features=x,
        probs=x / x.sum(1, keepdims=True),
        labelled=np.arange(4),
        labels=np.arange(4) % 3,
    )
    (folder / "mine.py").write_text(BENCHMARK)
    return folder


@pytest.fixture
def place(furniture, tmp_path, monkeypatch):
    """A function that makes a fresh copy of everything and goes there."""
    monkeypatch.setattr("askless.label.web.serve.serve", lambda run, **options: None)
    monkeypatch.setattr("askless.bench.runner.cores", lambda: 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "work").mkdir()

    def fresh():
        os.chdir(tmp_path)
        shutil.rmtree(tmp_path / "work")
        shutil.copytree(furniture, tmp_path / "work")
        os.chdir(tmp_path / "work")
        monkeypatch.setattr("askless.base.files._cleared", set())
        return tmp_path / "work"

    monkeypatch.chdir(tmp_path)
    return fresh


def call(words):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(words.split())
        except SystemExit as ended:
            code = ended.code or 0
    return code, err.getvalue()


def answers(run):
    """What people have said."""
    with Run.open(run) as opened, opened.store.look() as db:
        return {tuple(row) for row in db.execute("SELECT item, annotator, class FROM answer")}


def sizes(work):
    """The files that a command made, each with its length: those of a whole one, whichever time it was made."""
    made = [
        p
        for name in ("out", "out.csv", "out.json", "out.xml", "out.zip")
        for p in ([work / name, *(work / name).rglob("*")])
    ]
    return {p.relative_to(work).as_posix(): p.stat().st_size for p in made if p.is_file()}


def left_behind(work):
    return [
        p for p in work.rglob("*") if p.name.endswith((".part", ".making")) or p.name.startswith(("tmp", ".fetching"))
    ]


def check(work, name, code, err, whole, before):
    """What must be true after a fault, and when the command is given again."""
    words = COMMANDS[name]
    assert code in (0, 2, 3), (code, err)
    assert "Traceback" not in err
    if code and "FAILED: " not in err and (err or name != "repair"):  # a cell of a benchmark, and a finding of doctor
        assert err.count("askless: ") == 1, err
        assert err[err.index("askless: ") :].count("\n") == 1, err
    assert left_behind(work) == []
    assert before <= answers(work / "run")
    assert {row.path for row in read_answers(work / "run" / "labels.csv")}
    made = sizes(work)
    if " out" in words and name not in ("start", "start-no-page", "embed", "bench"):  # which go on with what is there
        assert not made or set(made) == set(whole) or name == "labelstudio", "half of it"  # which is two files
        loose = name in ("model", "onnx", "labelstudio", "cvat", "backup", "backup-zip")  # times and hashes differ
        assert not made or loose or made == whole, "half-written"
    if code == 0 and name not in ("start", "start-no-page", "embed", "bench"):
        assert set(made) == set(whole)
    if name.startswith("backup") and made:  # nothing is overwritten
        return
    again, said = call(words + (" --overwrite" if words.startswith(("export", "predict", "select")) else ""))
    assert again == 0, said
    views = {"out/.views.lock", "out/labels.csv", "out/classes.txt"}  # written again with the next answer
    assert set(sizes(work)) | views == set(whole) | views
    assert before <= answers(work / "run")


def count_of(place, name, monkeypatch):
    """How many writes a command does, and what it makes."""
    work = place()
    faults = Faults(work)
    with failing(faults, monkeypatch):
        code, err = call(COMMANDS[name])
    assert code == 0, err
    return faults.count, sizes(work)


def fail_at(place, name, at, number, whole, before, monkeypatch):
    work = place()
    faults = Faults(work, at, number)
    with failing(faults, monkeypatch):
        code, err = call(COMMANDS[name])
    try:
        check(work, name, code, err, whole, before)
    except BaseException as error:
        raise AssertionError(f"{name}, {errno.errorcode[number]} at write {at}: {error}; {err}") from error


QUICK = ("start", "import", "report", "backup", "repair", "csv", "imagefolder", "npz", "predict", "select")


@pytest.mark.parametrize("name", QUICK)
def test_some_writes_of_some_commands_fail(place, furniture, monkeypatch, name):
    n, whole = count_of(place, name, monkeypatch)
    before = answers(furniture / "run")
    rng = np.random.default_rng(0)
    for at, number in zip(
        rng.choice(n, 3, replace=False).tolist(), (errno.ENOSPC, errno.EIO, errno.ENOSPC), strict=True
    ):
        fail_at(place, name, at, number, whole, before, monkeypatch)


def test_a_file_that_cannot_grow(place, furniture, monkeypatch):
    work = place()
    before = answers(furniture / "run")
    with short_files(2 * PAGE):
        code, err = call("import run more.csv")
    check(work, "import", code, err, {}, before)
    assert code == 3


@pytest.mark.slow
def test_every_write_of_every_command_fails_once(place, furniture, monkeypatch):
    before, tried, found = answers(furniture / "run"), 0, []
    for name in os.environ.get("ASKLESS_FAULTS", " ".join(COMMANDS)).split():
        if not all(map(find_spec, NEEDS.get(name, ()))):
            print(f"{name}: not tried, for it needs {' and '.join(NEEDS[name])}")
            continue
        n, whole = count_of(place, name, monkeypatch)
        for number in (errno.ENOSPC, errno.EIO):
            for at in range(n):
                tried += 1
                try:
                    fail_at(place, name, at, number, whole, before, monkeypatch)
                except AssertionError as error:
                    found.append(str(error))
        largest = max(p.stat().st_size for p in Path().rglob("*") if p.is_file())
        for size in range(0, largest, PAGE):
            tried += 1
            work = place()
            with short_files(size):
                code, err = call(COMMANDS[name])
            try:
                check(work, name, code, err, whole, before)
            except BaseException as error:
                found.append(f"{name}, files of {size} bytes: {error}; {err}")
        print(f"{name}: {n} writes, {largest // PAGE} pages; {len(found)} found so far", flush=True)
    tracebacks = sum("Traceback" in each or "a bug in askless" in each for each in found)
    halves = sum("half" in each for each in found)
    print(f"\nwrite faults {tried}: {tracebacks} tracebacks, {halves} half-written files")
    assert found == []
