"""askless chooses in baal's loop: `pip install baal`.

python examples/with_baal.py
"""

from collections.abc import Sequence

import numpy as np
import torch
from baal.active import ActiveLearningDataset, ActiveLearningLoop
from sklearn.datasets import load_digits
from torch import nn

from askless.acquire.adapters.baal import Heuristic

rows, digits = load_digits(return_X_y=True)
x, y = torch.from_numpy(rows[:600] / 16).float(), torch.from_numpy(digits[:600])
dataset = ActiveLearningDataset(torch.utils.data.TensorDataset(x, y), labelled=np.isin(np.arange(600), range(10)))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train() -> None:
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    at = np.flatnonzero(dataset.labelled)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[at]), y[at]).backward()
        optimiser.step()


@torch.no_grad()
def get_probabilities(pool: Sequence) -> np.ndarray:
    rows = torch.stack([pool[i][0] for i in range(len(pool))])
    return net(rows).softmax(dim=1).numpy()


@torch.no_grad()
def features() -> np.ndarray:
    return net[:2](x).numpy()  # what the last layer sees, of all items


heuristic = Heuristic("badge", n=10, dataset=dataset, features=features, seed=0)
loop = ActiveLearningLoop(dataset, get_probabilities, heuristic, query_size=10)
for _ in range(4):
    train()
    loop.step()
    print(f"{len(dataset)} labels: accuracy {float((net(x).argmax(dim=1) == y).float().mean()):.3f}")
