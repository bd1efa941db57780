import numpy as np
import pytest
import torch

import askless as al
from askless.learn import Task


def propagated(metric, items=30, scale=1):
    x = np.random.default_rng(0).normal(size=(items, 4)).astype(np.float32) * np.float32(scale)
    x[0] = 0  # a row without a direction
    task = Task(al.data.views_for(al.data.as_pool(x)), items, np.arange(6), np.arange(6) % 3, 3)
    return al.LabelPropagation(metric=metric).fit(None, task), task


@pytest.mark.parametrize("scale", [1e-30, 1, 1e30])
@pytest.mark.parametrize(("metric", "items"), [("cosine", 30), ("euclidean", 30), ("cosine", 9)])
def test_as_a_network_it_says_the_same_of_new_rows(metric, items, scale):
    learnt, _ = propagated(metric, items, scale)
    new = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)) * scale
    network = learnt.as_network()
    assert not any(p.requires_grad for p in network.parameters())
    np.testing.assert_allclose(network(new).double().softmax(dim=1), learnt.predict_proba(new), atol=1e-5)


def test_the_graph_is_made_once_and_only_for_the_same_options():
    learnt, task = propagated("cosine")
    assert learnt.options.fit(None, task, before=learnt).graph is learnt.graph
    assert al.LabelPropagation(neighbours=3).fit(None, task, before=learnt).graph is not learnt.graph
