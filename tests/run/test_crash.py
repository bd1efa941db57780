"""Power cuts while a run is made, labelled and trained: what `power_cut` records of that, replayed at many moments."""

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from askless.label.labelstudio import write_tasks
from askless.run import Run
from askless.run.out.export import export_run
from askless.run.out.gather import account_of
from askless.run.steps.round_files import damage_of_fit
from askless.run.steps.worker import catch_up
from askless.run.store.asking import is_batch_open

from ..log import replay, stored
from .power_cut import Commit, Recorder, Sync

OPTIONS = {"budget": 12, "batch": 4, "check": 0.34, "steps": 2, "size": 16}
FORMATS = ("csv", "jsonl", "npz", "imagefolder", "hf", "coco")  # those that need no other package


def answers(run: Run) -> dict:
    with run.store.look() as db:
        assert replay(db) == stored(db)
        return stored(db)


@pytest.fixture(scope="module")
def recorded(shapes, tmp_path_factory) -> Recorder:
    """A run from its making to its last report."""
    home = tmp_path_factory.mktemp("home")
    recorder = Recorder(home)
    recorder.mark({})
    with recorder.recording():
        with shapes.start(home / "run", **OPTIONS) as run:
            recorder.mark({})
            while True:
                catch_up(run)
                waiting = run.waiting()
                if not waiting:
                    break
                for part in (waiting[:2], waiting[2:]):
                    if part:
                        shapes.tell(run, part)
                        recorder.mark(answers(run))  # from here on these are acknowledged
        recorder.look()
    return recorder


def examine(place: Path, acknowledged: dict, shapes, tally: Counter) -> None:
    """Everything that must work after a cut, whatever is left."""
    folder = place / "run"
    if not folder.exists():
        assert not acknowledged
        shapes.start(folder, **OPTIONS).close()
        tally["made again"] += 1
    with Run.open(folder) as run:
        found = answers(run)
        missing = acknowledged.items() - found.items()
        tally["acknowledged"] += len(acknowledged)
        tally["missing"] += len(missing)
        assert not missing
        before = account_of(run)
        tally["damaged"] += "damaged" in before.advice.text
        run.write_views()
        if any(label is not None for label, _ in found.values()):
            for to in FORMATS:
                result = export_run(run, to, place / f"out-{to}{'.npz' if to == 'npz' else ''}", what="human+model")
                assert result.labels == len(found)
        run.write_report()
        with run.store.look() as db:
            is_batch_out = is_batch_open(db)
        if is_batch_out:
            write_tasks(run, place / "tasks.json")
        catch_up(run)
        assert answers(run) == found
        after = account_of(run)
        assert "it is trained again" not in after.advice.text
        if after.curve:
            assert damage_of_fit(folder, after.curve[-1].round) is None
            run.export_model(place / "out-model")
        assert not list(folder.rglob("*.making"))
        if run.waiting():
            shapes.tell(run)


def campaign(recorder: Recorder, shapes, tmp_path: Path, n: int) -> Counter:
    rng = random.Random(f"power cuts {n}")
    tally: Counter = Counter(images=n)
    for number in range(n):
        cut = rng.randint(1, len(recorder.steps))
        place = tmp_path / f"image-{number}"
        made = recorder.marks[1][0]
        lies = cut > made and rng.random() < 0.3  # some disks say that they have synced, and have not
        recorder.image(cut, rng, place, honest=made if lies else None)
        tally["lies"] += lies
        acknowledged = [what for step, what in recorder.marks if step <= cut][-1]
        try:
            examine(place, acknowledged, shapes, tally)
        except BaseException as error:
            error.args = (f"image {number}, cut before step {cut}: {error}",)
            raise
        shutil.rmtree(place)
    print(
        f"\ncrash images {n}: {tally['missing']} acknowledged answers missing of {tally['acknowledged']}, 0 runs that could "
        f"not be opened, exported or resumed; {tally['lies']} on a disk that lies about syncs, {tally['damaged']} damaged "
        f"fits trained again, {tally['made again']} cut before the run was there"
    )
    return tally


def test_the_recorder_sees_what_is_synced_and_what_is_not(tmp_path):
    home, rng = tmp_path / "home", random.Random(0)
    home.mkdir()
    recorder = Recorder(home)
    with recorder.recording():
        (home / "new").mkdir()
        (home / "new" / "lost").write_bytes(b"lost")
        with (home / "new" / "kept").open("wb") as file:
            file.write(b"kept")
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(home / "new", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        os.replace(home / "new", home / "final")
    left = Counter()
    for number in range(60):
        recorder.image(len(recorder.steps), rng, tmp_path / str(number))
        for path in (tmp_path / str(number)).rglob("*"):
            left[
                path.relative_to(tmp_path / str(number)).as_posix(), path.read_bytes() if path.is_file() else None
            ] += 1
    assert {name for name, _ in left} == {"new", "new/kept", "new/lost", "final", "final/kept", "final/lost"}
    assert {content for name, content in left if name.endswith("kept")} == {b"kept"}
    assert {content for name, content in left if name.endswith("lost")} >= {b"lost", b"", bytes(4)}


def test_after_a_power_cut_nothing_acknowledged_is_missing_and_the_run_resumes(recorded, shapes, tmp_path):
    kinds = Counter(type(step) for step in recorded.steps)
    assert kinds[Commit] > 10
    assert kinds[Sync] > 50
    tally = campaign(recorded, shapes, tmp_path, 20)
    assert tally["acknowledged"] > 20


@pytest.mark.slow
def test_after_many_power_cuts_nothing_acknowledged_is_missing(recorded, shapes, tmp_path):
    campaign(recorded, shapes, tmp_path, int(os.environ.get("ASKLESS_CRASH_IMAGES", "200")))
