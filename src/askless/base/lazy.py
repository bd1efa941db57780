"""Packages whose names are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that finds each of its names in a module of its own, by `homes` (name ->
    module; a name that is its module's is the module itself). `dir` lists the public names."""

    def find(name: str) -> Any:
        if name not in homes:
            from difflib import get_close_matches

            close = (
                ""
                if name.startswith("_")
                else "".join(f"; did you mean {n!r}?" for n in get_close_matches(name, homes, 1))
            )
            raise AttributeError(f"module {package!r} has no attribute {name!r}{close}")
        module = import_module(f"{package}.{homes[name]}")
        value = module if homes[name].rpartition(".")[2] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        known = vars(sys.modules[package])
        return sorted({*known["__all__"], *(name for name in known if name.startswith("__"))})

    return find, listed
