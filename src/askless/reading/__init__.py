"""Image files and tables of users -> plain values. Imports no torch: the labelling page starts on this."""

from askless.reading.find import find_images
from askless.reading.image_file import (
    SUFFIXES,
    UnreadableError,
    as_8_bit,
    as_size,
    has_image_suffix,
    image_size,
    pixels_of,
    read_image,
    refusing_damage,
)
from askless.reading.table import LABEL_NAMES, PATH_NAMES, pick_column, read_table, rows_of

__all__ = [
    "SUFFIXES",
    "find_images",
    "UnreadableError",
    "as_8_bit",
    "as_size",
    "has_image_suffix",
    "image_size",
    "pixels_of",
    "read_image",
    "refusing_damage",
    "LABEL_NAMES",
    "PATH_NAMES",
    "pick_column",
    "read_table",
    "rows_of",
]
