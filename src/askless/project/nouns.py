"""What the items of a run are called."""

from askless.project.index import Kind


def noun(kind: Kind) -> str:
    """One item."""
    return {"texts": "text", "features": "row"}.get(kind, "image")
