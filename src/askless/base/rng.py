"""One seed at the top, split by name into independent streams; nothing touches a global generator."""

import zlib
from typing import TYPE_CHECKING

import numpy as np

from askless.base.errors import InputError
from askless.base.options import is_whole_number

if TYPE_CHECKING:
    import torch

Seed = int | np.random.Generator


def stream(seed: Seed, name: str) -> np.random.Generator:
    """The generator called `name` under `seed`: other names give independent numbers.

    A generator passed in place of a seed is used as it is (and advances).

    >>> bool(stream(0, "select").random() == stream(0, "select").random())
    True
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if not is_whole_number(seed, 0):
        raise InputError(
            f"seed must be a whole number >= 0 or a numpy Generator, got {seed!r}; pass seed=0, or np.random.default_rng(0)"
        )
    return np.random.default_rng([int(seed), zlib.crc32(name.encode())])


def drawn_seed() -> int:
    """A seed that differs in every run, for who asks for none."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def torch_stream(seed: Seed, name: str) -> "torch.Generator":
    """The same as a torch generator, on the processor."""
    import torch

    return torch.Generator().manual_seed(int(stream(seed, name).integers(2**63 - 1)))
