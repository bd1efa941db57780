"""This machine: its cores, how many of them are used, and the versions of what is installed on it."""

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from askless.base.errors import ModelError


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Inside, torch, numpy, scipy and scikit-learn compute with this many threads, if they are imported."""
    if threads is None:
        yield
        return
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


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
