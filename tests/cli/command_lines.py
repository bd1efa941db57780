"""Command lines that nobody would type, made from the commands themselves, and what became of each.

    python command_lines.py SEED FIRST LAST FOLDER     # prints a line of JSON for each

FOLDER has a run in `run`, a model in `model` and images in `photos`, which are never changed: each command works on copies.
"""

import contextlib
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sys
import time
import typing
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 60  # of a command; one that has hardly computed by then hangs
MEMORY = 6 * 2**30
ENDINGS = (0, 2, 3, 4)
TEXTS = [
    *("", " ", "x" * 5000, "😀", "ü" * 300, "a\x1b[31mb", "[bold]a[/bold]", "[/]", "a\nb", "\udcff", "\u202e", "\x07"),
    *(
        "=1+1",
        "-",
        "--",
        "%s%n",
        "{0}",
        "../..",
        "NaN",
        "a,b",
        ",,,",
        "a=b",
        "a=",
        "'",
        '"',
        "\\",
        "http://127.0.0.1:1",
    ),
]
WHOLE = ["0", "-1", "1", "3", "100000", "1" + "0" * 30, "-" + "9" * 30, "NaN", "", "1.5", "0x10", " 7 ", "٣"]
BROKEN = ["0", "-1", "0.5", "1", "nan", "inf", "-inf", "1e308", "1e-320", "", "x", "1,5"]
# Words that get further than any of the above, by the name of the parameter.
WORDS = {
    "strategy": ["random", "margin", "coreset", "askless", "albl", "no-such"],
    "to": [
        "csv",
        "jsonl",
        "imagefolder",
        "npz",
        "parquet",
        "hf",
        "coco",
        "labelstudio",
        "cvat",
        "model",
        "onnx",
        "no-such",
    ],
    "what": ["human", "human+model", "npc.no", "no.py", "bad.py", "two.py"],
    "link": ["copy", "hard", "sym"],
    "on_conflict": ["keep", "replace", "ask"],
    "from_": ["labelstudio", "cvat"],
    "images": ["inline", "local-files"],
    "classes": ["red,green,blue", "a", "a,a", "😀,b", "labels.csv"],
    "net": ["frozen:raw", "linear", "frozen:hf/none", "resnet18"],
    "learner": ["fixmatch", "supervised", "learner"],
    "suggestions": ["off", "peek"],
    "columns": ["features", "features,probs", "nothing"],
    "engine": ["local", "none"],
    "option": ["draws=5", "a=b", "draws=[[[["],
    "max_memory": ["1KB", "1GB", "99999999GB"],
    "track": ["jsonl:log.jsonl", "jsonl:", "none:x"],
    "backbone": ["raw", "hf/none", "timm/none"],
    "host": ["127.0.0.1", "::1", "no host", "256.1.1.1"],
    "name": ["digits", "no-such"],
    "scale": ["smoke", "no-such"],
}
PLACES = {
    **{"folder": ["run", "run", "model", "damaged"], "given": ["labels.csv", "labels.jsonl"], "truth": ["labels.csv"]},
    **{"paths": ["photos", "photos/a/00.png"], "place": ["new", "labels.csv"], "to": ["new", "new/x", "labels.csv"]},
    **{"what": ["photos", "labels.csv", "all.npz", "text.txt"], "pool": ["photos", "5"], "features": ["features.npy"]},
    **{"arrays": ["all.npz"], "labelled": ["none.csv"], "run": ["run"], "root": ["."]},
}
PATHS = [
    *(
        "missing",
        "photos",
        "photos/a/00.png",
        "text.txt",
        "empty",
        "binary.npy",
        "run",
        "damaged",
        "cut",
        "model",
        "none/x",
    ),
    *(
        "read-only",
        "read-only/x",
        "/proc/sys/kernel/random/x",
        "/dev/null",
        "/dev/full",
        "fifo",
        "loop",
        "loop/x",
        "dangling",
    ),
    *(
        "labels.csv",
        "labels.jsonl",
        "all.npz",
        "features.npy",
        "bad.parquet",
        "tasks.json",
        "[red]x[/red]",
        "a\x1b[31mb",
        ".",
    ),
    *(
        "x" * 300,
        "y" * 300 + "/z",
        "",
        "text.txt/x",
        "run/state.sqlite",
        "wide.csv",
        "deep.jsonl",
        "zero.npz",
        "\udcff",
        "ü",
    ),
]


