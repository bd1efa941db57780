"""The loop: reproducible, resumable bit for bit, and clear about what goes wrong."""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from askless.base.errors import InputError, ModelError
from askless.learn import DARP, Course, FixMatch, MeanTeacher, PiModel, Supervised, Task
from askless.learn.checkpoint import CheckpointError
from askless.learn.training import TrainingError, make_optimiser

LEARNERS = [
    Supervised(steps=30, batch=8),
    FixMatch(steps=30, batch=8, mu=3, darp=DARP(every=4, warm_up=0.3)),
    FixMatch(steps=30, batch=8, mu=3, tau=0.7),
    MeanTeacher(steps=30, batch=8),
    PiModel(steps=30, batch=8),
]
NAMES = ["supervised", "fixmatch+darp", "fixmatch", "mean teacher", "pi-model"]


def train(learner, views, labelled, net, **options):
    seed = options.pop("seed", 0)
    return learner.fit(net, Task(views, len(views), *labelled, 2), seed=seed, course=Course(**options))


def accuracy(model, x, y):
    return float((model(x).argmax(dim=1) == torch.as_tensor(y)).double().mean())


def weights(model):
    return torch.cat([t.flatten().double() for t in model.state_dict().values()])


@pytest.mark.parametrize("learner", LEARNERS, ids=NAMES)
def test_every_learner_separates_two_clouds_and_repeats_itself(learner, views, labelled, make_net):
    import dataclasses

    longer = dataclasses.replace(learner, steps=150, lr=0.01)
    first = train(longer, views, labelled, make_net())
    assert accuracy(first.model, views.x, views.y) > 0.85
    again = train(longer, views, labelled, make_net())
    assert torch.equal(weights(first.model), weights(again.model))
    other = train(longer, views, labelled, make_net(), seed=1)
    assert not torch.equal(weights(first.model), weights(other.model))
    assert not first.model.training


@pytest.mark.parametrize("learner", LEARNERS, ids=NAMES)
def test_a_network_that_cannot_learn_is_refused(learner, views, labelled, make_net):
    frozen = make_net().requires_grad_(False)
    with pytest.raises(ModelError, match=r"parameters are all frozen; set requires_grad on those of its last layer"):
        train(learner, views, labelled, frozen)
    unused = torch.nn.Sequential(frozen, torch.nn.Identity())
    unused.register_parameter("unused", torch.nn.Parameter(torch.zeros(3)))
    with pytest.raises(ModelError, match="outputs that depend on the network's trainable parameters, got some that do"):
        train(learner, views, labelled, unused)


class Killed(Exception):
    pass


@pytest.mark.parametrize("learner", LEARNERS, ids=NAMES)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_killed_training_goes_on_bit_for_bit(learner, dropout, views, labelled, make_net, tmp_path):
    import dataclasses

    learner = dataclasses.replace(learner, checkpoint_every=7)
    whole = train(learner, views, labelled, make_net(dropout=dropout))
    path = tmp_path / "fit.pt"

    def kill(done, total, numbers):
        if done == 17:
            raise Killed

    with pytest.raises(Killed):
        train(learner, views, labelled, make_net(dropout=dropout), checkpoint=path, watch=kill)
    steps = []
    resumed = train(
        learner, views, labelled, make_net(dropout=dropout), checkpoint=path, watch=lambda done, *_: steps.append(done)
    )
    assert steps[0] == 15  # from the checkpoint of step 14
    assert torch.equal(weights(whole.model), weights(resumed.model))
    assert whole.metrics == resumed.metrics
    done = train(learner, views, labelled, make_net(dropout=dropout), checkpoint=path)
    assert torch.equal(weights(whole.model), weights(done.model))


def test_the_global_generator_is_left_alone(views, labelled, make_net):
    state = torch.random.get_rng_state()
    train(LEARNERS[1], views, labelled, make_net(dropout=0.5))
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_checkpoint_of_other_settings_is_refused_by_name(views, labelled, make_net, tmp_path):
    path = tmp_path / "fit.pt"
    learner = Supervised(steps=9, batch=8, checkpoint_every=2)

    def kill(done, total, numbers):
        if done == 5:
            raise Killed

    with pytest.raises(Killed):
        train(learner, views, labelled, make_net(), checkpoint=path, watch=kill)
    with pytest.raises(CheckpointError, match="to another training: options was"):
        train(Supervised(steps=9, batch=9, checkpoint_every=2), views, labelled, make_net(), checkpoint=path)
    with pytest.raises(CheckpointError, match="first weights was"):
        train(learner, views, labelled, make_net(seed=3), checkpoint=path)
    with pytest.raises(CheckpointError, match="labelled was"):
        train(learner, views, (labelled[0][:3], labelled[1][:3]), make_net(), checkpoint=path)
    views.x = -views.x
    with pytest.raises(CheckpointError, match="pool was"):
        train(learner, views, labelled, make_net(), checkpoint=path)


