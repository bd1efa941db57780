"""Writes constraints-hashed.txt: what `pip install -c constraints.txt '.[dev]'` takes from the package index, with hashes.

    python tools/hashes.py

pip itself resolves the versions and says the hashes; nothing is downloaded but metadata, and nothing is installed. The
hashes are those of the files for this Python and platform.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TO = ROOT / "constraints-hashed.txt"
HEAD = """\
# constraints.txt with hashes, for Python {python} on {system}; made by `make hashes`. Use:
#   pip install --require-hashes -r constraints-hashed.txt && pip install --no-deps askless
# The hash of torch is that of the build on PyPI. Where you use another build, as one for CPUs, install it first.
"""


def resolved() -> list[dict[str, object]]:
    """What pip would install into an empty environment, from its index alone."""
    environment = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--report", str(report), "-c", "constraints.txt", "-e", ".[dev]"]
        subprocess.run(command, cwd=ROOT, env={**environment, "PIP_CONFIG_FILE": os.devnull}, check=True)
        found: list[dict[str, object]] = json.loads(report.read_text())["install"]
    return found


def lines(packages: list[dict[str, object]]) -> list[str]:
    """name==version --hash=..., by name; askless itself is left out."""
    rows = []
    for package in packages:
        about, where = package["metadata"], package["download_info"]
        if about["name"].lower() != "askless":
            rows.append(
                f"{about['name'].lower()}=={about['version']} --hash=sha256:{where['archive_info']['hashes']['sha256']}"
            )
    return sorted(rows)


def main() -> None:
    head = HEAD.format(
        python=".".join(platform.python_version_tuple()[:2]), system=f"{platform.system()} {platform.machine()}"
    )
    TO.write_text(head + "".join(f"{line}\n" for line in lines(resolved())))
    print(f"{TO.name}: {len(TO.read_text().splitlines()) - len(HEAD.splitlines())} packages")


if __name__ == "__main__":
    main()
