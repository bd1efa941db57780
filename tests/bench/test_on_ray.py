"""Cells on Ray: the same bytes as without it, whoever dies."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

import askless
from askless.base.errors import AsklessError, InputError
from askless.base.locks import held
from askless.bench import compute, read, run, runner
from askless.bench.cell import Cell
from askless.bench.compute import CellWorker, Task
from askless.bench.report import write
from askless.bench.tally import Tally
from askless.cli.bench import find
from askless.track import JSONLines, Trail

pytestmark = pytest.mark.ray

TWELVE = """
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from askless import Supervised
from askless.acquire import Selection
from askless.bench import Benchmark, Data, Row

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Mortal:
    name = "mortal"
    needs = ()

    def select(self, view, n, rng):
        (HERE / "pids").mkdir(exist_ok=True)
        (HERE / "pids" / str(os.getpid())).touch()
        second = len(view.labelled) == 12  # a round is done, and its learner saved
        if second and (HERE / "deaths").exists():
            deaths = (HERE / "deaths").read_text()
            if deaths == "always" or deaths == "once" and not (HERE / "died").exists():
                (HERE / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            end = time.monotonic() + 120
            while deaths == "wait" and not (HERE / "go").exists() and time.monotonic() < end:
                time.sleep(0.05)
        return Selection(view.unlabelled[:n])


common = {
    "data": Data(name="digits", items=100, test=40),
    "net": "small-cnn",
    "learner": Supervised(steps=3, batch=16, lr=0.1),
    "start": 10,
    "counts": (10, 12, 14),
}
strategies = {"random": "random", "margin": "margin", "mortal": Mortal()}
rows = tuple(Row(method=name, strategy=strategy, **common) for name, strategy in strategies.items())
benchmark = Benchmark(name="twelve", title="Twelve cells", rows=rows, seeds=(0, 1, 2, 3), figures=())
"""


@pytest.fixture(scope="module")
def cluster():
    """One Ray for all, which `run` finds begun."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # beside other work they would hardly get a turn
        ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
        yield ray
        ray.shutdown()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setattr(runner, "cores", lambda: 1)


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "twelve.py").write_text(TWELVE)
    return partial(find, str(tmp_path / "twelve.py"), "small", None)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """All twelve cells by one process."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "twelve.py").write_text(TWELVE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(runner, "cores", lambda: 1)
        results = run(find(str(folder / "twelve.py"), "small", None), folder / "out", workers=1)
    assert len(results.asked) == 12
    write(results, folder / "out")
    return folder / "out"


def ray_run(source, out, **options):
    return run(source(), out, workers=2, source=source, engine="ray", **options)


def check_same(out, local, cells=12):
    """Every cell that is there has the bytes of the local run."""
    found = sorted(out.glob("cells/*/result.json"))
    assert len(found) == cells
    for path in found:
        assert path.read_bytes() == (local / path.relative_to(out)).read_bytes()


def snapshot(out):
    found = {p.parent.name: p.stat() for p in out.glob("cells/*/result.json")}
    return {name: (s.st_mtime_ns, s.st_ino) for name, s in found.items()}


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.05)


def test_twelve_cells_on_ray_have_the_bytes_of_a_local_run(cluster, source, tmp_path, local):
    out, told = tmp_path / "out", []
    (tmp_path / "deaths").write_text("wait")  # in its second round, until the first one was told

    def hear(progress):
        told.append(progress)
        if "12 labels: " in progress.latest:
            (tmp_path / "go").touch()

    results = ray_run(source, out, progress=hear)
    write(results, out)
    assert (out / "results.csv").read_bytes() == (local / "results.csv").read_bytes()
    assert results.asked == read(local).asked
    check_same(out, local)
    pids = {int(p.name) for p in (tmp_path / "pids").iterdir()}
    assert os.getpid() not in pids, "none of it was computed here"
    assert len(pids) <= 2, "a worker is kept for the next cell"
    assert [p.rounds for p in told] == sorted(p.rounds for p in told)
    assert (told[-1].rounds, told[-1].all_rounds, told[-1].cells, told[-1].failed) == (36, 36, 12, 0)
    assert any("12 labels: " in p.latest for p in told), "rounds are told while their cell runs"

    before = snapshot(out)
    ray_run(source, out)
    assert snapshot(out) == before, "a second run computes nothing"
    assert cluster.is_initialized(), "what was begun before is not ended"
    wait_for(lambda: cluster.available_resources().get("CPU") == 2, 60, "all cores to be given back")


@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_changes_no_byte_and_no_finished_cell(source, tmp_path, local):
    """A worker is killed from outside while it is in the second round of a cell and others are finished."""
    out = tmp_path / "out"
    (tmp_path / "deaths").write_text("wait")
    told, killed, before = [], [], {}

    def look(p):
        told.append(p)
        waiting = list((tmp_path / "pids").iterdir()) if (tmp_path / "pids").exists() else []
        if waiting and not killed and p.cells >= 2:
            before.update(snapshot(out))
            killed.append(int(waiting[0].name))
            os.kill(killed[0], signal.SIGKILL)
            (tmp_path / "go").touch()

    results = ray_run(source, out, progress=look)
    assert killed
    assert before
    assert not results.failures
    again = [p.latest for p in told if p.latest.endswith("askless will retry it")]
    assert len(again) == 1
    assert again[0].startswith("mortal, seed ")
    assert "its worker process has died" in again[0]
    after = snapshot(out)
    assert {name: after[name] for name in before} == before, "finished cells are not touched"
    check_same(out, local)
    write(results, out)
    assert (out / "results.csv").read_bytes() == (local / "results.csv").read_bytes()
    assert (told[-1].rounds, told[-1].cells, told[-1].failed) == (36, 12, 0)
    assert not list(out.glob("cells/*/failure.json"))
    assert len(list((tmp_path / "pids").iterdir())) >= 2, "another process took it up"


@pytest.mark.usefixtures("cluster")
def test_a_cell_that_always_kills_its_worker_is_given_up_and_the_others_finish(source, tmp_path, local):
    out, told = tmp_path / "out", []
    (tmp_path / "deaths").write_text("always")
    one = partial(seeds_of, source, (0,))
    results = ray_run(one, out, progress=told.append)
    assert [f[:3] for f in results.failures] == [("", "mortal", 0)]
    assert results.failures[0].reason.startswith("its worker was lost: The actor ")
    assert results.failures[0].reason.endswith("; tried 3 times")
    assert len(list((tmp_path / "pids").iterdir())) == 3
    check_same(out, local, cells=2)
    assert (told[-1].rounds, told[-1].cells, told[-1].failed) == (9, 2, 1)


def only(source, method):
    """One cell of the twelve."""
    plan = source()
    return dataclasses.replace(plan, rows=tuple(r for r in plan.rows if r.method == method), seeds=(0,), baseline=None)


def seeds_of(source, seeds):
    return dataclasses.replace(source(), seeds=seeds)


@pytest.mark.usefixtures("cluster")
def test_trackers_hear_of_every_step_and_round(source, tmp_path):
    lines = tmp_path / "told.jsonl"
    ray_run(partial(only, source, "random"), tmp_path / "out", track=JSONLines(lines, every=1))
    told = [json.loads(line) for line in lines.read_text().splitlines()]
    rounds = [(10, range(1, 4)), (12, range(4, 7)), (14, range(7, 10))]
    expected = [e for labels, steps in rounds for e in [*(("step", s) for s in steps), ("round", labels)]]
    assert [t["event"] for t in told[:1] + told[-1:]] == ["start", "end"]
    assert [(t["event"], t.get("step", t.get("labels"))) for t in told[1:-1]] == expected


@pytest.mark.usefixtures("cluster")
def test_a_cell_that_fails_by_itself_is_not_tried_again(source, tmp_path):
    (tmp_path / "pids").write_text("no folder")
    results = ray_run(partial(only, source, "mortal"), tmp_path / "out")
    assert [f[:3] for f in results.failures] == [("", "mortal", 0)]
    assert results.failures[0].reason.startswith("FileExistsError: ")
    noted = json.loads((tmp_path / "out" / "cells" / "all--mortal--0" / "failure.json").read_text())
    assert "in select" in noted["details"]


def only_here(pid, source):
    if os.getpid() != pid:
        threads, data = {pool["num_threads"] for pool in threadpool_info()}, os.environ["ASKLESS_DATA"]
        raise FileNotFoundError(f"no benchmark in {os.getcwd()} with {threads} threads and data in {data}")
    return source()


def behind_a_lock(data, lock):
    with lock:
        return data()


@pytest.mark.usefixtures("cluster")
def test_what_cannot_be_sent_or_made_in_a_worker_is_said(source, tmp_path, monkeypatch):
    """And a worker has the folder and the settings of this process, which is what a local one has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASKLESS_DATA", "somewhere")
    plan = seeds_of(source, (0,))
    row = plan.rows[0]
    rows = (dataclasses.replace(row, data=partial(behind_a_lock, row.data, threading.Lock())),)
    with pytest.raises(
        InputError, match=r"expected a benchmark that can be sent to a worker, got TypeError: .*`source`"
    ):
        run(dataclasses.replace(plan, rows=rows), tmp_path / "a", engine="ray")
    results = ray_run(partial(only_here, os.getpid(), partial(seeds_of, source, (0,))), tmp_path / "b")
    assert {f.reason for f in results.failures} == {
        "a worker process could not make the benchmark: FileNotFoundError: "
        f"no benchmark in {tmp_path} with {{1}} threads and data in somewhere"
    }


