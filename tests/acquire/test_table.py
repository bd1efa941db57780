"""The registries: what stands in other places besides, for users and type checkers, is the same there."""

import dataclasses
import inspect
import subprocess
import sys

import pytest
import typer

import askless as al
from askless.acquire.table import ARRAYS, STRATEGIES
from askless.acquire.testing import example_arrays
from askless.cli import app


@pytest.mark.parametrize("name", ARRAYS)
def test_every_array_is_known_wherever_arrays_are_given(name):
    assert name in inspect.signature(al.select).parameters
    assert name in {field.name for field in dataclasses.fields(al.View)}
    assert f"`{name}` {ARRAYS[name].shape}" in " ".join((al.select.__doc__ or "").split())
    select = typer.main.get_command(app).commands["select"]  # type: ignore[attr-defined]
    assert name in {option.name for option in select.params}
    axes = len(ARRAYS[name].shape.strip("(,)").split(","))
    assert example_arrays(8, 3)[name].ndim == axes


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_a_public_class_of_that_name(name):
    made = STRATEGIES[name].make
    assert made().name == name
    assert made.__doc__
    assert getattr(al, made.__name__) is getattr(al.acquire, made.__name__) is made
    for package in (al, al.acquire):
        assert made.__name__ in package.__all__
        assert made.__name__ in dir(package)


def test_who_only_asks_for_names_does_not_wait_for_torch():
    code = "import sys, askless.acquire, askless.run.settings as s; assert s.STRATEGIES; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_name_that_nobody_has_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'askless\.acquire' has no attribute 'Psychic'"):
        al.acquire.Psychic  # noqa: B018
