"""FixMatch's step: the real training loop against the bare network on the same images, and against a plain step.

Ours is `FixMatch.fit` with its default batch (64 labelled, 448 unlabelled in a weak and a strong view, so 960
images through the network), averaging and DARP, timed from outside by its `watch`. The floor is the network alone: forward,
cross entropy and backward of a fixed batch of 960 such images, without optimiser, views, averaging or bookkeeping. Weak
views go through forward and backward in both, because FixMatch runs one batch that BatchNorm sees whole. The network keeps
85 % of its speed where ours is at most 1 / 0.85 of the floor. The reference is the step as it is usually written: Pillow
image by image, a Python loop over the parameters for the average, DARP by its authors' scheme. All three take turns within
one run. Medians of ten steps together hold one solution of DARP each; those of WRN-28-2, of single steps, hold none (some
100 ms in ten steps), and the copy of the weights that is kept every 50 steps is in few. USB (semilearn) is left out: it
wants parts of torchvision, torchaudio and CUDA that the CPU builds here lack.
"""

import copy
import statistics
import sys
import time

import numpy as np
import torch
from suite import Line, Other, arguments, finish
from torch.nn import functional as F
from views import as_batch, pillow_strong, pillow_weak

from askless import nets
from askless.data import ImageViews, as_pool
from askless.learn import DARP, Course, FixMatch, Task
from askless.learn.darp import solve
from askless.learn.training import make_optimiser

LIMIT = 1 / 0.85
LABELLED = 100
# network, channels, side, items of the pool, steps of a block, and blocks
CASES = [("small-cnn", 1, 8, 1_797, 10, 9), ("small-cnn", 1, 28, 60_000, 10, 5), ("wrn-28-2", 3, 32, 50_000, 1, 5)]
QUICK = [("small-cnn", 1, 8, 300, 2, 1)]


def clustered(n: int, C: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, C, side, side) of ten patterns with noise, and which pattern each shows."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=n)
    patterns = rng.integers(40, 216, size=(10, C, side // 4, side // 4)).repeat(4, axis=2).repeat(4, axis=3)
    noise = rng.integers(-40, 41, size=(997, C, side, side), dtype=np.int16)
    x = np.empty((n, C, side, side), np.uint8)
    for start in range(0, n, len(noise)):
        part = patterns[y[start : start + len(noise)]]
        x[start : start + len(noise)] = np.clip(part + noise[: len(part)], 0, 255)
    return x, y


class Bare:
    """Forward and backward of one batch of what the loop sees."""

    def __init__(self, net: torch.nn.Module, views: ImageViews, y: np.ndarray, learner: FixMatch) -> None:
        generator, at = torch.Generator().manual_seed(0), np.arange(learner.mu * learner.batch) % len(y)
        first = at[: learner.batch]
        self.net = copy.deepcopy(net).train()
        self.x = torch.cat([views.weak(first, generator), views.weak(at, generator), views.strong(at, generator)])
        self.y = torch.from_numpy(y[np.concatenate([first, at, at])])

    def step(self) -> None:
        self.net.zero_grad(set_to_none=True)
        F.cross_entropy(self.net(self.x), self.y).backward()


class Plain:
    """FixMatch with DARP as one would write it down."""

    def __init__(self, net: torch.nn.Module, views: ImageViews, y: np.ndarray, learner: FixMatch) -> None:
        self.net, self.average = copy.deepcopy(net).train(), copy.deepcopy(net)
        self.views, self.y, self.learner, self.steps = views, torch.from_numpy(y), learner, 0
        self.optimiser = make_optimiser(self.net, learner)
        self.generator = torch.Generator().manual_seed(0)
        self.P = np.full((len(y), 10), 0.1)
        self.X = self.P

    def view(self, at: torch.Tensor, strong: bool) -> torch.Tensor:
        pictures = pillow_weak(self.views.pool.take(at), self.generator, self.views.padding)
        return self.views.of(as_batch(pillow_strong(pictures, self.generator) if strong else pictures))

    def step(self) -> None:
        B, N = self.learner.batch, len(self.y)
        first = torch.randint(min(LABELLED, N), (B,), generator=self.generator)
        at = torch.randint(N, (self.learner.mu * B,), generator=self.generator)
        logits = self.net(torch.cat([self.view(first, False), self.view(at, False), self.view(at, True)]))
        on_labelled, on_weak, on_strong = logits.split([B, len(at), len(at)])
        self.P[at.numpy()] = on_weak.detach().double().softmax(dim=1).numpy()
        if self.steps % 10 == 0:
            self.X = solve(self.P, solver="alternating").X
        target = torch.from_numpy(self.X[at.numpy()])
        mask = target.amax(dim=1) >= self.learner.tau
        unlabelled = (F.cross_entropy(on_strong, target.argmax(dim=1), reduction="none") * mask).mean()
        loss = F.cross_entropy(on_labelled, self.y[first]) + unlabelled
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        with torch.no_grad():
            for mean, live in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.mul_(0.999).add_(live, alpha=0.001)
            for mean, live in zip(self.average.buffers(), self.net.buffers(), strict=True):
                mean.copy_(live)
        self.steps += 1


class Turns:
    """Ours, the floor and the reference, one step each in turn: called after every step of ours, as `watch`.

    The machine's speed may wander by a fifth within a minute; so near each other, all three feel the same of it.
    """

    def __init__(self, bare: Bare, plain: Plain, together: int) -> None:
        self.others = {"floor": bare.step, "reference": plain.step}
        self.together = together
        self.times: dict[str, list[float]] = {"ours": [], "floor": [], "reference": []}  # of each step
        for step in self.others.values():
            step()
        self.mark = time.perf_counter()

    def __call__(self, done: int, total: int, numbers: dict[str, float]) -> None:
        self.times["ours"].append(time.perf_counter() - self.mark)
        for name, step in self.others.items():
            start = time.perf_counter()
            step()
            self.times[name].append(time.perf_counter() - start)
        self.mark = time.perf_counter()

    def medians(self) -> dict[str, float]:
        """Over blocks of `together` steps; without the first block, in which things are allocated."""
        blocks = {name: np.reshape(found, (-1, self.together)).mean(axis=1) for name, found in self.times.items()}
        return {name: statistics.median(found[1:].tolist()) for name, found in blocks.items()}


def measured(name: str, C: int, side: int, n: int, together: int, repeats: int) -> Line:
    x, y = clustered(n, C, side)
    views = ImageViews(as_pool(x, y))
    net = nets.make(name, shape=(C, side, side), classes=10)
    steps = together * (repeats + 1)
    learner = FixMatch(steps=steps, darp=DARP(warm_up=0))  # DARP acts from the first step on
    turns = Turns(Bare(net, views, y, learner), Plain(net, views, y, learner), together)
    labelled = np.arange(min(LABELLED, n))
    learner.fit(net, Task(views, n, labelled, y[labelled], 10), course=Course(watch=turns))
    took = turns.medians()
    print(f"  {name} at {side} px: {took}", file=sys.stderr, flush=True)  # the whole takes minutes
    images = (1 + 2 * learner.mu) * learner.batch
    return Line(
        f"a step of {name} at {side} px, {images} images, pool of {n:,}",
        took["ours"],
        floor=Other("bare network", took["floor"], LIMIT),
        reference=Other("plain step with Pillow", took["reference"]),
        note=f"{images / took['ours']:,.0f} images/s, {took['floor'] / took['ours']:.0%} of the bare network's",
    )


def main() -> None:
    given = arguments(__doc__)
    finish("fixmatch", [measured(*case) for case in (QUICK if given.quick else CASES)], given)


if __name__ == "__main__":
    main()