def test_a_cell_that_a_lost_worker_still_computes_is_left_to_it(source, tmp_path, monkeypatch):
    monkeypatch.setattr(compute, "PATIENCE", 0.2)
    (tmp_path / "benchmark.json").write_text("{}")
    worker = CellWorker(source, tmp_path, shared=compute.digest_of(tmp_path / "benchmark.json"))
    task, folder = Task("", "random", 0, None), tmp_path / "cells" / "all--random--0"
    folder.mkdir(parents=True)
    with held(folder / ".lock", "busy"):
        assert worker(task, print).reason == f"another worker is still computing {folder}; run it again later"
    assert not (folder / "result.json").exists()
    assert worker(task, print) is None
    assert (folder / "result.json").exists()


@pytest.mark.usefixtures("cluster")
def test_a_node_that_does_not_see_the_folder_ends_the_run(source, tmp_path, monkeypatch):
    monkeypatch.setattr(compute, "PATIENCE", 1.0)
    with pytest.raises(
        InputError, match=r"expected every Ray node to see .*nowhere with the benchmark.json of this run"
    ):
        compute.check_shared(tmp_path / "nowhere", "")
    (tmp_path / "benchmark.json").write_text("{}")
    with pytest.raises(InputError, match="use an --out on a file system that all nodes share"):
        compute.check_shared(tmp_path, "of another run")
    monkeypatch.setattr(runner, "CellWorker", partial(elsewhere, tmp_path / "elsewhere"))
    with pytest.raises(InputError, match=r"expected every Ray node to see .*elsewhere"):
        ray_run(source, tmp_path / "out")


