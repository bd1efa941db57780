"""RandAugment and Cutout with the constants of three FixMatch implementations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from askless.base.errors import InputError
from askless.data.augment import CURVES, DEGENERATE, MAPS, affine, blend, cutout, fixed_point

# (level v (n,), sign +-1 (n,), length of the side in pixels) -> parameter (n,); v is 1..9, or uniform in [0, 1).
Magnitude = Callable[[Tensor, Tensor, int], Tensor]
NAMES = (*sorted([*DEGENERATE, *CURVES, "identity"]), *MAPS)  # the 14 operations
IDENTITY = NAMES.index("identity")
TURNS = (*DEGENERATE, *CURVES, *MAPS, "identity")  # the order in which they are applied to a batch
FIRST_MOVE = len(DEGENERATE) + len(CURVES)
TURN = torch.tensor([TURNS.index(name) for name in NAMES])  # an operation's number -> its turn


@dataclass(frozen=True, eq=False)  # as objects, so that one can be the key of what is computed from it
class Policy:
    """One way of making strong views.

    `operations` are drawn with replacement and each applied with probability `chance`. `whole_levels`: the level is a
    whole number from 1 to 9, else uniform in [0, 1). Cutout's side is a share of the image's: `cutout`, or uniform from
    0 to it where `random_side`; "shift" moves a square that would cross the top or left edge inside, "clip" cuts it.
    `weak_first`: flip and crop come before the operations, not after.

    `magnitudes`: of each operation, what a level means. `fill`: the colour of Cutout.

    >>> import dataclasses
    >>> gentle = dataclasses.replace(al.data.KEKMODEL, operations=1, cutout=0.25)
    >>> views = al.data.ImageViews(al.data.digits(), policy=gentle)
    """

    operations: int
    chance: float
    whole_levels: bool
    magnitudes: Mapping[str, Magnitude]
    cutout: float
    random_side: bool
    fill: tuple[int, int, int]
    edge: Literal["shift", "clip"]
    weak_first: bool


SHEARS, MOVES = ("shear_x", "shear_y"), ("translate_x", "translate_y")
LEVELLED: dict[str, Magnitude] = {
    "rotate": lambda v, sign, side: sign * torch.trunc(v * 30 / 10),
    "solarize": lambda v, sign, side: 256 - torch.trunc(v * 256 / 10),
    **dict.fromkeys(SHEARS, lambda v, sign, side: sign * (v * 0.3 / 10)),
}
KEKMODEL = Policy(
    operations=2,
    chance=0.5,
    whole_levels=True,
    magnitudes={
        **LEVELLED,
        **dict.fromkeys(DEGENERATE, lambda v, sign, side: v * 0.9 / 10 + 0.05),
        "posterize": lambda v, sign, side: 4 + torch.trunc(v * 4 / 10),
        **dict.fromkeys(MOVES, lambda v, sign, side: sign * torch.trunc(v * 0.3 / 10 * side)),
    },
    cutout=0.5,
    random_side=False,
    fill=(127, 127, 127),
    edge="shift",
    weak_first=True,
)
LEEDOYUP = Policy(
    operations=3,
    chance=1.0,
    whole_levels=False,
    magnitudes={
        **dict.fromkeys(DEGENERATE, lambda v, sign, side: 0.05 + 0.9 * v),
        "posterize": lambda v, sign, side: torch.floor(4 + 4 * v),
        "rotate": lambda v, sign, side: 60 * v - 30,
        **dict.fromkeys(SHEARS, lambda v, sign, side: 0.6 * v - 0.3),
        "solarize": lambda v, sign, side: 256 * v,
        **dict.fromkeys(MOVES, lambda v, sign, side: (0.6 * v - 0.3) * side),
    },
    cutout=0.5,
    random_side=True,
    fill=(125, 123, 114),
    edge="shift",
    weak_first=False,
)
OFFICIAL = Policy(
    operations=2,
    chance=0.5,
    whole_levels=True,
    magnitudes={
        **LEVELLED,
        **dict.fromkeys(DEGENERATE, lambda v, sign, side: v * 1.8 / 10 + 0.1),
        "posterize": lambda v, sign, side: 4 - torch.trunc(v * 4 / 10),
        **dict.fromkeys(MOVES, lambda v, sign, side: sign * torch.trunc(v * side / 32)),  # v pixels of CIFAR's 32
    },
    cutout=0.5,
    random_side=False,
    fill=(127, 127, 127),  # zero after centring
    edge="clip",
    weak_first=True,
)
POLICIES = {"kekmodel": KEKMODEL, "leedoyup": LEEDOYUP, "official": OFFICIAL}


def as_policy(policy: str | Policy) -> Policy:
    if isinstance(policy, Policy):
        return policy
    if policy not in POLICIES:
        raise InputError(f"policy: expected {', '.join(POLICIES)} or a Policy, got {policy!r}")
    return POLICIES[policy]


def rand_augment(x: Tensor, generator: torch.Generator, policy: Policy = KEKMODEL) -> Tensor:
    """(B, C, H, W) uint8 -> the same with random operations and a Cutout, drawn for each image by itself, as `policy` says.

    >>> x = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    >>> al.data.rand_augment(x, torch.Generator().manual_seed(0), al.data.OFFICIAL).shape
    torch.Size([2, 3, 8, 8])
    """
    for _ in range(policy.operations):
        which, level, sign = draw_operations(len(x), generator, policy)
        x = apply_operations(x, which, level, sign, policy)
    return random_cutout(x, generator, policy)


def draw_operations(B: int, generator: torch.Generator, policy: Policy) -> tuple[Tensor, Tensor, Tensor]:
    """For each of B images: an operation's number, a level and a sign."""
    which = torch.randint(len(NAMES), (B,), generator=generator, device=generator.device)
    u = torch.rand(3, B, generator=generator, device=generator.device, dtype=torch.float64)
    level = torch.floor(1 + 9 * u[0]) if policy.whole_levels else u[0]
    sign = 1 - 2 * (u[1] < 0.5).double()
    return which.masked_fill(u[2] >= policy.chance, IDENTITY), level, sign


