"""Maps a function over parts of work: in this process, in processes of this machine, or on Ray.

Which engine it is changes nothing but where the work is done: a worker is made once and then called with one task after the
other, and what it returns comes back with the task's number, in the order in which tasks end.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from askless.errors import AsklessError, OptionError
from askless.machine import cores

ENGINES = ("local", "ray")
OBJECTS = 2**27  # bytes of Ray's shared memory: tasks and their answers are small
Worker = Callable[..., Any]


def map_tasks(
    make: Callable[[], Worker],
    tasks: Sequence[tuple[Any, ...]],
    *,
    engine: str = "local",
    workers: int = 1,
    gpus: float = 0,
) -> Iterator[tuple[int, Any]]:
    """(number, make()(*task)) of every task. `make` and the tasks must be such as can be sent to another process, and the
    answers plain data. `gpus`: those that a worker has for itself, on Ray.

    A task whose worker dies is done again by another worker on Ray; here it is an error, after which finished tasks stay
    finished.
    """
    if engine not in ENGINES:
        raise OptionError(f"engine: expected {' or '.join(ENGINES)}, got {engine!r}")
    if engine == "ray":
        yield from on_ray(make, tasks, workers, gpus)
    elif workers == 1:
        worker = make()
        yield from ((k, worker(*task)) for k, task in enumerate(tasks))
    else:
        yield from in_processes(make, tasks, workers)


_mine: list[Worker] = []  # the worker of a process of the pool


def _hire(make: Callable[[], Worker]) -> None:
    _mine.append(make())


def _work(task: tuple[Any, ...]) -> Any:
    return _mine[0](*task)


def in_processes(
    make: Callable[[], Worker], tasks: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[tuple[int, Any]]:
    pool = ProcessPoolExecutor(
        min(workers, len(tasks)), mp_context=get_context("spawn"), initializer=_hire, initargs=(make,)
    )
    try:
        number = {pool.submit(_work, task): k for k, task in enumerate(tasks)}
        for done in as_completed(number):
            yield number[done], done.result()
    except BrokenProcessPool:
        raise AsklessError(
            "a worker process ended (killed, or out of memory?); what is finished is kept: run the same again"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class OnRay:
    """A worker as Ray Data calls it: a batch of numbers in, what became of these tasks out, as JSON. What is the user's to
    mend comes back in words: Ray would try it again, and wrap it in pages of its own."""

    def __init__(self, make: Callable[[], Worker], tasks: Sequence[tuple[Any, ...]]) -> None:
        self.worker, self.tasks = make(), tasks

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        numbers = [int(k) for k in batch["number"]]
        return {"number": numbers, "answer": [json.dumps(self.answer(k)) for k in numbers]}

    def answer(self, k: int) -> dict[str, Any]:
        try:
            return {"result": self.worker(*self.tasks[k])}
        except AsklessError as error:
            return {"error": str(error)}


def on_ray(
    make: Callable[[], Worker], tasks: Sequence[tuple[Any, ...]], workers: int, gpus: float
) -> Iterator[tuple[int, Any]]:
    """One actor per worker, each with its own copy of what it needs; Ray Data hands out the tasks, restarts an actor that
    died and gives its task to another."""
    with ray_running(workers) as ray:
        ray.data.DataContext.get_current().enable_progress_bars = False  # the caller has its own
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        dealt = ray.data.from_items([{"number": k} for k in range(len(tasks))], override_num_blocks=len(tasks))
        done = dealt.map_batches(
            OnRay,
            fn_constructor_args=(make, tasks),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(tasks))),
            num_gpus=gpus or None,
        )
        for row in done.iter_rows():
            answer = json.loads(row["answer"])
            if "error" in answer:
                raise AsklessError(answer["error"])
            yield int(row["number"]), answer["result"]


@contextmanager
def ray_running(workers: int) -> Iterator[Any]:
    """Ray, joined where RAY_ADDRESS names a cluster, else started on this machine and stopped again at the end."""
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
        import ray.data
    except ImportError:
        raise OptionError("engine ray needs Ray; run `pip install 'askless[ray]'`, or use engine local") from None
    ours = not ray.is_initialized()
    if ours and os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False, logging_level=logging.WARNING)
    elif ours:
        ray.init(
            num_cpus=max(workers, cores()),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.WARNING,
            object_store_memory=OBJECTS,
        )
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()
