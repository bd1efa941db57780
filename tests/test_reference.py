"""The Python reference has every public name, and each name says what it takes and gives, and has an example that runs."""

import doctest
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import askless

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import reference  # noqa: E402

THINGS = {full: thing for _, full, thing in reference.names() if full.rpartition(".")[2] not in reference.VALUES}
METHODS = [
    (f"{full}.{key}", function)
    for full, thing in THINGS.items()
    if isinstance(thing, type)
    for _, key, function in reference.documented(thing, full.rpartition(".")[2])
]
# Their examples are shown and not run: data sets to be downloaded, and packages that are extras.
SKIPPED = {
    *("fashion_mnist", "mnist", "cifar10", "cifar100", "svhn", "caltech101", "reuters", "spam_assassin", "groceries"),
    *("rotten_tomatoes", "r8", "r52", "newsgroups", "letter", "satimage", "texture", "spambase", "fetch"),
    *("save_hf", "TensorBoard", "MLflow", "WandB"),
}


def test_every_public_name_is_in_the_reference_once():
    names = [full for _, full, _ in reference.names()]
    assert len(names) == len(set(names))
    at_home = {id(thing) for _, _, thing in reference.names()}
    for module in ("askless", *(f"askless.{name}" for name in reference.PACKAGES if name != "testing")):
        for name in import_module(module).__all__:
            thing = getattr(import_module(module), name)
            assert inspect.ismodule(thing) or f"{module}.{name}" in names or id(thing) in at_home, f"{module}.{name}"


def test_the_reference_has_what_the_documentation_imports():
    known = {id(thing) for _, _, thing in reference.names()}
    for page in (ROOT / "docs").glob("*.md"):
        for module, names in re.findall(r"^from (askless[\w.]*) import ([\w, ]+)$", page.read_text(), re.MULTILINE):
            for name in () if ".adapters" in module else names.split(", "):
                thing = getattr(import_module(module), name)
                assert inspect.ismodule(thing) or id(thing) in known, f"{page.name}: {module}.{name}"


def test_every_name_has_an_example_that_runs():
    modules = {sys.modules[thing.__module__] for thing in THINGS.values()}
    found = {test.name: test.examples for m in modules for test in doctest.DocTestFinder().find(m)}
    for full, thing in THINGS.items():
        examples = found[f"{thing.__module__}.{thing.__qualname__}"]
        runs = [e for e in examples if not e.options.get(doctest.SKIP)]
        assert examples, f"{full} has no example"
        assert bool(runs) is (full.rpartition(".")[2] not in SKIPPED), f"{full}: does its example run?"


def test_every_argument_is_explained():
    for full, thing in (*THINGS.items(), *METHODS):
        missing = [name for name in reference.unsaid(thing) if name not in reference.ARGUMENTS]
        assert not missing, f"{full}: say what these are in its docstring: {', '.join(missing)}"


def test_no_explanation_is_left_over():
    used = {name for _, thing in (*THINGS.items(), *METHODS) for name in reference.unsaid(thing)}
    assert not set(reference.ARGUMENTS) - used
    assert not set(reference.VALUES) - {full.rpartition(".")[2] for _, full, _ in reference.names()}


def test_every_function_says_what_it_returns():
    for full, thing in (*THINGS.items(), *METHODS):
        if inspect.isfunction(thing):
            assert inspect.signature(thing).return_annotation is not inspect.Signature.empty, full


def test_a_page_has_signatures_as_one_would_write_them_and_examples_in_fences(tmp_path: Path):
    assert reference.write(tmp_path) == list(reference.PAGES)
    page = (tmp_path / "strategies.md").read_text()
    assert "{py:class} askless.EGL(*, layers: Literal['last', 'all'] = 'last', bias: bool = True)\n" in page
    assert (
        "```pycon\n>>> al.select(al.Confidence(), 1, probs=[[0.9, 0.1], [0.6, 0.4]]).indices\narray([1])\n```" in page
    )
    for name in reference.PAGES:
        text = (tmp_path / f"{name}.md").read_text()
        assert not re.search(r"Annotated\[|<function|typing\.|doctest:", text), name
        assert askless.__name__ in text