def test_a_finished_checkpoint_makes_room_for_the_next_round(views, labelled, make_net, tmp_path):
    path = tmp_path / "fit.pt"
    train(Supervised(steps=5, batch=8), views, (labelled[0][:3], labelled[1][:3]), make_net(), checkpoint=path)
    plain = train(Supervised(steps=5, batch=8), views, labelled, make_net())
    over = train(Supervised(steps=5, batch=8), views, labelled, make_net(), checkpoint=path)
    assert torch.equal(weights(plain.model), weights(over.model))


def test_weights_that_are_not_numbers_are_never_returned_nor_saved(views, labelled, make_net, tmp_path):
    path = tmp_path / "fit.pt"
    learner = Supervised(steps=12, batch=8, checkpoint_every=1)
    net = make_net()

    def poison(done, total, numbers):
        if done == 10:
            with torch.no_grad():
                net[4].bias[0] = math.nan

    with pytest.raises(TrainingError, match=r"at step 10|after step 1") as stopped:
        train(learner, views, labelled, net, checkpoint=path, watch=poison)
    assert all(p.isfinite().all() for p in net.parameters())
    assert all(p.isfinite().all() for p in stopped.value.model.parameters())
    saved = torch.load(path, weights_only=True)
    assert all(t.isfinite().all() for t in saved["net"].values())


def test_patience_needs_something_to_measure_by(views, labelled, make_net):
    with pytest.raises(InputError, match="patience=3 needs validation"):
        train(Supervised(steps=5, batch=8, patience=3), views, labelled, make_net())


def test_a_target_of_the_wrong_length_is_refused_at_once(views, labelled, make_net):
    with pytest.raises(InputError, match="2 counts or shares"):
        train(FixMatch(steps=50, batch=8, darp=DARP(target=[1, 2, 3])), views, labelled, make_net())


def test_a_log_is_not_repeated_by_a_training_that_goes_on(views, labelled, make_net, tmp_path):
    learner = Supervised(steps=30, batch=8, checkpoint_every=7, evaluate_every=5)

    def kill(done, total, numbers):
        if done == 17:
            raise Killed

    options = {"checkpoint": tmp_path / "fit.pt", "log": tmp_path / "log.jsonl"}
    with pytest.raises(Killed):
        train(learner, views, labelled, make_net(), watch=kill, **options)
    train(learner, views, labelled, make_net(), **options)
    steps = [json.loads(line)["step"] for line in options["log"].read_text().splitlines()]
    assert steps == [5, 10, 15, 20, 25, 30]


def test_the_admissible_rate_is_stable_for_nesterov_and_little_more_is_not(views):
    from askless.learn import admissible_rate

    phi = torch.ones(8, 3, dtype=torch.float64)
    for momentum in (0.0, 0.9):
        H = 0.5 * float(torch.linalg.matrix_norm(phi, ord=2) ** 2) / 8
        lr = admissible_rate(phi, momentum, bias=False).lr
        for factor, stable in ((1.0, True), (1.25, False)):
            w = torch.ones(1, dtype=torch.float64, requires_grad=True)
            optimiser = torch.optim.SGD([w], lr=factor * lr, momentum=momentum, nesterov=momentum > 0)
            for _ in range(400):
                optimiser.zero_grad()
                (0.5 * H * w.square()).sum().backward()
                optimiser.step()
            assert (abs(w.item()) < 1e-3) == stable


def test_a_file_that_is_no_checkpoint_is_named(views, labelled, make_net, tmp_path):
    path = tmp_path / "fit.pt"
    path.write_text("not a checkpoint")
    with pytest.raises(CheckpointError, match=r"cannot be read .* delete it to start again"):
        train(LEARNERS[0], views, labelled, make_net(), checkpoint=path)


