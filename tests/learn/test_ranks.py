"""Two processes that share a training do what one does with twice the batch, and agree with each other to the bit.

This file is also the program of those processes: `python test_ranks.py RANK WORLD FOLDER` runs `job` and leaves its results.
"""

import inspect
import json
import math
import os
import sys
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.modules._functions import SyncBatchNorm

import askless as al
from askless.base.errors import AsklessError, InputError
from askless.base.options import options
from askless.data import views_for
from askless.learn import DARP, Course, FixMatch, MeanTeacher, PiModel, Supervised, Task, TrainingError
from askless.learn.batchnorm import Normalised, batch_norm
from askless.learn.material import Material
from askless.learn.ranks import ALONE, Ranks, unwrapped
from askless.learn.training import check_blocks

SECONDS = 240  # after which a job counts as stuck
STRATEGIES = ("askless", "margin", "badge", "coreset", "npc")
METHODS: list = []  # of the trainings of this process, in their order


@options
class Seen(FixMatch):
    """FixMatch whose inside can be looked at afterwards."""

    def method(self, net, material, classes):
        METHODS.append(FixMatch.method(self, net, material, classes))
        return METHODS[-1]


class Typed:
    """The views of the digits in a dtype; those that `broken` names are not numbers."""

    def __init__(self, dtype=torch.float64, broken=0):
        self.views, self.dtype, self.broken, self.drawn = views_for(digits()), dtype, broken, 0

    def plain(self, indices):
        return self.views.plain(indices).to(self.dtype)

    def weak(self, indices, generator):
        self.drawn += 1
        return self.views.weak(indices, generator).to(self.dtype) * (math.nan if self.drawn == self.broken else 1)

    def strong(self, indices, generator):
        return self.views.strong(indices, generator).to(self.dtype)


@cache
def digits():
    return al.data.load("digits")


def labelled():
    positions = np.concatenate([np.flatnonzero(digits().labels == c)[:2] for c in range(10)])
    return positions, digits().labels[positions]


def cnn(dtype=torch.float64):
    return al.nets.make("small-cnn", shape=digits().shape, classes=10, seed=0, width=8).to(dtype)


def dense(dropout=0.0, norm=True):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        middle = [nn.BatchNorm1d(16)] if norm else []
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 16), *middle, nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 10)
        )


