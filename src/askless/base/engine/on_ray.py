"""Actors of Ray: many processes on this machine, or on all nodes of a cluster.

An actor for each worker rather than one of Ray's tasks for each task: it keeps what it has loaded for the next one (Ray ends
a process that has a GPU after every task), and how often a task is tried again is ours to say.
"""

import logging
import os
import queue
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from askless.base.engine.worker import Employed, News, NotSent, Worker
from askless.base.errors import AsklessError, InputError, OptionError

OBJECTS = 2**27  # bytes of Ray's shared memory: tasks and their answers are small
INHERITED = ("ASKLESS_DATA",)  # what an actor gets of this process's environment


class Actor:
    """A worker in an actor, which is asked for its news while it is at a task."""

    def __init__(self, folder: str, path: list[str], make: bytes, threads: int | None) -> None:
        from ray import cloudpickle

        with suppress(OSError):  # names of files may be relative to it
            os.chdir(folder)
        sys.path.extend(p for p in path if p not in sys.path)
        self.worker = Employed(partial(cloudpickle.loads, make), threads)
        self.heard: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def compute(self, task: Any) -> tuple[str, Any]:
        answer = self.worker(task, lambda news: self.heard.put((news,)))
        self.heard.put(None)
        return answer

    def told(self) -> list[Any]:
        """The reports since the last call, after waiting up to about a second; None at the end of a task."""
        found = []
        with suppress(queue.Empty):
            found.append(self.heard.get(timeout=1.0))
            while True:
                found.append(self.heard.get_nowait())
        return found


class Actors:
    """So many actors as have a task, and those that wait for one."""

    def __init__(self, make: Callable[[], Worker], threads: int | None, cores: int, gpus: float) -> None:
        import ray
        from ray import cloudpickle

        try:
            content = cloudpickle.dumps(make)
        except Exception as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        given = {name: os.environ[name] for name in INHERITED if name in os.environ}
        options = {"num_cpus": cores, "num_gpus": gpus, "max_restarts": 0, "max_concurrency": 2}
        actor: Any = ray.remote(Actor).options(**options, runtime_env={"env_vars": given})
        self.hire = partial(actor.remote, os.getcwd(), sys.path, ray.put(content), threads)
        self.busy: dict[Any, tuple[Any, int]] = {}  # by what will be the answer: whose, and of which task
        self.hearing: dict[Any, Any] = {}  # by what will be told: before which answer
        self.idle: list[Any] = []

    def give(self, number: int, task: Any) -> None:
        actor = self.idle.pop() if self.idle else self.hire()
        answer = actor.compute.remote(task)
        self.busy[answer] = (actor, number)
        self.hearing[actor.told.remote()] = answer

    def news(self) -> Iterator[News]:
        import ray
        from ray.exceptions import RayError

        for ref in ray.wait([*self.busy, *self.hearing], timeout=1.0)[0]:
            if ref in self.hearing:
                yield from self.hear(ref)
                continue
            while before := [told for told, answer in self.hearing.items() if answer == ref]:
                yield from self.hear(before[0])
            actor, number = self.busy.pop(ref)
            try:
                kind, content = ray.get(ref)
            except RayError as error:
                ray.kill(actor)
                yield News(number, "lost", f"its worker was lost: {in_short(error)}")
            else:
                self.idle.append(actor)
                yield News(number, kind, content)

    def hear(self, told: Any) -> Iterator[News]:
        import ray
        from ray.exceptions import RayError

        answer = self.hearing.pop(told)
        actor, number = self.busy[answer]
        with suppress(RayError):  # the answer will say why
            heard = ray.get(told)
            yield from (News(number, "told", news) for [news] in filter(None, heard))
            if None not in heard:
                self.hearing[actor.told.remote()] = answer

    def let_go(self) -> None:
        """Cores that are not needed any more are given back: another worker may be waiting for them."""
        import ray

        for actor in self.idle:
            ray.kill(actor)
        self.idle.clear()

    def close(self) -> None:
        self.idle += [actor for actor, _ in self.busy.values()]
        self.let_go()


def need_ray() -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        raise OptionError(
            "the engine ray needs Ray, which is not installed; run `pip install 'askless[ray]'`, or use the engine local"
        ) from None


@contextmanager
def connected(cores: int, say: Callable[[str], None]) -> Iterator[bool]:
    """Ray, and whether it is our own: what this process has begun, else the cluster at RAY_ADDRESS, else one on this
    machine, which ends with the block."""
    import ray

    if ray.is_initialized():
        yield False
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    say("starting Ray" if address == "local" else f"joining the Ray cluster at {address}")
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            "local",
            num_cpus=cores,
            include_dashboard=False,
            object_store_memory=OBJECTS,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    else:
        try:
            check_there(address)
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            raise AsklessError(
                f"expected a Ray cluster at RAY_ADDRESS={address}, got {in_short(error)}; start one with "
                "`ray start --head`, or unset RAY_ADDRESS"
            ) from error
    try:
        yield address == "local"
    finally:
        ray.shutdown()  # only leaves a cluster that others have started


def check_room(cores: int, gpus: float, own: bool, say: Callable[[str], None]) -> None:
    """An error where no worker would ever find its place; a cluster may still grow."""
    import ray

    nodes = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    if not any(n.get("CPU", 0) >= cores and n.get("GPU", 0) >= gpus for n in nodes):
        wanted = f"{cores} cores and {gpus:g} GPUs"
        if own:
            raise InputError(
                f"expected {wanted} for each worker on this machine, got {nodes[0].get('GPU', 0):g} GPUs; lower "
                "--gpus, or set RAY_ADDRESS to a cluster"
            )
        say(f"waiting for a Ray node with {wanted}")


def check_there(address: str) -> None:
    """An OSError where nobody listens at the address: Ray itself would wait for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdigit():  # not "auto", which Ray looks up on this machine
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def in_short(error: Exception) -> str:
    """The sentence of a Ray error that says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    why = next((line for line in lines if "because" in line), lines[0])
    return why.split(". ")[0].rstrip(".")
