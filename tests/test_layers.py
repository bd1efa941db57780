"""The map, docs/architecture.md, against the code: every room has its floor, and imports run downhill only."""

import ast
import re
from pathlib import Path

import askless

ROOT = Path(askless.__file__).parent
MAP = Path(__file__).parents[1] / "docs" / "architecture.md"
ROWS = re.findall(r"^\| (\d+) \| `(\w+)` \|", MAP.read_text(), flags=re.MULTILINE)
# The package itself, which hands out names of all rooms, is below the command line; `python -m askless` is above all.
FLOOR = {name: int(floor) for floor, name in ROWS} | {"__init__": 8.5, "__main__": 10}


def room(path: Path) -> str:
    """The package or module directly below askless."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path):
    """(room, is inside a function) of every import of askless in a file."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if node.module == "askless":
                yield from ((a.name if (ROOT / a.name).exists() or (ROOT / f"{a.name}.py").exists() else "__init__")
                            for a in node.names)  # fmt: skip
            elif node.module and node.module.startswith("askless."):
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            for a in node.names:
                if a.name == "askless" or a.name.startswith("askless."):
                    yield [*a.name.split("."), "__init__"][1]


def test_every_room_has_a_floor():
    rooms = {room(p) for p in ROOT.rglob("*.py")}
    assert rooms == set(FLOOR), f"tell docs/architecture.md where {rooms ^ set(FLOOR)} belongs"
    assert len(ROWS) == len(rooms) - 2 == 18


def test_every_file_that_the_map_names_is_there():
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", MAP.read_text().split("## Four walks")[1])
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_imports_run_downhill_only():
    uphill = [
        f"{path.relative_to(ROOT)} imports {below}"
        for path in ROOT.rglob("*.py")
        for below in imported_rooms(path)
        if below != room(path) and not FLOOR[below] < FLOOR[room(path)]
    ]
    assert uphill == []


# Tests of several modules at once, or of something beside the package.
ACROSS = {
    "test_benchmarks", "test_constraints", "test_docs", "test_evidence", "test_examples", "test_full_scale", "test_palette",
    "test_layers", "test_mistakes", "test_prose",
    "test_reference", "test_seeding", "test_site", "acquire/test_contract", "acquire/test_independent",
    "active/embedding/test_embed", "active/embedding/test_on_ray", "bench/test_golden", "bench/test_on_ray",
    "cli/test_bench_file", "cli/test_cli", "cli/test_command_lines", "cli/test_full_disk", "data/test_medmnist",
    "data/test_real",
    "features/backbones/test_packages", "kernels/test_head_packages", "label/test_api", "label/test_attacks",
    "label/test_class_page", "label/test_find_page", "label/test_kill", "label/test_labelstudio_server",
    "label/test_claims_api", "label/test_claims_page", "label/test_kinds_page", "label/test_openapi",
    "label/test_opinions_page",
    "label/test_page", "label/test_sort_page", "label/test_stories",
    "label/test_text_page", "label/test_worth_page", "models/test_onnx", "run/test_crash", "run/test_machine",
    "run/test_mishaps", "run/test_texts", "sources/test_fuzz",
}  # fmt: skip


def test_tests_mirror_the_package():
    """tests/x/test_y.py is of askless/x/y, or among those above."""
    here = Path(__file__).parent
    tests = {p.relative_to(here).with_suffix("") for p in here.rglob("test_*.py")}
    of = {t.as_posix(): ROOT / t.parent / t.name.removeprefix("test_") for t in tests}
    assert {name for name, m in of.items() if not m.with_suffix(".py").exists() and not m.is_dir()} == ACROSS
