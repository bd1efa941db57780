"""Tasks and their workers: here, in processes, on Ray; told, done, refused and lost."""

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info

from askless.base.engine import NotSent, work
from askless.base.engine.processes import Processes
from askless.base.errors import AsklessError, InputError, OptionError

ELSEWHERE = [2, pytest.param("ray", marks=pytest.mark.ray)]
EVERYWHERE = [1, *ELSEWHERE]


@pytest.fixture
def place(request, monkeypatch):
    """Options of `work`: in this process, in two others, or in two actors."""
    if request.param != "ray":
        request.getfixturevalue("ready_workers")
        return {"workers": request.param}
    request.getfixturevalue("cluster")
    monkeypatch.chdir(Path(__file__).parent)  # which the actors have too, and find this module there
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return {"engine": "ray", "workers": 2}


@pytest.fixture(scope="module")
def cluster():
    """One Ray for all, which `work` finds begun."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
        yield ray
        ray.shutdown()


class Odd(Exception):
    """Cannot be made of its own text, as unpickling does."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def square(x, tell):
    if x == "threads":
        return torch.get_num_threads(), {pool["num_threads"] for pool in threadpool_info()}
    if x == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if x == 14:
        raise InputError("14 is not for squaring")
    if x == 15:
        raise Odd(1, 2)
    if isinstance(x, Path):  # the first who comes dies
        try:
            x.mkdir()
        except FileExistsError:
            return os.getpid()
        os.kill(os.getpid(), signal.SIGKILL)
    for k in range(x):
        tell(k)
    return x * x


def make_square():
    return square


def heard_of(tasks, **options):
    heard = []
    work(make_square, tasks, lambda *news: heard.append(news), **options)
    return heard


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_every_task_tells_of_itself_in_order_and_then_is_done(place):
    heard = heard_of(list(range(8)), **place)
    for k in range(8):
        mine = [(kind, content) for number, kind, content in heard if number == k]
        assert mine == [*(("told", i) for i in range(k)), ("done", k * k)]
    assert heard_of([], **place) == []


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_an_error_is_raised_here_as_it_is(place):
    with pytest.raises(InputError, match="14 is not for squaring"):
        heard_of([1, 14, 2], **place)
    with pytest.raises((Odd, AsklessError), match="1 and 2"):
        heard_of([1, 15], **place)


@pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
def test_a_worker_has_its_threads(place):
    before = torch.get_num_threads()
    [(_, _, found), _] = [n for n in heard_of(["threads", "threads"], threads=1, **place) if n[1] == "done"]
    assert found == (1, {1})
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("ready_workers")
def test_a_task_whose_process_dies_is_lost_and_the_others_are_done():
    heard = heard_of([1, 13, 2], workers=2)
    assert sorted(n for n in heard if n[1] != "told") == [
        (0, "done", 1),
        (1, "lost", "its process ended with exit code -9 (killed, or out of memory?)"),
        (2, "done", 4),
    ]


@pytest.mark.ray
@pytest.mark.parametrize("place", ["ray"], indirect=True)
def test_on_ray_a_task_goes_to_another_worker_until_it_was_tried_three_times(place, tmp_path):
    heard = heard_of([13, tmp_path / "died", 3], **place)
    kinds = {k: [kind for number, kind, _ in heard if number == k and kind != "told"] for k in range(3)}
    assert kinds == {0: ["again", "again", "lost"], 1: ["again", "done"], 2: ["done"]}
    [why] = [content for _, kind, content in heard if kind == "lost"]
    assert why.startswith("its worker was lost: The actor ")
    assert why.endswith("; tried 3 times")


@pytest.mark.usefixtures("ready_workers")
def test_a_process_that_died_while_it_had_nothing_to_do_is_replaced():
    workers = Processes(make_square, None)
    process, pipe = workers.hire()
    process.kill()
    process.join()
    workers.idle.append((process, pipe))
    try:
        workers.give(0, 3)
        [(other, _)] = workers.busy.values()
        assert other.is_alive()
        assert other.pid != process.pid
    finally:
        workers.close()


@pytest.mark.parametrize("place", ELSEWHERE, indirect=True)
def test_what_cannot_be_sent_is_said_and_here_it_need_not_be(place):
    lock = threading.Lock()
    with pytest.raises(NotSent, match="TypeError: cannot pickle"):
        work(partial(make_square, lock), [1, 2], print, **place)
    heard = []
    work(partial(make_square, lock), [2], lambda *news: heard.append(news), here=square)
    assert heard[-1] == (0, "done", 4)


def test_ray_is_asked_for_by_name_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match="pip install 'askless\\[ray\\]'"):
        heard_of([1], engine="ray")


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_cores_and_graphics_cards_that_no_node_has_are_said():
    from askless.base.engine.on_ray import check_room

    said = []
    check_room(2, 0.0, True, said.append)
    with pytest.raises(InputError, match=r"expected 1 cores and 64 GPUs for each worker on this machine, got \d"):
        check_room(1, 64.0, True, said.append)
    assert not said
    check_room(1, 0.25 + 64, False, said.append)  # a cluster may grow
    assert said == ["waiting for a Ray node with 1 cores and 64.25 GPUs"]
