"""A run on texts: its items from a table or a folder, and the settings that go with them.

The texts are kept in the run's database, as a column of their items: a table that is changed later changes nothing.
"""

import os
from dataclasses import replace
from pathlib import Path

from askless.base.errors import InputError, OptionError
from askless.run.settings import BACKBONE, FALLBACK, TEXT_BACKBONE, Settings
from askless.run.steps.index import Index, Indexed, alike, by_folder, merge_copies
from askless.sources import in_order, read_texts, same_text


def scan_texts(source: Path, column: str, encoding: str, labels_from_folders: bool) -> Index:
    """The texts of a table or a folder, each once: of those that differ in blanks and capitals only, the first is kept."""
    found = read_texts(source, column, encoding=encoding)
    if any(found.column in row.columns for row in found.rows[:1]):
        raise InputError(f"{source}: expected one column {found.column!r}, got several; rename one")
    items = [Indexed(r.id, label=r.label, columns={found.column: r.text, **r.columns}) for r in found.rows]
    if labels_from_folders:
        sides = by_folder([item.path for item in items])
        if items and not any(label for _, label in sides):
            raise InputError(f"{source}: expected one folder per class below it, found none")
        items = [replace(item, label=label) for item, (_, label) in zip(items, sides, strict=True)]
    merged = merge_copies(items, alike(range(len(items)), lambda i: same_text(items[i].columns[found.column])), "text")
    return Index(
        "texts",
        Path(os.path.realpath(source)),
        merged.items,
        sorted(found.skipped + merged.skipped),
        in_order(item.label for item in items),
        merged.hints,
        found.column,
    )


def with_text_net(settings: Settings, column: str) -> Settings:
    """The settings for texts, with the column that was found and a backbone for texts."""
    if settings.net in (BACKBONE, FALLBACK):
        settings = replace(settings, net=TEXT_BACKBONE)
    if settings.net != TEXT_BACKBONE and not settings.net.startswith("frozen:hf/"):
        raise OptionError(
            f"net: texts need a backbone for texts, {TEXT_BACKBONE} or frozen:hf/FOLDER, got {settings.net!r}"
        )
    return replace(settings, text=column)
