"""Trackers hear of rounds and steps, and nothing depends on them."""

import contextlib
import json
import subprocess
import sys
import time

import numpy as np
import pytest

import askless as al
from askless.base.errors import AsklessError, InputError, OptionError
from askless.bench import Benchmark, Data, Row
from askless.bench import run as run_benchmark
from askless.track import Event, JSONLines, Trail, due, make, settled

FEW = al.Supervised(steps=5, batch=8, lr=0.1)


def pool():
    return al.data.subset(al.data.digits(), 80)


def loop(track, rounds=2, learner=FEW, net="linear", seed=0, **options):
    """So many rounds of five labels each; the learner."""
    npc = al.NPC(draws=50)
    made = al.ActiveLearner(pool(), net=net, learner=learner, strategy=npc, seed=seed, track=track, **options)
    for _ in range(rounds):
        picks = made.ask(5).indices
        made.tell(picks, made.pool.labels[picks])
        made.fit()
    return made


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_kind(events, kind):
    return [e for e in events if e["event"] == kind]


# --- the loop -----------------------------------------------------------------------------------------------------------


def test_a_round_tells_labels_accuracy_what_the_strategy_said_and_seconds(tmp_path):
    learner = loop(JSONLines(tmp_path / "new" / "a.jsonl", every=2))
    events = lines(tmp_path / "new" / "a.jsonl")
    [start] = of_kind(events, "start")
    assert (start["strategy"], start["net"], start["seed"], start["items"]) == ("npc", "linear", "0", "80")
    rounds = of_kind(events, "round")
    assert [r["labels"] for r in rounds] == [5, 10]
    assert rounds[-1]["test_accuracy"] == learner.score()
    assert rounds[-1]["loss"] == learner.rounds[-1]["loss"]
    assert all(r["lambda_min"] > 0 and r["rank"] > 0 for r in rounds)
    assert all(r["fit_seconds"] > 0 and r["select_seconds"] > 0 and r["time"] > 1.7e9 for r in rounds)


def test_steps_come_at_their_rate_and_at_the_end_counted_over_all_rounds(tmp_path):
    loop(JSONLines(tmp_path / "a.jsonl", every=2))
    steps = of_kind(lines(tmp_path / "a.jsonl"), "step")
    assert [s["step"] for s in steps] == [2, 4, 5, 6, 8, 10]  # 5 and 10 end a training
    assert all(s["loss"] > 0 and s["lr"] >= 0 for s in steps)


def test_without_a_rate_there_are_no_steps(tmp_path):
    loop(JSONLines(tmp_path / "a.jsonl", every=0), rounds=1)
    assert {e["event"] for e in lines(tmp_path / "a.jsonl")} == {"start", "round"}


def test_tracking_changes_nothing():
    plain, tracked = loop(None), loop([lambda event: None])
    assert plain.labels == tracked.labels
    assert np.array_equal(plain.predict_pool(), tracked.predict_pool())


def test_label_propagation_and_a_share_of_random_picks_are_told(tmp_path):
    frozen = al.Frozen(backbone="raw", cache=tmp_path / "embeddings", strong=1)
    spread = {"learner": al.LabelPropagation(), "net": frozen, "random_share": 0.4}
    learner = loop(JSONLines(tmp_path / "a.jsonl"), rounds=3, **spread)
    rounds = of_kind(lines(tmp_path / "a.jsonl"), "round")
    seen = learner.comparison()["random"]
    assert rounds[-1]["check_accuracy"] == 1 - seen["wrong"]
    assert rounds[-1]["check_n"] == seen["n"] > 0
    assert "check_accuracy" not in rounds[0]  # there was no model to be wrong


def test_a_loop_that_is_loaded_counts_on(tmp_path):
    loop(None, rounds=1).save(tmp_path / "saved")
    learner = al.ActiveLearner.load(tmp_path / "saved", track=JSONLines(tmp_path / "a.jsonl", every=5))
    picks = learner.ask(5).indices
    learner.tell(picks, learner.pool.labels[picks])
    learner.fit()
    assert [e["step"] for e in of_kind(lines(tmp_path / "a.jsonl"), "step")] == [10]


