"""Hashes that tell one network or one pool from another."""

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn


def of_tensors(tensors: "dict[str, Tensor]") -> str:
    """A hash of named tensors: names, types, shapes and every number."""
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(_bytes(plain))
    return digest.hexdigest()


def _bytes(tensor: "Tensor") -> bytes:
    import torch

    tensor = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor  # which numpy does not know
    return tensor.numpy().tobytes()


def of_network(net: "nn.Module") -> str:
    """A hash of what a network is made of, as far as its repr tells, and of its weights."""
    return of_text(repr(net), of_tensors(net.state_dict()))


def of_text(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
