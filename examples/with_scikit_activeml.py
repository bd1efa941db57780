"""askless chooses in scikit-activeml's loop: `pip install scikit-activeml`.

python examples/with_scikit_activeml.py
"""

import numpy as np
from skactiveml.classifier import SklearnClassifier
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from askless.acquire.adapters.scikit_activeml import Query

X, truth = load_digits(return_X_y=True)
X = X[:600] / 16
truth = truth[:600]
y = np.full(len(X), np.nan)
y[:10] = truth[:10]

clf = SklearnClassifier(LogisticRegression(max_iter=500), classes=np.arange(10), random_state=0)
query = Query("badge", random_state=0)  # a name of `askless strategies`, or an object such as NPC(draws=500)
for _ in range(4):
    clf.fit(X, y)
    picks = query.query(X, y, clf, batch_size=10)
    y[picks] = truth[picks]
    print(f"{np.isfinite(y).sum()} labels: accuracy {clf.fit(X, y).score(X, truth):.3f}")
