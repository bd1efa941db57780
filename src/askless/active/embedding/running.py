"""Embed a pool into a folder of shards, in parallel, part by part; finished shards are never computed again."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from askless.acquire.table import BY_ROWS
from askless.active.embedding.shard_maker import OF_A_LEARNER, Job, ShardMaker
from askless.active.embedding.sources import Part, absolute, loaded, parts_of
from askless.base import digest
from askless.base.engine import check_engine, work
from askless.base.errors import AsklessError, InputError, OptionError
from askless.base.files import write_whole
from askless.base.locks import held
from askless.base.machine import cores
from askless.base.options import Count, check_annotated, check_choice, written
from askless.features.frozen import Frozen
from askless.sources.arrow import pyarrow
from askless.sources.image_file import as_size
from askless.sources.shards import Shards, files_told, open_shards

INDEX = "shards.json"
FORMAT = 1


def embed(
    pool: str | Path,
    out: str | Path,
    *,
    backbone: str | Frozen = "efficientnet-lite2",
    learner: str | Path | None = None,
    columns: Sequence[str] | None = None,
    dtype: str = "float16",
    size: int | tuple[int, int] | None = None,
    rows: Count = 1024,
    batch: Count = 64,
    engine: str = "local",
    workers: int = 1,
    gpus: float = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Shards:
    """Write a shard for every part of the pool into the folder `out`, and open them.

    `pool`: a data set's name, a .csv, .npz or .npy file, or a folder, pattern or file of images, of WebDataset-style tars
    or of Parquet files with images, local or at an address that fsspec opens; each tar or Parquet file makes one
    shard, anything else one per `rows` items. Each shard has `id`, `label` ("" where unknown) and the `columns`: with a
    `backbone` its `features`; with a `learner`, a folder that `ActiveLearner.save` wrote, also `probs`, `grad_sq` and
    `grad_dot` of its network, and on request `logits`, `grad_sq_by_class` and `probs_by_pass` (20 passes with dropout).
    Features are stored as `dtype`, the rest as float32. `size`: pixels at which images are read, by default their own, or
    those of the learner's pool.

    `engine="ray"` spreads the parts over actors, on a running cluster if RAY_ADDRESS is set; `out` must then be a folder
    that all machines share. Shards are written atomically; a restart computes only the missing ones.

    `batch`: images per pass. `workers`: processes or actors, with `gpus` each. `progress(done, total)` counts parts. An
    unreadable pool, or an `out` made with other options, raises AsklessError.

    >>> np.savez("pool.npz", X=np.zeros((4, 8, 8), np.uint8))
    >>> shards = al.embed("pool.npz", "shards", backbone="raw")
    >>> len(shards)
    4
    """
    check_annotated("embed", embed, locals())
    check_choice("embed", "dtype", dtype, ("float16", "float32"))
    pyarrow()
    out = Path(out)
    check_engine("embed", engine, workers, gpus)
    frozen = Frozen(backbone=backbone) if isinstance(backbone, str) else backbone
    if not isinstance(frozen.backbone, str):
        raise OptionError("embed: expected the name of a backbone, got a module; save a learner with it, and pass that")
    job = Job(
        out=str(out.resolve()),
        frozen=frozen,
        learner=None if learner is None else str(Path(learner).resolve()),
        columns=checked_columns(columns, learner is not None),
        dtype=dtype,
        size=as_size(size),
        batch=batch,
    )
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a folder for the shards or an unused name, got a file; choose another name")
    parts = parts_of(absolute(str(pool)), rows, job.size)
    out.mkdir(parents=True, exist_ok=True)
    with held(out / ".lock", f"another embedding is running in {out}; wait for it, or use another folder"):
        about = describe(job, parts)
        begin(out, about)
        todo = [(part, file) for part, file in zip(parts, about["files"], strict=True) if not (out / file).exists()]
        done = len(parts) - len(todo)

        def hear(number: int, kind: str, content: Any) -> None:
            nonlocal done
            if kind == "lost":
                raise AsklessError(
                    f"a worker was lost: {content}; finished shards are kept: run the same command again"
                )
            done += kind == "done"
            if progress is not None:
                progress(done, len(parts))

        hear(0, "begun", None)
        work(
            partial(ShardMaker, job),
            todo,
            hear,
            engine=engine,
            workers=workers,
            threads=None if engine == "local" and workers == 1 else max(1, cores() // workers),
            gpus=gpus,
        )
    loaded.cache_clear()
    return open_shards(out)


def checked_columns(given: Sequence[str] | None, by_learner: bool) -> tuple[str, ...]:
    possible = BY_ROWS if by_learner else ("features",)
    columns = tuple(given) if given is not None else OF_A_LEARNER if by_learner else possible
    for name in columns:
        if name not in possible:
            hint = "" if by_learner else "; the others need a learner"
            raise OptionError(f"columns: expected some of {', '.join(possible)}, got {name!r}{hint}")
    if not columns:
        raise OptionError(f"columns: expected some of {', '.join(possible)}, got none")
    return columns


def describe(job: Job, parts: Sequence[Part]) -> dict[str, Any]:
    """The contents of the shards and what they were made from."""
    how = {name: str(getattr(job, name)) for name in ("learner", "columns", "dtype", "size", "batch")}
    seen_by = (
        {"backbone": digest.of_text(written(job.frozen))[:16]}
        if job.learner is None
        else {"state": state_of(job.learner)}
    )
    return {
        "format": FORMAT,
        "how": how | seen_by,
        "parts": digest.of_text([part.name for part in parts]),
        "files": [f"shard-{k:05d}.arrow" for k in range(len(parts))],
    }


def state_of(learner: str) -> str:
    path = Path(learner) / "learner.json"
    if not path.exists():
        raise InputError(f"{learner}: expected a folder that ActiveLearner.save wrote, got one without learner.json")
    return digest.of_text(path.read_text(encoding="utf-8"))[:16]


def begin(out: Path, about: dict[str, Any]) -> None:
    """Write the plan, or find the same one unfinished; an error if the folder has another."""
    path = out / INDEX
    if not path.exists():
        strangers = sorted(f.name for f in out.glob("*.arrow"))
        if strangers:
            raise InputError(f"{out}: expected an empty folder, got one with {strangers[0]}; use another folder")
        write_whole(path, lambda file: file.write(json.dumps(about, indent=1).encode()))
        return
    files_told(path)
    before = {"how": {}, "format": None, "parts": None} | json.loads(path.read_text(encoding="utf-8"))
    names = [name for name in about["how"] if before["how"].get(name) != about["how"][name]]
    for left in out.glob(".shard-*.part"):  # of a worker that was killed
        left.unlink(missing_ok=True)
    if before["format"] != FORMAT or names or before["parts"] != about["parts"]:
        what = f"with another {', '.join(names)}" if names else "from another pool, or from this one before it changed"
        raise InputError(f"{out}: its shards were made {what}; use another folder, or remove them")
