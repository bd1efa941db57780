"""Image files, tables and arrays of users -> plain values. Imports no torch: the labelling page starts on this."""

from askless.sources.arrays import ArrayFile, read_arrays
from askless.sources.find import (
    ImageFile,
    OutsideError,
    Skipped,
    find_images,
    is_inside,
    real_file,
    walk_files,
    walk_images,
)
from askless.sources.image_file import (
    SUFFIXES,
    UnreadableError,
    as_8_bit,
    as_size,
    has_image_suffix,
    image_size,
    open_file,
    open_image,
    pixels_of,
    read_image,
    refusing_damage,
)
from askless.sources.table import LABEL_NAMES, PATH_NAMES, in_order, pick_column, read_table, rows_of
from askless.sources.texts import TextFile, TextRow, excerpt, read_texts, same_text

__all__ = [
    "SUFFIXES",
    "find_images",
    "walk_files",
    "walk_images",
    "real_file",
    "is_inside",
    "ImageFile",
    "Skipped",
    "OutsideError",
    "UnreadableError",
    "as_8_bit",
    "as_size",
    "has_image_suffix",
    "image_size",
    "open_file",
    "open_image",
    "pixels_of",
    "read_image",
    "refusing_damage",
    "ArrayFile",
    "read_arrays",
    "LABEL_NAMES",
    "PATH_NAMES",
    "in_order",
    "pick_column",
    "read_table",
    "rows_of",
    "TextFile",
    "TextRow",
    "read_texts",
    "same_text",
    "excerpt",
]
