"""ALBL: active learning by learning (Hsu & Lin, AAAI 2015). A bandit over other strategies."""

import math
from typing import Any, Literal

import numpy as np

from askless.acquire.coreset import Coreset
from askless.acquire.strategy import Selection, Strategy, View, looks_at
from askless.acquire.uncertainty import Confidence
from askless.base.errors import InputError
from askless.base.options import check_choice, check_count, options

DELTA = 0.1
STATE = {"log_weights", "probabilities", "arm", "batch", "asked"}


@options
class ALBL:
    """Draws one of its `arms` for each batch, and learns from the labels that came back which arm to draw more often.

    `state` is all it remembers, a plain dict that JSON can hold; each selection returns the next one in `info["state"]`.
    Pass it on: `ALBL(state=picks.info["state"])`. With labelled items and a state, `labels` and `probs` (of the model
    trained on them) give the reward.

    mode="badge": the batch version that the BADGE, NPC and dynamicAL papers compare with. p_min = 1 / (10 K); reward =
    mean over all labelled items of 1[correct] / a_i, a_i the probability of the arm that asked for it (1 for the others);
    only the drawn arm is updated.
    mode="exp4p": EXP4.P. p_min = sqrt(ln K / (K T)) for `horizon` T queries, at most 1 / (2 K). Each arm proposes a batch
    B_j, so item i is asked for with chance q_i = sum_j p_j 1[i in B_j]; the reward is the accuracy on the last batch,
    weighted by 1 / q_i, and r / p_j goes to the arm j that was drawn. (Over all items ever asked for, as in the paper, the
    reward would hardly depend on the last arm, and with batches the weights would not move.)
    """

    arms: tuple[Strategy, ...] = (Confidence(), Coreset())
    mode: Literal["badge", "exp4p"] = "badge"
    horizon: int = 10
    state: dict[str, Any] | None = None
    name = "albl"

    def __post_init__(self) -> None:
        check_choice("ALBL", "mode", self.mode, ("badge", "exp4p"))
        check_count("ALBL", "horizon", self.horizon)
        if len(self.arms) < 2:
            raise InputError(f"ALBL: expected at least two arms, got {len(self.arms)}")
        for arm in self.arms:
            if isinstance(arm, str | type) or not hasattr(arm, "select"):
                raise InputError(f"ALBL: expected arms that are strategies, such as Margin(), got {arm!r}")
        if self.state is not None and (not isinstance(self.state, dict) or not self.state.keys() >= STATE):
            raise InputError(f"ALBL: expected a state as info['state'] has it, with {', '.join(sorted(STATE))}")
        if self.state is not None and len(self.state["log_weights"]) != len(self.arms):
            raise InputError(
                f"ALBL: the state is of {len(self.state['log_weights'])} arms, the strategy has {len(self.arms)}; "
                "go on with the arms that made the state, or start with state=None"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        of_arms = [name for arm in self.arms for name in arm.needs]
        rewarded = ["probs", "labels"] if self.state is not None else ["probs"]
        return tuple(dict.fromkeys(of_arms + rewarded))

    @property
    def wants(self) -> tuple[str, ...]:
        of_arms = [name for arm in self.arms for name in looks_at(arm)]
        return tuple(name for name in dict.fromkeys(of_arms) if name not in self.needs)

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
        log_weights, asked = self._learn(view)
        p = self.probabilities(log_weights)
        arm = int(rng.choice(len(p), p=p))
        if self.mode == "badge":
            batch = self.arms[arm].select(view, n, rng)
            chance = dict.fromkeys(batch.indices.tolist(), float(p[arm]))
        else:
            proposals = [a.select(view, n, rng) for a in self.arms]
            batch = proposals[arm]
            q = np.zeros(view.N)
            for p_j, proposal in zip(p, proposals, strict=True):
                q[proposal.indices] += p_j
            chance = {i: float(q[i]) for i in batch.indices.tolist()}
        state = {
            "log_weights": log_weights.tolist(),
            "probabilities": p.tolist(),
            "arm": arm,
            "batch": batch.indices.tolist(),
            "asked": {**asked, **{str(i): c for i, c in chance.items()}},
        }
        info: dict[str, Any] = {"arm": self.arms[arm].name, "probabilities": p.tolist(), "state": state}
        K, T = len(self.arms), self.horizon
        if self.mode == "exp4p" and 4 * K * math.log(K) > T:
            info["note"] = f"{T} queries are few for {K} arms: p_min is capped at 1 / (2 K), and little can be learnt"
        return Selection(batch.indices, batch.scores, info)

    def _learn(self, view: View) -> tuple[np.ndarray, dict[str, float]]:
        """The arms' log weights after the reward of the last batch, and the chance at which each item was asked for."""
        if self.state is None:
            return np.zeros(len(self.arms)), {}
        K, arm = len(self.arms), int(self.state["arm"])
        log_weights = np.array(self.state["log_weights"], dtype=np.float64)
        p = np.array(self.state["probabilities"], dtype=np.float64)
        asked: dict[str, float] = dict(self.state["asked"])
        reward = self._reward(view, asked)
        half = self.p_min / 2
        if self.mode == "badge":
            log_weights[arm] += half * (reward + math.sqrt(math.log(K / DELTA) / K) / p[arm])
        else:
            gain = np.where(np.arange(K) == arm, reward / p[arm], 0.0)
            log_weights += half * (gain + math.sqrt(math.log(K / DELTA) / (K * self.horizon)) / p)
        return log_weights - log_weights.max(), asked

    def _reward(self, view: View, asked: dict[str, float]) -> float:
        """In badge mode the mean of 1[correct] / chance over all labelled; else the weighted accuracy of the last batch."""
        counts = np.ones(len(view.labelled), dtype=bool)
        if self.mode == "exp4p":
            assert self.state is not None
            counts = np.isin(view.labelled, self.state["batch"])
        if not counts.any():
            return 0.0
        positions, labels = view.labelled[counts], view["labels"][counts]
        correct = view["probs"][positions].argmax(axis=1) == labels
        weight = 1 / np.array([asked.get(str(i), 1.0) for i in positions.tolist()])
        if self.mode == "badge":
            return float((weight * correct).mean())
        return float((weight * correct).sum() / weight.sum())


def moved_state(state: dict[str, Any], place: np.ndarray) -> dict[str, Any]:
    """The state with its positions i as place[i]; those that have none, -1, are forgotten."""
    asked = {str(place[int(i)]): chance for i, chance in state["asked"].items() if place[int(i)] >= 0}
    return {**state, "batch": [int(place[i]) for i in state["batch"] if place[i] >= 0], "asked": asked}
