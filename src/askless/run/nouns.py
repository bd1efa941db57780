"""What the items of a run are called."""

from askless.run.steps.index import Kind


def noun(kind: Kind) -> str:
    """One item."""
    return {"texts": "text", "features": "row"}.get(kind, "image")
