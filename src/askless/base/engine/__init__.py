"""Hands out tasks to workers: to one in this process, to processes of this machine, or to actors of Ray.

Where the work is done changes nothing of it. A worker is made once and then called with one task after the other, and with a
function by which it may tell of its progress; all that comes back arrives as calls in this process.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from askless.base.engine import on_ray
from askless.base.engine.processes import Processes
from askless.base.engine.worker import NotSent, Tell, Worker, Workers
from askless.base.errors import OptionError
from askless.base.machine import limited
from askless.base.options import check_count, check_number

ENGINES = ("local", "ray")
TRIES = 3  # of a task whose worker is lost, on Ray
Hear = Callable[[int, str, Any], None]

__all__ = ["ENGINES", "NotSent", "Tell", "Worker", "check_engine", "work"]


def check_engine(owner: str, engine: str, workers: int, gpus: float) -> None:
    """An error, before anything is begun, where it could not be done."""
    check_count(owner, "workers", workers)
    if engine not in ENGINES:
        raise OptionError(f"engine: expected {' or '.join(ENGINES)}, got {engine!r}")
    check_number(owner, "gpus", gpus)
    if engine == "ray":
        on_ray.need_ray()
    elif gpus:
        raise OptionError(f"gpus: expected 0 with the engine local, which assigns cores only, got {gpus}; use ray")


def work(
    make: Callable[[], Worker],
    tasks: Sequence[Any],
    hear: Hear,
    *,
    here: Worker | None = None,
    engine: str = "local",
    workers: int = 1,
    threads: int | None = None,
    cores: int = 1,
    gpus: float = 0,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Calls make()(task, tell) for every task; an error of a worker ends all work and is raised here.

    `hear(number, kind, content)` is called with what there is to know of a task: it was "told" something by its worker, is
    "done" (the answer), goes to another worker "again" since its own was lost (why), or is "lost" for good (why). `say`:
    what this process waits for.

    `make` and the tasks must be such as can be sent to another process (else `NotSent`), and so must answers; one local
    worker, or one local task, is this process, which computes by `here` where it is given. `threads`: of each
    worker. `cores`, `gpus`: what a worker has for itself on Ray.
    """
    check_engine("work", engine, workers, gpus)
    if engine == "local" and (workers == 1 or len(tasks) <= 1):
        worker = here or make()
        for k, task in enumerate(tasks):
            with limited(threads):
                answer = worker(task, partial(hear, k, "told"))
            hear(k, "done", answer)
    elif engine == "local":
        with closing(Processes(make, threads)) as processes:
            hand_out(tasks, processes, hear, workers, tries=1)
    elif tasks:
        workers = min(workers, len(tasks))
        with on_ray.connected(workers * cores, say) as own:
            on_ray.check_room(cores, gpus, own, say)
            with closing(on_ray.Actors(make, threads, cores, gpus)) as actors:
                hand_out(tasks, actors, hear, workers, tries=TRIES)


def hand_out(tasks: Sequence[Any], to: Workers, hear: Hear, workers: int, tries: int) -> None:
    """A task whose worker is lost waits again behind the others, until it had its `tries`."""
    waiting, busy = deque(range(len(tasks))), 0
    losses: Counter[int] = Counter()
    while waiting or busy:
        while waiting and busy < workers:
            k = waiting.popleft()
            to.give(k, tasks[k])
            busy += 1
        if not waiting:
            to.let_go()
        for k, kind, content in to.news():
            if kind == "failed":
                raise content
            busy -= kind != "told"
            losses[k] += kind == "lost"
            if kind == "lost" and losses[k] < tries:
                waiting.append(k)
                hear(k, "again", content)
                continue
            if kind == "lost" and tries > 1:
                content = f"{content}; tried {tries} times"
            hear(k, kind, content)
