"""The steps of a run: index, embed, train, choose; and the worker that takes them."""