def test_a_tracker_that_fails_is_left_out_with_one_note_and_the_others_go_on(tmp_path, capsys):
    class Broken:
        def __init__(self):
            self.called = 0

        def __call__(self, event):
            self.called += 1
            raise ConnectionError("the server is gone")

    broken, good = Broken(), []
    learner = loop([broken, good.append, JSONLines(tmp_path, every=1)])  # the last one's file is a folder
    assert len(learner.labels) == 10
    assert learner.is_fitted
    assert broken.called == 1
    assert [e.kind for e in good if e.kind != "step"] == ["start", "round", "round"]
    said = capsys.readouterr().err
    assert said.count("Broken failed (ConnectionError: the server is gone); tracking continues without it") == 1
    assert said.count("JSONLines failed (IsADirectoryError") == 1


def test_a_tracker_whose_close_fails_is_named_too(capsys):
    class Stuck:
        def __call__(self, event):
            pass

        def close(self):
            raise OSError("no space")

    trail = Trail(Stuck())
    trail.close()
    assert "Stuck failed (OSError: no space)" in capsys.readouterr().err
    assert not trail


def test_what_is_no_number_is_not_told_and_json_has_no_nan(tmp_path):
    seen = []
    trail = Trail([seen.append, JSONLines(tmp_path / "a.jsonl")])
    trail.tell(Event("round", "r", 3, {"a": np.float32(0.5), "b": "text", "c": None, "d": float("nan"), "e": True}))
    assert {name: type(value) for name, value in seen[0].numbers.items()} == {"a": float, "d": float, "e": float}
    [line] = lines(tmp_path / "a.jsonl")
    assert (line["run"], line["labels"], line["a"], line["d"]) == ("r", 3, 0.5, None)


def test_when_a_step_is_due():
    assert [at for at in range(1, 8) if due((3,), at, at == 7)] == [3, 6, 7]
    assert [at for at in range(1, 8) if due((3, 2), at, False)] == [2, 3, 4, 6]
    assert not due((0,), 5, True)
    assert not due((), 5, True)


# --- by text, and nothing imported before it is needed ---------------------------------------------------------------------


def test_a_tracker_by_its_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert make("jsonl:a.jsonl").path.name == "a.jsonl"
    assert settled("jsonl:b/a.jsonl") == f"jsonl:{tmp_path}/b/a.jsonl"
    for text in ("a.jsonl", "jsonl:", "neptune:x", ""):
        with pytest.raises(OptionError, match="expected jsonl:FILE, tensorboard:FOLDER, mlflow:FILE"):
            make(text)


@pytest.mark.parametrize(
    ("text", "extra"), [("tensorboard:x", "tensorboard"), ("mlflow:x", "mlflow"), ("wandb:x", "wandb")]
)
def test_a_package_that_is_not_there_is_named_with_its_extra(text, extra, monkeypatch, capsys):
    monkeypatch.setattr("askless.track.find_spec", lambda name: None)
    with pytest.raises(AsklessError, match=rf"pip install 'askless\[{extra}\]'"):
        make(text)
    assert not Trail.of([text])  # a run that is opened where the package is missing goes on
    assert f"tracking continues without {extra}" in capsys.readouterr().err


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match=r"every: expected a whole number of steps, 0 for none, got -1"):
        JSONLines("a", every=-1)
    with pytest.raises(InputError, match=r"expected trackers such as track.JSONLines\('rounds.jsonl'\), got 'a.jsonl'"):
        al.ActiveLearner(pool(), net="linear", track=["a.jsonl"])


