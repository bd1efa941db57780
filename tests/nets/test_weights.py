"""Weights from files and folders."""

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from askless.base.errors import ModelError
from askless.nets.weights import is_local, load_weights, read_weights


@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_every_format_gives_the_same_tensors(net, tmp_path):
    state = net.state_dict()
    save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "a.pth")
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "a.ckpt")
    torch.save({f"module.{k}": v for k, v in state.items()}, tmp_path / "a.pt")
    for name in ("a.safetensors", "a.pth", "a.ckpt", "a.pt"):
        assert same(read_weights(tmp_path / name), state), name


def test_a_folder_has_one_file_or_one_of_the_usual_name(net, tmp_path):
    with pytest.raises(ModelError, match="expected one file with weights, got none; pass the file itself"):
        read_weights(tmp_path)
    torch.save(net.state_dict(), tmp_path / "epoch-3.pth")
    assert same(read_weights(tmp_path), net.state_dict())
    torch.save({}, tmp_path / "epoch-4.pth")
    with pytest.raises(ModelError, match=r"got epoch-3.pth, epoch-4.pth; pass the file itself"):
        read_weights(tmp_path)
    save_file(net.state_dict(), tmp_path / "model.safetensors")
    assert same(read_weights(str(tmp_path)), net.state_dict())


def test_code_in_a_file_is_never_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("ran",))

    (tmp_path / "evil.pth").write_bytes(pickle.dumps(Evil()))
    torch.save({"a": Evil()}, tmp_path / "evil2.pth")
    for name in ("evil.pth", "evil2.pth"):
        with pytest.raises(ModelError, match=r"runs code when loaded .*best as .safetensors"):
            read_weights(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04 half a zip"])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_damaged_file_is_named(tmp_path, content, suffix):
    file = tmp_path / f"weights{suffix}"
    file.write_bytes(content)
    with pytest.raises(ModelError, match=f"weights{suffix}: expected"):
        read_weights(file)


def test_what_is_not_there_or_no_state_is_refused(tmp_path):
    with pytest.raises(ModelError, match="expected a file or folder with weights, found nothing there"):
        read_weights(tmp_path / "none.pth")
    torch.save([torch.zeros(2)], tmp_path / "list.pth")
    with pytest.raises(ModelError, match=r"expected a state_dict \(names and tensors\), got something else"):
        read_weights(tmp_path / "list.pth")


def test_all_weights_fit_or_none_are_taken(net):
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 7)).state_dict()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(ModelError, match=r"mine: .*got others: 2 of another shape \(2.weight, 2.bias\)"):
        load_weights("mine", net, other)
    with pytest.raises(ModelError, match=r"5 missing \(0.bias, 1.weight, 1.bias\)|missing .*; 1 unknown \(x\)"):
        load_weights("mine", net, {"0.weight": other["0.weight"], "x": torch.zeros(1)})
    assert same(net.state_dict(), before)
    load_weights("mine", net, other, spare=["2"])
    assert torch.equal(net[0].weight, other["0.weight"])
    assert torch.equal(net[2].weight, before["2.weight"])


def test_names_and_files_are_told_apart(tmp_path):
    assert not is_local("DEFAULT")
    assert not is_local(None)
    assert is_local("weights.pth")
    assert is_local(tmp_path)
    assert is_local(str(tmp_path))
