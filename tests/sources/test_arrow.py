"""Parquet files and Hugging Face data sets as pools: by pyarrow alone, and against the package `datasets`."""

import io
import json

import numpy as np
import pytest
from PIL import Image

import askless as al
from askless.base.errors import InputError
from askless.data import hf, load, parquet
from askless.sources.arrow import split_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def png(seed: int, side: int = 8) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)).save(out, "PNG")
    return out.getvalue()


def pixels(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content))).transpose(2, 0, 1)


def with_classes(table, names, column="label"):
    features = {column: {"names": names, "_type": "ClassLabel"}}
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def test_embeddings_with_ids_and_labels_are_a_pool_of_features(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)).astype(np.float32)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 6)
    for vectors in (fixed, pa.array(x.tolist(), pa.list_(pa.float32())), pa.array(x.astype(float).tolist())):
        table = pa.table({"id": [f"i{i}" for i in range(40)], "embedding": vectors, "label": ["a", "b"] * 20})
        pq.write_table(table, tmp_path / "e.parquet")
        pool = load(tmp_path / "e.parquet")
        assert (pool.kind, pool.classes, pool.ids[3]) == ("features", ("a", "b"), "i3")
        assert (np.asarray(pool.x) == x).all()
        assert pool.labels.tolist() == [0, 1] * 20
    picks = al.select("coreset", 5, features=pool.x, seed=0)
    assert (picks.indices == al.select("coreset", 5, features=x, seed=0).indices).all()
    learner = al.ActiveLearner(pool, net="linear", learner=al.Supervised(steps=3))
    learner.tell([0, 1], pool.labels[:2])
    learner.fit()
    assert learner.predict_pool().shape == (40, 2)


def test_rows_without_a_vector_are_listed(tmp_path):
    rows = [[1.0, 2.0], None, [3.0], [4.0, None], [float("nan"), 1.0], [5.0, 6.0]]
    pq.write_table(pa.table({"v": pa.array(rows, pa.list_(pa.float64()))}), tmp_path / "e.parquet")
    pool = parquet(tmp_path / "e.parquet")
    assert np.asarray(pool.x).tolist() == [[1, 2], [5, 6]]
    assert pool.ids == ("0", "5")
    assert [i for i, _ in pool.skipped] == ["1", "2", "3", "4"]
    assert dict(pool.skipped)["2"] == "1 features; the first row has 2"


def test_images_of_parquet_files_by_split(tmp_path):
    contents = [png(i) for i in range(5)]
    train = pa.table({"image": [{"bytes": c, "path": "x.png"} for c in contents[:3]], "label": [1, 0, -1]})
    test = pa.table({"image": [{"bytes": c, "path": None} for c in contents[3:]], "label": [0, 1]})
    (tmp_path / "data").mkdir()
    pq.write_table(with_classes(train, ["cat", "dog"]), tmp_path / "data" / "train-00000-of-00001.parquet")
    pq.write_table(with_classes(test, ["cat", "dog"]), tmp_path / "data" / "test-00000-of-00001.parquet")
    (tmp_path / "evil.py").write_text("raise SystemExit('a script was run')")
    pool = load(tmp_path)
    assert pool.classes == ("cat", "dog")
    assert pool.labels.tolist() == [1, 0, -1]
    assert (np.asarray(pool.x) == np.stack([pixels(c) for c in contents[:3]])).all()
    assert (np.asarray(pool.test[0]) == np.stack([pixels(c) for c in contents[3:]])).all()
    assert pool.test[1].tolist() == [0, 1]


def test_damaged_images_and_images_of_several_sizes(tmp_path):
    pq.write_table(pa.table({"png": [png(0), b"no image", None]}), tmp_path / "a.parquet")
    pool = parquet(tmp_path / "a.parquet")
    assert len(pool) == 1
    assert [i for i, _ in pool.skipped] == ["1", "2"]
    pq.write_table(pa.table({"png": [png(0), png(1, side=9)]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="expected images of one size"):
        parquet(tmp_path / "b.parquet")
    assert parquet(tmp_path / "b.parquet", size=4).shape == (3, 4, 4)


def test_what_could_be_meant_is_asked_for(tmp_path):
    table = pa.table({"a": [[1.0]], "b": [[2.0]], "title": ["t"], "body": ["u"], "one": [0], "two": [1]})
    features = {c: {"names": ["x", "y"], "_type": "ClassLabel"} for c in ("one", "two")}
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="each of one, two could be the labels; pass one, as label='one'"):
        parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="each of a, b could be the features; pass one, as features='a'"):
        parquet(tmp_path / "t.parquet", label="two")
    pool = parquet(tmp_path / "t.parquet", label="two", features="b")
    assert np.asarray(pool.x).tolist() == [[2.0]]
    assert pool.labels.tolist() == [1]
    assert parquet(tmp_path / "t.parquet", label="two", text="body").x == ("u",)
    with pytest.raises(InputError, match="expected one of image=, features= and text=, got features and text"):
        parquet(tmp_path / "t.parquet", label="two", text="body", features="a")
    with pytest.raises(InputError, match="expected a column 'c' as image, got a, b, title"):
        parquet(tmp_path / "t.parquet", image="c")
    pq.write_table(pa.table({"n": [1]}), tmp_path / "n.parquet")
    with pytest.raises(InputError, match="expected a column of images, lists of floats or texts, got n"):
        parquet(tmp_path / "n.parquet")


