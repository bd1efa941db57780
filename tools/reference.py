"""The pages of the Python reference, from the docstrings: `tools/stage_site.py` puts them into the site.

    python tools/reference.py FOLDER        # writes them as Markdown, to be looked at

Docstrings are Markdown, as the documentation is. (Sphinx's autodoc reads reStructuredText, and would need torch beside
Sphinx.) Sphinx gets a `py:` directive for every name, with the signature, so that names are linked, listed and found.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import askless
from askless.acquire import STRATEGIES, Name

PACKAGES = ("acquire", "bench", "data", "kernels", "learn", "linalg", "nets", "theory", "testing", "track")
HEAD = """The examples begin with `import askless as al`, `import numpy as np` and, where they use it, `import torch`. A name
that stands there alone is imported from its module.

A bad argument, array or file raises `InputError`, and an unknown name or option `OptionError`. Both are `ValueError`s and
say what was expected, what came and what to do. `AsklessError` catches every error of askless."""
STRATEGY_NAMES = [row.home.partition(".")[2] for row in STRATEGIES.values()]


def public(module: str) -> list[str]:
    return [name for name in import_module(module).__all__ if name not in PACKAGES]


def rest(package: str) -> dict[str, list[str]]:
    """What a package has besides the names that `askless` has."""
    module = import_module(f"askless.{package}")
    return {module.__name__: [n for n in module.__all__ if getattr(askless, n, None) is not getattr(module, n)]}


# A page: its title, and where its names are.
PAGES: dict[str, tuple[str, dict[str, list[str]]]] = {
    "select": (
        "Choose from arrays",
        {
            "askless": ["select", "Selection", "Strategy", "View", "Stream"],
            **rest("acquire"),
            "askless.acquire.strategy": ["top"],
            "askless.acquire.testing": public("askless.acquire.testing"),
            "askless.base.options": ["options", "Count", "Share", "NotNegative"],
        },
    ),
    "strategies": ("Strategies", {"askless": [*STRATEGY_NAMES, "TwoLevel"]}),
    "loop": (
        "Ask, tell, fit",
        {"askless": ["ActiveLearner", "ActiveClassifier", "Pool", "Frozen", "embed", "embed_texts", "open_shards"]},
    ),
    "learners": (
        "Learners",
        {
            "askless": ["Auto", "LabelPropagation", "FixMatch", "DARP", "Supervised", "MeanTeacher", "PiModel", "darp"],
            **rest("learn"),
            "askless.learn.training": ["Method"],
        },
    ),
    "runs": (
        "Runs, models and errors",
        {"askless": ["Run", "load", "AsklessError", "InputError", "OptionError", "ModelError"]},
    ),
    "data": ("Data", rest("data")),
    "nets": ("Networks", rest("nets")),
    "kernels": ("Kernels of a network", rest("kernels")),
    "linalg": ("Eigenvalues and searches", rest("linalg")),
    "theory": (
        "The theory",
        {**rest("theory"), "askless.theory.findings": ["examine"], "askless.theory.words": ["lines"]},
    ),
    "track": ("Trackers", rest("track")),
    "bench": (
        "Benchmarks",
        {**rest("bench"), "askless.bench.report": ["write"], "askless.bench.demo": ["write_images"]},
    ),
}

VALUES = {  # what is neither a class nor a function has no docstring
    "STRATEGIES": "Every strategy: its name and its `Info`.",
    "LEARNERS": "Every learner: its name and its class.",
    "NETS": "Every network: its name, in which K and NAME are filled in, and what makes it.",
    "SOURCES": "Every data set: its name and the function that opens it.",
    "PRESETS": "Every preset of a benchmark: its name and the function that makes it at a scale.",
    "Name": "The names of the strategies, as a type.",
    "Count": "A whole number of at least 1, as the type of an option.",
    "Share": "A number from 0 to 1, as the type of an option.",
    "NotNegative": "A number of at least 0, as the type of an option.",
    "KEKMODEL": "The `Policy` of the FixMatch code that NPC and CRC use.",
    "LEEDOYUP": "The `Policy` of the FixMatch code that dynamicAL uses.",
    "OFFICIAL": "The `Policy` of FixMatch's own code.",
}
ARGUMENTS = {  # what an argument of this name is, where its docstring leaves it out
    "K": "a kernel, (n, n), numpy or torch.",
    "K_test": "the kernel of test items with the n training items, (n2, n).",
    "X": "rows (n, d).",
    "Y": "one-hot labels, (n, C), or targets, (n,).",
    "annotator": "whose answer it is.",
    "batch_size": "examples per pass.",
    "before": "what was learnt last of the same pool, or None.",
    "classes": "how many classes there are, or their names in order.",
    "course": "a `Course`: device, log, and what watches.",
    "data": "an array, a tensor, a pair (x, y), a Dataset or a Pool.",
    "dataset": "a sequence of pairs (x, y).",
    "eta": "the step size of gradient descent.",
    "flip": "whether a mirrored image keeps its class.",
    "generator": "a torch Generator.",
    "group": "the panel of the table.",
    "given": "options of your own objects, passed again.",
    "head": "the last linear layer, by name or as a module; by default it is found.",
    "how": '"steps" of gradient descent, or "flow", its limit of small steps.',
    "ids": "the names of the items.",
    "indices": "positions in the pool, (n,).",
    "kind": "what it holds, or which kernel it is.",
    "labelled": "positions of the labelled items, (L,).",
    "labels": "class numbers, one per item; -1 where unknown.",
    "layers": '"last" for the head alone, "all" for all trainable parameters.',
    "layout": '"chw" or "hwc", where the colours stand; by default it is found.',
    "learner": "the training that valued the labels; by default the one of the row.",
    "m": "how many items come first.",
    "max_memory": "bytes of working memory, beside what comes in and what goes out.",
    "method": "the name of the row.",
    "model": "any `nn.Module`; it runs in eval mode and is left as it was.",
    "n_labelled": "how many of the items have a label.",
    "name": "its name.",
    "names": "names of arrays.",
    "net": "the network, which is trained in place.",
    "out": "the folder to write.",
    "overwrite": "whether a folder that is there is replaced.",
    "path": "the file or folder; None, of a data set by name, is its place in `data_home()`.",
    "positions": "positions in the pool, or in the stream, (n,).",
    "progress": "called now and then, as progress(done, total).",
    "request_id": "a text that makes a repeated request harmless.",
    "residual": "f - Y, (n, C) or (n,).",
    "rng": "a numpy Generator, the only source of randomness.",
    "sample_weight": "the weight of each row.",
    "seed": "a whole number or a numpy Generator; the same seed gives the same numbers.",
    "sight": "how the network is looked at.",
    "size": "a side in pixels, or height and width.",
    "step": "the number of the step, from 1.",
    "strategy": "a strategy, or its name.",
    "task": "the `Task`: what the pool looks like, and its labels.",
    "test_residual": "the same of test items, (n2, C) or (n2,).",
    "text": "what to read.",
    "times": "numbers of steps, or times of the flow, (T,).",
    "unlabelled": "positions of the unlabelled items.",
    "views": "the `Views` of the pool.",
    "x": "items or examples, (n, ...): a tensor, an array or a Dataset.",
}
METHODS: dict[str, tuple[str, ...]] = {  # where a class has more methods than its users call
    **dict.fromkeys((*STRATEGY_NAMES, "TwoLevel"), ()),
    "Run": (
        *("create", "open", "close", "waiting", "tell", "advance", "is_finished", "predictions", "set_budget"),
        *("export_model", "write_report"),
    ),
}


def names() -> Iterator[tuple[str, str, Any]]:
    """Every name of the reference: its page, the name in full, and what it is."""
    for page, (_, homes) in PAGES.items():
        for module, some in homes.items():
            for name in some:
                yield page, f"{module}.{name}", getattr(import_module(module), name)


def hint(annotation: Any) -> str:
    """An annotation as its reader would write it."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = text.replace(str(Name), "Name")
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_~])", "", text).replace("~", "")
    text = re.sub(r"Annotated\[(\w+), Between\([^)]*\)\]", r"\1", text).replace("NoneType", "None")
    text = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text)
    text = re.sub(r"\bOptional\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"\1 | None", text)
    return re.sub(r"\bUnion\[(Name), (\w+)\]", r"\1 | \2", text)


def signature(thing: Any, bound: bool = False) -> str:
    """The arguments with their types and defaults, and what comes back."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parts, before = [], None
    for place, p in enumerate(found.parameters.values()):
        if bound and place == 0:
            continue
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parts.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        typed = "" if p.annotation in (p.empty, Any) else f": {hint(p.annotation)}"
        told = repr(p.default)
        value = "" if p.default is p.empty else f" = {told if '<' not in told and len(told) < 60 else '...'}"
        parts.append(f"{star}{p.name}{typed}{value}")
        before = p.kind
    gives = found.return_annotation
    back = "" if gives in (found.empty, None) or isinstance(thing, type) else f" -> {hint(gives)}"
    return f"({', '.join(parts)}){back}"


def directive(kind: str, head: str, text: str, *options: str) -> str:
    fence = "`" * (max((len(run) for run in re.findall(r"^`{3,}", text, re.MULTILINE)), default=2) + 1)
    fence = max(fence, "````", key=len)
    return "\n".join([f"{fence}{{py:{kind}}} {head}", *options, "", text, fence, ""])


def documented(thing: type, name: str) -> Iterator[tuple[str, str, Any]]:
    """The methods of a class that have a docstring of their own: their kind, name and function."""
    for key, value in vars(thing).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if key.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        if key in METHODS.get(name, (key,)):
            kinds = {property: "property", classmethod: "classmethod", staticmethod: "staticmethod"}
            yield kinds.get(type(value), "method"), key, function


def arguments(thing: Any) -> list[str]:
    """What a function or class takes."""
    if isinstance(thing, type) and (issubclass(thing, Exception) or getattr(thing, "_is_protocol", False)):
        return []
    return [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]


def docstring(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def unsaid(thing: Any) -> list[str]:
    """The arguments that the docstring, or that of a base class, does not name."""
    docs = " ".join(docstring(c) for c in (thing.__mro__[:-1] if isinstance(thing, type) else [thing]))
    return [name for name in arguments(thing) if not re.search(rf"\b{name}\b", docs)]


def body(thing: Any) -> str:
    """A docstring as the site reads it: its examples in fences, before them the arguments that it leaves out."""
    text = re.sub(r" *# doctest: \+SKIP", "", docstring(thing))
    text = re.sub(r"^(\S.*\n)(?=    \S)", r"\1\n", text, flags=re.MULTILINE)  # a formula on lines of its own
    text, example, rest = text.partition(">>>")
    also = "\n".join(f"- `{name}`: {ARGUMENTS[name]}" for name in unsaid(thing) if name in ARGUMENTS)
    fenced = re.sub(r"^(>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", example + rest, flags=re.MULTILINE | re.DOTALL)
    return "\n\n".join(part for part in (text.rstrip(), also, fenced) if part)


def entry(full: str, thing: Any) -> str:
    """A name of the reference as Sphinx has it."""
    name = full.rpartition(".")[2]
    if name in VALUES:
        keys = ", ".join(f"`{key}`" for key in thing) if isinstance(thing, dict) else ""
        return directive("data", full, f"{VALUES[name]}\n\n{keys}")
    doc = body(thing)
    if not isinstance(thing, type):
        return directive("function", full + signature(thing), doc)
    inside = []
    for kind, key, function in documented(thing, name):
        head = key if kind == "property" else key + signature(function, bound=kind != "staticmethod")
        options = [f":{kind}:"] if kind in ("classmethod", "staticmethod") else []
        what = "property" if kind == "property" else "method"
        inside.append(directive(what, head, body(function), *options))
    is_error = issubclass(thing, Exception)
    arguments = "" if is_error or getattr(thing, "_is_protocol", False) else signature(thing)
    return directive("exception" if is_error else "class", full + arguments, "\n".join([doc, "", *inside]))


def write(folder: Path) -> list[str]:
    """The pages into `folder`; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {page: [f"# {title}", HEAD] for page, (title, _) in PAGES.items()}
    for page, full, thing in names():
        texts[page].append(entry(full, thing))
    for page, parts in texts.items():
        (folder / f"{page}.md").write_text("\n\n".join(parts), encoding="utf-8")
    return list(PAGES)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
