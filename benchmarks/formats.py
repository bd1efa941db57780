"""Forward and backward of a batch in other formats: channels-last weights, bf16, torch.compile.

    python benchmarks/formats.py                    # the small CNN at 8 and 28 px, WRN-28-2 at 32 px
    python benchmarks/formats.py --compile          # torch.compile as well: minutes until its first call returns
    python benchmarks/formats.py --quick

Processor seconds of one thread, so that other work on the machine counts less; each way in turn, the median of five, and
its ratio to the network as it is.
"""

import argparse
import copy
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from askless import nets

CASES = [("small-cnn", (1, 8, 8), 960), ("small-cnn", (1, 28, 28), 960), ("wrn-28-2", (3, 32, 32), 16)]


def step(net: nn.Module, x: torch.Tensor, y: torch.Tensor, bf16: bool) -> None:
    net.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = F.cross_entropy(net(x).float(), y)
    loss.backward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="torch.compile as well (needs a C++ compiler)")
    parser.add_argument("--quick", action="store_true", help="few images, once: shows that it works")
    given = parser.parse_args()
    torch.set_num_threads(1)
    ways = [("as it is", False, False, False), ("channels last", True, False, False)]
    ways += [("compile", False, True, False), ("compile, channels last", True, True, False)] if given.compile else []
    ways += [("bf16", False, False, True), ("bf16, channels last", True, False, True)]
    print("| network | " + " | ".join(name for name, *_ in ways) + " |\n|---|" + "---:|" * len(ways))
    for name, shape, n in CASES:
        n = 8 if given.quick else n
        generator = torch.Generator().manual_seed(0)
        x, y = torch.randn(n, *shape, generator=generator), torch.randint(10, (n,), generator=generator)
        net = nets.make(name, classes=10, shape=shape)
        last = torch.channels_last
        calls = {}
        for way, channels_last, compiled, bf16 in ways:
            own = copy.deepcopy(net).to(memory_format=last) if channels_last else copy.deepcopy(net)
            run = torch.compile(own) if compiled else own
            calls[way] = (run, x.contiguous(memory_format=last) if channels_last else x, y, bf16)
        took: dict[str, list[float]] = {way: [] for way in calls}
        for turn in range(2 if given.quick else 6):
            for way, call in calls.items():
                start = time.process_time()
                step(*call)
                if turn:  # the first time warms up
                    took[way].append(time.process_time() - start)
        base = statistics.median(took["as it is"])
        cells = [f"{base:.2g} s", *(f"{statistics.median(took[way]) / base:.2f}" for way in list(calls)[1:])]
        print(f"| {name}, {shape[1]} px, {n} images | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
