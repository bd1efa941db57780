"""Of the root's conftest.py: every test draws the same numbers in every run, and cannot draw others by mistake."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from askless.active.classifier import seed_of


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.default_rng(),
        lambda: np.random.SeedSequence(),
        lambda: np.random.RandomState(),
        lambda: np.random.seed(),  # noqa: NPY002
        lambda: np.random.normal(),  # noqa: NPY002
        lambda: np.random.permutation(3),  # noqa: NPY002
        lambda: random.Random(),
        lambda: random.seed(),
        lambda: torch.seed(),
        lambda: torch.Generator().seed(),
        lambda: seed_of(None),  # in the library
    ],
)
def test_what_no_other_run_can_repeat_is_refused(draw):
    with pytest.raises(RuntimeError, match="differs in every run: give a seed"):
        draw()


@pytest.mark.entropy
def test_a_test_of_entropy_may_use_it():
    assert seed_of(None) != seed_of(None)


@pytest.mark.own_seed("says that a seed is given on unchanged")
def test_seeded_draws_and_those_of_other_packages_pass():
    assert np.random.default_rng(3).integers(10**9) == np.random.Generator(np.random.PCG64(3)).integers(10**9)
    assert random.Random(3).random() == random.Random(3).random()
    first, second = (torch.rand(2, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert isinstance(torch.default_generator, torch.Generator)
    assert make_blobs()[0].shape == (100, 2)  # numpy's global generator, which is seeded


@pytest.fixture
def root(request):
    """The root's conftest.py."""
    return request.config.pluginmanager.get_plugin(str(request.config.rootpath / "conftest.py"))


def draws():
    """From the three global generators, and from three with a seed."""
    ours = [np.random.default_rng(0).random(), random.Random(0).random(), torch.Generator().manual_seed(0)]
    return [
        random.random(),
        float(torch.rand(1)),
        *make_blobs(1, 1)[0][0],
        *ours[:2],
        float(torch.rand(1, generator=ours[2])),
    ]


@pytest.fixture(scope="module")
def shared():
    return draws()


@pytest.mark.own_seed("computes the seeds itself")
@pytest.mark.parametrize("time", ["first", "second"])
def test_a_test_and_a_shared_fixture_draw_by_their_names_alone(time, root, request, shared):
    mine = draws()
    root.seed_all(request.node.nodeid)
    assert draws() == mine
    root.seed_all("tests/test_seeding.py shared ''")
    assert draws() == shared
    assert not set(mine[:3]) & set(shared[:3])
    assert mine[3:] == shared[3:]


def test_under_the_audit_every_number_of_a_test_is_another(root, monkeypatch):
    seen = set()
    for seed in range(3):
        monkeypatch.setattr(root, "AUDIT", seed)
        root.seed_all("a name")
        seen.update(draws())
    assert len(seen) == 3 * len(draws())


def test_an_order_is_drawn_again_from_its_seed(root, request):
    config, items = request.config, request.session.items
    orders = []
    for seed in (None, 1, 1, 2):
        mine = list(items)
        chosen = SimpleNamespace(getoption={"--shuffle": seed}.get, hook=config.hook)
        root.pytest_collection_modifyitems(chosen, mine)
        orders.append([item.nodeid for item in mine])
    assert orders[1] == orders[2] != orders[3]
    assert sorted(orders[1]) == sorted(orders[0]) == sorted(orders[3])
