"""How much memory a piece of work took at its peak."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """`mb`: the largest resident memory of the whole process while the work went on, in MB (nan where it is not known)."""

    mb: float = float("nan")


@contextmanager
def measured_peak() -> Iterator[Peak]:
    """Linux can forget the peak so far; elsewhere it is that of the process since its start."""
    peak = Peak()
    with suppress(OSError):
        RESET.write_text("5")
    yield peak
    peak.mb = resident_peak()


def resident_peak() -> float:
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    try:
        import resource
    except ImportError:
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 1024