def test_trackers_are_there_without_torch_or_any_tracking_package():
    code = (
        "import sys, askless as al; al.track.JSONLines('x'); "
        "assert not {'torch', 'tensorboard', 'mlflow', 'wandb'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- benchmarks and runs --------------------------------------------------------------------------------------------------


def tiny():
    data = Data(name="digits", items=80, test=40)
    rows = [
        Row(method=name, strategy=made, data=data, net="linear", learner=FEW, start=10, counts=(10, 12))
        for name, made in (("random", al.Random()), ("npc", al.NPC(draws=50)))
    ]
    return Benchmark(name="tiny", title="Tiny", rows=tuple(rows), seeds=(0,))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("ready_workers")
def test_each_cell_of_a_benchmark_is_a_run(tmp_path, workers, monkeypatch):
    monkeypatch.setattr("askless.bench.runner.cores", lambda: 1)
    results = run_benchmark(tiny(), tmp_path / "out", workers=workers, track=JSONLines(tmp_path / "a.jsonl", every=3))
    events = lines(tmp_path / "a.jsonl")
    names = [f"tiny-{tiny().scale}/all--{method}--0" for method in ("random", "npc")]
    for name, method in zip(names, ("random", "npc"), strict=True):
        mine = [e for e in events if e["run"] == name]
        assert mine[0]["event"] == "start"
        assert mine[0]["method"] == method
        assert mine[-1]["event"] == "end"
        rounds = of_kind(mine, "round")
        measured = results.curve("test_accuracy", "", method)
        assert [r["labels"] for r in rounds] == list(measured.labels)
        assert [r["test_accuracy"] for r in rounds] == measured.table[0].tolist()
        assert ("lambda_min" in rounds[1]) == (method == "npc")
        assert [s["step"] for s in of_kind(mine, "step")] == [3, 5, 6, 9, 10]
    run_benchmark(tiny(), tmp_path / "out", workers=workers, track=JSONLines(tmp_path / "b.jsonl"))
    assert not (tmp_path / "b.jsonl").exists()  # all was finished


def test_the_command_line_tracks_a_benchmark(tmp_path, monkeypatch, capsys):
    from askless.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("askless.bench.preset", lambda name, scale: tiny())
    monkeypatch.setattr("askless.bench.runner.cores", lambda: 1)
    command = ["bench", "run", "npc.table1", "--workers", "1", "--out", "out", "--track"]
    with pytest.raises(SystemExit) as wrong:
        main([*command, "nowhere"])
    assert wrong.value.code == 2
    assert "expected jsonl:FILE" in capsys.readouterr().err
    with contextlib.suppress(SystemExit):
        main([*command, "jsonl:a.jsonl"])
    assert len(of_kind(lines(tmp_path / "a.jsonl"), "round")) == 4


def test_a_labelling_run_tells_rounds_with_the_check_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = al.data.digits()
    x = digits.x[:120].reshape(120, -1)
    np.savez(tmp_path / "pool.npz", X=np.asarray(x, dtype=np.float32) / 255)
    options = {"classes": [str(c) for c in range(10)], "budget": 40, "batch": 16, "steps": 20, "check": 0.2}
    with pytest.raises(OptionError, match="expected jsonl:FILE"):
        al.Run.create("pool.npz", "run", track=["somewhere"], **options)
    with al.Run.create("pool.npz", "run", track=["jsonl:a.jsonl"], strategy="npc", **options) as run:
        assert run.settings.track == (f"jsonl:{tmp_path}/a.jsonl",)
        while not run.is_finished():
            while run.advance():
                pass
            run.tell({path: str(digits.labels[int(path.rpartition("/")[2].split(":")[-1])]) for path in run.waiting()})
        from askless.run.out.gather import account_of

        curve = account_of(run).curve
    rounds = of_kind(lines(tmp_path / "a.jsonl"), "round")
    assert [r["labels"] for r in rounds] == [p.labels for p in curve] == [16, 32]
    assert rounds[-1]["check_accuracy"] == curve[-1].accuracy
    assert rounds[-1]["check_n"] == 8
    assert all(r["fit_seconds"] > 0 and r["select_seconds"] > 0 and r["run"] == "run" for r in rounds)
    assert rounds[1]["lambda_min"] > 0
    assert [s["step"] for s in of_kind(lines(tmp_path / "a.jsonl"), "step")] == [
        21,
        41,
    ]  # after 20 for each round before


def labelling_run(folder, rounds, **options):
    """A labelling run on digits, made or gone on with, in which so many batches are answered."""
    digits = al.data.digits()
    if not folder.exists():
        np.savez(folder.with_suffix(".npz"), X=np.asarray(digits.x[:120].reshape(120, -1), dtype=np.float32) / 255)
        plan = {"budget": 40, "batch": 8, "steps": 5, "strategy": "random", "check": 0.0} | options
        al.Run.create(folder.with_suffix(".npz"), folder, classes=[str(c) for c in range(10)], **plan).close()
    with al.Run.open(folder) as run:
        for _ in range(rounds):
            while run.advance():
                pass
            run.tell({path: str(digits.labels[int(path.rpartition("/")[2].split(":")[-1])]) for path in run.waiting()})
        while run.advance():
            pass


def test_a_labelling_run_that_goes_on_has_the_id_it_had(tmp_path):
    track = [f"jsonl:{tmp_path}/a.jsonl"]
    for _ in range(2):
        labelling_run(tmp_path / "one", 1, track=track)
    labelling_run(tmp_path / "two", 1, track=track)
    first, again, other = of_kind(lines(tmp_path / "a.jsonl"), "start")
    assert (first["run"], first["strategy"], first["items"], first["steps"]) == ("one", "random", "120", "5")
    assert again["id"] == first["id"] != other["id"]


def test_a_labelling_run_ends_its_trackers_runs_when_it_is_finished(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(JSONLines, "close", lambda self: ended.append(len(of_kind(lines(self.path), "round"))))
    labelling_run(tmp_path / "run", 2, budget=16, track=[f"jsonl:{tmp_path}/a.jsonl"])
    assert ended == [2]  # once, and not again when it is closed


# --- with the real packages -----------------------------------------------------------------------------------------------


@pytest.mark.ecosystem
def test_tensorboard_reads_back_what_was_told(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = al.track.TensorBoard(tmp_path / "boards", every=2)
    learner = loop([tracker, JSONLines(tmp_path / "a.jsonl", every=2)])
    tracker.close()
    read = EventAccumulator(str(tmp_path / "boards"))
    read.Reload()
    told = lines(tmp_path / "a.jsonl")
    for event, axis, tag in (("round", "labels", "round/test_accuracy"), ("step", "step", "train/loss")):
        name = tag.partition("/")[2]
        points = [(e.step, e.value) for e in read.Scalars(tag)]
        assert points == [(e[axis], pytest.approx(e[name], rel=1e-6)) for e in of_kind(told, event)]
    assert read.Scalars("round/test_accuracy")[-1].value == pytest.approx(learner.score())
    assert b"strategy: npc" in read.Tensors("about/text_summary")[0].tensor_proto.string_val[0]


@pytest.mark.ecosystem
def test_tensorboard_has_a_folder_for_each_learner_and_a_labelling_run_goes_on_in_its_own(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def points(folder):
        read = EventAccumulator(str(folder))
        read.Reload()
        return [e.step for e in read.Scalars("round/loss")]

    tracker = al.track.TensorBoard(tmp_path / "boards")
    for _ in range(2):
        loop(tracker)
    tracker.close()
    for _ in range(2):
        labelling_run(tmp_path / "photos", 1, track=[f"tensorboard:{tmp_path}/boards"])
    assert points(tmp_path / "boards") == points(tmp_path / "boards" / "loop-2") == [5, 10]
    assert points(tmp_path / "boards" / "photos") == [8, 16]


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")  # its own deprecations
def test_mlflow_reads_back_what_was_told(tmp_path):
    from mlflow import MlflowClient

    tracker = al.track.MLflow(tmp_path / "runs.db", experiment="digits", every=2)
    told = tmp_path / "a.jsonl"
    run_benchmark(tiny(), tmp_path / "out", track=[tracker, JSONLines(told, every=2)])
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/runs.db")
    runs = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert sorted(run.data.params["method"] for run in runs) == ["npc", "random"]
    for run in runs:
        assert run.info.status == "FINISHED"
        mine = [e for e in lines(told) if e["run"] == run.info.run_name]
        for event, axis, key in (("round", "labels", "round/test_accuracy"), ("step", "step", "train/loss")):
            points = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, key)]
            assert sorted(points) == [(e[axis], e[key.partition("/")[2]]) for e in of_kind(mine, event)]
            assert len(points) > 1


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_mlflow_has_a_run_for_each_learner_that_one_tracker_hears_of(tmp_path, capsys):
    tracker = al.track.MLflow(tmp_path / "runs.db")
    for seed in (0, 1):
        assert loop(tracker, rounds=1, seed=seed).tracking.trail
    runs = mlflow_runs(tmp_path / "runs.db")
    assert [(run.data.params["seed"], run.info.status) for run in runs] == [("0", "FINISHED"), ("1", "RUNNING")]
    assert all("round/test_accuracy" in run.data.metrics for run in runs)
    tracker.close()
    assert [run.info.status for run in mlflow_runs(tmp_path / "runs.db")] == ["FINISHED", "FINISHED"]
    assert "failed" not in capsys.readouterr().err


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_a_run_of_mlflow_ends_with_python(tmp_path):
    code = (
        "import sys; from askless.track import Event, MLflow\n"
        "tracker = MLflow(sys.argv[1]); tracker(Event('start')); tracker(Event('round', at=5, numbers={'a': 1.0}))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "runs.db")], check=True)
    [run] = mlflow_runs(tmp_path / "runs.db")
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"round/a": 1.0})


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_a_labelling_run_goes_on_in_its_run_of_mlflow(tmp_path, capsys):
    for _ in range(3):
        labelling_run(tmp_path / "photos", 1, track=[f"mlflow:{tmp_path}/runs.db"])
    (tmp_path / "other").mkdir()
    labelling_run(tmp_path / "other" / "photos", 1, track=[f"mlflow:{tmp_path}/runs.db"])
    runs = mlflow_runs(tmp_path / "runs.db")
    assert [run.info.run_name for run in runs] == ["photos", "photos"]
    assert [run.info.status for run in runs] == ["FINISHED", "FINISHED"]
    client = mlflow_client(tmp_path / "runs.db")
    points = [[m.step for m in client.get_metric_history(run.info.run_id, "round/loss")] for run in runs]
    assert points == [[8, 16, 24], [8]]
    assert "failed" not in capsys.readouterr().err


def mlflow_client(path):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{path}")


def mlflow_runs(path):
    """The first one first."""
    client = mlflow_client(path)
    found = client.search_runs([client.get_experiment_by_name("askless").experiment_id])
    return sorted(found, key=lambda run: run.info.start_time)


def log_records(data, header=7, block=32768):
    """The records of a .wandb file: LevelDB's log format behind a header of 7 bytes. Each part has a checksum (4 bytes), a
    length (2) and a type (1): whole, first, middle or last; a block never ends within these 7 bytes."""
    assert data[:4] == b":W&B"
    at, whole = header, b""
    while at < len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_wandb_reads_back_what_was_told_offline(tmp_path):
    from wandb.proto.wandb_internal_pb2 import Record

    tracker = al.track.WandB("digits", folder=tmp_path / "there", every=2)
    loop([tracker, JSONLines(tmp_path / "a.jsonl", every=2)])
    tracker.close()
    [file] = (tmp_path / "there" / "wandb").glob("offline-run-*/run-*.wandb")
    until = time.monotonic() + 60  # its own process may write the last of it after the run has ended
    while not any(Record.FromString(data).HasField("exit") for data in log_records(file.read_bytes())):
        assert time.monotonic() < until, "the file was never finished"
        time.sleep(0.5)
    history, config = [], {}
    for record in map(Record.FromString, log_records(file.read_bytes())):
        for update in (*record.config.update, *record.run.config.update):
            config[update.key or "/".join(update.nested_key)] = json.loads(update.value_json)
        if record.HasField("history"):
            items = record.history.item
            history.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
        if record.HasField("run"):
            assert record.run.project == "digits"
    assert config["strategy"] == "npc"
    told = lines(tmp_path / "a.jsonl")
    for event, axis, key in (("round", "labels", "round/test_accuracy"), ("step", "step", "train/loss")):
        points = [(h[axis], h[key]) for h in history if key in h]
        assert points == [(e[axis], e[key.partition("/")[2]]) for e in of_kind(told, event)]
        assert len(points) > 1


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_wandb_has_a_run_for_each_learner_and_a_labelling_run_keeps_its_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tracker = al.track.WandB("digits")
    for _ in range(2):
        loop(tracker, rounds=1)
    tracker.close()
    ids = [file.stem for file in tmp_path.glob("wandb/offline-run-*/run-*.wandb")]
    assert len(set(ids)) == 2
    for _ in range(2):
        labelling_run(tmp_path / "photos", 1, track=["wandb:digits"])
        time.sleep(1)  # the folders are named by the second
    again = [file.stem for file in tmp_path.glob("wandb/offline-run-*/run-*.wandb") if file.stem not in ids]
    with al.Run.open(tmp_path / "photos") as run:
        assert again == [f"run-{run.meta('run')}"] * 2


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_a_server_that_is_not_there_costs_no_label(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    learner = loop(al.track.MLflow("http://127.0.0.1:9"), rounds=1)
    assert len(learner.labels) == 5
    assert learner.is_fitted
    assert capsys.readouterr().err.count("note: MLflow failed") == 1