def train(learner, world, net=None, views=None, items=None, **given):
    """One training; its learner's batch is that of all processes."""
    part = type(learner)(**{**vars(learner), "batch": learner.batch // world})
    items = labelled() if items is None else items
    seed, task = given.pop("seed", 0), Task(views or Typed(), len(digits()), *items, 10)
    return part.fit(net or cnn(), task, seed=seed, course=Course(**given))


REFINED = DARP(warm_up=0.2, every=3)
FIXMATCH = Seen(steps=20, batch=16, mu=3, tau=0.5, darp=REFINED, evaluate_every=1)
SHORT = {"steps": 6, "batch": 16, "evaluate_every": 1}
OTHERS = {
    "supervised": Supervised(**SHORT),
    "stopped": Supervised(**{**SHORT, "steps": 40}, stop_accuracy=0.6, stop_epochs=1, lr=0.1),
    "mean teacher": MeanTeacher(**SHORT),
    "pi-model": PiModel(**SHORT),
    "kernel rate": Supervised(**SHORT, lr=100.0, kernel_rate=True, schedule="constant"),
}
KILLED = Seen(steps=9, batch=16, mu=2, tau=0.5, darp=REFINED, evaluate_every=2, checkpoint_every=4)
PATIENT = Supervised(steps=30, batch=16, evaluate_every=2, patience=2, lr=0.1)


class Killed(Exception):
    pass


def kill(done, total, numbers):
    if done == 6:
        raise Killed


def raised(call) -> tuple[str, str]:
    try:
        call()
    except AsklessError as error:
        return type(error).__name__, str(error)
    return "", ""


def tensors(model):
    return {name: t.clone() for name, t in model.state_dict().items()}


def comparable(world) -> dict:
    """Trainings that must come out alike whoever shares them: losses, weights, and DARP's pool-wide buffers."""
    found = {}
    blocks = {"blocks": 2}

    def keep(name, fitted):
        found[name] = {"numbers": fitted.metrics, "weights": tensors(fitted.model)}

    # Single precision at a small rate: at a large one a ReLU whose input is rounded to the other side of 0 is amplified.
    single = {"net": cnn(torch.float32), "views": Typed(torch.float32), **blocks}
    keep("single", train(Seen(**{**vars(FIXMATCH), "lr": 0.003}), world, **single))
    keep("fixmatch", train(FIXMATCH, world, **blocks))
    found["fixmatch"] |= METHODS[-1].state_dict()
    keep("four blocks", train(Seen(**{**vars(FIXMATCH), "steps": 6}), world, blocks=4))
    for name, learner in OTHERS.items():
        keep(name, train(learner, world, **blocks))
    x, y = Typed().plain(torch.arange(301)), torch.from_numpy(digits().labels[:301])
    keep("patient", train(PATIENT, world, validation=(x, y), **blocks))
    return found


def job(rank: int, world: int, folder: Path) -> dict:
    """What the processes do, in an order in which nobody waits for somebody who is not there."""
    found = {"comparable": comparable(world)}

    # A training with dropout that is killed, and goes on.
    log, path = folder / "log.jsonl", folder / "dropout.pt"
    again = lambda **given: train(KILLED, world, net=dense(0.3).double(), **given)  # noqa: E731
    found["whole"] = tensors(again().model)
    try:
        again(checkpoint=path, log=log, watch=kill)
    except Killed:
        resumed = again(checkpoint=path, log=log)
    found["resumed"], found["resumed numbers"] = tensors(resumed.model), resumed.metrics
    with suppress(Killed):  # one that is left to somebody else
        train(KILLED, world, checkpoint=folder / "left.pt", watch=kill)

    # What goes wrong goes wrong for all.
    plain = Supervised(steps=8, batch=16)
    net = dense(norm=False).double()
    broken = Typed(broken=4 if rank == 1 else 0)
    found["nan"] = raised(lambda: train(plain, world, net=net, views=broken))
    found["after nan"] = tensors(net)
    positions, labels = labelled()
    found["other labels"] = raised(lambda: train(plain, world, items=(positions, (labels + rank) % 10)))
    found["other weights"] = raised(lambda: train(plain, world, net=cnn() if rank else dense().double()))
    found["bad blocks"] = raised(lambda: train(plain, world, blocks=3))
    found["generator"] = raised(lambda: train(plain, world, seed=np.random.default_rng(0)))
    (folder / "file").write_text("")
    found["no room"] = raised(lambda: train(plain, world, checkpoint=folder / "file" / "fit.pt"))

    # The network is an ordinary one afterwards: this rank may use it by itself.
    net = cnn()
    found["kinds"] = [type(layer).__name__ for layer in net.modules()]
    train(plain, world, net=net)
    if rank == 0:
        net.train()(Typed().plain(torch.arange(5))).sum().backward()
    found["kinds after"] = [type(layer).__name__ for layer in net.modules()]

    # Ask, tell, fit.
    learner = al.ActiveLearner(digits(), learner=FixMatch(steps=10, batch=8, mu=2, tau=0.5), net="small-cnn", seed=0)
    learner.start_balanced(2)
    learner.fit()
    found["picks"] = {}
    for name in STRATEGIES:
        learner.strategy = al.acquire.make(name)
        found["picks"][name] = learner.ask(7).indices.tolist()
    found["saved"] = str(learner.save(folder / "learner", pool=False))
    return found


def main(rank: int, world: int, folder: Path) -> None:
    torch.set_num_threads(1)
    if sys.platform == "linux":  # without a name, gloo asks the network which interface is this host's
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group(
        "gloo", f"file://{folder}/store", timeout=timedelta(seconds=SECONDS), rank=rank, world_size=world
    )
    torch.save(job(rank, world, folder), folder / f"result-{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def two(folder, run_script):
    """The results of two processes."""
    ranks = [run_script(__file__, r, 2, folder) for r in range(2)]
    try:
        for rank in ranks:
            rank.join(SECONDS)
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.exitcode for rank in ranks] == [0, 0]
    return [torch.load(folder / f"result-{r}.pt", weights_only=False) for r in range(2)]


@pytest.fixture(scope="module")
def one():
    return comparable(world=1)


def losses(found):
    return np.array([numbers["loss"] for numbers in found["numbers"]])


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_twenty_losses_of_fixmatch_with_darp_are_those_of_one_process_with_twice_the_batch(one, two):
    both = losses(two[0]["comparable"]["single"])
    assert len(both) == 20
    assert np.abs(both - losses(one["single"])).max() < 1e-5
    assert np.abs(losses(two[0]["comparable"]["fixmatch"]) - losses(one["fixmatch"])).max() < 1e-12
    assert one["fixmatch"]["X"] is not None  # DARP was at work
    assert {n["kept"] for n in one["fixmatch"]["numbers"][4:]} > {0.0625}


@pytest.mark.parametrize("name", ["fixmatch", "four blocks", "patient", *OTHERS])
def test_every_learner_does_what_it_does_in_one_process(name, one, two):
    alone, shared = one[name], two[0]["comparable"][name]
    assert len(alone["numbers"]) == len(shared["numbers"])
    for a, b in zip(alone["numbers"], shared["numbers"], strict=True):
        assert a == pytest.approx(b, rel=1e-7, abs=1e-12)  # some are sums in single precision
    for key, value in alone["weights"].items():
        assert torch.allclose(value, shared["weights"][key], rtol=1e-8, atol=1e-10), key


def test_some_trainings_ended_early_as_they_were_told(one):
    assert len(one["stopped"]["numbers"]) < 40
    assert len(one["patient"]["numbers"]) < 15


def test_the_ranks_agree_to_the_bit(two):
    first, second = (found["comparable"] for found in two)
    for name in first:
        assert first[name]["numbers"] == second[name]["numbers"], name
        assert same(first[name]["weights"], second[name]["weights"]), name
    for key in ("P", "X", "nu"):
        assert torch.equal(first["fixmatch"][key], second["fixmatch"][key]), key


def test_the_pool_wide_predictions_are_those_of_one_process(one, two):
    alone, shared = one["fixmatch"], two[0]["comparable"]["fixmatch"]
    for key in ("P", "X"):
        assert torch.allclose(alone[key], shared[key], rtol=0, atol=1e-10), key


def test_picks_are_the_same_on_all_ranks(two):
    assert two[0]["picks"] == two[1]["picks"]
    assert all(len(set(picks)) == 7 for picks in two[0]["picks"].values())


def test_a_killed_training_goes_on_bit_for_bit_and_is_logged_once(two, folder):
    for found in two:
        assert same(found["whole"], found["resumed"])
    assert two[0]["resumed numbers"] == two[1]["resumed numbers"]
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert lines == two[0]["resumed numbers"]
    assert [line["step"] for line in lines] == [2, 4, 6, 8, 9]


def test_one_process_takes_up_what_two_have_begun(two, folder):
    whole = train(KILLED, 1, blocks=2)
    steps = []
    taken = train(KILLED, 1, blocks=2, checkpoint=folder / "left.pt", watch=lambda done, *_: steps.append(done))
    assert steps[0] == 5
    for name, value in tensors(whole.model).items():
        assert torch.allclose(value, taken.model.state_dict()[name], rtol=1e-8, atol=1e-10)


def test_other_blocks_are_another_training(two, tmp_path):
    with pytest.raises(Killed):
        train(KILLED, 1, blocks=2, checkpoint=tmp_path / "fit.pt", watch=kill)
    with pytest.raises(AsklessError, match="to another training: blocks was 2, is now 4"):
        train(KILLED, 1, blocks=4, checkpoint=tmp_path / "fit.pt")


def test_a_loss_that_is_no_number_on_one_rank_stops_all(two):
    assert two[0]["nan"] == two[1]["nan"]
    kind, text = two[0]["nan"]
    assert kind == TrainingError.__name__
    assert "the loss became nan at step 3" in text
    assert same(two[0]["after nan"], two[1]["after nan"])
    assert all(t.isfinite().all() for t in two[0]["after nan"].values())


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("other labels", "InputError", "same training on all 2 processes, got another labelled on rank 1"),
        ("other weights", "InputError", "got another first weights on rank 1 than on rank 0"),
        ("bad blocks", "InputError", "expected a multiple of the number of processes, 2, got 3"),
        ("generator", "InputError", "seed: expected a whole number, the same on all 2 processes"),
        ("no room", "CheckpointError", "could not be written"),
    ],
)
def test_all_ranks_say_what_is_wrong(case, kind, text, two):
    for found in two:
        assert found[case][0] == kind
        assert text in found[case][1]


