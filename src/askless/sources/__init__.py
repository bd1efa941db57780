"""Files of users -> items: `open_source` opens whatever a user points at, and there is one file for each format.

Imports no torch: the labelling page starts on this.
"""

from askless.sources.arrays import ArrayFile, read_arrays
from askless.sources.find import OutsideError, is_inside, real_file, walk_images
from askless.sources.image_file import (
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
from askless.sources.items import Item, Skipped, Source
from askless.sources.names import in_order
from askless.sources.open import open_source
from askless.sources.texts import excerpt, read_texts, same_text

__all__ = [
    # one way in
    "open_source",
    "Source",
    "Item",
    "Skipped",
    "in_order",
    # image files
    "walk_images",
    "real_file",
    "is_inside",
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
    # arrays and texts
    "ArrayFile",
    "read_arrays",
    "read_texts",
    "same_text",
    "excerpt",
]
