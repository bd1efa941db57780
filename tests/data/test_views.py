import copy
import pickle

import numpy as np
import pytest
import torch

from askless.base.errors import InputError
from askless.data import CachedViews, ImageViews, PlainViews, Views, as_pool, digits, views_for


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def image_pool(n=50, shape=(3, 16, 12), seed=0, **options):
    return as_pool(torch.randint(0, 256, (n, *shape), dtype=torch.uint8, generator=generator(seed)), **options)


class Data:
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], 0


# --- images


def test_plain_views_are_normalised_by_the_pools_own_statistics():
    pool = image_pool(5000, (3, 4, 4))
    views = ImageViews(pool)
    x = views.plain(range(5000))
    assert x.dtype == torch.float32
    assert x.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-4)
    assert x.std(dim=(0, 2, 3)).tolist() == pytest.approx([1, 1, 1], abs=1e-3)
    exact = pool.x.double() / 255
    assert views.mean.tolist() == pytest.approx(exact.mean(dim=(0, 2, 3)).tolist(), abs=1e-6)
    assert views.std.tolist() == pytest.approx(exact.std(dim=(0, 2, 3), correction=0).tolist(), abs=1e-5)


def test_mean_and_std_may_be_given():
    pool = image_pool()
    x = ImageViews(pool, mean=0.5, std=0.5).plain([3])
    assert torch.allclose(x, pool.x[3:4].float() / 127.5 - 1, atol=1e-6)
    views = ImageViews(pool, mean=[0.1, 0.2, 0.3])
    assert views.mean.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert views.std.tolist() == ImageViews(pool).std.tolist()


def test_float_images_give_the_same_views_as_their_bytes():
    pool = image_pool()
    floats = as_pool(pool.x.float() / 255)
    a, b = ImageViews(pool), ImageViews(floats)
    assert torch.allclose(a.plain([1, 2]), b.plain([1, 2]), atol=1e-5)
    assert torch.allclose(a.weak(range(50), generator()), b.weak(range(50), generator()), atol=1e-5)
    assert torch.allclose(a.strong(range(50), generator()), b.strong(range(50), generator()), atol=1e-5)


def test_a_constant_channel_is_only_centred():
    views = ImageViews(as_pool(np.full((4, 8, 8), 51, np.uint8)))
    assert views.std.tolist() == [1.0]
    assert views.plain([0]).abs().max() < 1e-6


def test_a_weak_view_without_flip_and_padding_is_the_plain_one():
    views = ImageViews(image_pool(flip=False), padding=0)
    assert torch.equal(views.weak([4, 2], generator()), views.plain([4, 2]))


def test_weak_views_flip_half_of_the_images_only_where_flips_keep_the_class():
    pool = image_pool(1000, (1, 8, 8))
    views = ImageViews(pool, padding=0)
    plain, weak = views.plain(range(1000)), views.weak(range(1000), generator())
    same = (weak == plain).flatten(1).all(dim=1)
    mirrored = (weak == plain.flip(3)).flatten(1).all(dim=1)
    assert bool((same | mirrored).all())
    assert float(mirrored.float().mean()) == pytest.approx(0.5, abs=0.05)
    assert not digits().flip


def test_padding_follows_the_size_and_every_shift_occurs():
    assert [ImageViews(image_pool(2, (1, n, n))).padding for n in (8, 28, 32, 96)] == [1, 4, 4, 12]
    pool = image_pool(800, (1, 8, 8), flip=False)
    views = ImageViews(pool)
    weak = views.weak(np.zeros(800, np.int64), generator())
    assert len(weak.flatten(1).unique(dim=0)) == 9
    zero = ImageViews(pool, border="zero", mean=0.0, std=1.0).weak(np.zeros(800, np.int64), generator())
    assert float(zero[:, :, 0].amin()) == 0


def test_strong_views_differ_from_image_to_image_and_repeat_with_the_generator():
    views = ImageViews(image_pool())
    strong = views.strong(np.zeros(100, np.int64), generator())
    assert len(strong.flatten(1).unique(dim=0)) > 90
    assert torch.equal(strong, views.strong(np.zeros(100, np.int64), generator()))
    assert strong.shape == (100, 3, 16, 12)


