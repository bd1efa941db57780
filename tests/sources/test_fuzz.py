"""Every reader of files, on files that are damaged or made to do harm: one table and one contract.

A reader returns items, or raises an `AsklessError` whose message is short; nothing else is raised, nothing beside the given
path is opened, and neither memory nor time runs away. `ASKLESS_FUZZ_CASES` is the number of files in the slow test.
"""

import gzip
import io
import json
import os
import re
import shutil
import struct
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import askless as al
from askless.active.embedding.sources import parts_of
from askless.base.errors import AsklessError
from askless.data import load as load_pool
from askless.data import mnist, svhn
from askless.data.cifar import cifar10, cifar100
from askless.data.files import hf, imagefolder, parquet
from askless.label.labelstudio.exchange import read_export
from askless.nets.weights import read_weights
from askless.run.out.answers import read_answers
from askless.sources import image_size, read_arrays, read_image, read_texts
from askless.sources.shards import open_shards, write_shard

CASES = 80  # files per reader in the default run
MEMORY = 2 * 2**30  # bytes that a reader may take beside what the process has
SECONDS = 20.0  # of the processor, for a file of a few kilobytes
NUMBERS = (
    0,
    1,
    2,
    3,
    8,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**64 - 1,
)


class Reader(NamedTuple):
    """`seeds`: small valid files. `read`: the public way in, with the file. `beside`: what it needs next to the file.
    `repair`: makes what was changed look whole again, such as a checksum, so that the change is seen behind it."""

    file: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], Any]
    beside: Callable[[Path], None] = lambda folder: None
    repair: Callable[[bytes], bytes] = lambda content: content
    needs: str = ""


# --- small valid files


def pixels(*shape: int) -> np.ndarray:
    return (np.arange(int(np.prod(shape))).reshape(shape) * 37 % 256).astype(np.uint8)


