"""A module -> an ONNX file that says the same, which is checked before it is handed out."""

import contextlib
import io
import json
import logging
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from askless.base.errors import ModelError, first_line
from askless.base.machine import required
from askless.models.onnx_run import session_of

OPSET = 18
TOLERANCE = 1e-3  # of logits, in units of the largest one (at least 1); rounding alone gives about 1e-6


def onnx_bytes(whole: nn.Module, items: Tensor, name: str, told: dict[str, Any]) -> bytes:
    """The module as an ONNX file: one input called `name` (a batch of any size), the outputs "logits" and "probabilities";
    `told` goes into its metadata as JSON."""
    onnx = required("onnx", "onnx")
    required("onnxscript", "onnx")  # which torch's exporter needs
    whole = whole.eval()
    sample = torch.cat([items, items])[:2]
    batch = {0: torch.export.Dim("batch", min=1, max=2**20)}
    try:
        with quiet():
            program = torch.onnx.export(
                whole,
                (sample,),
                dynamo=True,
                dynamic_shapes={"x": batch},
                input_names=[name],
                output_names=["logits", "probabilities"],
                opset_version=OPSET,
                verbose=False,
            )
        assert program is not None
        proto = program.model_proto
    except Exception as error:  # whatever the exporter cannot trace
        raise ModelError(
            f"the network cannot be written as ONNX ({type(error).__name__}: {first_line(error)}); export it "
            'with to="model", or remove code that depends on the values of the data'
        ) from error
    proto.producer_name = "askless"
    onnx.helper.set_model_props(proto, {key: json.dumps(value) for key, value in told.items()})
    try:
        data: bytes = proto.SerializeToString()
    except Exception as error:  # protobuf has its own errors, and a limit of 2 GB
        raise ModelError(
            f"the network cannot be written as ONNX ({type(error).__name__}: {first_line(error)}): one file holds 2 GB; "
            'export it with to="model", or use a smaller network'
        ) from None
    return data


def check_onnx(data: bytes, whole: nn.Module, items: Tensor) -> dict[str, Any]:
    """Runs the file in onnxruntime beside the module, on batches of 1, 2 and all items; an error where they differ. What was
    found, for the record."""
    session = session_of(data)
    name = session.get_inputs()[0].name
    worst, worst_share = 0.0, 0.0
    for n in sorted({1, min(2, len(items)), len(items)}):
        part = items[:n]
        with torch.no_grad():
            logits, probabilities = (t.numpy() for t in whole(part))
        got_logits, got_probabilities = session.run(["logits", "probabilities"], {name: part.numpy()})
        if got_logits.shape != logits.shape or got_probabilities.shape != probabilities.shape:
            raise ModelError(
                f"the ONNX file gives {got_logits.shape} for {n} items, the network {logits.shape}; nothing was written"
            )
        worst = max(worst, float(np.abs(got_logits - logits).max()) / max(1.0, float(np.abs(logits).max())))
        worst_share = max(worst_share, float(np.abs(got_probabilities - probabilities).max()))
    if not (worst <= TOLERANCE and worst_share <= TOLERANCE):  # also where something is NaN
        raise ModelError(
            f"the ONNX file does not match the network: logits differ by {worst:.2g} of the largest, probabilities "
            f'by {worst_share:.2g}, the limit is {TOLERANCE:g}; nothing was written; export with to="model" instead'
        )
    return {"items": len(items), "logits": worst, "probabilities": worst_share, "tolerance": TOLERANCE}


@contextlib.contextmanager
def quiet() -> Any:
    """Without what the exporter prints and warns about itself."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