@pytest.mark.parametrize("policy", ["kekmodel", "leedoyup", "official"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (1, 9, 14)], ids=str)
def test_every_policy_and_shape_gives_finite_views(policy, shape):
    views = ImageViews(image_pool(64, shape), policy=policy)
    strong = views.strong(range(64), generator())
    assert strong.shape == (64, *shape)
    assert bool(torch.isfinite(strong).all())


def test_with_leedoyups_order_a_zero_border_shows_in_the_strong_view():
    pool = as_pool(np.full((300, 3, 16, 16), 200, np.uint8))
    first = ImageViews(pool, policy="leedoyup", border="zero", mean=0.0, std=1.0).strong(range(300), generator())
    assert float((first[:, :, 0, :] == 0).all(dim=2).all(dim=1).float().mean()) > 0.2


def test_weak_noise_has_the_stated_size():
    views = ImageViews(image_pool(flip=False), padding=0, noise=0.15)
    assert float((views.weak(range(50), generator()) - views.plain(range(50))).std()) == pytest.approx(0.15, rel=0.03)


def test_views_do_not_change_the_pool():
    pool = image_pool()
    before = pool.x.clone()
    views = ImageViews(pool)
    views.plain(range(50)).zero_()
    views.weak(range(50), generator()).zero_()
    views.strong(range(50), generator()).zero_()
    assert torch.equal(pool.x, before)


def test_images_from_outside_are_seen_as_the_pools_are():
    pool = image_pool()
    views = ImageViews(pool)
    expected = views.plain([0, 1])
    for outside in (pool.x[:2], pool.x[:2].numpy(), pool.x[:2].movedim(1, 3), pool.x[:2].float() / 255):
        assert torch.allclose(views.of(outside), expected, atol=1e-5)
    assert torch.equal(views.of(pool.x[0]), expected[:1])
    assert torch.equal(views.of(Data(pool.x[:2])), expected)
    assert torch.equal(views.of([image.numpy() for image in pool.x[:2]]), expected)
    assert views.of(pool.x[:0]).shape == (0, 3, 16, 12)


def test_views_are_made_on_the_device_that_is_said():
    views = ImageViews(image_pool(), device="cpu")
    assert views.strong([0], generator()).device == views.of(views.pool.x).device == torch.device("cpu")


def test_images_from_outside_must_fit():
    views = ImageViews(image_pool())
    with pytest.raises(InputError, match=r"images: expected shape \(3, 16, 12\) as in the pool, got \(3, 20, 20\)"):
        views.of(np.zeros((2, 3, 20, 20), np.uint8))
    with pytest.raises(InputError, match=r"expected uint8, or float in \[0, 1\], got torch.int64"):
        views.of(np.zeros((2, 3, 16, 12), np.int64))


