"""A wide two-layer ReLU network, its infinite-width kernel, and a check of NPC's descent rate on it (theorem 1)."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from askless.base.errors import InputError
from askless.base.options import check_choice
from askless.base.rng import Seed, torch_stream
from askless.theory.inputs import as_count, as_numbers, as_step

Layers = Literal["first", "both"]


@dataclass(frozen=True)
class WideReLU:
    """f(x) = sum_r a_r relu(w_r . x) / sqrt(m), in float64, with the kernel and the gradient step in closed form.

    `layers` are those that are trained: the first, as in the proofs of Du, Arora and Allen-Zhu (and so of NPC), or both.

    `W` (m, d) and `a` (m,) are its weights.

    >>> wide_relu(d=3, width=50).kernel(torch.eye(3, dtype=torch.float64)).shape
    torch.Size([3, 3])
    """

    W: Tensor  # (m, d)
    a: Tensor  # (m,)
    layers: Layers = "first"

    def __call__(self, X: Tensor) -> Tensor:
        """(n, d) -> (n,)"""
        return (X @ self.W.T).clamp(min=0) @ self.a / math.sqrt(len(self.a))

    def kernel(self, X: Tensor) -> Tensor:
        """grad f(x) . grad f(x') over the trained layers, (n, n)."""
        H = X @ self.W.T
        gates = (H > 0) * self.a  # (n, m)
        K = (X @ X.T) * (gates @ gates.T)
        if self.layers == "both":
            K = K + H.clamp(min=0) @ H.clamp(min=0).T
        return K / len(self.a)

    def step(self, X: Tensor, e: Tensor, eta: float) -> "WideReLU":
        """One step of gradient descent on 1/2 ||f - y||^2, with the residual e = f - y (n,)."""
        H, root = X @ self.W.T, math.sqrt(len(self.a))
        W = self.W - eta * (((H > 0) * self.a * e[:, None]).T @ X) / root  # (m, n) (n, d) -> (m, d)
        a = self.a - eta * (H.clamp(min=0).T @ e) / root if self.layers == "both" else self.a
        return replace(self, W=W, a=a)


def wide_relu(d: int, width: int, layers: Layers = "first", seed: Seed = 0) -> WideReLU:
    """A network with w_r ~ N(0, I) and a_r = +-1 with equal chances.

    w_r has `d` numbers, and r goes from 1 to `width`; `layers` are those that are trained.

    >>> wide_relu(d=3, width=50).W.shape
    torch.Size([50, 3])
    """
    as_count("d", d, 1)
    as_count("width", width, 1)
    check_choice("wide_relu", "layers", layers, get_args(Layers))
    rng = torch_stream(seed, "wide")
    W = torch.randn(width, d, generator=rng, dtype=torch.float64)
    signs = torch.randint(0, 2, (width,), generator=rng)
    return WideReLU(W, 2.0 * signs.double() - 1.0, layers)


def wide_relu_kernel(X: Any, X2: Any = None, layers: Layers = "first") -> np.ndarray:
    r"""The kernel of `wide_relu` at infinite width, (n, n2), for X (n, d) and X2 (n2, d); X2=None means X2=X.

    With theta the angle of x and x', the first layer gives $x \cdot x' (\pi - \theta) / 2 \pi$, and the second adds
    $|x| |x'| (\sin\theta + (\pi - \theta) \cos\theta) / 2 \pi$ (the arc-cosine kernels of Cho and Saul).

    >>> wide_relu_kernel([[1.0, 0.0], [0.0, 2.0]], layers="both").round(4)  # 1/2 + 1/2, 4 (1/2 + 1/2), 2 / (2 pi)
    array([[1.    , 0.3183],
           [0.3183, 4.    ]])
    """
    check_choice("wide_relu_kernel", "layers", layers, get_args(Layers))
    A = _points("X", X)
    B = A if X2 is None else _points("X2", X2)
    if A.shape[1] != B.shape[1]:
        raise InputError(f"X2: expected {A.shape[1]} columns, as X has, got {B.shape[1]}")
    lengths = A.norm(dim=1)[:, None] * B.norm(dim=1)
    theta = _angles(A, B)
    K = (A @ B.T) * (math.pi - theta) / (2 * math.pi)
    if layers == "both":
        K = K + lengths * (theta.sin() + (math.pi - theta) * theta.cos()) / (2 * math.pi)
    return K.numpy()


class Descent(NamedTuple):
    """One row per step t = 0 .. T-1 of gradient descent; `loss` has one more.

    All (T,): the eigenvalues `lambda_min` and `lambda_max` of K_t; `bound`, what the theorem allows the next loss;
    `remainder`, the length of r_t by that of e_t; `assured`, where step and remainder are small enough for the bound to
    follow; `holds`, where it held.

    >>> X, y = np.eye(3), np.array([1.0, -1.0, 1.0])
    >>> found = al.theory.check_descent(X, y, 0.1, 5, al.theory.wide_relu(d=3, width=500))
    >>> found.loss.shape, found.holds.shape
    ((6,), (5,))
    """

    loss: np.ndarray  # (T + 1,)  L_t = 1/2 ||f - y||^2
    lambda_min: np.ndarray  # (T,)  of K_t, with no regard to rank
    lambda_max: np.ndarray  # (T,)
    bound: np.ndarray  # (T,)  (1 - eta lambda_min(K_t)) L_t
    remainder: np.ndarray  # (T,)  ||r_t|| / ||e_t||
    assured: np.ndarray  # (T,) bool: step and remainder are small enough for the bound to follow
    holds: np.ndarray  # (T,) bool: L_{t+1} <= bound


def check_descent(X: Any, y: Any, eta: float, steps: int, net: WideReLU) -> Descent:
    r"""Gradient descent on $L = 1/2 ||f - y||^2$, checking $L_{t+1} \le (1 - \eta \lambda_{min}(K_t)) L_t$ at every step.

    This is NPC's theorem 1 with its constant set to 1. With e = f - y, a step gives e' = (I - eta K) e + r, where r is what
    the bend of f adds. For eta <= 2 / (lambda_min + lambda_max), ||(I - eta K) e|| <= (1 - s) ||e||, s = eta lambda_min, so
    ||r|| <= (sqrt(1 - s) - (1 - s)) ||e||, about s / 2 of it, implies L' <= (1 - s) L: that is `assured`. The theorem's
    "sufficiently wide" is what makes r small. The check ends early if the loss is no longer finite.

    X (n, d), y (n,), for so many `steps` of size `eta` of `net`, from `wide_relu`.

    >>> X, y = np.eye(3), np.array([1.0, -1.0, 1.0])
    >>> found = al.theory.check_descent(X, y, 0.1, 5, al.theory.wide_relu(d=3, width=500))
    >>> bool(found.holds.all())
    True
    """
    X = _points("X", X)
    target = torch.from_numpy(as_numbers("y", y))
    if target.shape != (len(X),):
        raise InputError(f"y: expected one target per item, shape ({len(X)},), got {tuple(target.shape)}")
    if X.shape[1] != net.W.shape[1]:
        raise InputError(f"X: expected {net.W.shape[1]} columns, as the network has, got {X.shape[1]}")
    eta, steps = as_step(eta), as_count("steps", steps, 1)
    rows: list[tuple[float, ...]] = []
    e = net(X) - target
    losses = [float(e @ e) / 2]
    for _ in range(steps):
        K = net.kernel(X)
        low, top = (float(v) for v in torch.linalg.eigvalsh(K)[[0, -1]])
        net = net.step(X, e, eta)
        after = net(X) - target
        size = float(e.norm())
        remainder = float((after - e + eta * (K @ e)).norm()) / size if size else 0.0
        s = eta * low
        assured = eta * (low + top) <= 2 and remainder <= math.sqrt(max(1 - s, 0.0)) - (1 - s)
        bound = (1 - s) * losses[-1]
        losses.append(float(after @ after) / 2)
        finite = math.isfinite(losses[-1])  # beyond all numbers no bound holds: it may be infinite too
        rows.append((low, top, bound, remainder, assured, finite and losses[-1] <= bound * (1 + 1e-12)))
        if not finite or not bool(net.kernel(X).isfinite().all()):
            break
        e = after
    low_, top_, bound_, remainder_, assured_, holds_ = (np.array(column) for column in zip(*rows, strict=True))
    return Descent(np.array(losses), low_, top_, bound_, remainder_, assured_, holds_)


def _points(name: str, X: Any) -> Tensor:
    points = as_numbers(name, X)
    if points.ndim != 2 or len(points) == 0:
        raise InputError(f"{name}: expected items in rows, shape (n, d), got {points.shape}")
    return torch.from_numpy(points)


def _angles(A: Tensor, B: Tensor) -> Tensor:
    """The angle of every pair of rows; from the lengths of u - v and u + v, since arccos near 1 loses half the digits."""
    u, v = (M / M.norm(dim=1, keepdim=True).clamp(min=1e-300) for M in (A, B))
    exact = "donot_use_mm_for_euclid_dist"
    return 2 * torch.atan2(torch.cdist(u, v, compute_mode=exact), torch.cdist(u, -v, compute_mode=exact))