def apply_operations(x: Tensor, which: Tensor, level: Tensor, sign: Tensor, policy: Policy) -> Tensor:
    """Image i through operation `which[i]`.

    The images are sorted by operation, so that each operation works on one slice; those that blend with another image do so
    together, and so do those that move pixels. On small images it is the number of torch's calls that takes the time.
    """
    turn = TURN.to(which.device)[which]
    counts = torch.bincount(turn, minlength=len(TURNS)).tolist()
    ends = [0, *accumulate(counts)]
    spans = {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(TURNS) if counts[i]}
    blended, moved = slice(0, ends[len(DEGENERATE)]), slice(ends[FIRST_MOVE], ends[-2])
    changed = turn.argsort(stable=True)[: moved.stop]  # identity comes last and is left out
    value, maps = parameters(which[changed], level[changed], sign[changed], policy, spans, moved, x.shape[2:])
    changed, value = changed.to(x.device), value.to(x.device)
    y = x.index_select(0, changed)
    if blended.stop:
        degenerate = torch.empty_like(y[blended])
        for name, of in DEGENERATE.items():
            if name in spans:
                degenerate[spans[name]] = of(y[spans[name]])
        y[blended] = blend(degenerate, y[blended], value[blended])
    for name, curve in CURVES.items():
        if name in spans:
            y[spans[name]] = curve(y[spans[name]], value[spans[name]])
    if moved.start < moved.stop:
        y[moved] = affine(y[moved], maps.to(x.device))
    return x.index_copy(0, changed, y)


def parameters(
    which: Tensor,
    level: Tensor,
    sign: Tensor,
    policy: Policy,
    spans: Mapping[str, slice],
    moved: slice,
    sides: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Of n images sorted by operation: each one's parameter (n,), and the maps of those in `moved`, in fixed point."""
    H, W = sides
    if policy.whole_levels:
        values, maps = (t.to(which.device) for t in whole_level_table(policy, H, W))
        at = (20 * which + 2 * level.long()).add_(sign < 0)
        return values[at], maps[at[moved]]
    value = level.clone()
    for name, span in spans.items():
        if name in policy.magnitudes:
            value[span] = policy.magnitudes[name](level[span], sign[span], H if name.endswith("_y") else W)
    made = [MAPS[name](value[spans[name]], H, W) for name in MAPS if name in spans]
    return value, fixed_point(torch.cat(made) if made else value.new_empty(0, 6))


@lru_cache(maxsize=32)
def whole_level_table(policy: Policy, H: int, W: int) -> tuple[Tensor, Tensor]:
    """The parameter, and the map in fixed point, of operation k at level v and sign +1 or -1: at 20 k + 2 v + (sign < 0).

    There are only 9 levels: made once, they are looked up. (280,) and (280, 6).
    """
    level = torch.arange(10, dtype=torch.float64).clamp(min=1).repeat_interleave(2)  # 0 is never drawn
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(10)
    values, maps = [], []
    for name in NAMES:
        magnitude = policy.magnitudes.get(name)
        value = level if magnitude is None else magnitude(level, sign, H if name.endswith("_y") else W)
        values.append(value.double())
        maps.append(fixed_point(MAPS[name](value, H, W)) if name in MAPS else torch.zeros(20, 6, dtype=torch.int64))
    return torch.cat(values), torch.cat(maps)


def random_cutout(x: Tensor, generator: torch.Generator, policy: Policy) -> Tensor:
    """A square of the fill colour somewhere in each image."""
    B, C, H, W = x.shape
    u = torch.rand(3, B, generator=generator, device=generator.device, dtype=torch.float64)
    side = policy.cutout * min(H, W) * (u[2] if policy.random_side else torch.ones_like(u[2]))
    if not policy.random_side:
        side = torch.trunc(side)
    top, bottom = cutout_span(u[0] * H, side, H, policy.edge)
    left, right = cutout_span(u[1] * W, side, W, policy.edge)
    colour = torch.tensor(policy.fill if C == 3 else [sum(policy.fill) // 3] * C, device=x.device)
    top, left, bottom, right = (t.to(x.device) for t in (top, left, bottom, right))
    return cutout(x, top, left, bottom, right, colour)


def cutout_span(point: Tensor, side: Tensor, length: int, edge: str) -> tuple[Tensor, Tensor]:
    """First place and the one after the last, of a span around `point` in 0..length."""
    if edge == "clip":
        first = torch.floor(point) - torch.floor(side / 2)
        return first.clamp(min=0), (first + side).clamp(max=length)
    first = torch.trunc((point - side / 2).clamp(min=0))
    return first, torch.trunc((first + side).clamp(max=length))
