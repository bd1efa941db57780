"""BackPACK's squared gradient norms of a batch, for benchmarks/gradients.py: in the peers' environment.

    python benchmarks/peers/gradients_backpack.py NET FILE REPEATS

FILE holds the network's state and the batch. The last line of output is JSON: the median seconds of BatchL2Grad and of a
plain forward and backward pass, in turn, and the norms.
"""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))  # the networks; askless is not installed here

from backpack import backpack, extend
from backpack.extensions import BatchL2Grad

from askless import nets


def main(name: str, path: str, repeats: int) -> None:
    warnings.simplefilter("ignore")  # that the containers of layers have parameters but no extension of their own
    saved = torch.load(path)
    x = saved["x"]

    def network() -> nn.Module:
        model = nets.make(name, classes=10, shape=(3, 32, 32))
        model.load_state_dict(saved["state"])
        return model.eval()

    bare, bare_loss = network(), nn.CrossEntropyLoss(reduction="sum")
    model, loss = extend(network()), extend(nn.CrossEntropyLoss(reduction="sum"))

    def plain() -> None:
        bare.zero_grad(set_to_none=True)
        logits = bare(x)
        bare_loss(logits, logits.detach().argmax(1)).backward()

    def norms() -> Tensor:
        model.zero_grad(set_to_none=True)
        logits = model(x)
        with backpack(BatchL2Grad()):
            loss(logits, logits.detach().argmax(1)).backward()
        return torch.stack([p.batch_l2 for p in model.parameters()]).double().sum(0)

    ways: dict[str, Callable[[], Any]] = {"seconds": norms, "floor": plain}
    took: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(repeats + 1):
        for way, call in ways.items():
            start = time.perf_counter()
            call()
            if turn:
                took[way].append(time.perf_counter() - start)
    print(json.dumps({way: statistics.median(found) for way, found in took.items()} | {"sq": norms().tolist()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