def test_files_that_are_none(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="expected a Parquet file, got another"):
        parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match="found nothing there"):
        hf(tmp_path / "absent")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "state.json").write_text('{"_data_files": [{"filename": "../out.arrow"}]}')
    with pytest.raises(InputError, match="expected the files of a Hugging Face data set"):
        hf(tmp_path / "saved")
    with pytest.raises(InputError, match="expected a Dataset, a DatasetDict or a path, got int"):
        hf(5)


def test_splits_by_the_names_of_files():
    from pathlib import Path

    names = ("data/train-00000-of-00002.parquet", "test/0000.parquet", "validation-0-of-1.parquet", "mine.parquet")
    assert [split_of(Path(name)) for name in names] == ["train", "test", "validation", "train"]


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("ignore")
def test_data_sets_of_the_package_datasets(tmp_path):
    """On disk, in memory, with train and test, shuffled, and as its Parquet files: always the same pool."""
    import datasets

    contents = [png(i) for i in range(7)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    rows = {"image": [{"bytes": c, "path": None} for c in contents], "label": [0, 1, 1, 0, -1, 1, 0]}
    whole = datasets.Dataset.from_dict(rows, features=features)
    split = datasets.DatasetDict({"train": whole.select(range(5)), "test": whole.select([5, 6])})
    split.save_to_disk(tmp_path / "saved")
    (tmp_path / "parquet").mkdir()
    for name, part in split.items():
        part.to_parquet(tmp_path / "parquet" / f"{name}-00000-of-00001.parquet")
    x = np.stack([pixels(c) for c in contents])
    for pool in (load(tmp_path / "saved"), hf(split), load(tmp_path / "parquet")):
        assert pool.classes == ("cat", "dog")
        assert (np.asarray(pool.x) == x[:5]).all()
        assert pool.labels.tolist() == [0, 1, 1, 0, -1]
        assert (np.asarray(pool.test[0]) == x[5:]).all()
        assert pool.test[1].tolist() == [1, 0]
    back = datasets.load_from_disk(str(tmp_path / "saved"))["train"]
    for i in range(5):
        assert (np.asarray(back[i]["image"].convert("RGB")).transpose(2, 0, 1) == np.asarray(pool.x[i])).all()
    shuffled = whole.shuffle(seed=1)
    pool = hf(shuffled)
    assert (np.asarray(pool.x[0]) == np.asarray(shuffled[0]["image"].convert("RGB")).transpose(2, 0, 1)).all()
    whole.shuffle(seed=1).save_to_disk(tmp_path / "one")
    assert (np.asarray(load(tmp_path / "one").x) == np.asarray(pool.x)).all()
    said = datasets.Dataset.from_dict({"text": ["good", "bad"], "stars": ["5", "1"]})
    said.save_to_disk(tmp_path / "texts")
    assert load(tmp_path / "texts", text="text", label="stars").labels.tolist() == [1, 0]
    vectors = datasets.Dataset.from_dict(
        {"vector": [[1.0, 2.0], [3.0, 4.0]]},
        features=datasets.Features({"vector": datasets.Sequence(datasets.Value("float32"), length=2)}),
    )
    vectors.save_to_disk(tmp_path / "vectors")
    assert np.asarray(load(tmp_path / "vectors").x).tolist() == [[1, 2], [3, 4]]


def test_every_table_has_the_names_of_its_own_classes(tmp_path):
    """Shards and splits may number their classes in another order."""
    vectors = pa.array([[1.0], [2.0]], pa.list_(pa.float32()))
    for file, names in (("train-0", ["cat", "dog"]), ("train-1", ["dog", "cat"]), ("test-0", ["owl", "dog", "cat"])):
        pq.write_table(with_classes(pa.table({"v": vectors, "label": [0, 1]}), names), tmp_path / f"{file}.parquet")
    pool = load(tmp_path)
    assert pool.classes == ("cat", "dog", "owl")
    assert [pool.classes[y] for y in pool.labels] == ["cat", "dog", "dog", "cat"]
    assert [pool.classes[y] for y in pool.test[1]] == ["owl", "dog"]
    pq.write_table(pa.table({"v": vectors}), tmp_path / "test-0.parquet")
    assert load(tmp_path).test is None
    pq.write_table(pa.table({"w": vectors}), tmp_path / "test-0.parquet")
    with pytest.raises(InputError, match="'v' in every split"):
        load(tmp_path)


@pytest.mark.parametrize("labels", [[0, -1, 1], [0.0, float("nan"), 1.0], [0, None, 1], ["0", "", "1"]])
def test_labels_that_are_unknown_are_no_class(tmp_path, labels):
    pq.write_table(pa.table({"v": [[1.0], [2.0], [3.0]], "label": labels}), tmp_path / "e.parquet")
    pool = load(tmp_path / "e.parquet")
    assert (pool.classes, pool.labels.tolist()) == (("0", "1"), [0, -1, 1])


def test_lists_of_lists_are_no_features(tmp_path):
    pq.write_table(pa.table({"v": [[[1.0, 2.0]], [[3.0, 4.0]]]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="expected a column of images, lists of floats or texts"):
        load(tmp_path / "e.parquet")


def test_a_test_split_of_other_features_is_refused(tmp_path):
    for file, rows in (("train-0", [[1.0, 2.0], [3.0, 4.0]]), ("test-0", [[1.0], [2.0]])):
        pq.write_table(pa.table({"v": rows, "label": ["a", "b"]}), tmp_path / f"{file}.parquet")
    with pytest.raises(InputError, match=r"expected test items of shape \(2,\) as in the pool, got \(1,\)"):
        load(tmp_path)
