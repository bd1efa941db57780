"""The loop: ask, tell, fit; with a learner on disk, and pools that do not fit in memory."""
