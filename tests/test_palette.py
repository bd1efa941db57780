"""The colours of classes: one palette for the page and the report, which people with any kind of sight can tell apart."""

import re
from pathlib import Path

import numpy as np
import pytest

from askless.run.store.looks import COLOURS

SOURCE = Path(__file__).parents[1] / "src" / "askless"
SHEETS = (SOURCE / "report" / "style.css", SOURCE / "label" / "web" / "static" / "style.css")
# Linear RGB as it is seen by those who lack one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
SIGHT = {
    "usual": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_CONES = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
TO_LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


def palettes(sheet: Path) -> set[tuple[str, ...]]:
    """Every --mark-0 to --mark-7 of a style sheet, each as a row."""
    found = re.findall(r"--mark-\d: (#[0-9a-f]{6});", sheet.read_text())
    return {tuple(found[i : i + COLOURS]) for i in range(0, len(found), COLOURS)}


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Oklab (Ottosson 2020), in which distances are as large as differences look: (n, 3)."""
    return np.cbrt(np.clip(rgb @ np.transpose(TO_CONES), 0, None)) @ np.transpose(TO_LAB)


def test_the_page_and_the_report_have_the_same_palettes():
    light_and_dark = palettes(SHEETS[0])
    assert len(light_and_dark) == 2
    assert palettes(SHEETS[1]) == light_and_dark


@pytest.mark.parametrize("sight", SIGHT)
def test_no_two_colours_of_classes_look_alike(sight):
    for palette in palettes(SHEETS[0]):
        seen = lab(np.clip(np.stack([linear(c) for c in palette]) @ np.transpose(SIGHT[sight]), 0, 1))
        gaps = np.linalg.norm(seen[:, None] - seen, axis=2)[np.triu_indices(COLOURS, 1)]
        assert gaps.min() >= 0.10, sight  # black to white is 1; 0.02 can just be told apart


@pytest.mark.parametrize("sheet", SHEETS, ids=["report", "page"])
def test_the_colours_of_classes_stand_out_from_what_is_behind_them(sheet):
    grounds = re.findall(r"--(?:panel|card): (#[0-9a-f]{6});", sheet.read_text())
    ground = {light < 0.5: light for light in (linear(c) @ [0.2126, 0.7152, 0.0722] for c in grounds)}
    assert set(ground) == {True, False}
    for palette in palettes(sheet):
        bright = np.array([linear(c) @ [0.2126, 0.7152, 0.0722] for c in palette])
        contrast = {dark: (np.maximum(bright, y) + 0.05) / (np.minimum(bright, y) + 0.05) for dark, y in ground.items()}
        assert max(contrast[True].min(), contrast[False].min()) >= 3  # WCAG 2.1, 1.4.11
