"""Files of users -> items: `open_source` opens whatever a user points at, and there is one file for each format.

Imports no torch: the labelling page starts on this.
"""

from askless.sources.arrays import read_arrays
from askless.sources.find import OutsideError, real_file
from askless.sources.image_file import (
    UnreadableError,
    as_8_bit,
    image_size,
    open_file,
    open_image,
    read_image,
    refusing_bad_image,
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
    "real_file",
    "OutsideError",
    "UnreadableError",
    "as_8_bit",
    "image_size",
    "open_file",
    "open_image",
    "read_image",
    "refusing_bad_image",
    # arrays and texts
    "read_arrays",
    "read_texts",
    "same_text",
    "excerpt",
]
