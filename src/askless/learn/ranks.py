"""The processes that share one training; the only file that knows of torch.distributed.

W processes with batches of B do what one process does with a batch of W B: rank r holds the r-th equal part of every batch,
gradients are averaged, and BatchNorm and DARP see the parts of all. A process by itself is `ALONE`, for which everything
here does nothing.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.modules._functions import SyncBatchNorm
from torch.nn.parallel import DistributedDataParallel

from askless.base.errors import InputError
from askless.learn.batchnorm import Normalised, batch_norm

T = TypeVar("T")
HERE = torch.device("cpu")  # where what is gathered and broadcast lies


@dataclass(frozen=True)
class Ranks:
    """This process, number `rank` of `world`. All ranks must call what is below, in the same order, but for `mine`."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows a bar."""
        return self.rank == 0

    def mine(self, rows: Tensor) -> Tensor:
        """The part of `rows` (n, ...) that is this rank's; the parts follow each other in the order of the ranks."""
        return rows.tensor_split(self.world)[self.rank]

    def gather(self, rows: Tensor) -> Tensor:
        """The rows (n, ...) of all ranks, (W n, ...) in the order of the ranks; the same on all of them."""
        if self.world == 1:
            return rows
        sent = rows.detach().to(HERE).contiguous()
        parts = [torch.empty_like(sent) for _ in range(self.world)]
        dist.all_gather(parts, sent)
        return torch.cat(parts).to(rows.device)

    def mean(self, numbers: dict[str, float]) -> dict[str, float]:
        """Each number's mean over the ranks; NaN on all where it is NaN on one."""
        row = torch.tensor([list(numbers.values())], dtype=torch.float64)
        return dict(zip(numbers, self.gather(row).mean(dim=0).tolist(), strict=True))

    def total(self, number: int) -> int:
        """The sum over the ranks."""
        return int(self.gather(torch.tensor([number])).sum())

    def every(self, so: bool) -> bool:
        """Whether it is so on all ranks."""
        return bool(self.gather(torch.tensor([so])).all())

    def first(self, make: Callable[[], T]) -> T:
        """What `make` returns on rank 0, which alone calls it; what it raises there is raised on all."""
        if self.world == 1:
            return make()
        outcome: list[Any] = [None, None]
        if self.is_first:
            try:
                outcome[0] = make()
            except Exception as error:
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0, device=HERE)
        value, raised = outcome
        if raised is not None:
            raise raised
        return value

    def check_alike(self, training: dict[str, Any]) -> None:
        """Refuses ranks that were given different trainings, naming in what they differ."""
        if self.world == 1:
            return
        given: list[Any] = [None] * self.world
        dist.all_gather_object(given, training)
        for rank, other in enumerate(given):
            different = [name for name in training if other.get(name) != given[0].get(name)]
            if different:
                raise InputError(
                    f"expected the same training on all {self.world} processes, got another {', '.join(different)} on rank "
                    f"{rank} than on rank 0; give all ranks the same arguments and the same first weights (seed your own "
                    "module), or do not initialise torch.distributed for trainings of their own"
                )

    def wrap(self, net: nn.Module) -> nn.Module:
        """The network to call in training: its gradients are the means over the ranks."""
        if self.world == 1:
            return net
        # The search for unused parameters lets a network have some, and keeps the buckets as they are from the first step
        # on: a sum over three or more ranks is rounded by its place in its bucket, so that a training which is taken up
        # would otherwise not repeat itself to the bit. (torch warns once that it found none; it is not to be silenced.)
        return DistributedDataParallel(net, find_unused_parameters=True)

    def align(self, net: nn.Module) -> None:
        """Buffers become those of rank 0: layers other than BatchNorm may remember something of this rank's batches."""
        for buffer in net.buffers() if self.world > 1 else ():
            dist.broadcast(buffer, src=0)

    def whole_batch(self) -> AbstractContextManager[Any]:
        """Inside, BatchNorm in train mode normalises by the batches of all ranks together."""
        return nullcontext() if self.world == 1 else Normalised(self._batch_norm)

    def _batch_norm(self, x: Tensor, *layer: Any) -> Tensor:
        """`layer`: running mean and variance, weight, bias, momentum and eps, as `Normalised` has them."""
        if x.is_cuda:  # torch's own has fast kernels, but for GPUs only
            running_mean, running_var, weight, bias, momentum, eps = layer
            running = (running_mean, running_var, eps, momentum)
            return SyncBatchNorm.apply(x, weight, bias, *running, dist.group.WORLD, self.world)
        return batch_norm(x, *layer, total=_Total.apply, world=self.world)


ALONE = Ranks()


class _Total(torch.autograd.Function):
    """The sum of x over the ranks, to the same bits on all; each rank's loss depends on it, so gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _Total.apply(gradient)


def these() -> Ranks:
    """The ranks of which this process is one: those of torch.distributed where it is initialised, else itself alone."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return ALONE
    backends = dist.get_backend_config()
    if "cpu:" not in backends:
        raise InputError(
            f"expected torch.distributed with a backend for the processor, got {backends}; call init_process_group() "
            "without a backend, or with 'cpu:gloo,cuda:nccl'"
        )
    return Ranks(dist.get_rank(), dist.get_world_size())


def unwrapped(net: nn.Module) -> nn.Module:
    """The network inside what `wrap` returned."""
    return net.module if isinstance(net, DistributedDataParallel) else net
