"""What the items of a run are called."""

from askless.project.index import Kind


def noun(kind: Kind) -> str:
    """One item: an image or a text. Rows of features are mostly of images, and are called so."""
    return "text" if kind == "texts" else "image"
