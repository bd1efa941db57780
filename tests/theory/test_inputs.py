"""Every door refuses what it cannot use, in words."""

import numpy as np
import pytest
import torch

import askless as al
from askless.theory import (
    alignment,
    approximation_ratio,
    check_descent,
    convergence_bounds,
    descent_rate,
    dynamics_alignment_tau,
    generalisation_bound,
    generalisation_bounds,
    linearised_predictions,
    linearised_residuals,
    loss_curves,
    mmd,
    mmd_squared,
    one_hot,
    sharp_convergence_bounds,
    sharp_generalisation_bounds,
    softmax_residual,
    spectrum,
    steps_to_loss,
    steps_to_minimum,
    training_dynamics,
    wide_relu,
    wide_relu_kernel,
)

Y = np.array([1.0, -1.0])
OF_A_KERNEL = {
    "spectrum": spectrum,
    "descent_rate": descent_rate,
    "alignment": lambda K: alignment(K, Y),
    "generalisation_bound": lambda K: generalisation_bound(K, Y),
    "generalisation_bounds": lambda K: generalisation_bounds(K, Y),
    "sharp_generalisation_bounds": lambda K: sharp_generalisation_bounds(K, Y),
    "convergence_bounds": lambda K: convergence_bounds(K, Y, 0.1, 1),
    "sharp_convergence_bounds": lambda K: sharp_convergence_bounds(K, Y, 0.1, 1),
    "mmd": lambda K: mmd(K, 2),
    "mmd_squared": lambda K: mmd_squared(K, 2),
    "training_dynamics": lambda K: training_dynamics(K, Y),
    "linearised_residuals": lambda K: linearised_residuals(K, Y, [1], 0.1),
    "linearised_predictions": lambda K: linearised_predictions(K, np.ones((1, 2)), Y, [1], 0.1),
    "loss_curves": lambda K: loss_curves(K, np.ones((1, 2)), Y, 0.0, [1], 0.1),
    "steps_to_loss": lambda K: steps_to_loss(K, Y, 0.5, 0.1),
    "steps_to_minimum": lambda K: steps_to_minimum(K, np.ones((1, 2)), Y, 0.0, 0.1, 5),
    "dynamics_alignment_tau": lambda K: dynamics_alignment_tau(K, Y, Y, [], 1, 5),
}


@pytest.mark.parametrize("name", OF_A_KERNEL)
def test_every_kernel_is_checked(name):
    function = OF_A_KERNEL[name]
    function([[2.0, 1.0], [1.0, 2.0]])
    with pytest.raises(al.InputError, match=r"K: expected a square kernel, shape \(n, n\), got \(2, 3\)"):
        function(np.ones((2, 3)))
    with pytest.raises(al.InputError, match=r"symmetric kernel, got 1 at \(0, 1\) and 0.5 at \(1, 0\)"):
        function([[2.0, 1.0], [0.5, 2.0]])
    with pytest.raises(al.InputError, match=r"K: expected finite numbers, got nan at \(0, 1\)"):
        function([[2.0, np.nan], [np.nan, 2.0]])
    with pytest.raises(al.InputError, match="K: expected an array of numbers"):
        function([["a", "b"], ["b", "a"]])


def test_numpy_torch_and_lists_give_plain_numbers():
    K = [[2.0, 1.0], [1.0, 2.0]]
    for given in (K, np.array(K), torch.tensor(K), torch.tensor(K, requires_grad=True), torch.tensor(K).bfloat16()):
        for value in (alignment(given, Y), generalisation_bound(given, Y), mmd(given, 2), training_dynamics(given, Y)):
            assert type(value) is float
        assert all(type(v) in (int, float) for v in (*spectrum(given), *descent_rate(given)))
        assert all(type(v) is float for v in generalisation_bounds(given, Y))
        assert all(type(v) is float for v in sharp_convergence_bounds(given, Y, 0.1, 3))


