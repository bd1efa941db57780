"""Maps a function over parts of work: in this process, in processes of this machine, or on Ray.

Which engine it is changes nothing but where the work is done: a worker is made once and then called with one task after the
other, and what it returns comes back with the task's number, in the order in which tasks end.
"""

import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

from askless.base.errors import AsklessError, InputError, OptionError
from askless.base.options import check_count, check_number

ENGINES = ("local", "ray")
TRIES = 3  # of a task whose worker dies, on Ray
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
    check_engine("map_tasks", engine, workers, gpus)
    if engine == "ray":
        yield from on_ray(make, tasks, workers, gpus)
    elif workers == 1:
        worker = make()
        yield from ((k, worker(*task)) for k, task in enumerate(tasks))
    else:
        yield from in_processes(make, tasks, workers)


def check_engine(owner: str, engine: str, workers: int, gpus: float) -> None:
    """An error, before anything is begun, where it could not be done."""
    check_count(owner, "workers", workers)
    if engine not in ENGINES:
        raise OptionError(f"engine: expected {' or '.join(ENGINES)}, got {engine!r}")
    check_number(owner, "gpus", gpus)
    if engine == "ray":
        need_ray()
    elif gpus:
        raise OptionError(f"gpus: expected 0 with the engine local, which shares out cores only, got {gpus}; use ray")


_mine: list[Worker] = []  # the worker of a process of the pool


def _hire(make: Callable[[], Worker]) -> None:
    stay_with_parent()
    _mine.append(make())


def stay_with_parent() -> None:
    """Ends this worker process when its parent is gone, however that went; Ctrl-C is the parent's to act on."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


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
    need_ray()
    given = {name: os.environ[name] for name in ("ASKLESS_DATA",) if name in os.environ}
    with connected(workers) as own:
        import ray.data
        from ray.exceptions import RayError

        check_room(1, gpus, own)

        ray.data.DataContext.get_current().enable_progress_bars = False  # the caller has its own
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        dealt = ray.data.from_items([{"number": k} for k in range(len(tasks))], override_num_blocks=len(tasks))
        done = dealt.map_batches(
            OnRay,
            fn_constructor_args=(make, tasks),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(tasks))),
            num_gpus=gpus or None,
            max_restarts=TRIES,
            max_task_retries=TRIES,
            runtime_env={"env_vars": given},
        )
        try:
            for row in done.iter_rows():
                answer = json.loads(row["answer"])
                if "error" in answer:
                    raise AsklessError(answer["error"])
                yield int(row["number"]), answer["result"]
        except RayError as error:
            raise AsklessError(
                f"Ray gave up: {in_short(error)}; what is finished is kept: run the same again"
            ) from error


def need_ray() -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        raise OptionError(
            "the engine ray needs Ray, which is not installed; pip install 'askless[ray]', or use the engine local"
        ) from None


@contextmanager
def connected(cores: int, tell: Callable[[str], None] = lambda text: None) -> Iterator[bool]:
    """Ray, and whether it is our own: what this process has begun, else the cluster at RAY_ADDRESS, else one on this
    machine, which ends with the block."""
    import ray

    if ray.is_initialized():
        yield False
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    tell("starting Ray" if address == "local" else f"joining the Ray cluster at {address}")
    if address == "local":
        with environment("RAY_USAGE_STATS_ENABLED", "0"):
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


def check_room(threads: int, gpus: float, own: bool, tell: Callable[[str], None] = lambda text: None) -> None:
    """An error where no worker would ever find its place; a cluster may still grow."""
    import ray

    nodes = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    if not any(n.get("CPU", 0) >= threads and n.get("GPU", 0) >= gpus for n in nodes):
        wanted = f"{threads} cores and {gpus:g} graphics cards"
        if own:
            raise InputError(
                f"expected {wanted} for each worker on this machine, got {nodes[0].get('GPU', 0):g} graphics "
                "cards; lower --gpus, or set RAY_ADDRESS to a cluster"
            )
        tell(f"waiting for a Ray node with {wanted}")


def check_there(address: str) -> None:
    """An OSError where nobody listens at the address: Ray itself would wait for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdigit():  # not "auto", which Ray looks up on this machine
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """An environment variable for processes that are started within the block; what was given before holds."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def in_short(error: Exception) -> str:
    """The sentence of a Ray error that says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    why = next((line for line in lines if "because" in line), lines[0])
    return why.split(". ")[0].rstrip(".")
