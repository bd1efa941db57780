"""The database of a run, and the only room with SQL: every query is a named function, by subject.

- `store`: the file, transactions, the log of events, notes (`meta`); `schema`: the tables
- `items`, `classes`, `fits` (trainings), `labels` (answers and what they come to), `progress`
- `asking`: tasks, rounds, budget, leases; `answering`: what people do, and undo; `importing`: labels from elsewhere
- `replay`: what the log comes to; `repair`: rebuild a damaged database from it

Functions take the connection that `Store.change()`, `lend()` or `look()` gives.
"""