def test_the_network_is_an_ordinary_one_afterwards(two):
    for found in two:
        assert found["kinds"] == found["kinds after"]
        assert "BatchNorm2d" in found["kinds"]


def test_only_the_first_rank_saves(two, folder):
    assert two[0]["saved"] == two[1]["saved"]
    again = al.ActiveLearner.load(folder / "learner", pool=digits())
    again.strategy = al.acquire.make("margin")
    assert again.ask(7).indices.tolist() == two[0]["picks"]["margin"]


# --- by itself ----------------------------------------------------------------------------------------------------------


def test_blocks_must_divide_the_batch():
    assert check_blocks(None, 6, Ranks(1, 3), 0) == 3
    assert check_blocks(6, 2, Ranks(1, 3), 0) == 6
    with pytest.raises(InputError, match=r"divides the 6 labelled items of a step \(batch=2, processes: 3\), got 9"):
        check_blocks(9, 2, Ranks(1, 3), 0)
    with pytest.raises(InputError, match="blocks must be a whole number >= 1, got 0"):
        check_blocks(0, 2, ALONE, 0)


def test_the_views_of_the_blocks_differ_and_do_not_depend_on_who_makes_them():
    def made(ranks, blocks):
        views = Typed()
        views.weak = views.strong = lambda indices, generator: torch.rand(len(indices), generator=generator)
        material = Material(Task(views, len(digits()), *labelled(), 10), 0, torch.device("cpu"), ranks, blocks)
        return material.weak(torch.arange(8 // ranks.world))

    alone = made(ALONE, 4)
    assert len(set(alone.tolist())) == 8
    assert torch.equal(alone, torch.cat([made(Ranks(r, 2), 4) for r in range(2)]))
    assert torch.equal(alone[:2], made(ALONE, 1)[:2])  # the first block's generator is that of a process by itself


def test_alone_everything_is_left_as_it_is():
    rows, net = torch.arange(6).reshape(3, 2), nn.Linear(2, 2)
    assert ALONE.gather(rows) is rows
    assert torch.equal(ALONE.mine(rows), rows)
    assert ALONE.mean({"a": 0.1, "b": 3.0}) == {"a": 0.1, "b": 3.0}
    assert ALONE.wrap(net) is net is unwrapped(net)
    assert ALONE.first(lambda: 3) == ALONE.total(3) == 3


def test_the_parts_follow_each_other():
    rows = torch.arange(12)
    assert torch.cat([Ranks(r, 3).mine(rows) for r in range(3)]).tolist() == rows.tolist()


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4), (6, 3, 4, 2)])
@pytest.mark.parametrize("affine", [True, False])
def test_our_batch_norm_is_that_of_torch(shape, affine):
    generator = torch.Generator().manual_seed(0)
    x = 3 + torch.randn(shape, generator=generator, dtype=torch.float64)
    gradient = torch.randn(shape, generator=generator, dtype=torch.float64)
    w, b = (torch.rand(2, 3, generator=generator, dtype=torch.float64)) if affine else (None, None)

    def run(norm):
        leaves = [t if t is None else t.clone().requires_grad_() for t in (x, w, b)]
        mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
        y = norm(leaves[0], mean, var, leaves[1], leaves[2])
        y.backward(gradient)
        return [y.detach(), mean, var, *(t.grad for t in leaves if t is not None)]

    theirs = run(lambda x, mean, var, w, b: F.batch_norm(x, mean, var, w, b, True, 0.3, 1e-5))
    ours = run(lambda x, mean, var, w, b: batch_norm(x, mean, var, w, b, 0.3, 1e-5, total=lambda t: t, world=1))
    for a, c in zip(theirs, ours, strict=True):
        assert torch.allclose(a, c, rtol=1e-10, atol=1e-12)


def test_every_batch_norm_in_train_mode_is_replaced_inside_and_none_outside():
    seen = []

    class WithActivation(nn.BatchNorm1d):  # as timm has them
        def forward(self, x):
            return super().forward(x).relu()

    def norm(x, *rest):
        seen.append(rest[0] is not None)
        return x

    net, x = nn.Sequential(nn.BatchNorm1d(3), WithActivation(3)), torch.randn(5, 3)
    with Normalised(norm):
        assert torch.equal(net(x), x.relu())
        net.eval()(x)
    net.train()(x)
    assert seen == [True, True]


def test_torch_has_the_fast_kernels_under_the_name_and_in_the_order_that_we_use():
    names = list(inspect.signature(SyncBatchNorm.forward).parameters)[1:]
    running = ["running_mean", "running_var", "eps", "momentum"]
    assert names == ["input", "weight", "bias", *running, "process_group", "world_size"]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
