"""Worked examples of every command for its `--help` and docs/commands.md; the tests run them in this order."""

import typer

EXAMPLES = {
    "strategies": ["askless strategies"],
    "select": [
        "askless select --strategy askless -n 20 --features features.npy --labelled labelled.csv --out picks.csv",
        "askless select --strategy npc -n 5 --arrays pool.npz --option draws=100",
    ],
    "stream": ["cat items.jsonl | askless stream -n 2 --memory 10"],
    "embed": ["askless embed photos --out shards --backbone raw --size 8"],
    "demo": ["askless demo --page", "askless demo --out demo"],
    "start": [
        "askless start photos --classes cat,dog,other --budget 200",
        "askless start reviews.csv --text text --classes good,bad --price 0.08",
        "askless start photos-run",
    ],
    "oracle": ["askless oracle photos-run --truth truth.csv"],
    "status": ["askless status photos-run", "askless status photos-run --json"],
    "report": ["askless report photos-run --no-browser"],
    "import": [
        "askless import photos-run labels.csv --on-conflict replace",
        "askless import photos-run gpt.csv --as gpt",
    ],
    "export": [
        "askless export photos-run --to imagefolder --out labelled",
        "askless export photos-run --to model --out model --final",
    ],
    "predict": ["askless predict photos-run new_photos --out predictions.csv", "askless predict model new_photos"],
    "doctor": ["askless doctor", "askless doctor photos-run --repair"],
    "backup": ["askless backup photos-run --out backup.zip"],
    "bench list": ["askless bench list"],
    "bench run": [
        "askless bench run npc.table1 --scale smoke --workers 1 --out runs/table1",
        "askless bench run mine.py --seeds 2 --out runs/mine",
    ],
    "bench new": ["askless bench new another.py"],
    "bench report": ["askless bench report runs/mine"],
    "bench compare": [
        "askless bench compare runs/table1 runs/mine",
        "askless bench compare runs/table1 runs/mine --out compared.html",
    ],
    "theory": ["askless theory runs/mine --items 10", "askless theory runs/mine --cell '*--0' --items 10"],
    "labelstudio serve": ["askless labelstudio serve photos-run --url http://localhost:8080"],
    "labelstudio check": ["askless labelstudio check photos-run --url http://localhost:8080"],
    "labelstudio push": ["askless labelstudio push photos-run --url http://localhost:8080"],
    "labelstudio pull": ["askless labelstudio pull photos-run"],
    "data list": ["askless data list"],
    "data fetch": ["askless data fetch cifar10"],
}


def with_examples(app: typer.Typer, group: str = "") -> None:
    """Put the examples below the help of each command of the app, or of this group of commands."""
    for command in app.registered_commands:
        name = command.name or command.callback.__name__  # type: ignore[union-attr]
        lines = EXAMPLES[f"{group} {name}".strip()]
        command.epilog = "\n\n".join(["Examples:", *(f"$ {line}" for line in lines)])
    for inner in app.registered_groups:
        with_examples(inner.typer_instance, inner.name or "")  # type: ignore[arg-type]
