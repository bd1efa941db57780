"""A run's answers, (item, annotator) -> (class, unsure), as its log of events comes to them and as its tables have them."""

from askless.run.store.replay import Replay, log


def replay(db):
    return {key: (row["class"], row["unsure"]) for key, row in Replay(log(db)).tables.answers.items()}


def stored(db):
    rows = db.execute("SELECT item, annotator, class, unsure FROM answer")
    return {(row["item"], row["annotator"]): (row["class"], row["unsure"]) for row in rows}