def picture(kind: str, array: np.ndarray | None = None, **options: Any) -> bytes:
    out = io.BytesIO()
    image = Image.fromarray(pixels(9, 7, 3) if array is None else array)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(out, kind, **({"exif": exif} if kind in ("JPEG", "PNG", "WEBP", "TIFF") else {}), **options)
    return out.getvalue()


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def npz(packed: bool, **arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(out, **arrays)
    return out.getvalue()


def npz_around(content: bytes) -> bytes:
    """An .npz file whose array X is these bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", content)
        archive.writestr("y.npy", npy(np.array([0, 1, -1])))
    return out.getvalue()


def table(**columns: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    made = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(made, out)
    return out.getvalue()


def arrow_stream(**columns: Any) -> bytes:
    import pyarrow as pa

    out = io.BytesIO()
    made = pa.table(columns)
    with pa.ipc.new_stream(out, made.schema) as writer:
        writer.write_table(made)
    return out.getvalue()


def shard() -> bytes:
    columns = {"x": np.ones((3, 2), np.float32), "id": ["a", "b", "c"]}
    with tempfile.TemporaryDirectory() as folder:
        write_shard(Path(folder) / "a.arrow", columns, {"skipped": '[["d", "no image"]]'})
        return (Path(folder) / "a.arrow").read_bytes()


def tar(**files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("_", "."))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def tar_of_images() -> bytes:
    files = {"a_png": picture("PNG"), "a_json": b'{"label": "cat"}', "b_png": picture("PNG"), "b_cls": b"1"}
    return tar(**files)[:9216]


def idx(*shape: int) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape) + bytes(int(np.prod(shape)))


def mat(packed: bool = False) -> bytes:
    from scipy.io import savemat

    out = io.BytesIO()
    savemat(out, {"X": pixels(4, 4, 3, 2), "y": np.array([[1], [10]])}, do_compression=packed)
    return out.getvalue()


def mat_around(content: bytes) -> bytes:
    """With each of its elements packed."""
    out, at = content[:128], 128
    while at + 8 <= len(content):
        end = at + 8 + int.from_bytes(content[at + 4 : at + 8], "little")
        packed = zlib.compress(content[at:end], 1)
        out += struct.pack("<II", 15, len(packed)) + packed
        at = end
    return out


def cifar_batch(keys: tuple[str, ...] = ("labels",)) -> bytes:
    import pickle

    return pickle.dumps({"data": pixels(2, 3072), **{key: [0, 1] for key in keys}}, protocol=2)


def cifar_meta() -> bytes:
    import pickle

    return pickle.dumps({"fine_label_names": ["a", "b"], "coarse_label_names": ["c", "d"]}, protocol=2)


def tensors() -> bytes:
    from safetensors.numpy import save

    weight = np.ones((2, 3), np.float32)
    return save({"network.weight": weight, "network.bias": weight[:, 0], "features.mean": weight[0]})


def safetensors_around(content: bytes) -> bytes:
    """With a length that fits the header again."""
    header = re.match(rb".*}} *", content[8:], re.DOTALL)
    return content if header is None else struct.pack("<Q", header.end()) + content[8:]


def torch_file() -> bytes:
    import torch

    out = io.BytesIO()
    torch.save({"weight": torch.ones(2, 3)}, out)
    return out.getvalue()


CONFIG = {"net": "linear", "classes": ["a", "b"], "shape": [3], "features": True, "backbone": None, "options": {}}


def model_beside(folder: Path) -> None:
    import torch

    from askless import nets

    state = nets.make("linear", classes=2, shape=(3,)).state_dict()
    from safetensors.torch import save_file

    save_file({f"network.{k}": torch.zeros_like(v) for k, v in state.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "preprocess.json").write_text('{"input": "the features themselves"}')


def onnx_model(outside: dict[str, str] | None = None) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.eye(3, 2, dtype=np.float32), "w")
    if outside is not None:
        weight = TensorProto(name="w", data_type=1, dims=[3, 2], data_location=TensorProto.EXTERNAL)
        for key, value in outside.items():
            entry = weight.external_data.add()
            entry.key, entry.value = key, value
    nodes = [helper.make_node("MatMul", ["x", "w"], ["l"]), helper.make_node("Softmax", ["l"], ["probabilities"])]
    given, out = (helper.make_tensor_value_info(n, 1, [None, k]) for n, k in (("x", 3), ("probabilities", 2)))
    graph = helper.make_graph(nodes, "g", [given], [out], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, {"config": json.dumps(CONFIG | {"onnx": True}), "preprocess": "{}"})
    return model.SerializeToString()


# --- what makes a changed file look whole


def png_repaired(content: bytes) -> bytes:
    out, at = content[:8], 8
    while at + 12 <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        body = content[at + 4 : at + 8 + size]
        out += content[at : at + 4] + body + struct.pack(">I", zlib.crc32(body))
        at += 12 + size
    return out + content[at:]


def tar_repaired(content: bytes) -> bytes:
    blocks = [content[i : i + 512] for i in range(0, len(content), 512)]
    for i, block in enumerate(blocks):
        if b"ustar" in block[250:270] and len(block) == 512:
            total = sum(block[:148]) + 8 * 32 + sum(block[156:])
            blocks[i] = block[:148] + b"%06o\0 " % total + block[156:]
    return b"".join(blocks)


# --- the table


def an_image(folder: Path) -> None:
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(picture("PNG"))


def write_others(names: dict[str, Callable[[], bytes]]) -> Callable[[Path], None]:
    def beside(folder: Path) -> None:
        for name, content in names.items():
            (folder / name).write_bytes(content())

    return beside


def every_image(file: Path) -> None:
    for read in (image_size, read_image, lambda path: read_image(path, (8, 8))):
        try:
            read(file)
        except AsklessError:
            continue


def embedded(file: Path) -> None:
    for part in parts_of(str(file), 10):
        list(part.read(None))


def shards_of(file: Path) -> None:
    cache = file.parent / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    found = open_shards(file.parent, cache)
    for name in found.columns:
        np.asarray(found[name]).sum()
    found.texts("id", np.arange(len(found)))
    found.skipped()


def texts(file: Path) -> None:
    read_texts(file).read()


def both(*readers: Callable[[Path], Any]) -> Callable[[Path], None]:
    def read(file: Path) -> None:
        refused: list[AsklessError] = []
        for each in readers:
            try:
                each(file)
            except AsklessError as error:
                refused.append(error)
        if refused:
            raise refused[0]

    return read


IDX = {
    "train-labels-idx1-ubyte": lambda: idx(3),
    "t10k-images-idx3-ubyte": lambda: idx(2, 4, 4),
    "t10k-labels-idx1-ubyte": lambda: idx(2),
}
BATCHES: dict[str, Callable[[], bytes]] = {
    name: cifar_batch for name in ("data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
}
FINE = {"test": lambda: cifar_batch(("fine_labels", "coarse_labels"))}
TEXTS = b'id,text,label\n1,"a, b",x\n2,"c\nd",y\n3,e,\n'
LINES = b'{"id": 1, "text": "a", "label": "x"}\n{"text": "b", "n": [1, {"c": null}]}\n\n{"text": "caf\xc3\xa9"}\n'
ANSWERS = b'path,label,annotator,seconds,round\na.png,x,ann,2.5,1\n"b,c.png",y,,,\n'
RESULT = {"type": "choices", "from_name": "label", "value": {"choices": ["x"]}}
TASKS = [
    {"id": 1, "data": {"askless_run": "r", "askless_item": "a.png"}, "annotations": [{"id": 2, "result": [RESULT]}]}
]
READERS: dict[str, Reader] = {
    "PNG": Reader(
        "a.png",
        lambda: [picture("PNG"), picture("PNG", pixels(5, 5).astype(np.uint16))],
        every_image,
        repair=png_repaired,
    ),
    "JPEG": Reader("a.jpg", lambda: [picture("JPEG"), picture("JPEG", progressive=True)], every_image),
    "GIF": Reader("a.gif", lambda: [picture("GIF", pixels(9, 7))], every_image),
    "BMP": Reader("a.bmp", lambda: [picture("BMP"), picture("BMP", pixels(9, 7))], every_image),
    "WebP": Reader("a.webp", lambda: [picture("WEBP"), picture("WEBP", lossless=True)], every_image),
    "TIFF": Reader(
        "a.tif",
        lambda: [
            picture("TIFF"),
            picture("TIFF", compression="tiff_lzw"),
            picture("TIFF", pixels(5, 5).astype(np.float32) / 255),
        ],
        every_image,
    ),
    "CSV of texts": Reader(
        "a.csv", lambda: [TEXTS, TEXTS.decode().encode("utf-16"), b"\xef\xbb\xbf" + TEXTS], both(texts, load_pool)
    ),
    "TSV of texts": Reader("a.tsv", lambda: [TEXTS.replace(b",", b"\t")], both(texts, load_pool)),
    "CSV of images": Reader(
        "a.csv", lambda: [b"path,label,split\na.png,x,\nb.png,y,test\n", b"file;class\na.png;x\n"], load_pool, an_image
    ),
    "JSON lines": Reader("a.jsonl", lambda: [LINES], both(texts, load_pool)),
    "metadata": Reader(
        "metadata.jsonl",
        lambda: [b'{"file_name": "a.png", "label": "x"}\n'],
        lambda file: imagefolder(file.parent),
        an_image,
    ),
    "npy": Reader(
        "a.npy",
        lambda: [npy(np.ones((3, 2))), npy(pixels(3, 4, 4)), npy(np.asfortranarray(pixels(3, 3, 4, 4)))],
        both(read_arrays, load_pool),
    ),
    "npz": Reader(
        "a.npz",
        lambda: [
            npz(False, X=np.ones((3, 2)), y=np.array([0, 1, -1]), ids=np.array(["a", "b", "c"])),
            npz(True, x_train=pixels(3, 4, 4), y_train=np.arange(3), x_test=pixels(1, 4, 4), y_test=np.arange(1)),
        ],
        both(read_arrays, load_pool),
    ),
    "npz, inside": Reader(
        "a.npz",
        lambda: [npy(np.ones((3, 2))), npy(pixels(3, 4, 4)), npy(np.array(["a", "b", "c"]))],
        both(read_arrays, load_pool),
        repair=npz_around,
    ),
    "Parquet of texts": Reader(
        "a.parquet", lambda: [table(id=["1", "2"], text=["a", "b"], label=[0, 1])], both(texts, parquet)
    ),
    "Parquet of features": Reader("a.parquet", lambda: [table(x=[[1.0, 2.0], [3.0, 4.0]], label=[0, -1])], parquet),
    "Parquet of images": Reader(
        "a.parquet",
        lambda: [table(image=[{"bytes": picture("PNG"), "path": "a.png"}] * 2, label=[0, 1])],
        both(parquet, embedded),
    ),
    "Arrow": Reader(
        "a.arrow",
        lambda: [arrow_stream(text=["a", "b"], label=["x", None]), arrow_stream(x=[[1.0], [2.0]], id=[1, 2])],
        lambda file: hf(file.parent),
        lambda folder: (folder / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}') and None,
    ),
    "state of a data set": Reader(
        "state.json",
        lambda: [b'{"_data_files": [{"filename": "a.arrow"}]}'],
        lambda file: hf(file.parent),
        write_others({"a.arrow": lambda: arrow_stream(text=["a", "b"])}),
    ),
    "shard": Reader("a.arrow", lambda: [shard()], shards_of),
    "shard in Parquet": Reader("a.parquet", lambda: [table(x=[[1.0, 2.0], [3.0, 4.0]], id=["a", "b"])], shards_of),
    "answers in CSV": Reader("a.csv", lambda: [ANSWERS, ANSWERS.replace(b",", b";")], read_answers),
    "answers in JSON lines": Reader(
        "a.jsonl", lambda: [b'{"path": "a.png", "label": "x", "seconds": 2.5}\n'], read_answers
    ),
    "answers in npz": Reader(
        "a.npz",
        lambda: [npz(k, y=np.arange(2), classes=np.array(["a", "b"]), ids=np.array(["c", "d"])) for k in (True, False)],
        read_answers,
    ),
    "Label Studio": Reader("a.json", lambda: [json.dumps(TASKS).encode()], read_export),
    "tar": Reader("a.tar", lambda: [tar_of_images()], both(load_pool, embedded), repair=tar_repaired),
    "tar, packed": Reader("a.tar.gz", lambda: [gzip.compress(tar_of_images(), mtime=0)], both(load_pool, embedded)),
    "tar, inside": Reader(
        "a.tgz",
        lambda: [tar_of_images()],
        both(load_pool, embedded),
        repair=lambda content: gzip.compress(tar_repaired(content), 1, mtime=0),
    ),
    "idx": Reader(
        "train-images-idx3-ubyte", lambda: [idx(3, 4, 4)], lambda file: mnist(file.parent), write_others(IDX)
    ),
    "idx, packed": Reader(
        "train-images-idx3-ubyte.gz",
        lambda: [gzip.compress(idx(3, 4, 4), mtime=0)],
        lambda file: mnist(file.parent),
        write_others(IDX),
    ),
    "MATLAB": Reader(
        "train_32x32.mat",
        lambda: [mat(), mat(packed=True)],
        lambda file: svhn(file.parent),
        write_others({"test_32x32.mat": mat}),
        repair=mat_around,
    ),
    "CIFAR-10": Reader(
        "data_batch_1", lambda: [cifar_batch()], lambda file: cifar10(file.parent), write_others(BATCHES)
    ),
    "CIFAR-10, binary": Reader(
        "data_batch_1.bin",
        lambda: [bytes(2 * 3073)],
        lambda file: cifar10(file.parent),
        write_others({f"{name}.bin": lambda: bytes(3073) for name in BATCHES}),
    ),
    "CIFAR-100": Reader(
        "train",
        lambda: [cifar_batch(("fine_labels", "coarse_labels"))],
        lambda file: cifar100(file.parent),
        write_others({**FINE, "meta": cifar_meta}),
    ),
    "CIFAR-100, names": Reader(
        "meta",
        lambda: [cifar_meta()],
        lambda file: cifar100(file.parent),
        write_others({**FINE, "train": FINE["test"]}),
    ),
    "safetensors": Reader("a.safetensors", lambda: [tensors()], read_weights, repair=safetensors_around),
    "weights of torch": Reader("a.pt", lambda: [torch_file()], read_weights),
    "weights of a model": Reader(
        "model.safetensors",
        lambda: [tensors()],
        lambda file: al.load(file.parent),
        model_beside,
        repair=safetensors_around,
    ),
    "description of a model": Reader(
        "config.json", lambda: [json.dumps(CONFIG).encode()], lambda file: al.load(file.parent), model_beside
    ),
    "ONNX": Reader(
        "model.onnx", lambda: [onnx_model(), onnx_model({"location": "w.bin"})], al.load, needs="onnx onnxruntime"
    ),
}


# --- how a file is changed


def changed(content: bytes, steps: list[tuple[str, int, int]], other: bytes) -> bytes:
    for what, a, b in steps:
        if not content:
            break
        at = a % len(content)
        number = NUMBERS[b % len(NUMBERS)]
        if what == "cut":
            content = content[:at]
        elif what == "drop":
            content = content[:at] + content[at + 1 + b % 64 :]
        elif what == "flip":
            content = content[:at] + bytes([content[at] ^ 1 << b % 8]) + content[at + 1 :]
        elif what == "byte":
            content = content[:at] + bytes([b % 256]) + content[at + 1 :]
        elif what in ("number", "number in front", "number at the end"):
            at = at if what == "number" else a % min(64, len(content))
            at = len(content) - 1 - at if what == "number at the end" else at
            width = (1, 2, 4, 8)[b // 32 % 4]
            as_bytes = (number % 256**width).to_bytes(width, ("little", "big")[b // 128 % 2])
            content = content[:at] + as_bytes + content[at + width :]
        elif what == "digits":
            found = list(re.finditer(rb"\d+", content))
            if found:
                start, end = found[a % len(found)].span()
                text = (b"%d", b"-%d", b"%o", b"%de9")[b // 32 % 4] % number
                content = content[:start] + text.rjust(end - start, b"0") + content[end:]
        elif what == "again":
            content = content[:at] + content[at : at + b % 512] * (2 + b % 3) + content[at:]
        elif what == "splice":
            from_ = b % max(1, len(other))
            content = content[:at] + other[from_ : from_ + 256] + content[at + b % 3 * 128 :]
    return content


KINDS = ("cut", "drop", "flip", "byte", "number", "number in front", "number at the end", "digits", "again", "splice")
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 2**16), st.integers(0, 2**16)), min_size=1, max_size=4
)


# --- the contract

opened: list[str] | None = None  # the paths that were opened, while anybody wants to know
ELSEWHERE = (
    *filter(None, sys.path),
    sys.prefix,
    sys.base_prefix,
    "/proc/",
    "/sys/",
    "/dev/",
    "/usr/",
    "/etc/",
)  # imports, too


def note_opening(event: str, args: tuple[Any, ...]) -> None:
    if opened is not None and event == "open" and isinstance(args[0], str | bytes | os.PathLike):
        opened.append(os.path.abspath(os.fsdecode(args[0])))


sys.addaudithook(note_opening)


def outcome(reader: Reader, folder: Path) -> str:
    """ "read", or "refused"; an AssertionError, or whatever else is raised, where the contract is broken."""
    global opened
    opened, begun, said = [], time.process_time(), ""
    try:
        reader.read(folder / reader.file)
    except AsklessError as error:
        said = str(error)
    finally:
        paths, opened = opened, None
    seconds = time.process_time() - begun
    assert seconds < SECONDS, f"{seconds:.0f} seconds"
    assert [path for path in paths if not path.startswith((str(folder), *ELSEWHERE))] == []
    assert len(said) < 1500 + 3 * len(str(folder)), f"a message of {len(said)} characters"
    return "refused" if said else "read"


@pytest.fixture
def bounded(monkeypatch):
    """Little memory beside what the process has, and low limits of what a file may unpack to."""
    monkeypatch.setenv("ASKLESS_MAX_BYTES", str(2**26))
    if sys.platform != "linux":
        yield
        return
    import resource

    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def prepared(name: str, folder: Path) -> tuple[Reader, list[bytes]]:
    reader = READERS[name]
    missing = [package for package in reader.needs.split() if find_spec(package) is None]
    if missing:
        pytest.skip(f"{name} needs {' and '.join(missing)}, which this environment has not")
    folder.mkdir()
    reader.beside(folder)
    return reader, reader.seeds()


def fuzz(name: str, folder: Path, cases: int, breaks: list[str] | None = None) -> Counter[str]:
    """What became of so many changed files; where `breaks` is given, breaks of the contract are noted there."""
    reader, seeds = prepared(name, folder)
    tally: Counter[str] = Counter()

    @settings(max_examples=cases, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(seeds) - 1), st.integers(0, len(seeds) - 1), STEPS, st.booleans())
    def one(which: int, other: int, steps: list[tuple[str, int, int]], repaired: bool) -> None:
        content = changed(seeds[which], steps, seeds[other])
        (folder / reader.file).write_bytes(reader.repair(content) if repaired else content)
        try:
            tally[outcome(reader, folder)] += 1
        except Exception as error:
            tally["broken"] += 1
            if breaks is None:
                raise
            breaks.append(
                f"{name}: {type(error).__name__}: {str(error)[:200]} after {steps}, {which}, {other}, {repaired}"
            )

    one()
    return tally


@pytest.mark.parametrize("name", READERS)
def test_a_valid_file_is_read(name, tmp_path, bounded):
    reader, seeds = prepared(name, tmp_path / "here")
    (tmp_path / "here" / reader.file).write_bytes(reader.repair(seeds[0]))
    if name not in ("weights of a model",):
        assert outcome(reader, tmp_path / "here") == "read"


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused(name, tmp_path, bounded):
    tally = fuzz(name, tmp_path / "here", CASES)
    assert tally["refused"] or tally["read"]


def safetensors_of(header: Any, data: bytes = bytes(24), size: int | None = None) -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text) if size is None else size) + text + data


F32 = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
HEADERS = {
    "a length beyond the file": safetensors_of({"w": F32}, size=2**40),
    "the longest length": safetensors_of({"w": F32}, size=2**64 - 1),
    "no length": b"\1\0",
    "overlapping tensors": safetensors_of({"w": F32, "v": F32}),
    "a hole": safetensors_of({"w": F32 | {"data_offsets": [8, 32]}}, bytes(32)),
    "offsets beyond the file": safetensors_of({"w": F32 | {"data_offsets": [0, 2**40]}}),
    "offsets turned round": safetensors_of({"w": F32 | {"data_offsets": [24, 0]}}),
    "offsets below nothing": safetensors_of({"w": F32 | {"data_offsets": [-24, 0]}}),
    "another dtype": safetensors_of({"w": F32 | {"dtype": "F64"}}),
    "a dtype that does not exist": safetensors_of({"w": F32 | {"dtype": "OBJECT"}}),
    "a shape beyond 64 bits": safetensors_of({"w": F32 | {"shape": [2**33, 2**33]}}),
    "a tensor that is a number": safetensors_of({"w": 1}),
    "braces in braces": safetensors_of(b"[" * 100_000),
    "no JSON": safetensors_of(b"\xff\xfe" * 50),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_hostile_header_of_safetensors_is_refused(case, tmp_path, bounded):
    for name, read in (("a.safetensors", read_weights), ("model.safetensors", lambda file: al.load(file.parent))):
        model_beside(tmp_path)
        (tmp_path / name).write_bytes(HEADERS[case])
        with pytest.raises(AsklessError, match=r"cannot be read"):
            read(tmp_path / name)


@pytest.mark.parametrize(
    "place", ["../secret.bin", "{secret}", "inside.bin", "link.bin", "folder/../../secret.bin", ""]
)
def test_data_of_an_onnx_model_in_another_file_are_never_read(place, tmp_path):
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        pytest.skip("needs onnx and onnxruntime, which this environment has not")
    secret, folder = tmp_path / "secret.bin", tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    for file in (secret, folder / "inside.bin"):
        file.write_bytes(np.eye(3, 2, dtype=np.float32).tobytes())
    (folder / "link.bin").symlink_to(secret)
    (folder / "model.onnx").write_bytes(onnx_model({"location": place.format(secret=secret), "length": "24"}))
    with pytest.raises(
        AsklessError, match="got one that refers to other files, which are never read; save it as one file"
    ):
        al.load(folder)


@pytest.mark.slow
def test_many_damaged_files_are_read_or_refused(tmp_path, bounded, capsys):
    cases = int(os.environ.get("ASKLESS_FUZZ_CASES", "20000"))
    breaks: list[str] = []
    total: Counter[str] = Counter()
    for i, name in enumerate(READERS):
        try:
            total += fuzz(name, tmp_path / str(i), max(1, cases // len(READERS)), breaks)
        except pytest.skip.Exception as why:
            print(why)
    with capsys.disabled():
        print(f"\nfuzzed files {sum(total.values())}: {len(breaks)} contract breaks")
    kinds = {re.sub(r"[0-9]+", "0", line.partition(" after ")[0]): line for line in breaks}
    assert kinds == {}, "\n".join(kinds.values())
