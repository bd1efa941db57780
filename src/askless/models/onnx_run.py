"""An ONNX model in use: numpy and onnxruntime, no torch."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from askless.base.errors import ModelError, first_line
from askless.base.machine import required

Forward = Callable[[np.ndarray], np.ndarray]
DTYPES: dict[str, Any] = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32, "tensor(int64)": np.int64}


def load_onnx(file: Path) -> tuple[dict[str, Any], dict[str, Any], Forward]:
    """The configuration and the preprocessing that the file has in it, and the function from items (n, ...) as they are
    read to probabilities (n, C)."""
    session = session_of(file)
    told = session.get_modelmeta().custom_metadata_map
    try:
        config, preprocess = json.loads(told["config"]), json.loads(told["preprocess"])
        expected, outputs = session.get_inputs()[0], [output.name for output in session.get_outputs()]
        dtype = DTYPES[expected.type]
        if not (isinstance(config, dict) and isinstance(preprocess, dict) and "probabilities" in outputs):
            raise ValueError("no description, or no probabilities")
    except (KeyError, IndexError, ValueError, RecursionError):
        raise ModelError(
            f"{file}: expected an ONNX file written by askless, with classes and preprocessing, got another one"
        ) from None

    def forward(rows: np.ndarray) -> np.ndarray:
        found = session.run(["probabilities"], {expected.name: np.ascontiguousarray(rows, dtype=dtype)})
        return np.asarray(found[0], dtype=np.float64)

    return config, preprocess, forward


def session_of(model: Path | bytes) -> Any:
    """A session of onnxruntime on the processor. All of the model is in the one file: a path in it is never followed."""
    runtime = required("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    # Not onnxruntime's own format, whatever the file begins with.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    what = "the exported model" if isinstance(model, bytes) else model
    try:
        content = model if isinstance(model, bytes) else model.read_bytes()
        outside = has_outside_data(content)
    except (OSError, ValueError) as error:
        raise ModelError(f"{what}: expected an ONNX file, got another, or a damaged one ({error})") from None
    if outside:
        raise ModelError(
            f"{what}: expected an ONNX file with its weights inside, got one that refers to other files, which are "
            "never read; save it as one file"
        )
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has its own errors
        raise ModelError(f"{what}: onnxruntime cannot load it ({first_line(error)})") from None


# Where tensors stand in an ONNX file, by the numbers of protobuf's fields: in which message, and what is there.
INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
EXTERNAL_DATA, DATA_LOCATION = 13, 14  # of a tensor


def has_outside_data(content: bytes) -> bool:
    """Whether a tensor of an ONNX file says that its data are in another file."""
    ahead = [("model", memoryview(content))]
    while ahead:
        message, part = ahead.pop()
        for number, value in fields(part):
            if message == "tensor" and (number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0)):
                return True
            if isinstance(value, memoryview) and number in INSIDE[message]:
                ahead.append((INSIDE[message][number], value))
    return False


def fields(part: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a protobuf message: their numbers, with a whole number or bytes."""
    at = 0
    while at < len(part):
        key, at = varint(part, at)
        if key >= 2**32:  # which others read as a smaller one
            raise ValueError("a field number that does not exist")
        kind = key & 7
        if kind == 0:
            value, at = varint(part, at)
            yield key >> 3, value
            continue
        size, at = varint(part, at) if kind == 2 else ({1: 8, 5: 4}.get(kind, len(part)), at)
        if size > len(part) - at:
            raise ValueError("a field that does not end")
        yield key >> 3, part[at : at + size]
        at += size


def varint(part: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(part[at : at + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & (2**64 - 1), at + i + 1
    raise ValueError("a number that does not end")