def test_rounding_is_no_asymmetry_and_nothing_given_is_changed():
    phi = np.random.default_rng(0).normal(size=(30, 50)).astype(np.float32)
    K = phi @ phi.T
    K[0, 1] *= 1 + 1e-6
    K.setflags(write=False)
    assert alignment(K, np.ones(30)) == pytest.approx(float(np.ones(30) @ K @ np.ones(30)), rel=1e-5)


def test_a_kernel_with_negative_eigenvalues_is_refused_where_they_decide():
    for function in (spectrum, descent_rate, OF_A_KERNEL["generalisation_bound"], OF_A_KERNEL["loss_curves"]):
        with pytest.raises(al.InputError, match=r"positive semi-definite kernel, got the eigenvalue -1 .* float64"):
            function([[0.0, 1.0], [1.0, 0.0]])
    phi = np.random.default_rng(0).normal(size=(300, 20)).astype(np.float32)
    with pytest.raises(al.InputError, match="compute the kernel in float64"):
        spectrum(phi @ phi.T)  # rank 20 in float32: the rest is noise
    assert spectrum(phi.astype(np.float64) @ phi.T.astype(np.float64)).rank == 20


def test_targets_must_fit_the_kernel_and_be_no_class_numbers():
    for function in (alignment, generalisation_bound, training_dynamics):
        with pytest.raises(al.InputError, match=r"expected one row per item of the kernel, shape \(2, C\).*got \(3,\)"):
            function(np.eye(2), np.ones(3))
        with pytest.raises(al.InputError, match=r"got class numbers up to 7; pass one_hot\(labels, C\)"):
            function(np.eye(2), np.array([0, 7]))
        with pytest.raises(al.InputError, match="got inf at"):
            function(np.eye(2), [1.0, np.inf])
    assert alignment(np.eye(2), np.array([-1, 1])) == 2.0


def test_class_numbers_must_lie_in_range():
    for labels in ([0, 3], [0, -1], [0.5, 1], [[0, 1]]):
        with pytest.raises(al.InputError, match="class numbers from 0 to 2"):
            one_hot(labels, 3)


def test_the_bounds_want_a_step_that_the_theorem_allows():
    K = np.diag([1.0, 2.0])
    for function in (convergence_bounds, sharp_convergence_bounds):
        function(K, Y, 0.5, 1)
        with pytest.raises(al.InputError, match=r"at most 1 / lambda_max = 0.5, .* got 0.51"):
            function(K, Y, 0.51, 1)
        with pytest.raises(al.InputError, match="eta: expected a step size > 0, got -1"):
            function(K, Y, -1, 1)
        with pytest.raises(al.InputError, match="t: expected a whole number >= 1, got 0"):
            function(K, Y, 0.5, 0)


def test_mmd_wants_two_items_at_least():
    for m in (1, 4, 2.0, True):
        with pytest.raises(al.InputError, match="expected a whole number from 2 to 3"):
            mmd(np.eye(3), m)


def test_dynamics_want_shapes_that_fit():
    with pytest.raises(al.InputError, match=r"full kernel of shape \(n, C, n, C\), got \(2, 3, 2, 2\)"):
        training_dynamics(np.ones((2, 3, 2, 2)), np.ones((2, 3)))
    with pytest.raises(al.InputError, match=r"residual: expected shape \(2, 3\), as the kernel has, got \(2, 1\)"):
        training_dynamics(np.ones((2, 3, 2, 3)), np.ones(2))
    with pytest.raises(al.InputError, match=r"logits: expected shape \(n, C\), got \(2,\)"):
        softmax_residual(Y, [0, 1])
    with pytest.raises(al.InputError, match=r"Y: expected shape \(2, 2\) as the logits have, or \(2,\), got \(1, 2\)"):
        softmax_residual(np.eye(2), np.ones((1, 2)))
    with pytest.raises(al.InputError, match=r"G_pool \(q, p\) and g_S \(p,\), got \(2, 3\) and \(2,\)"):
        approximation_ratio(np.ones((2, 3)), Y)


