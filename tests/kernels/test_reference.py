import torch
from torch import nn

from askless.kernels import jacobian, loss_gradients


def test_the_jacobian_of_a_linear_model_is_its_input():
    J = jacobian(nn.Linear(2, 2), torch.tensor([[3.0, 5.0]]))
    assert J.tolist() == [[[3, 5, 0, 0, 1, 0], [0, 0, 3, 5, 0, 1]]]  # rows of W, then b


def test_loss_gradients_are_residuals_times_the_jacobian(case):
    with torch.no_grad():
        p = case.model.eval()(case.x).softmax(1)
    residual = p - nn.functional.one_hot(case.labels, 3)
    expected = torch.einsum("nc,ncp->np", residual, jacobian(case.model, case.x))
    torch.testing.assert_close(loss_gradients(case.model, case.x, case.labels), expected, rtol=1e-8, atol=1e-12)
