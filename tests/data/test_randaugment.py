import numpy as np
import pytest
import torch

from askless.base.errors import InputError
from askless.data import KEKMODEL, LEEDOYUP, OFFICIAL, rand_augment
from askless.data.augment import CURVES, DEGENERATE, MAPS, affine, blend, fixed_point
from askless.data.randaugment import (
    NAMES,
    apply_operations,
    as_policy,
    cutout_span,
    draw_operations,
    random_cutout,
    whole_level_table,
)

LEVELS = torch.arange(1.0, 10.0, dtype=torch.float64)
PLUS = torch.ones(9, dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(n=64, C=3, H=32, W=32, seed=0):
    return torch.randint(0, 256, (n, C, H, W), dtype=torch.uint8, generator=generator(seed))


# --- the constants of METHODS 1.3


def test_kekmodels_constants():
    table = {name: m(LEVELS, PLUS, 32).tolist() for name, m in KEKMODEL.magnitudes.items()}
    assert table["brightness"] == pytest.approx([0.05 + 0.09 * v for v in range(1, 10)])
    assert table["brightness"] == table["color"] == table["contrast"] == table["sharpness"]
    assert table["posterize"] == [4, 4, 5, 5, 6, 6, 6, 7, 7]
    assert table["rotate"] == [3 * v for v in range(1, 10)]
    assert table["shear_x"] == table["shear_y"] == pytest.approx([0.03 * v for v in range(1, 10)])
    assert table["solarize"] == [256 - int(25.6 * v) for v in range(1, 10)]
    assert table["translate_x"] == table["translate_y"] == [int(0.96 * v) for v in range(1, 10)]
    assert KEKMODEL.magnitudes["translate_x"](LEVELS, -PLUS, 8).tolist() == [-int(0.24 * v) for v in range(1, 10)]


def test_the_official_constants():
    table = {name: m(LEVELS, PLUS, 32).tolist() for name, m in OFFICIAL.magnitudes.items()}
    assert table["contrast"] == pytest.approx([0.1 + 0.18 * v for v in range(1, 10)])
    assert table["posterize"] == [4, 4, 3, 3, 2, 2, 2, 1, 1]
    assert table["translate_x"] == list(range(1, 10))
    assert table["rotate"] == [3 * v for v in range(1, 10)]


def test_leedoyups_ranges():
    ends = torch.tensor([0.0, 0.5, 1 - 1e-9], dtype=torch.float64)
    table = {name: m(ends, PLUS[:3], 32).tolist() for name, m in LEEDOYUP.magnitudes.items()}
    assert table["brightness"] == pytest.approx([0.05, 0.5, 0.95])
    assert table["posterize"] == [4, 6, 7]
    assert table["rotate"] == pytest.approx([-30, 0, 30], abs=1e-6)
    assert table["shear_x"] == pytest.approx([-0.3, 0, 0.3], abs=1e-6)
    assert table["solarize"] == pytest.approx([0, 128, 256], abs=1e-6)
    assert table["translate_y"] == pytest.approx([-9.6, 0, 9.6], abs=1e-6)


def test_draws_follow_the_policy():
    which, level, sign = draw_operations(20_000, generator(), KEKMODEL)
    counts = torch.bincount(which, minlength=14).double() / 20_000
    identity = NAMES.index("identity")
    assert counts[identity] == pytest.approx(0.5 + 0.5 / 14, abs=0.02)
    assert counts[torch.arange(14) != identity].numpy() == pytest.approx(np.full(13, 0.5 / 14), abs=0.01)
    assert level.unique().tolist() == LEVELS.tolist()
    assert sign.unique().tolist() == [-1, 1]
    which, level, _ = draw_operations(20_000, generator(), LEEDOYUP)
    assert (torch.bincount(which, minlength=14) > 1000).all()
    assert 0 <= float(level.min()) < 0.01 < 0.99 < float(level.max()) < 1


# --- applying


@pytest.mark.parametrize("policy", [KEKMODEL, LEEDOYUP, OFFICIAL], ids=["kekmodel", "leedoyup", "official"])
@pytest.mark.parametrize("C", [1, 3, 4])
def test_grouping_by_operation_equals_one_image_at_a_time(C, policy):
    x = batch(56, C=C, H=20, W=24)
    which = torch.arange(56) % 14
    level, sign = torch.arange(56) % 9 + 1.0, 1.0 - 2 * (torch.arange(56) % 2)
    level = level if policy.whole_levels else level / 10
    out = apply_operations(x, which, level.double(), sign.double(), policy)
    for i in range(56):
        name = NAMES[which[i]]
        parameter = level[i : i + 1].double()
        if name in policy.magnitudes:
            parameter = policy.magnitudes[name](parameter, sign[i : i + 1].double(), 20 if name.endswith("_y") else 24)
        alone = x[i : i + 1]
        if name in MAPS:
            alone = affine(alone, MAPS[name](parameter, 20, 24))
        elif name in DEGENERATE:
            alone = blend(DEGENERATE[name](alone), alone, parameter)
        elif name != "identity":
            alone = CURVES[name](alone, parameter)
        assert torch.equal(out[i : i + 1], alone), name


@pytest.mark.parametrize("policy", [KEKMODEL, LEEDOYUP, OFFICIAL], ids=["kekmodel", "leedoyup", "official"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (1, 28, 28), (3, 9, 20), (4, 12, 12)], ids=str)
def test_same_generator_same_views_and_the_input_stays(policy, shape):
    x = batch(40, *shape)
    untouched = x.clone()
    first, again = rand_augment(x, generator(5), policy), rand_augment(x, generator(5), policy)
    assert torch.equal(first, again)
    assert not torch.equal(first, rand_augment(x, generator(6), policy))
    assert first.shape == x.shape
    assert first.dtype == torch.uint8
    assert torch.equal(x, untouched)


def test_the_global_generator_is_left_alone():
    state = torch.get_rng_state()
    rand_augment(batch(), generator())
    assert torch.equal(torch.get_rng_state(), state)


def test_an_empty_batch_stays_empty():
    assert rand_augment(batch(0), generator()).shape == (0, 3, 32, 32)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_one_operation(name):
    x = batch(5, H=20, W=24)
    which, level, sign = torch.full((5,), NAMES.index(name)), torch.arange(1.0, 6.0).double(), torch.ones(5).double()
    together = apply_operations(x, which, level, sign, KEKMODEL)
    parts = [apply_operations(x[i : i + 1], which[:1], level[i : i + 1], sign[:1], KEKMODEL) for i in range(5)]
    assert torch.equal(together, torch.cat(parts))
    assert torch.equal(together, x) == (name == "identity")


@pytest.mark.parametrize("policy", [KEKMODEL, OFFICIAL], ids=["kekmodel", "official"])
def test_the_table_of_whole_levels_holds_what_the_policy_says(policy):
    values, maps = whole_level_table(policy, 20, 24)
    for k, name in enumerate(NAMES):
        for v in range(1, 10):
            for s in (1.0, -1.0):
                level, sign = torch.tensor([float(v)]).double(), torch.tensor([s]).double()
                parameter = level
                if name in policy.magnitudes:
                    parameter = policy.magnitudes[name](level, sign, 20 if name.endswith("_y") else 24)
                at = 20 * k + 2 * v + (s < 0)
                assert values[at] == parameter[0]
                if name in MAPS:
                    assert torch.equal(maps[at], fixed_point(MAPS[name](parameter, 20, 24))[0])


# --- Cutout


def test_kekmodels_square_is_moved_inside_at_the_near_edge_and_cut_at_the_far_one():
    point = torch.tensor([0.0, 7.9, 8.0, 8.9, 15.0, 24.0, 24.1, 31.9], dtype=torch.float64)
    first, end = cutout_span(point, torch.full_like(point, 16), 32, "shift")
    assert first.tolist() == [0, 0, 0, 0, 7, 16, 16, 23]
    assert end.tolist() == [16, 16, 16, 16, 23, 32, 32, 32]


def test_the_official_square_is_cut_at_both_edges():
    point = torch.tensor([0.0, 15.2, 31.9], dtype=torch.float64)
    first, end = cutout_span(point, torch.full_like(point, 16), 32, "clip")
    assert first.tolist() == [0, 7, 23]
    assert end.tolist() == [8, 23, 32]


def test_cutout_covers_half_the_side_in_the_fill_colour():
    black = torch.zeros(500, 3, 32, 32, dtype=torch.uint8)
    out = random_cutout(black, generator(), KEKMODEL)
    assert out.unique().tolist() == [0, 127]
    area = (out[:, 0] > 0).sum(dim=(1, 2))
    assert int(area.max()) == 256
    assert int(area.min()) >= 64
    small = random_cutout(black[:, :1, :8, :8], generator(), KEKMODEL)
    assert int((small > 0).sum(dim=(1, 2, 3)).max()) == 16
    coloured = random_cutout(black, generator(), LEEDOYUP)
    assert coloured.amax(dim=(0, 2, 3)).tolist() == [125, 123, 114]
    sides = (coloured[:, 0] > 0).any(dim=1).sum(dim=1)
    assert len(sides.unique()) > 10
    assert int(sides.max()) <= 16


def test_policies_have_names():
    assert as_policy("official") is OFFICIAL
    assert as_policy(KEKMODEL) is KEKMODEL
    with pytest.raises(InputError, match="policy: expected kekmodel, leedoyup, official or a Policy, got 'trivial'"):
        as_policy("trivial")
