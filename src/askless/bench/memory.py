"""How much memory a piece of work took at its peak."""

import sys
from contextlib import suppress
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Linux can forget the peak so far; elsewhere it is that of the process since its start."""
    with suppress(OSError):
        RESET.write_text("5")


def peak_mb() -> float:
    """The largest resident memory of the whole process, in MB (nan where it is not known)."""
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
