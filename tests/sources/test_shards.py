"""Shards: one array in many files, chosen from as if it were in memory."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.special import softmax

from askless import select
from askless.acquire import STRATEGIES, Askless, Coreset, TwoLevel, TypiClust, make
from askless.base.errors import InputError
from askless.bench.memory import forget_peak, peak_mb
from askless.cli.files import columns_of
from askless.sources.shards import ShardedArray, Shards, open_shards, write_shard

N, D, C = 1500, 12, 4


def arrays(dtype, n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, d)) + 3 * rng.normal(size=(8, d))[rng.integers(0, 8, n)]).astype(dtype)
    p = rng.dirichlet(np.ones(C), n).astype(dtype)
    return {
        "features": x,
        "probs": p,
        "probs_by_pass": rng.dirichlet(np.ones(C), (n, 5)).astype(dtype),
        "logits": np.log(p.astype(np.float64) + 1e-3).astype(dtype),
        "grad_sq": rng.random(n).astype(dtype),
        "grad_dot": rng.normal(size=n).astype(dtype),
        "grad_sq_by_class": rng.random((n, C)).astype(dtype),
    }


def written(folder, content, cuts=(400, 401, 1100)):
    n = len(next(iter(content.values())))
    ends = [0, *(c for c in cuts if c < n), n]
    for k, (start, end) in enumerate(itertools.pairwise(ends)):
        part = {name: a[start:end] for name, a in content.items()}
        write_shard(folder / f"shard-{k:05d}.arrow", {"id": [f"item {i}" for i in range(start, end)], **part})
    return open_shards(folder)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_shards_read_back_what_was_written(tmp_path, dtype):
    content = arrays(dtype)
    shards = written(tmp_path, content)
    assert len(shards) == N
    assert len(shards.files) == 4
    for name, a in content.items():
        assert shards[name].dtype == dtype
        assert shards[name].shape == a.shape
        np.testing.assert_array_equal(np.asarray(shards[name]), a)
    x, lazy = content["features"], shards["features"]
    assert isinstance(lazy, ShardedArray)
    at = np.random.default_rng(0).integers(-N, N, 500)
    for which in (
        slice(0, 10),
        slice(390, 1200),
        slice(None, None, 7),
        slice(5, 5),
        at,
        at[:0],
        at.reshape(5, 100),
        3,
        -1,
        x[:, 0] > 0,
    ):
        np.testing.assert_array_equal(lazy[which], x[which])
    with pytest.raises(IndexError, match="0 to 1499"):
        lazy[np.array([N])]
    assert shards.texts("id", np.array([1200, 3, 400])) == ["item 1200", "item 3", "item 400"]
    assert shards.texts("name", np.array([3])) is None


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_every_strategy_chooses_from_shards_what_it_chooses_in_memory(tmp_path, name, dtype):
    content = arrays(dtype)
    shards = written(tmp_path, content)
    known = {"labelled": np.array([1, 450, 900]), "labels": np.array([0, 1, 2]), "seed": 3, "max_memory": 2**20}
    quick = {
        "batchbald": {"configurations": 200},
        "dal": {"epochs": 3, "width": 16},
        "refine": {"depth": 2, "batches": 10},
    }
    strategy = make(name, **quick.get(name, {}))
    needs = [n for n in (*strategy.needs, *getattr(strategy, "wants", ())) if n in content]
    memory = select(strategy, 20, pool=N, **{n: content[n] for n in needs}, **known)
    lazy = select(strategy, 20, pool=N, **{n: shards[n] for n in needs}, **known)
    np.testing.assert_array_equal(lazy.indices, memory.indices)
    if memory.scores is not None:
        np.testing.assert_array_equal(lazy.scores, memory.scores)


@pytest.mark.parametrize("name", ["margin", "badge", "egl"])
def test_logits_in_shards_stand_in_for_probabilities(tmp_path, name):
    content = arrays(np.float32)
    shards = written(tmp_path, {n: content[n] for n in ("features", "logits")})
    names = ("features", "probs")
    assert list(columns_of(shards, names, {})) == ["features", "logits"]
    assert list(columns_of(shards, names, {"probs": content["probs"]})) == ["features"]
    probs = softmax(content["logits"], axis=1)
    memory = select(name, 20, features=content["features"], probs=probs, max_memory=2**20)
    for max_memory in (2**20, 2**14):
        lazy = select(name, 20, **columns_of(shards, names, {}), max_memory=max_memory)
        np.testing.assert_array_equal(lazy.indices, memory.indices)


def test_pages_of_the_files_are_let_go(tmp_path):
    x = np.random.default_rng(0).normal(size=(600_000, 64)).astype(np.float32)  # 150 MB
    written(tmp_path, {"features": x}, cuts=range(0, 600_000, 100_000)[1:])
    del x
    window = 2**23
    lazy = open_shards(tmp_path, window=window)["features"]
    forget_peak()
    before, total = peak_mb(), 0.0
    for i in range(0, len(lazy), 4096):
        total += float(lazy[i : i + 4096].sum())
    for _ in range(20):
        total += float(lazy[np.random.default_rng(1).integers(0, len(lazy), 4096)].sum())
    assert peak_mb() - before < 40, "the whole file stayed in memory"
    assert np.isfinite(total)


def test_parquet_is_unpacked_once(tmp_path):
    content = arrays(np.float32)
    (tmp_path / "parquet").mkdir()
    for k, (start, end) in enumerate([(0, 700), (700, N)]):
        table = pa.table(
            {
                "id": [str(i) for i in range(start, end)],
                "features": list(content["features"][start:end]),
                "probs": pa.FixedSizeListArray.from_arrays(content["probs"][start:end].reshape(-1), C),
                "grad_sq": content["grad_sq"][start:end],
            }
        )
        pa.parquet.write_table(table, tmp_path / "parquet" / f"{k}.parquet")
    with pytest.raises(InputError, match="cache=FOLDER"):
        open_shards(tmp_path / "parquet")
    shards = open_shards(tmp_path / "parquet", tmp_path / "cache")
    for name in ("features", "probs", "grad_sq"):
        np.testing.assert_array_equal(np.asarray(shards[name]), content[name])
    made = {f: f.stat().st_mtime_ns for f in (tmp_path / "cache").iterdir()}
    open_shards(tmp_path / "parquet", tmp_path / "cache")
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "cache").iterdir()} == made
    pa.parquet.write_table(table.slice(0, 100), tmp_path / "parquet" / "1.parquet")
    assert len(open_shards(tmp_path / "parquet", tmp_path / "cache")) == 800


@pytest.mark.parametrize(
    ("make_folder", "says"),
    [
        (lambda f: None, "expected .arrow files or .parquet files, got none"),
        (lambda f: (f / "a.arrow").write_bytes(b"nonsense" * 10), "expected an Arrow file, got something else"),
        (lambda f: (f / "a.parquet").write_bytes(b"nonsense" * 10), "expected a Parquet file, got another"),
        (lambda f: (f / "shards.json").write_text(json.dumps({"files": ["x.arrow"]})), "1 of 1 shards are missing"),
        (
            lambda f: [write_shard(f / f"{k}.arrow", {"features": np.zeros((3, 2 + k))}) for k in range(2)],
            "1.arrow: expected rows of shape \\(2,\\)",
        ),
        (
            lambda f: [write_shard(f / f"{k}.arrow", {n: np.zeros((3, 2))}) for k, n in enumerate("ab")],
            "expected the columns a as in 0.arrow, got b",
        ),
        (
            lambda f: pa.parquet.write_table(pa.table({"features": [[1.0], [1.0, 2.0]]}), f / "a.parquet"),
            "expected lists of one length, got 1 to 2 numbers",
        ),
        (lambda f: write_shard(f / "a.arrow", {"features": [1.0, None]}), "numbers in every row, got nulls"),
    ],
)
def test_bad_folders_are_refused_in_words(tmp_path, make_folder, says):
    make_folder(tmp_path)
    with pytest.raises(InputError, match=says):
        open_shards(tmp_path, tmp_path / "cache")["features"]


def test_a_compressed_arrow_file_is_refused(tmp_path):
    batch = pa.record_batch([pa.array(np.zeros(10_000))], names=["features"])
    with pa.ipc.new_file(tmp_path / "a.arrow", batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as out:
        out.write_batch(batch)
    with pytest.raises(InputError, match="got a compressed column; write the file without compression"):
        open_shards(tmp_path)["features"]


def test_nan_in_a_shard_and_whole_numbers_are_refused(tmp_path):
    content = arrays(np.float32)
    content["features"][1200, 3] = np.nan
    with pytest.raises(InputError, match="got nan in row 1200"):
        select("coreset", 3, features=written(tmp_path / "nan", content)["features"])
    with pytest.raises(InputError, match="expected shards of floats, got int8"):
        select("coreset", 3, features=written(tmp_path / "int", {"features": np.ones((9, 2), np.int8)})["features"])


# --- two levels -------------------------------------------------------------------------------------------------------


def test_two_levels_are_exact_where_each_item_is_scored_by_itself():
    content = arrays(np.float64)
    known = {"labelled": [3, 700]}
    for name, names in (("margin", ["probs"]), ("entropy", ["probs"]), ("dynamical", ["grad_sq", "grad_dot"])):
        strategy = make(name)
        given = {n: content[n] for n in names} | known
        one, two = select(strategy, 40, **given), select(TwoLevel(of=strategy, parts=7), 40, **given)
        np.testing.assert_array_equal(one.indices, two.indices)
        assert two.info["parts"] == 7
        assert two.info["winners"] == 280


def test_two_levels_lose_little():
    """Against the one-shot answer: k-center's greatest distance grows by at most a half."""
    x = arrays(np.float64, n=4000)["features"]

    def greatest_distance(picks):
        return np.sqrt(((x[:, None] - x[picks.indices][None]) ** 2).sum(axis=2).min(axis=1).max())

    one, two = (select(s, 60, features=x) for s in (Coreset(), TwoLevel(of=Coreset(), parts=8)))
    assert greatest_distance(two) < 1.5 * greatest_distance(one)