def test_a_dataset_of_images_is_viewed_lazily():
    x = image_pool(3000, (1, 8, 8)).x
    views = ImageViews(as_pool(Data(x)))
    whole = ImageViews(as_pool(x))
    assert views.mean.tolist() == pytest.approx(whole.mean.tolist(), abs=0.01)
    same = ImageViews(as_pool(Data(x)), mean=whole.mean.tolist(), std=whole.std.tolist())
    assert torch.equal(same.strong([5, 6], generator()), whole.strong([5, 6], generator()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding": 12}, "padding: expected 0 to 11 pixels for images of 12, got 12"),
        ({"padding": -1}, "padding: expected 0 to 11"),
        ({"border": "wrap"}, "border: expected 'reflect' or 'zero', got 'wrap'"),
        ({"mean": [0.5, 0.5]}, "mean: expected one number, or one per channel, 3, got 2"),
        ({"std": 0.0}, r"std: expected numbers > 0, got \[0.0, 0.0, 0.0\]"),
        ({"policy": "none"}, "policy: expected kekmodel"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        ImageViews(image_pool(), **options)


def test_other_pools_and_normalised_floats_are_refused():
    with pytest.raises(InputError, match="ImageViews: expected a pool of images, got features items; use PlainViews"):
        ImageViews(as_pool(np.zeros((2, 2))))
    with pytest.raises(InputError, match=r"got floats from -3 to 0; scale them, or pass kind='other'"):
        ImageViews(as_pool(np.linspace(-3, 0, 192).reshape(1, 3, 8, 8)))
    with pytest.raises(InputError, match=r"expected images \(C, H, W\), got items of shape \(5,\)"):
        ImageViews(as_pool(Data(torch.zeros(2, 5)), kind="image"))


# --- features, tokens, anything


def test_plain_views_are_the_items():
    x = np.arange(12.0).reshape(4, 3)
    views = PlainViews(as_pool(x), weak_noise=0, noise=0)
    for seen in (views.plain([2]), views.weak([2], generator()), views.strong([2], generator())):
        assert seen.tolist() == [[6, 7, 8]]
        assert seen.dtype == torch.float32
    tokens = PlainViews(as_pool(x.astype(np.int64)))
    for seen in (tokens.plain([1]), tokens.weak([1], generator()), tokens.strong([1], generator())):
        assert seen.tolist() == [[3, 4, 5]]
        assert seen.dtype == torch.int64


def test_features_get_noise_in_units_of_each_columns_deviation():
    x = np.random.default_rng(0).normal(size=(4000, 2)) * [1, 50]
    views = PlainViews(as_pool(x))
    plain, at = views.plain(range(4000)), range(4000)
    for view, share in ((views.weak, 0.15), (views.strong, 0.5)):
        noise = view(at, generator()) - plain
        assert (noise.std(dim=0) / plain.std(dim=0)).tolist() == pytest.approx([share, share], rel=0.1)
        assert not torch.equal(view(at, generator()), view(at, generator(1)))


def test_a_constant_column_gets_no_noise():
    x = np.random.default_rng(0).normal(size=(50, 3)) * 0.01 + 7
    x[:, 1] = 1e6
    views = PlainViews(as_pool(x))
    noise = views.strong(range(50), generator()) - views.plain(range(50))
    assert (noise[:, 1] == 0).all()
    assert 0 < noise[:, [0, 2]].abs().max() < 0.05


def test_views_of_features_can_be_copied_and_pickled():
    views = PlainViews(as_pool(np.eye(4)))
    for other in (copy.deepcopy(views), pickle.loads(pickle.dumps(views))):
        assert torch.equal(other.weak([0, 1], generator()), views.weak([0, 1], generator()))


def test_labelled_features_have_no_noise_unless_the_weak_view_is_ones_own():
    pool = as_pool(np.eye(4))
    assert torch.equal(PlainViews(pool).labelled([1, 2], generator()), torch.eye(4)[1:3])
    assert PlainViews(pool, weak=lambda x, g: x + 1).labelled([0], generator()).tolist() == [[2, 1, 1, 1]]


def test_the_users_functions_make_the_views():
    views = PlainViews(
        as_pool(np.zeros((4, 3))),
        weak=lambda x, g: x + 1,
        strong=lambda x, g: x + torch.rand(x.shape, generator=g),
    )
    assert views.weak([0], generator()).tolist() == [[1, 1, 1]]
    assert torch.equal(views.strong([0, 1], generator()), views.strong([0, 1], generator()))


def test_noise_and_dropout_make_a_strong_view_of_features():
    N = 40_000  # the standard deviation of a spread is then 0.4 %
    x = np.random.default_rng(0).normal(size=(N, 2)) * [1, 50]
    views = PlainViews(as_pool(x), weak_noise=0, noise=0.1, dropout=0.25)
    strong, plain = views.strong(range(N), generator()), views.plain(range(N))
    assert float((strong == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    kept = (strong * 0.75 - plain).where(strong != 0, torch.nan)
    spread = [float(kept[:, j][~kept[:, j].isnan()].std()) for j in range(2)]
    assert spread == pytest.approx([0.1, 5.0], rel=0.05)
    assert torch.equal(views.weak([0], generator()), plain[:1])


@pytest.mark.parametrize(
    ("pool", "options", "message"),
    [
        (np.zeros((2, 2)), {"noise": 0.1, "strong": lambda x, g: x}, "got them together with strong=; drop them"),
        (np.zeros((2, 2)), {"weak_noise": 0.1, "weak": lambda x, g: x}, "got them together with weak=; drop them"),
        (np.zeros((2, 2), np.int64), {"dropout": 0.1}, "got them for whole numbers"),
        (
            np.zeros((2, 2)),
            {"dropout": 1.0},
            "expected weak_noise and noise >= 0 and 0 <= dropout < 1, got 0.15, 0.5 and 1.0",
        ),
    ],
)
def test_wrong_noise_is_refused(pool, options, message):
    with pytest.raises(InputError, match=message):
        PlainViews(as_pool(pool), **options)


def test_items_from_outside():
    views = PlainViews(as_pool(np.zeros((4, 3))))
    assert views.of(np.ones((2, 3))).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert views.of([1.0, 2.0, 3.0]).shape == (1, 3)
    with pytest.raises(InputError, match=r"items: expected shape \(3,\) as in the pool, got \(4,\)"):
        views.of(np.ones((2, 4)))
    for whole in ([[1, 0, 1]], np.array([[True, False, True]])):
        assert views.of(whole).tolist() == [[1.0, 0.0, 1.0]]
        assert views.of(whole).dtype == torch.float32
    tokens = PlainViews(as_pool(np.zeros((4, 3), np.int64)))
    assert tokens.of(np.ones((2, 7), np.int64)).shape == (2, 7)  # sequences may be longer
    data = PlainViews(as_pool(Data(torch.zeros(3, 2, 2))))
    assert data.of(Data(torch.ones(5, 2, 2))).shape == (5, 2, 2)


# --- cached


def cached(N=6, V=3, S=4, d=2):
    plain = torch.zeros(N, d)
    weak = torch.arange(V)[:, None, None] * 100.0 + torch.arange(N)[None, :, None] + torch.zeros(d)
    return CachedViews(plain, weak, (weak[:1] + 1000 * torch.arange(S)[:, None, None]).numpy())


def test_a_draw_picks_a_cached_view_for_each_item_by_itself():
    views = cached()
    at = torch.tensor([5, 0, 5]).repeat(200)
    weak = views.weak(at, generator())[:, 0]
    assert torch.equal(weak % 100, at.float())
    assert (weak // 100).unique().tolist() == [0, 1, 2]
    strong = views.strong(at, generator())[:, 0]
    assert (strong // 1000).unique().tolist() == [0, 1, 2, 3]
    assert torch.equal(strong, views.strong(at, generator())[:, 0])
    assert views.plain([1, 2]).tolist() == [[0, 0], [0, 0]]
    assert len(views) == 6


def test_mapped_and_half_precision_caches_come_out_as_float32(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 6, 3), np.float16))
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    views = CachedViews(stored[0], stored, stored)
    assert views.weak([1, 5], generator()).dtype == views.plain([0]).dtype == torch.float32


def test_items_from_outside_a_cache_are_embedded():
    views = cached()
    assert views.of(np.ones((3, 2))).shape == (3, 2)
    with pytest.raises(InputError, match=r"items: expected shape \(2,\) as the cached views have, got \(5,\)"):
        views.of(np.ones((3, 5)))
    embedding = CachedViews(
        torch.zeros(2, 4), torch.zeros(1, 2, 4), torch.zeros(1, 2, 4), embed=lambda x: torch.ones(len(x), 4)
    )
    assert embedding.of(["a", "b"]).tolist() == [[1.0] * 4] * 2


def test_caches_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"expected weak of shape \(views, 6, 2\) to go with plain, got \(3, 5, 2\)"):
        CachedViews(torch.zeros(6, 2), torch.zeros(3, 5, 2), torch.zeros(3, 6, 2))
    with pytest.raises(InputError, match=r"expected strong of shape \(views, 6, 2\) to go with plain, got \(0, 6, 2\)"):
        CachedViews(torch.zeros(6, 2), torch.zeros(1, 6, 2), torch.zeros(0, 6, 2))
    with pytest.raises(InputError, match="CachedViews: expected floats, got dtype int64"):
        CachedViews(np.zeros((6, 2), np.int64), torch.zeros(1, 6, 2), torch.zeros(1, 6, 2))


def test_views_for_picks_by_kind():
    chosen: Views = views_for(image_pool())
    assert isinstance(chosen, ImageViews)
    assert len(chosen) == 50
    assert len(views_for(as_pool(np.zeros((2, 2))))) == 2
    assert isinstance(views_for(as_pool(np.zeros((2, 2))), noise=0.1), PlainViews)


def test_no_view_touches_the_global_generator():
    state = torch.get_rng_state()
    for views in (
        ImageViews(image_pool(), noise=0.1),
        PlainViews(as_pool(np.eye(3)), noise=0.1, dropout=0.1),
        cached(),
    ):
        views.weak([0, 1], generator())
        views.strong([0, 1], generator())
    assert torch.equal(torch.get_rng_state(), state)
