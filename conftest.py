"""Every test draws the same numbers in every run, in any order and in any process.

Before each test, and before each fixture that several tests share, `random`, numpy and torch are seeded from its name.
Entropy of the operating system is forbidden to our own code: an unseeded generator that a test or the library makes in
a test raises `Unseeded`, and so do numpy's global draws. A test of what happens without a seed is marked `entropy`.

`ASKLESS_TEST_SEED=k` gives every test other numbers: k is mixed into the seeds above and into those that a test writes
itself, as in `default_rng(0)`. `make test-seeds` runs the fast tests under many k (tools/seed_audit.py); a test that
holds for its own numbers only is marked `own_seed` with the reason, and is left out.
"""

import functools
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
TESTS, LIBRARY = f"{HERE / 'tests'}{os.sep}", f"{HERE / 'src'}{os.sep}"
AUDIT = int(os.environ.get("ASKLESS_TEST_SEED", "0"))

running: list[str] = []  # the test or shared fixture that is being run, innermost last
drew: set[str] = set()  # those, and modules on import, that drew a number
entropy = False  # whether the test may use some

# Hypothesis draws from each test's name too, keeps nothing between runs and never fails a test for being slow.
settings.register_profile(
    "askless", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("askless")


class Unseeded(RuntimeError):
    """A test, or the library in a test, asked for numbers that no other run can repeat."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run modules, and the tests of each, in a random order"
    )
    parser.addoption(
        "--draws", type=Path, metavar="FILE", help="append a line for each test: does it draw, how long is it"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--shuffle")
    if seed is not None:  # xdist's processes must agree on the order
        items.sort(key=lambda item: (number(seed, item.path.name), number(seed, item.nodeid)))
    own = [item for item in items if AUDIT and item.get_closest_marker("own_seed")]
    if own:
        config.hook.pytest_deselected(items=own)
        items[:] = [item for item in items if item not in own]


# ------------------------------------------------------------------------------------------------------- seeding


def number(*parts: Any) -> int:
    """The same 32 bits from the same parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "little")


def states() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


def changed(before: tuple[Any, ...]) -> bool:
    of_random, of_numpy, of_torch = states()
    same = of_random == before[0] and torch.equal(of_torch, before[2])
    return not (same and of_numpy[2:] == before[1][2:] and np.array_equal(of_numpy[1], before[1][1]))


def seed_all(name: str) -> None:
    seed = number(name, AUDIT)
    seed_random(random._inst, seed)  # type: ignore[attr-defined]
    seed_numpy(seed)
    seed_torch(seed)


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test starts from the same numbers, whatever ran before it."""
    global entropy
    entropy = request.node.get_closest_marker("entropy") is not None
    running.append(request.node.nodeid)
    seed_all(request.node.nodeid)
    before = states()
    yield
    if changed(before):
        drew.add(request.node.nodeid)
    running.pop()
    entropy = False


@pytest.fixture(autouse=True)
def example(request: pytest.FixtureRequest) -> None:
    """The examples of docstrings know `al`, `np` and `torch`, and write into a folder of their own."""
    if isinstance(request.node, pytest.DoctestItem):
        import askless

        request.getfixturevalue("doctest_namespace").update(al=askless, np=np, torch=torch)
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """A fixture that several tests share is the same whichever of them comes first, and changes none of them."""
    if fixturedef.scope == "function":
        return (yield)
    before = states()
    running.append(f"fixture {fixturedef.argname}")
    seed_all(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', '')!r}")
    after = states()
    try:
        return (yield)
    finally:
        if changed(after):
            drew.add(running[-1])
        running.pop()
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    begun = sum(os.times()[:4])
    result = yield
    file = item.config.getoption("--draws")
    if file is not None:
        shared = [f"fixture {name}" for name in getattr(item, "fixturenames", ())]
        draws = not drew.isdisjoint([item.nodeid, str(item.path), *shared])
        row = {
            "test": item.nodeid,
            "draws": draws,
            "seconds": round(sum(os.times()[:4]) - begun, 2),
        }  # of the processor
        with file.open("a") as rows:
            rows.write(f"{json.dumps(row)}\n")
    return result


# ------------------------------------------------------------------------------------------- the guard of generators


def caller() -> str:
    """`tests` or `library` where the call of a guarded function comes from there, else nothing."""
    frame: FrameType | None = sys._getframe(2)
    while frame and frame.f_code.co_filename in (__file__, random.__file__):
        frame = frame.f_back
    file = frame.f_code.co_filename if frame else ""
    if not file.startswith((TESTS, "<doctest")):
        return "library" if file.startswith(LIBRARY) else ""
    if running:
        drew.add(running[-1])
    while frame and not running:  # on import, what is drawn belongs to the module
        drew.add(frame.f_code.co_filename)
        frame = frame.f_back
    return "tests"


def seed_for(seed: Any, what: str) -> Any:
    """The seed that a guarded call gets: its own, or under the audit another in its place where a test wrote it."""
    who = caller()
    if who and seed is None and not entropy:
        raise Unseeded(f"{what} differs in every run: give a seed, or mark the test `entropy` if that is its subject")
    is_made = isinstance(seed, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence)
    return seed if who != "tests" or not AUDIT or seed is None or is_made else number(str(seed), AUDIT)


def with_seed(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """A function whose first argument is a seed."""

    @functools.wraps(function)
    def guarded(seed: Any = None, *args: Any, **options: Any) -> Any:
        return function(seed_for(seed, what), *args, **options)

    return guarded


def without_seed(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """A function that draws from a seed that nobody gave."""

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> Any:
        seed_for(None, what)
        return function(*args, **options)

    return guarded


def like(kind: type, **methods: Callable[..., Any]) -> type:
    """A class in the place of a compiled one, whose methods cannot be replaced."""

    class Like(type(kind)):  # type: ignore[misc]
        def __instancecheck__(cls, given: Any) -> bool:
            return isinstance(given, kind)

    return Like(kind.__name__, (kind,), methods)


def with_seed_in_init(kind: type) -> type:
    def init(self: Any, seed: Any = None, *args: Any, **options: Any) -> None:
        kind.__init__(self, seed_for(seed, f"numpy.random.{kind.__name__}()"), *args, **options)  # type: ignore[misc]

    return like(kind, __init__=init)


seed_random, seed_numpy, seed_torch = random.Random.seed, np.random.seed, torch.manual_seed
of_torch = torch.Generator

random.Random.seed = lambda self, a=None, version=2: seed_random(self, seed_for(a, "random.Random()"), version)  # type: ignore[method-assign,assign,misc]
random.seed = random._inst.seed  # type: ignore[attr-defined]
torch.manual_seed = torch.random.manual_seed = with_seed(seed_torch, "torch.manual_seed()")
torch.seed = torch.random.seed = without_seed(torch.seed, "torch.seed()")
torch.Generator = like(  # type: ignore[misc]
    of_torch,
    seed=without_seed(of_torch.seed, "torch.Generator.seed()"),
    manual_seed=lambda self, seed: of_torch.manual_seed(self, seed_for(seed, "torch.Generator")),
)
for name in dir(np.random):
    thing = getattr(np.random, name)
    if name == "default_rng":
        np.random.default_rng = with_seed(thing, "numpy.random.default_rng()")
    elif name in ("SeedSequence", "RandomState"):
        setattr(np.random, name, with_seed_in_init(thing))
    elif name == "seed" or (
        getattr(thing, "__self__", None) is np.random.mtrand._rand and name not in ("get_state", "set_state")
    ):
        setattr(np.random, name, without_seed(thing, f"numpy's global numpy.random.{name}()"))