def elsewhere(folder, source, out, *given, **options):
    return CellWorker(source, folder, *given, **options)


def test_a_result_that_never_arrives_here_is_said(tmp_path, monkeypatch, source):
    monkeypatch.setattr(compute, "PATIENCE", 0.0)
    cell = Cell(source().rows[0], 0)
    with pytest.raises(AsklessError, match=r"expected to see .*all--random--0/result.json, which a Ray worker wrote"):
        Tally(tmp_path, [cell], None, Trail(None), "here").hear(cell, "done", None)


def ask(*arguments, **options):
    code = (  # a shell lets what it runs in the background ignore Ctrl-C
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from askless.bench import runner; from askless.cli import main; runner.cores = lambda: 1; main()"
    )
    python = [sys.executable, "-X", "faulthandler", "-c", code]
    command = [*python, "bench", "run", *map(str, arguments), "--workers", "2", "--engine", "ray"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def ended(process):
    """Its exit code and what it wrote; where it does not end, it says what it is at and is killed."""
    try:
        shown, said = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        shown, said = process.communicate()
    return process.returncode, shown, said


def without_address(**more):
    given = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return given | {"PYTHONPATH": str(Path(askless.__file__).parents[1])} | more


def test_the_command_starts_its_own_ray_and_ctrl_c_ends_it(source, tmp_path, local):
    """Stopped in the middle, and begun again from another folder by a relative name."""
    out = tmp_path / "out"
    (tmp_path / "deaths").write_text("wait")
    process = ask(tmp_path / "twelve.py", "--seeds", 1, "--out", out, env=without_address(), start_new_session=True)
    wait_for(lambda: process.poll() is not None or (snapshot(out) and (tmp_path / "pids").exists()), 120, "a cell")
    os.kill(process.pid, signal.SIGINT)
    code, _, said = ended(process)
    assert code == 130, said
    assert "the same command resumes" in said
    pids = [int(p.name) for p in (tmp_path / "pids").iterdir()]
    wait_for(lambda: not any(Path(f"/proc/{p}").exists() for p in pids), 60, "the workers to be gone")
    before = snapshot(out)
    assert len(before) < 3
    (tmp_path / "deaths").unlink()
    process = ask("twelve.py", "--seeds", 1, "--out", "out", env=without_address(), cwd=tmp_path)
    code, shown, said = ended(process)
    assert code == 0, said
    assert "3 of 3 cells" in said
    assert "report.html" in shown
    check_same(out, local, cells=3)
    assert {name: snapshot(out)[name] for name in before} == before
    about = json.loads((out / "benchmark.json").read_text())
    assert about["command"] == "askless bench run twelve.py --scale small --seeds 1 --workers 2 --engine ray"


def test_a_cluster_that_is_not_there_is_said(source, tmp_path):
    """In a process of its own, which has no Ray yet."""
    process = ask(tmp_path / "twelve.py", "--out", tmp_path / "out", env=without_address(RAY_ADDRESS="127.0.0.1:1"))
    code, _, said = ended(process)
    assert code == 3, said
    assert "expected a Ray cluster at RAY_ADDRESS=127.0.0.1:1, got " in said
    assert "start one with `ray start --head`, or unset RAY_ADDRESS" in said
