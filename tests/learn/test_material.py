import torch

from askless.learn.material import Shuffled


def make(n, seed=0):
    return Shuffled(100 + torch.arange(n), torch.Generator().manual_seed(seed))


def test_every_item_comes_once_before_any_comes_again():
    sampler = make(10)
    seen = torch.cat([sampler.take(4) for _ in range(5)])
    assert sorted(seen[:10].tolist()) == sorted(seen[10:].tolist()) == list(range(100, 110))
    assert seen[:10].tolist() != seen[10:].tolist()


def test_a_batch_larger_than_the_items_holds_each_about_equally_often():
    batch = make(10).take(64)
    counts = torch.bincount(batch - 100)
    assert counts.sum() == 64
    assert counts.max() - counts.min() <= 1


def test_a_sampler_goes_on_where_it_was_saved():
    one, other = make(7), make(7, seed=5)
    one.take(5)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.take(20), other.take(20))
