"""What a run's trackers are told: which run it is; of a round the training, the check images so far, and what the strategy
said."""

import json
from typing import TYPE_CHECKING

from askless.run.out.standing import curve
from askless.track import Event

if TYPE_CHECKING:
    from askless.run.run import Run

MEASURED = {"accuracy": "check_accuracy", "low": "check_low", "high": "check_high", "n": "check_n"}


def start_event(run: "Run") -> Event:
    """The run, by the id that it has for good: whoever hears of it again goes on."""
    settings = run.settings
    made_of = {"strategy": settings.strategy, "learner": settings.learner, "net": settings.net, "seed": settings.seed}
    sizes = {"items": len(run.paths), "batch": settings.batch, "steps": settings.steps}
    about = {"id": run.meta("run"), **made_of, **sizes}
    return Event("start", run.folder.name, about={name: str(value) for name, value in about.items()})


def round_event(run: "Run", number: int) -> Event:
    """Of the round `number`, whose model is trained: its check accuracy is that on the images with a label by now."""
    with run.store.look() as db:
        point = next(p for p in curve(run, db) if p["round"] == number)
        row = db.execute("SELECT metrics FROM fit WHERE round = ?", (number,)).fetchone()
        asked = db.execute("SELECT payload FROM event WHERE request_id = ?", (f"worker/round-{number}",)).fetchone()
        choosing = db.execute("SELECT seconds FROM round WHERE id = ?", (number,)).fetchone()
    metrics = json.loads(row["metrics"])
    info = {} if asked is None else json.loads(asked["payload"])["info"]
    numbers = {
        **{name: value for name, value in metrics["training"].items() if name != "step"},
        **{name: value for name, value in info.items() if name not in ("labelled", "seconds")},
        **{name: metrics[name] for name in ("fit_seconds", "predict_seconds", "change", "margin")},
        **({MEASURED[name]: point[name] for name in MEASURED} if point["n"] else {}),
        **({} if choosing is None else {"select_seconds": choosing["seconds"]}),
    }
    return Event("round", run.folder.name, point["labels"], numbers)
