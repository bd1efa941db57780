"""The database of a run: its tables, the log of events, and everything that reads or writes them."""
