"""Pools that do not fit in memory: embedded in parallel into a folder of shards, which `select` chooses from."""

from askless.active.embedding.running import embed

__all__ = ["embed"]