def test_two_levels_keep_most_of_what_coverage_gains_over_chance():
    """In parts of 250 items, on average over five pools: single pools lose from a quarter to three quarters."""
    lost = []
    for seed in range(5):
        x = arrays(np.float64, n=2000, seed=seed)["features"]
        unit = x - x.mean(axis=0)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        picks = [select(s, 60, features=x) for s in (Askless(), TwoLevel(of=Askless(), parts=8), "random")]
        sq = np.maximum(2 - 2 * unit @ unit.T, 0) / picks[0].info["reach"] ** 2
        one, two, by_chance = (np.exp(-sq[:, p.indices]).max(axis=1).mean() for p in picks)
        lost.append((one - two) / (one - by_chance))
    assert np.mean(lost) < 0.5


def test_parts_fit_in_the_memory_and_bad_ones_are_refused():
    x = arrays(np.float32)["features"]
    picks = select(TwoLevel(of=TypiClust()), 5, features=x, max_memory=N * D * 4 // 2)
    assert picks.info["parts"] == 4
    assert picks.info["strategy"] == "two-level typiclust"
    with pytest.raises(InputError, match="expected a strategy such as TypiClust"):
        TwoLevel(of="typiclust")
    with pytest.raises(InputError, match="albl remembers earlier picks"):
        TwoLevel(of=make("albl"))
    picks = select(TwoLevel(of=Coreset(), parts=50), 30, features=x[:40], labelled=[0, 1])
    assert len(set(picks.indices.tolist())) == 30


def test_shards_are_plain_files_of_arrow(tmp_path):
    """Read by pyarrow itself, and by a reader of the files that knows nothing of us."""
    content = arrays(np.float32)
    written(tmp_path, content)
    table = pa.concat_tables(
        [pa.ipc.open_file(pa.memory_map(str(f))).read_all() for f in sorted(tmp_path.glob("*.arrow"))]
    )
    np.testing.assert_array_equal(np.stack(table.column("features").to_numpy()), content["features"])
    assert isinstance(open_shards(tmp_path), Shards)


def test_more_shards_than_files_may_be_open(tmp_path):
    """In a process of its own: what is lowered stays lowered."""
    code = """
import resource, sys
import numpy as np
from pathlib import Path
from askless.sources.shards import open_shards, write_shard
x = np.random.default_rng(0).normal(size=(600, 3)).astype(np.float32)
for k in range(300):
    write_shard(Path(sys.argv[1]) / f"{k:04d}.arrow", {"features": x[2 * k : 2 * k + 2]})
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
lazy = open_shards(sys.argv[1])["features"]
at = np.random.default_rng(1).permutation(600)
assert (lazy[at] == x[at]).all() and (lazy[:] == x).all() and (np.asarray(lazy) == x).all()
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)


def test_shards_without_rows_and_columns_of_another_kind_are_passed_over(tmp_path):
    """As other tools leave them: an empty partition, a label that is null here and there, a picture beside the vector."""
    x = arrays(np.float32)["features"]
    for k, some in enumerate((x[:0], x[:900], x[900:])):
        labels = pa.array([None if i % 7 else i for i in range(len(some))], pa.int64())
        vectors = pa.array(list(some), pa.list_(pa.float32()))
        pictures = pa.array([b"x" * 5000] * len(some), pa.binary())
        table = pa.table({"features": vectors, "label": labels, "picture": pictures})
        pa.parquet.write_table(table, tmp_path / f"{k}.parquet")
    shards = open_shards(tmp_path, tmp_path / "cache")
    np.testing.assert_array_equal(np.asarray(shards["features"]), x)
    assert len(shards.files) == 2
    with pytest.raises(InputError, match="numbers in every row, got nulls"):
        shards["label"]
    with pytest.raises(InputError, match="got the columns features, label"):
        shards["probs"]
    assert sum(f.stat().st_size for f in (tmp_path / "cache").iterdir()) < 2 * x.nbytes
    write_shard(tmp_path / "empty" / "a.arrow", {"features": x[:0]})
    with pytest.raises(InputError, match="expected shards with rows, got 1 without any"):
        open_shards(tmp_path / "empty")
    write_shard(tmp_path / "empty" / "b.arrow", {"features": x})
    np.testing.assert_array_equal(np.asarray(open_shards(tmp_path / "empty")["features"]), x)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[1.0, 2.0], None], "expected numbers only, got nulls"),
        ([[1.0, 2.0], [None, 2.0]], "expected numbers only, got nulls"),
        ([[1.0, 2.0]] * 20_000 + [[1.0]], "expected lists of one length, got 1 to 2 numbers"),
        ([[]], "expected lists of one length, got 0 to 0 numbers"),
    ],
)
def test_vectors_that_are_none_in_parquet(tmp_path, rows, says):
    pa.parquet.write_table(pa.table({"features": pa.array(rows, pa.list_(pa.float64()))}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=says):
        open_shards(tmp_path, tmp_path / "cache")


def test_a_list_that_may_have_any_length_is_told_apart_from_no_column(tmp_path):
    batch = pa.record_batch([pa.array([[1.0], [2.0]])], names=["features"])
    with pa.ipc.new_file(tmp_path / "a.arrow", batch.schema) as out:
        out.write_batch(batch)
    with pytest.raises(InputError, match="write vectors as lists of fixed size"):
        open_shards(tmp_path)["features"]


def test_positions_that_are_none_are_refused(tmp_path):
    lazy = written(tmp_path, arrays(np.float32))["features"]
    for wrong in (np.array([0.5]), np.ones(3, dtype=bool), np.array(["a"])):
        with pytest.raises(IndexError, match="expected a slice, positions, or a mask of 1500"):
            lazy[wrong]


@pytest.mark.parametrize("text", ["{", "[]", '{"files": []}', '{"files": ["../x.arrow"]}', '{"files": 3}'])
def test_an_index_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "shards.json").write_text(text)
    with pytest.raises(InputError, match="expected a file written by `askless embed`, got something else"):
        open_shards(tmp_path)
