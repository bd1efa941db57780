"""This machine: its cores, and the versions of what is installed on it."""

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from askless.base.errors import ModelError


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of askless, Python and those of `packages` that are installed."""
    found = {"askless": "from source", "python": platform.python_version()}
    for name in ("askless", *packages):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def required(package: str, extra: str) -> ModuleType:
    """A package that an extra of askless brings, or an error that names the extra."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ModelError(
            f"expected the package {package}, which cannot be imported ({error}); run `pip install 'askless[{extra}]'`"
        ) from None
