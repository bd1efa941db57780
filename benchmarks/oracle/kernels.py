"""Kernels of infinitely wide networks by neural-tangents, an implementation that shares nothing with ours.

    make oracle          # remakes tests/kernels/neural_tangents.json

neural-tangents 0.6.5 needs jax 0.4.25 and numpy 1, so it lives in an environment of its own (.venv-oracle); the tests read
only the file. float64, on the processor.
"""

import json
import sys
import types
from pathlib import Path

# Its experimental part converts functions of TensorFlow, which nobody here needs.
sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")

import jax  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import neural_tangents  # noqa: E402
from neural_tangents import stax  # noqa: E402

FILE = Path(__file__).parents[2] / "tests" / "kernels" / "neural_tangents.json"

# Options of InfiniteMLP or InfiniteCNN, by the name of the inputs.
CASES = [
    ("vectors", {"depth": 1, "sigma_w": 2**0.5, "sigma_b": 0.0}),
    ("vectors", {"depth": 1, "sigma_w": 1.3, "sigma_b": 0.4}),
    ("vectors", {"depth": 3, "sigma_w": 2**0.5, "sigma_b": 0.0}),
    ("vectors", {"depth": 3, "sigma_w": 1.7, "sigma_b": 0.2}),
    ("images", {"depth": 1, "readout": "gap", "sigma_w": 2**0.5, "sigma_b": 0.0}),
    ("images", {"depth": 3, "readout": "gap", "sigma_w": 1.4, "sigma_b": 0.3}),
    ("images", {"depth": 2, "readout": "gap", "padding": 0, "kernel": 2, "sigma_w": 1.4, "sigma_b": 0.3}),
    ("images", {"depth": 3, "readout": "gap", "stride": [1, 2, 1], "sigma_w": 2**0.5, "sigma_b": 0.1}),
    ("images", {"depth": 2, "readout": "flatten", "sigma_w": 2**0.5, "sigma_b": 0.0}),
    ("images", {"depth": 3, "readout": "flatten", "sigma_w": 1.4, "sigma_b": 0.3}),
    (
        "images",
        {"depth": 2, "readout": "flatten", "padding": 0, "stride": [2, 1], "kernel": 2, "sigma_w": 1.4, "sigma_b": 0.3},
    ),
]


def inputs() -> dict[str, np.ndarray]:
    """Few and small; an item twice, one turned round, one twice as long, empty pixels and an empty image."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4, 5))
    vectors = np.concatenate([vectors, vectors[:1], -vectors[1:2], 2 * vectors[2:3]])
    images = rng.normal(size=(3, 2, 5, 7))  # odd sides: there "SAME" pads alike on both, as torch does
    images[1, :, :2] = 0
    images = np.concatenate([images, images[:1], np.zeros((1, 2, 5, 7))])
    return {"vectors": vectors.round(3), "images": images.round(3)}


def layers(options: dict) -> list:
    """The network in neural-tangents' words."""
    w, b = options["sigma_w"], options["sigma_b"] or None
    if "readout" not in options:
        return [
            *(layer for _ in range(options["depth"]) for layer in (stax.Dense(1, w, b), stax.Relu())),
            stax.Dense(1, w, b),
        ]
    k, stride = options.get("kernel", 3), options.get("stride", 1)
    strides = stride if isinstance(stride, list) else [stride] * options["depth"]
    padding = "VALID" if options.get("padding", 1) == 0 else "SAME"
    convolutions = [stax.Conv(1, (k, k), (s, s), padding, w, b) for s in strides]
    readout = stax.GlobalAvgPool() if options["readout"] == "gap" else stax.Flatten()
    return [*(layer for conv in convolutions for layer in (conv, stax.Relu())), readout, stax.Dense(1, w, b)]


def main() -> None:
    given = inputs()
    cases = []
    for name, options in CASES:
        x = given[name]
        x = np.moveaxis(x, 1, -1) if x.ndim == 4 else x  # channels last
        _, _, kernel = stax.serial(*layers(options))
        found = kernel(x, None, ("nngp", "ntk"))
        cases.append({"inputs": name, "options": options, "nngp": found.nngp.tolist(), "ntk": found.ntk.tolist()})
    record = {
        "made by": f"neural-tangents {neural_tangents.__version__}, jax {jax.__version__}",
        "inputs": {name: x.tolist() for name, x in given.items()},
        "cases": cases,
    }
    FILE.write_text(json.dumps(record, separators=(",", ":")).replace('{"inputs"', '\n{"inputs"') + "\n")


if __name__ == "__main__":
    main()
