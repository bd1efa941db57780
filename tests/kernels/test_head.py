import pytest
import torch
from torch import nn

from askless.base.errors import ModelError
from askless.kernels import features, find_head, look, ntk


class Ending(nn.Module):
    """Two linear layers and an ending of choice."""

    def __init__(self, ending):
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(9, 9)
        self.ending = ending

    def forward(self, x):
        phi = torch.relu(self.body(x))
        return self.ending(self.head(input=phi), phi)


X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def test_the_head_is_the_last_linear_layer_of_every_network(case):
    name, layer = find_head(case.model, case.x)
    assert layer is dict(case.model.named_modules())[name]
    assert layer.out_features == 3


def test_the_head_may_be_reshaped_or_run_before_another_layer():
    for ending in (lambda f, phi: f, lambda f, phi: f[:, :, None]):
        assert find_head(model := Ending(ending), X) == ("head", model.head)
    aside = Ending(lambda f, phi: f)
    aside.ending = lambda f, phi: (aside.body(torch.zeros(6, 4)[: len(f)]), f)[1]
    assert find_head(aside, X[:1])[0] == "head"


def test_a_linear_model_is_its_own_head():
    assert find_head(model := nn.Linear(4, 3), X) == ("", model)


@pytest.mark.parametrize(
    ("ending", "got"),
    [
        (lambda f, phi: f.softmax(1), r"a tensor of shape \(2, 3\) that no linear layer returned"),
        (lambda f, phi: f.div_(2.0), r"a tensor of shape \(2, 3\) that no linear layer returned"),
        (lambda f, phi: {"logits": f, "loss": None}, r"a dict with keys \['logits', 'loss'\]"),
        (lambda f, phi: (f, phi), "a tuple of 2"),
        (lambda f, phi: None, "an object of type NoneType"),
    ],
)
def test_a_head_that_is_not_the_output_must_be_named(ending, got):
    model = Ending(ending)
    with pytest.raises(ModelError, match=f"got {got}.*pass head=\"name\".*ran: 'body', 'head'$"):
        find_head(model, X)
    assert find_head(model, X, "head") == find_head(model, X, model.head) == ("head", model.head)
    phi, logits = look(model, X, head="head", batch_size=4)
    torch.testing.assert_close(phi, torch.relu(model.body(X)).detach())
    torch.testing.assert_close(logits, model.head(phi).detach())


def test_a_head_that_is_not_there_is_refused():
    model = Ending(lambda f, phi: f)
    with pytest.raises(ModelError, match="to name a linear layer, got 'fc'; available: 'body', 'head', 'spare'"):
        find_head(model, X, "fc")
    with pytest.raises(ModelError, match="a linear layer of this model, got Linear; available: 'body'"):
        find_head(model, X, nn.Linear(5, 3))
    with pytest.raises(ModelError, match=r"expected layer 'spare' to run in a forward pass.*ran: 'body', 'head'"):
        find_head(model, X, "spare")
    with pytest.raises(ModelError, match="linear layers that ran: none"):
        find_head(nn.ReLU(), X)


def test_a_head_without_one_vector_per_example_is_refused():
    with pytest.raises(ModelError, match=r"one feature vector per example, shape \(2, d\), got \(2, 7, 4\)"):
        find_head(nn.Linear(4, 3), torch.zeros(6, 7, 4))
    with pytest.raises(ModelError, match=r"shape \(2, d\), got \(14, 4\)"):
        find_head(nn.Sequential(nn.Flatten(0, 1), nn.Linear(4, 3)), torch.zeros(6, 7, 4))
    again = nn.Linear(4, 4)
    with pytest.raises(ModelError, match="expected the head '0' to run once, it ran 2 times"):
        find_head(nn.Sequential(again, again), X)


def test_features_are_what_a_hook_on_the_head_sees(case):
    name, layer = find_head(case.model, case.x)
    seen = []
    handle = layer.register_forward_pre_hook(lambda layer, args: seen.append(args[0]))
    with torch.no_grad():
        logits = case.model.eval()(case.x)
    handle.remove()
    torch.testing.assert_close(features(case.model, case.x, batch_size=4), seen[0])
    both = look(case.model, case.x, head=name, batch_size=4)
    torch.testing.assert_close(both.features, seen[0])
    torch.testing.assert_close(both.logits, logits)
    assert both.features.dtype == torch.float64


@pytest.mark.parametrize(("inside", "outside"), [(torch.bfloat16, torch.float32), (torch.float32, torch.float16)])
def test_the_head_is_found_behind_a_change_of_dtype(inside, outside):
    model = Ending(lambda f, phi: f.to(outside)).to(inside)
    assert find_head(model, X) == ("head", model.head)
    phi, logits = look(model, X, batch_size=4)
    assert phi.dtype == logits.dtype == inside
    torch.testing.assert_close(features(model, X, batch_size=4), phi)
    phi = features(model, X).double()  # in one batch, as ntk has them: batches of another size round otherwise
    torch.testing.assert_close(ntk(model, X), 3 * (phi @ phi.T + 1))


def test_whole_numbers_are_no_heads_output():
    model = Ending(lambda f, phi: f.zero_().long())
    with pytest.raises(ModelError, match="that no linear layer returned"):
        find_head(model, X)


class TwoHeads(nn.Module):
    """A body and two heads; `forward` says which of them come out."""

    def __init__(self, out):
        super().__init__()
        self.body, self.colour, self.shape = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 2)
        self.out = out

    def forward(self, x):
        phi = torch.relu(self.body(x))
        return self.out(self.colour(phi), self.shape(phi))


def test_of_two_heads_the_one_that_comes_out_is_found_and_else_both_are_named():
    assert find_head(TwoHeads(lambda colour, shape: colour), X)[0] == "colour"
    assert find_head(TwoHeads(lambda colour, shape: shape), X)[0] == "shape"
    both = TwoHeads(lambda colour, shape: (colour, shape))
    with pytest.raises(ModelError, match=r"got a tuple of 2; pass head=.* ran: 'body', 'colour', 'shape'$"):
        find_head(both, X)
    assert find_head(both, X, "shape") == ("shape", both.shape)


class Tokens(nn.Module):
    """Linear layers on every token, then one on their mean, which is scaled."""

    def __init__(self):
        super().__init__()
        self.each, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return 2 * self.head(self.each(x).mean(dim=1))


def test_layers_that_cannot_be_the_head_are_not_named():
    with pytest.raises(ModelError, match=r"ran: 'head'$"):
        find_head(Tokens(), torch.zeros(6, 7, 4))


@pytest.mark.parametrize(
    "ending",
    [
        (nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 3, 1), nn.Flatten()),
        (nn.Conv2d(6, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    ],
)
def test_a_convolution_for_a_head_is_named_with_what_to_do(ending):
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), *ending)
    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    at = next(i for i, layer in enumerate(net) if isinstance(layer, nn.Conv2d) and i)
    with pytest.raises(
        ModelError, match=rf"the convolution '{at}' in its place; if it is 1 x 1, .*weight.flatten\(1\)"
    ):
        find_head(net, x)
    # What the message says to do is the same function.
    linear = nn.Linear(6, 3)
    linear.load_state_dict({"weight": net[at].weight.flatten(1), "bias": net[at].bias})
    same = nn.Sequential(*net[:2], nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear)
    torch.testing.assert_close(same(x), net(x))
    assert find_head(same, x)[0] == "4"
