"""BatchBALD: the batch whose labels together tell most about the network (Kirsch et al., NeurIPS 2019)."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askless.acquire.bald import mutual_information
from askless.acquire.strategy import Selection, View, largest_up_to_date, top
from askless.base.errors import InputError
from askless.base.options import Count, Several, options

AGAIN = 32  # items that are looked at again in one product
FEW = 64  # labellings in one product, at least
TILE = 2**22  # bytes of joint probabilities at a time: what stays in the processor's cache


@options
class BatchBALD:
    """One item after the other, each with the largest information about the weights that the batch so far leaves open,
    I(y_i; w | y_B): look-alikes are not asked for twice.

    The weights are seen through `probs_by_pass` (N, K, C) as in BALD. All C^|B| labellings of the batch are gone
    enumerated while they are at most `configurations`; then as many of them are drawn at random, at least one for each
    pass. Gains only fall as the batch grows, so only items whose last gain is among the largest are looked at again:
    the picks are those of plain greedy while labellings are gone through, and with drawn ones within the noise of the
    draw. `candidates`: only this number of items, those with the largest information by themselves, are looked at beyond the
    first pick (None: all). The labellings take some 18 `configurations` K bytes of `max_memory`; where that is less, it
    says how much is enough.

    Scores are the gains in nats; `info["information"]` is their sum, I(y_B; w), at most ln K: K passes tell no more
    than which of them is right. `info["exact"]`: how many picks were made by going through all labellings.

    >>> a, b = [1.0, 0.0], [0.0, 1.0]
    >>> p = [[a, a, b, b], [a, a, b, b], [a, b, a, b]]  # four passes: item 1 repeats item 0
    >>> 2 in al.select(al.BatchBALD(), 2, probs_by_pass=p)
    True
    """

    passes: Several = 100
    configurations: Count = 10_000
    candidates: Count | None = None
    name = "batchbald"
    needs = ("probs_by_pass",)
    equivariant = True

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        probs = view["probs_by_pass"]
        _, K, C = probs.shape
        room = self.room(view.max_memory, K, C, n)
        alone = view.by_rows(mutual_information, "probs_by_pass")
        few = len(view.unlabelled) if self.candidates is None else max(n, min(self.candidates, len(view.unlabelled)))
        allowed = np.sort(top(alone, view.unlabelled, few, rng).indices)
        ties = rng.random(len(allowed))
        gain, known = alone[allowed], np.zeros(len(allowed), dtype=np.int64)  # how many of the picks the gain knows
        joint = Joint(K, C, self.configurations, rng)
        picks, scores, exact = np.empty(n, dtype=np.int64), np.empty(n), 0
        for i in range(n):
            best = largest_up_to_date(gain, known, i, ties, lambda some: joint.gains(probs, allowed[some], room), AGAIN)
            picks[i], scores[i] = allowed[best], gain[best]
            gain[best] = -np.inf
            exact += joint.is_exact
            if i + 1 < n:
                joint.add(np.asarray(probs[picks[i]], dtype=np.float64))
            view.report(i + 1, n)
        total = float(scores.sum())
        info: dict[str, Any] = {"information": total, "exact": exact}
        if n > 1 and total > 0.99 * math.log(K):
            info["note"] = (
                f"the batch has {total:.3g} of the {math.log(K):.3g} nats that {K} passes can give, so the later picks are "
                "arbitrary; use more passes, or fewer picks"
            )
        return Selection(picks, scores, info)

    def room(self, max_memory: int, K: int, C: int, n: int) -> int:
        """The bytes of `max_memory` that the labellings of n - 1 items leave for gains."""
        if n < 2:
            return max_memory
        M = most_labellings(K, C, n - 1, self.configurations)
        held, least = M * (18 * K + 9 * C + 64), 32 * C * max(2 * K, 3 * min(M, FEW))
        if max_memory < held + least:
            raise InputError(
                f"batchbald: expected max_memory of at least {held + least} bytes for {M} labellings and {K} passes, got "
                f"{max_memory}; raise it, or lower configurations, now {self.configurations}"
            )
        return max_memory - held


def most_labellings(K: int, C: int, n: int, most: int) -> int:
    """How many labellings of up to n items a `Joint` ever holds."""
    M = 1
    for _ in range(n):
        if most < M * C:
            return max(M, K * max(1, most // K))
        M *= C
    return M


class Joint:
    """The labels of the batch so far: M labellings, how likely each is, and what each says of the K passes.

    `weight` (M, K) is p(w_k | labelling m), in rows that sum to 1; `chance` (M,), which sums to 1, is the probability
    of a labelling where all are gone through, and 1 / M where they are drawn.
    """

    def __init__(self, K: int, C: int, most: int, rng: np.random.Generator) -> None:
        self.K, self.C, self.most, self.rng = K, C, most, rng
        self.log = np.zeros((1, K))  # ln p(labelling m | w_k)
        self.batch: list[np.ndarray] = []  # (K, C) each
        self.drawn_from: np.ndarray | None = None  # which pass each drawn labelling is from; None where none is drawn
        self._weigh()

    @property
    def is_exact(self) -> bool:
        return self.drawn_from is None

    def add(self, probs: np.ndarray) -> None:
        """One more item, (K, C)."""
        self.batch.append(probs)
        del self.weight  # as large as what follows
        with np.errstate(divide="ignore"):
            log = np.log(probs)
        if self.is_exact and len(self.log) * self.C <= self.most:
            self.log = (self.log[:, None, :] + log.T).reshape(-1, self.K)
            self.log = self.log[np.isfinite(self.log).any(axis=1)]  # labellings that no pass holds possible
        else:
            if self.drawn_from is None:  # from now on labellings are drawn: as many from each pass, item by item
                per_pass = max(1, self.most // self.K)
                self.drawn_from = np.repeat(np.arange(self.K), per_pass)
                self.log = np.zeros((len(self.drawn_from), self.K))
                for before in self.batch[:-1]:
                    self._draw(before)
            self._draw(probs)
        self._weigh()

    def _draw(self, probs: np.ndarray) -> None:
        """A label of one more item for every labelling, drawn from the pass that the labelling is from."""
        assert self.drawn_from is not None
        ends = np.cumsum(probs, axis=1)[self.drawn_from]
        at = self.rng.random(len(ends)) * ends[:, -1]
        label = (ends <= np.minimum(at, np.nextafter(ends[:, -1], 0))[:, None]).sum(axis=1)  # one of chance > 0
        with np.errstate(divide="ignore"):
            self.log += np.log(probs.T)[label]

    def _weigh(self) -> None:
        top = self.log.max(axis=1)
        weight = self.log - top[:, None]
        total = top + np.log(np.exp(weight, out=weight).sum(axis=1))
        self.weight = torch.from_numpy(np.exp(np.subtract(self.log, total[:, None], out=weight), out=weight))
        chance = np.exp(total - total.max()) if self.is_exact else np.ones(len(total))
        self.chance = torch.from_numpy(chance / chance.sum())

    def gains(self, probs: np.ndarray, positions: np.ndarray, memory: int) -> np.ndarray:
        """I(y_i; w | y_B) in nats of the items at `positions`, (b,): sum_m chance_m (H(y_i | m) - sum_k weight_mk H(y_i
        | k)).

        Each term of the sum is >= 0, also where labellings are drawn.
        """
        out = np.empty(len(positions))
        room = min(memory // 4, TILE) // 8  # two or three such tensors are there at a time
        step = max(1, min(len(positions), room // (2 * self.C * self.K)))
        rows = max(1, room // (3 * self.C * step))  # labellings at a time
        passes = self.chance @ self.weight  # (K,): 1 / K each, but for the draw
        for i in range(0, len(positions), step):
            p = torch.from_numpy(np.asarray(probs[positions[i : i + step]], dtype=np.float64))  # (b, K, C)
            columns = p.transpose(0, 1).reshape(self.K, -1)  # (K, b C)
            found = -(entropies(p) @ passes)
            for m in range(0, len(self.weight), rows):
                mixed = (self.weight[m : m + rows] @ columns).view(-1, len(p), self.C)
                found += self.chance[m : m + rows] @ entropies(mixed)
            out[i : i + step] = found.clamp_(min=0).numpy()
        return out


def entropies(p: Tensor) -> Tensor:
    """-sum_c p_c ln p_c over the last axis."""
    return torch.special.entr(p).sum(dim=-1)