def furnish(folder: Path, work: Path, words: list[str]) -> None:
    """The files that the words name, fresh."""
    for name in ("run", "photos", "model", "damaged", "cut", "[red]x[/red]", "a\x1b[31mb"):
        if any(name in word for word in words):
            of = {"damaged": "run", "cut": "run"}.get(name, name)
            shutil.copytree(folder / (of if of in ("run", "model") else "photos"), work / name)
    if (work / "damaged").exists():
        with (work / "damaged" / "state.sqlite").open("r+b") as file:
            file.seek(4096)
            file.write(bytes(range(256)) * 16)
    if (work / "cut").exists():
        os.truncate(work / "cut" / "state.sqlite", 5000)
    x = np.arange(60.0).reshape(20, 3)
    np.save(work / "features.npy", x)
    np.savez(
        work / "all.npz", features=x, probs=np.full((20, 2), 0.5), X=x, y=np.arange(20) % 2, labelled=np.array([1])
    )
    (work / "text.txt").write_text("a text\nand more\n")
    (work / "empty").touch()
    (work / "binary.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes(range(256)) * 8)
    (work / "bad.parquet").write_bytes(b"PAR1" + bytes(99) + b"PAR1")
    (work / "tasks.json").write_text('[{"id": 1, "annotations": [{}]}, 7, null]')
    (work / "bad.py").write_text("benchmark = 7\n")
    (work / "two.py").write_text("1 / 0\n")
    (work / "labels.csv").write_text("path,label\na/00.png,red\nnowhere.png,green\na/01.png,=1+1\n")
    (work / "labels.jsonl").write_text('{"path": "a/00.png", "label": "red"}\n{"path": [1], "label": {}}\n')
    (work / "wide.csv").write_text(",".join(map(str, range(3000))) + "\n")
    (work / "deep.jsonl").write_text("[" * 100_000 + "\n")
    (work / "zero.npz").write_bytes(b"PK\x05\x06" + bytes(18))
    (work / "read-only").mkdir()
    (work / "read-only").chmod(0o555)
    os.mkfifo(work / "fifo")
    (work / "loop").symlink_to("loop")
    (work / "dangling").symlink_to("nowhere")


def commands() -> list[tuple[str, Any]]:
    import typer.main

    from askless.cli.app import app

    def walk(command: Any, name: str) -> list[tuple[str, Any]]:
        inside = getattr(command, "commands", None)
        if inside is None:
            return [(name, command)]
        return [found for word, sub in inside.items() for found in walk(sub, f"{name} {word}".strip())]

    return walk(typer.main.get_command(app), "")


def line(seed: int, number: int) -> list[str]:
    """The words of one command line. Of every three, one gives a command one of the paths where it needs one, by turns."""
    rng = random.Random(f"{seed} {number}")
    turn, kind = divmod(number, 3)
    every = commands()
    name, command = every[(turn if kind == 0 else number) % len(every)]
    path = PATHS[turn // len(every) % len(PATHS)] if kind == 0 else None
    words, last = name.split(), []
    kinds = {name: str(kind) for name, kind in typing.get_type_hints(command.callback).items()}
    for parameter in command.params:
        is_argument = parameter.param_type_name == "argument"
        often = 0.9 if parameter.required else 0.15
        if name == "start" and parameter.name in ("net", "steps") and rng.random() < 0.8:
            words.append({"net": "--net=frozen:raw", "steps": "--steps=3"}[parameter.name])
            continue
        if rng.random() > often:
            continue
        if getattr(parameter, "is_flag", False):
            words.append(rng.choice([*parameter.opts, *parameter.secondary_opts]))
            continue
        for _ in range(rng.choice([1, 1, 2]) if getattr(parameter, "multiple", False) or parameter.nargs == -1 else 1):
            value = value_of(parameter.name, kinds[parameter.name], rng)
            if path is not None and parameter.required and "Path" in kinds[parameter.name]:
                value, path = path, None
            if is_argument:
                last.append(value)
            else:
                words.append(f"{parameter.opts[0]}={value}" if parameter.opts[0].startswith("--") else f"-n{value}")
    if name == "start":
        words.append("--no-browser")
    if name == "oracle":
        words.append("--wait=0")
    if rng.random() < 0.05:
        words.insert(rng.randrange(len(words) + 1), rng.choice(["--no-such", "--debug=1", "-q", "x\x1b[31m"]))
    return [*words, "--", *last] if rng.random() < 0.5 else [*words, *last]


def value_of(name: str, kind: str, rng: random.Random) -> str:
    """Something for a parameter of this name and type: often what it expects, so that the others are reached."""
    if name in WORDS and "Path" not in kind and rng.random() < 0.7:
        return rng.choice(WORDS[name])
    if name in PLACES and rng.random() < 0.6:
        return rng.choice(PLACES[name])
    if "int" in kind:
        return rng.choice(WHOLE if rng.random() < 0.3 else ["1", "2", "5"])
    if "float" in kind:
        return rng.choice(BROKEN if rng.random() < 0.5 else ["0.5"])
    is_path = "Path" in kind or name in ("pool", "what", "weights", "classes")
    return rng.choice(PATHS if is_path and rng.random() < 0.9 else TEXTS)


class TooLongError(KeyboardInterrupt):
    """Raised where a command is when its time is over."""


working: list[Any] = []  # processes that were at work for the command when its time was over


def stop(*_: Any) -> None:
    working.extend(multiprocessing.active_children())
    raise TooLongError


def invoke(words: list[str]) -> dict[str, Any]:
    """Runs a command line in this process and says how it ended."""
    from askless.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    begun, computed = time.monotonic(), time.process_time()
    working.clear()
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words)
    except SystemExit as error:
        code = error.code or 0
    except TooLongError:
        code = 130
    finally:
        signal.alarm(0)
    seconds, computed = time.monotonic() - begun, time.process_time() - computed
    times = {"seconds": seconds, "computed": computed, "working": len(working)}
    return {"words": words, "code": code, "err": err.getvalue(), **times}


def fault(result: dict[str, Any]) -> str:
    """What is wrong with how a command ended; "" for nothing."""
    err, code = result["err"], result["code"]
    if "Traceback (most recent call last)" in err:
        return "a traceback"
    if code == 130 and result["seconds"] >= SECONDS - 1:
        return "it hangs" if result["computed"] < 2 and not result["working"] else ""
    if code not in ENDINGS:
        return f"exit code {code}"
    if code and not err.strip() and code != 3:  # a table of findings may say it all
        return f"exit code {code} without a word"
    if "askless: " in err and err[err.index("askless: ") :].count("\n") != 1:
        return "more than one paragraph"
    if any(ord(c) < 32 and c not in "\n\t" for c in err):
        return "control characters"
    return ""


def alone() -> None:
    """No network, no page, no demo that computes for minutes."""
    import askless.bench.demo
    import askless.label.web.serve
    from askless.base.errors import InputError

    def refuse(self: socket.socket, address: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    def computed(*_: Any) -> Any:
        raise InputError("not in this test")

    socket.socket.connect = refuse  # type: ignore[method-assign,assign]
    askless.label.web.serve.serve = lambda run, **options: None
    askless.bench.demo.run = computed
    os.environ.update(PIP_NO_INDEX="1", PIP_NO_INPUT="1", BROWSER="true")


def main() -> None:
    import resource

    seed, first, last, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    alone()
    os.environ["ASKLESS_DATA"] = str(folder / "data")
    sys.stdin = open(os.devnull)  # noqa: SIM115
    for number in range(first, last):
        work = folder / f"work-{first}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        os.chdir(work)
        words = line(seed, number)
        furnish(folder, work, words)
        print(json.dumps({"number": number, "words": words}), flush=True)
        result = invoke(words)
        print(json.dumps({"number": number, **result, "fault": fault(result)}), flush=True)
    os.chdir(folder)
    shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
