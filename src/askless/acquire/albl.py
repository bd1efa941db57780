"""ALBL: active learning by learning (Hsu & Lin, AAAI 2015). A bandit over other strategies."""

import math
from typing import Any, Literal

import numpy as np

from askless.acquire.arrays import labels_of_labelled
from askless.acquire.coreset import Coreset
from askless.acquire.strategy import Selection, Strategy, View, looks_at
from askless.acquire.uncertainty import Confidence
from askless.base.errors import InputError
from askless.base.options import Count, options

DELTA = 0.1


@options
class ALBL:
    """Draws one of its `arms` for each batch, and learns from the labels that came back which arm to draw more often.

    What it knows it works out from its selections so far, `select(..., history=[first, second])`: each says in `info` which
    arm was `drawn`, by which `log_weights` and `probabilities`, and the `chances` at which its items were asked for.
    `labels`, and `probs` of the model trained on them, give the reward of the last one.

    mode="badge": the batch version that the BADGE, NPC and dynamicAL papers compare with. p_min = 1 / (10 K); reward =
    mean over all labelled items of 1[correct] / a_i, a_i the probability of the arm that asked for it (1 for the others);
    only the drawn arm is updated.
    mode="exp4p": EXP4.P. p_min = sqrt(ln K / (K T)) for `horizon` T queries, at most 1 / (2 K). Each arm proposes a batch
    B_j, so item i is asked for with chance q_i = sum_j p_j 1[i in B_j]; the reward is the accuracy on the last batch,
    weighted by 1 / q_i, and r / p_j goes to the arm j that was drawn. (Over all items ever asked for, as in the paper, the
    reward would hardly depend on the last arm, and with batches the weights would not move.)

    `state` is None: what it learns is in its selections.

    >>> F, p = np.arange(6.0)[:, None], np.full((6, 2), 0.5)
    >>> picks = al.select("albl", 2, features=F, probs=p, labelled=[0], labels=[1])
    >>> picks.info["drawn"], picks.info["probabilities"]
    (1, [0.5, 0.5])
    """

    arms: tuple[Strategy, ...] = (Confidence(), Coreset())
    mode: Literal["badge", "exp4p"] = "badge"
    horizon: Count = 10
    state: None = None  # was an option before `history`; benchmarks have it in their records
    name = "albl"
    uses_history = True

    def __post_init__(self) -> None:
        if len(self.arms) < 2:
            raise InputError(f"ALBL: expected at least two arms, got {len(self.arms)}")
        for arm in self.arms:
            if isinstance(arm, str | type) or not hasattr(arm, "select"):
                raise InputError(f"ALBL: expected arms that are strategies, such as Margin(), got {arm!r}")
        if self.state is not None:
            raise InputError(
                "ALBL: state= is no longer an option; pass the selections so far, as select(..., history=[first, second])"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(name for arm in self.arms for name in arm.needs), "probs"]))

    @property
    def wants(self) -> tuple[str, ...]:
        of_arms = [name for arm in self.arms for name in looks_at(arm)]
        return tuple(name for name in dict.fromkeys([*of_arms, "labels"]) if name not in self.needs)

    @property
    def p_min(self) -> float:
        K = len(self.arms)
        if self.mode == "badge":
            return 1 / (10 * K)
        return min(math.sqrt(math.log(K) / (K * self.horizon)), 1 / (2 * K))

    def probabilities(self, log_weights: np.ndarray) -> np.ndarray:
        """p_j = (1 - K p_min) w_j / sum w + p_min, (K,)."""
        w = np.exp(log_weights - log_weights.max())
        return (1 - len(w) * self.p_min) * w / w.sum() + self.p_min

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        log_weights = self._learn(view)
        p = self.probabilities(log_weights)
        arm = int(rng.choice(len(p), p=p))
        if self.mode == "badge":
            batch = self.arms[arm].select(view, n, rng)
            chances = np.full(len(batch), p[arm])
        else:
            proposals = [a.select(view, n, rng) for a in self.arms]
            batch = proposals[arm]
            q = np.zeros(view.N)
            for p_j, proposal in zip(p, proposals, strict=True):
                q[proposal.indices] += p_j
            chances = q[batch.indices]
        info: dict[str, Any] = {"arm": self.arms[arm].name, "drawn": arm, "log_weights": log_weights.tolist()}
        info |= {"probabilities": p.tolist(), "chances": chances.tolist()}
        K, T = len(self.arms), self.horizon
        if self.mode == "exp4p" and 4 * K * math.log(K) > T:
            info["note"] = f"{T} queries are few for {K} arms: p_min is capped at 1 / (2 K), so ALBL can learn little"
        return Selection(batch.indices, batch.scores, info)

    def _learn(self, view: View) -> np.ndarray:
        """The arms' log weights (K,) after the reward of the last batch."""
        K, own = len(self.arms), [past for past in view.history if "chances" in past.info]
        if not own:
            return np.zeros(K)
        last = own[-1].info
        if len(last["log_weights"]) != K:
            raise InputError(
                f"ALBL: the history has {len(last['log_weights'])} arms, the strategy has {K}; use the arms that made "
                "the history, or start without one"
            )
        labels_of_labelled(self.name, view.labels, view.labelled, needed=True)
        arm, p = int(last["drawn"]), np.array(last["probabilities"], dtype=np.float64)
        log_weights = np.array(last["log_weights"], dtype=np.float64)
        reward = self._reward(view, own)
        half = self.p_min / 2
        if self.mode == "badge":
            log_weights[arm] += half * (reward + math.sqrt(math.log(K / DELTA) / K) / p[arm])
        else:
            gain = np.where(np.arange(K) == arm, reward / p[arm], 0.0)
            log_weights += half * (gain + math.sqrt(math.log(K / DELTA) / (K * self.horizon)) / p)
        return log_weights - log_weights.max()

    def _reward(self, view: View, own: list[Selection]) -> float:
        """In badge mode the mean of 1[correct] / chance over all labelled; else the weighted accuracy of the last batch."""
        counts = np.ones(len(view.labelled), dtype=bool)
        if self.mode == "exp4p":
            counts = np.isin(view.labelled, own[-1].indices)
        if not counts.any():
            return 0.0
        chances = {i: c for past in own for i, c in zip(past.indices.tolist(), past.info["chances"], strict=True)}
        positions, labels = view.labelled[counts], view["labels"][counts]
        correct = view["probs"][positions].argmax(axis=1) == labels
        weight = 1 / np.array([chances.get(i, 1.0) for i in positions.tolist()])
        if self.mode == "badge":
            return float((weight * correct).mean())
        return float((weight * correct).sum() / weight.sum())


def history_of(state: dict[str, Any]) -> list[Selection]:
    """The selections that ALBL's state stands for, as an askless before `history` wrote it: those before the last one as
    one, and the last."""
    try:
        chances = {int(i): float(chance) for i, chance in state["asked"].items()}
        batch = [int(i) for i in state["batch"]]
        known = {"drawn": state["arm"], **{name: state[name] for name in ("log_weights", "probabilities")}}
        parts = [[i for i in chances if i not in batch], batch]
        infos = [{**known, "chances": [chances[i] for i in part]} for part in parts]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"ALBL: expected a state written by an earlier askless, got something else ({error!r})"
        ) from None
    return [Selection(np.array(part, np.int64), None, info) for part, info in zip(parts, infos, strict=True)]
