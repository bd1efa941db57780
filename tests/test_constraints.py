"""The pinned versions and their hashes are of one piece."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pins(name: str) -> dict[str, str]:
    """package -> version, by PyPI's spelling of names."""
    rows = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in rows}


def test_every_hashed_version_is_the_pinned_one():
    """`make hashes` was run after the last change of a pin. What only another build of torch needs has no pin."""
    pinned, hashed = pins("constraints.txt"), pins("constraints-hashed.txt")
    shared = pinned.keys() & hashed.keys()
    assert {name: hashed[name] for name in shared} == {name: pinned[name] for name in shared}
    extra = {
        name
        for name in hashed.keys() - pinned.keys()
        if not name.startswith(("nvidia-", "cuda-", "triton", "setuptools"))
    }
    assert extra == set()


@pytest.mark.parametrize("line", (ROOT / "constraints-hashed.txt").read_text().splitlines())
def test_every_line_has_a_hash(line):
    assert line.startswith("#") or re.fullmatch(r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}", line)
