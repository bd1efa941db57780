"""Small pools of images as people have them: a folder, tars, Parquet."""

import io
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from PIL import Image

N = 50


def images(n=N, side=12, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def write_folder(folder, x):
    for i, pixels in enumerate(x):
        path = folder / f"class {i % 3}" / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(pixels))
    return sorted(f"class {i % 3}/{i:03d}.png" for i in range(len(x)))


def write_tars(folder, x, each=20):
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(0, len(x), each):
        with tarfile.open(folder / f"part-{k // each:03d}.tar", "w") as tar:
            for i in range(k, min(k + each, len(x))):
                for name, content in (
                    (f"{i:03d}.png", png(x[i])),
                    (f"{i:03d}.cls", str(i % 3).encode()),
                    (f"{i:03d}.json", json.dumps({"label": "not this"}).encode()),
                ):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))


def write_parquet(folder, x, each=20):
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(0, len(x), each):
        some = range(k, min(k + each, len(x)))
        table = pa.table(
            {"image": [{"bytes": png(x[i]), "path": f"{i}.png"} for i in some], "label": [i % 3 for i in some]}
        )
        pa.parquet.write_table(table, folder / f"part-{k // each:03d}.parquet")
