"""Embed pools that do not fit in memory, in parallel, into a folder of shards from which `select` chooses."""

from askless.active.embedding.running import embed

__all__ = ["embed"]