def test_rates_and_curves_want_numbers_that_converge():
    with pytest.raises(al.InputError, match="nothing moves"):
        descent_rate(np.zeros((2, 2)))
    with pytest.raises(al.InputError, match="shrink: expected a number between 0 and 1, got 2"):
        descent_rate(np.eye(2), shrink=2)
    with pytest.raises(al.InputError, match=r"less than 2 / lambda_max = 2, got 2, which diverges"):
        steps_to_loss(np.eye(2), Y, 0.1, 2.0)
    with pytest.raises(al.InputError, match="which diverges"):
        linearised_residuals(np.eye(2), Y, [1], 3.0)
    assert linearised_residuals(np.eye(2), Y, [1.5], 3.0, how="flow").shape == (1, 2, 1)
    with pytest.raises(al.InputError, match="target: expected a loss > 0, got 0"):
        steps_to_loss(np.eye(2), Y, 0, 0.1)
    with pytest.raises(al.InputError, match=r"whole numbers of steps >= 0, got 0\.5"):
        linearised_residuals(np.eye(2), Y, [0.5], 0.1)
    with pytest.raises(al.InputError, match="times >= 0, got -1"):
        linearised_residuals(np.eye(2), Y, [-1.0], 0.1, how="flow")
    with pytest.raises(al.InputError, match='how: expected "steps" or "flow", got \'fast\''):
        linearised_residuals(np.eye(2), Y, [1], 0.1, how="fast")
    with pytest.raises(al.InputError, match=r"K_test: expected K\(x_test, x\) of shape \(n2, 2\), got \(2, 3\)"):
        linearised_predictions(np.eye(2), np.ones((2, 3)), Y, [1], 0.1)
    with pytest.raises(al.InputError, match=r"start: expected shape \(3, 1\), got \(3, 2\)"):
        linearised_predictions(np.eye(2), np.ones((3, 2)), Y, [1], 0.1, f_test=np.ones((3, 2)))


def test_queries_must_fit_the_pool():
    for labelled in ([2], [0, 0], [-1], [0.5]):
        with pytest.raises(al.InputError, match="labelled: expected different positions from 0 to 1"):
            dynamics_alignment_tau(np.eye(2), Y, Y, labelled, 1)
    with pytest.raises(al.InputError, match="size: expected a whole number from 1 to 1, got 2"):
        dynamics_alignment_tau(np.eye(2), Y, Y, [0], 2)


def test_wide_networks_want_items_in_rows():
    net = wide_relu(2, 5)
    with pytest.raises(al.InputError, match=r"X: expected items in rows, shape \(n, d\), got \(2,\)"):
        wide_relu_kernel(Y)
    with pytest.raises(al.InputError, match="X2: expected 2 columns, as X has, got 3"):
        wide_relu_kernel(np.eye(2), np.eye(3))
    for function in (lambda how: wide_relu_kernel(np.eye(2), layers=how), lambda how: wide_relu(2, 5, how)):
        with pytest.raises(al.InputError, match="layers must be one of first, both, got 'all'"):
            function("all")
    with pytest.raises(al.InputError, match=r"y: expected one target per item, shape \(2,\), got \(3,\)"):
        check_descent(np.eye(2), np.ones(3), 0.1, 1, net)
    with pytest.raises(al.InputError, match="X: expected 2 columns, as the network has, got 3"):
        check_descent(np.eye(3), np.ones(3), 0.1, 1, net)


def test_every_public_name_is_there():
    for name in ("alignment", "generalisation_bound", "mmd", "training_dynamics", "approximation_ratio"):
        assert name in al.theory.__all__
    for name in al.theory.__all__:
        assert callable(getattr(al.theory, name)), name  # a function or a class, not the file of that name
