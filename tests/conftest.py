import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import sys

import pytest
import torch

torch.set_num_threads(1)

# What a training, an embedding and a benchmark import, the parts that torch loads with its first step included.
IMPORTED = [
    "pytest",
    "torch._dynamo",
    "torch.distributed",
    "sklearn.datasets",
    "sklearn.linear_model",
    "pyarrow.parquet",
]
IMPORTED += [f"askless.{name}" for name in ("active.embedding.shard_maker", "bench.compute", "bench.demo", "kernels")]


@pytest.fixture(scope="session")
def ready_python():
    """Processes that are forked from one which has imported torch and askless, in place of new ones that take five seconds
    of work each to do so."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield multiprocessing.get_context("spawn")
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    yield context
    multiprocessing.forkserver._forkserver._stop()  # waits for it, so that its time counts as that of the tests


@pytest.fixture
def ready_workers(ready_python, monkeypatch):
    """Worker processes that start at once. They have the environment of the first of them, not the test's; that `spawn`
    works too is the subject of `test_a_killed_run_ends_as_one_that_was_not` and of `test_processes_give_the_same`."""
    monkeypatch.setattr("askless.base.engine.processes.get_context", lambda method: ready_python)


@pytest.fixture(scope="session")
def run_script(ready_python):
    """`run_script(path, *arguments)`: a process that runs a file as `python path arguments > output` would, with more in its
    environment."""

    def start(path, *arguments, output=os.devnull, environment=None):
        given = (str(path), [str(a) for a in arguments], output, environment or {})
        process = ready_python.Process(target=as_program, args=given)
        process.start()
        return process

    return start


@pytest.fixture
def tiny_vit(tmp_path):
    """A folder with a vision transformer of Hugging Face, of random weights, and its image processor: there is no hub in the
    tests."""
    from askless.nets.optional import torchvision

    torchvision()  # its guard
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8))
    model.save_pretrained(tmp_path / "vit")
    colours = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}
    ViTImageProcessor(size={"height": 32, "width": 32}, **colours).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"


def as_program(path, arguments, output, environment):
    os.environ.update(environment)
    sys.argv = [path, *arguments]
    with open(output, "w") as sys.stdout:
        runpy.run_path(path, run_name="__main__")
        sys.stdout.flush()
    sys.stdout = sys.__stdout__
