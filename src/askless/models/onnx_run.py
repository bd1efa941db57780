"""An ONNX model in use: numpy and onnxruntime, no torch."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from askless.errors import ModelError

Forward = Callable[[np.ndarray], np.ndarray]


class OnnxModel(NamedTuple):
    """What the file says of itself, and the function from items (n, ...) as they are read to probabilities (n, C)."""

    config: dict[str, Any]
    preprocess: dict[str, Any]
    forward: Forward


def load_onnx(file: Path) -> OnnxModel:
    session = session_of(file)
    told = session.get_modelmeta().custom_metadata_map
    try:
        config, preprocess = json.loads(told["config"]), json.loads(told["preprocess"])
    except (KeyError, ValueError):
        raise ModelError(
            f"{file}: expected an ONNX file that askless wrote, with classes and preprocessing in it, got another one"
        ) from None
    expected = session.get_inputs()[0]
    dtype = DTYPES[expected.type]

    def forward(rows: np.ndarray) -> np.ndarray:
        found = session.run(["probabilities"], {expected.name: np.ascontiguousarray(rows, dtype=dtype)})
        return np.asarray(found[0], dtype=np.float64)

    return OnnxModel(config, preprocess, forward)


DTYPES: dict[str, Any] = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32, "tensor(int64)": np.int64}


def session_of(model: Path | bytes) -> Any:
    """A session of onnxruntime on the processor."""
    runtime = package("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    try:
        given = model if isinstance(model, bytes) else str(model)
        return runtime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has its own errors
        what = "the exported model" if isinstance(model, bytes) else model
        raise ModelError(f"{what}: onnxruntime cannot load it ({str(error).splitlines()[0]})") from None


def package(name: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ModelError(
            f"ONNX models need the package {name}, which cannot be imported ({error}); run `pip install 'askless[onnx]'`"
        ) from None