def test_a_checkpoint_never_runs_code(tmp_path, views, labelled, make_net):
    import pickle

    class Evil:
        def __reduce__(self):
            return (print, ("run",))

    path = tmp_path / "fit.pt"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError):
        train(LEARNERS[0], views, labelled, make_net(), checkpoint=path)


def test_a_full_disk_keeps_the_old_checkpoint_and_says_so(views, labelled, make_net, tmp_path, monkeypatch):
    path = tmp_path / "fit.pt"
    learner = Supervised(steps=20, batch=8, checkpoint_every=5)

    def kill(done, total, numbers):
        if done == 7:
            raise Killed

    with pytest.raises(Killed):
        train(learner, views, labelled, make_net(), checkpoint=path, watch=kill)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*earlier checkpoints are untouched"):
        train(learner, views, labelled, make_net(), checkpoint=path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["fit.pt"]


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_weights(views, labelled, make_net):
    net = make_net()
    with pytest.raises(TrainingError, match=r"the loss became (nan|inf) at step \d+; .* weights of step \d+; lower lr"):
        train(Supervised(steps=400, batch=8, lr=1e30, weight_decay=1.0), views, labelled, net)
    assert all(p.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize(
    ("positions", "labels", "message"),
    [
        ([], [], "at least one labelled item"),
        ([1, 2], [0], "one label per labelled item, 2, got 1"),
        ([99], [0], "labelled positions from 0 to 59, got 99"),
        ([3], [2], "labels from 0 to 1 for 2 classes, got 2 for item 3"),
        ([3], [-1], "got -1 for item 3"),
    ],
)
def test_bad_labels_are_named(positions, labels, message, views, make_net):
    with pytest.raises(InputError, match=message):
        LEARNERS[0].fit(make_net(), Task(views, 60, positions, labels, 2))


def test_one_class_only_and_a_class_without_label_still_train(views, make_net):
    for learner in LEARNERS:
        fitted = learner.fit(make_net(), Task(views, 60, np.array([1, 2]), np.array([0, 0]), 2))
        assert all(p.isfinite().all() for p in fitted.model.parameters())


def test_weight_decay_spares_biases_and_norm_layers(make_net):
    groups = make_optimiser(make_net(), Supervised(weight_decay=0.1)).param_groups
    assert [g["weight_decay"] for g in groups] == [0.1, 0.0]
    assert all(p.ndim > 1 for p in groups[0]["params"])
    assert all(p.ndim == 1 for p in groups[1]["params"])
    assert groups[0]["nesterov"]


def test_a_bar_shows_the_latest_numbers_on_a_terminal_only(views, labelled, make_net, capsys):
    from rich.console import Console

    from askless.base.terminal import training_bar

    train(Supervised(steps=5, batch=8), views, labelled, make_net(), bar=True)
    assert capsys.readouterr().err == ""
    console = Console(force_terminal=True, width=150, record=True)
    with training_bar("training", console) as show:
        show(3, 10, {"loss": 0.25, "kept": 0.5, "step": 3})
        console.print("")
    shown = capsys.readouterr().out
    assert "loss 0.250" in shown
    assert "3/10" in shown


def test_metrics_are_logged_as_json_lines(views, labelled, make_net, tmp_path):
    log = tmp_path / "metrics.jsonl"
    fitted = train(FixMatch(steps=25, batch=8, mu=2, evaluate_every=10), views, labelled, make_net(), log=log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines == fitted.metrics
    assert [line["step"] for line in lines] == [10, 20, 25]
    assert {"loss", "lr", "labelled", "unlabelled", "kept"} <= lines[0].keys()


def test_half_precision_trains_too(views, labelled, make_net):
    fitted = train(Supervised(steps=40, batch=8, autocast=True), views, labelled, make_net())
    assert next(fitted.model.parameters()).dtype == torch.float32
    assert accuracy(fitted.model, views.x, views.y) > 0.8


def test_early_stopping_returns_the_best_on_validation(views, labelled, make_net):
    x, y = views.x, torch.from_numpy(views.y)
    learner = Supervised(steps=500, batch=8, lr=0.01, evaluate_every=5, patience=4)
    fitted = train(learner, views, labelled, make_net(), validation=(x, y))
    measured = [m["validation"] for m in fitted.metrics]
    assert len(measured) < 100
    assert accuracy(fitted.model, x, y) == max(measured)
    assert measured.index(max(measured)) == len(measured) - 1 - 4


def test_a_training_that_patience_ended_may_be_followed_by_another(views, labelled, make_net, tmp_path):
    validation = (views.x, torch.from_numpy(views.y))
    learner = Supervised(steps=500, batch=8, lr=0.01, evaluate_every=5, patience=2, checkpoint_every=50)
    options = {"checkpoint": tmp_path / "c", "validation": validation}
    first = train(learner, views, labelled, make_net(), **options)
    again = train(learner, views, labelled, make_net(), **options)  # found finished
    assert torch.equal(weights(first.model), weights(again.model))
    fewer = (labelled[0][:-1], labelled[1][:-1])
    other = train(learner, views, fewer, make_net(), **options)
    assert torch.equal(
        weights(other.model), weights(train(learner, views, fewer, make_net(), validation=validation).model)
    )


def test_the_kernel_caps_the_rate_and_reports_it(views, labelled, make_net):
    free = train(
        Supervised(steps=3, batch=4, lr=1e4, schedule="constant", kernel_rate=True), views, labelled, make_net()
    )
    numbers = free.metrics[-1]
    assert numbers["lr"] == pytest.approx(numbers["kernel_lr"])
    assert numbers["lr"] < 1e4
    assert 0 < numbers["kernel_lambda_min"] < numbers["kernel_lambda_max"]
    small = train(
        Supervised(steps=3, batch=4, lr=1e-9, schedule="constant", kernel_rate=True), views, labelled, make_net()
    )
    assert small.metrics[-1]["lr"] == 1e-9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixMatch(step=3), "FixMatch: got step; its options are steps, batch"),
        (lambda: FixMatch(steps=0), "steps must be a whole number >= 1"),
        (lambda: Supervised(optimiser="lion"), "optimiser must be one of sgd, adam"),
        (lambda: Supervised(schedule="linear"), "schedule must be one of cosine, constant, drop"),
        (lambda: Supervised(lr=-1), "lr must be a number >= 0"),
        (lambda: Supervised(ema=1.5), "ema must be a number from 0 to 1"),
        (lambda: FixMatch(tau=2), "tau must be a number from 0 to 1"),
        (lambda: FixMatch(mu=0), "mu must be a whole number"),
        (lambda: DARP(target="even"), "target must be one of uniform, labelled"),
        (lambda: DARP(mask_on="none"), "mask_on must be one of refined, original, both"),
        (lambda: DARP(every=0), "every must be a whole number"),
        (lambda: MeanTeacher(ramp=0), "ramp must be a number from"),
        (lambda: MeanTeacher(weight=math.nan), "weight must be a number"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_training_stops_once_enough_epochs_were_above_the_mark(views, labelled, tmp_path, monkeypatch):
    monkeypatch.setattr(views, "weak", lambda indices, generator: views.plain(indices))
    net, n = torch.nn.Linear(4, 2), len(labelled[0])
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.3] * 4, [-0.3] * 4]))  # wrong for every item at first
    learner = Supervised(steps=500, batch=n, lr=0.01, stop_accuracy=0.9, stop_epochs=3, evaluate_every=1)
    right = []  # of the coming step's batch, which is the whole labelled set: one step is one epoch

    def look(step, model):
        right.append(accuracy(model, views.x[labelled[0]], labelled[1]))

    steps = train(learner, views, labelled, copy.deepcopy(net), look=look).metrics[-1]["step"]
    assert 4 < steps < 500
    assert sum(r > 0.9 for r in right[:-1]) == 4  # more than 3, and not one more
    path = tmp_path / "training.pt"
    done = train(learner, views, labelled, copy.deepcopy(net), checkpoint=path)
    assert done.metrics[-1]["step"] == steps
    again = train(learner, views, labelled, copy.deepcopy(net), checkpoint=path)  # finished: nothing more is trained
    assert torch.equal(weights(done.model), weights(again.model))
    never = train(dataclasses.replace(learner, steps=20, stop_accuracy=1.0), views, labelled, copy.deepcopy(net))
    assert never.metrics[-1]["step"] == 20


def test_a_look_comes_before_the_first_step_and_after_the_last(views, labelled, make_net):
    seen = {}
    learner = FixMatch(steps=25, batch=8, mu=2, evaluate_every=10)
    fitted = train(learner, views, labelled, make_net(), look=lambda step, model: seen.update({step: weights(model)}))
    assert list(seen) == [0, 10, 20, 25]
    assert torch.equal(seen[0], weights(make_net()))
    assert torch.equal(seen[25], weights(fitted.model))
