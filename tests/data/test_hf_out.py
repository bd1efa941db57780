"""Labels out to Hugging Face and back, WebDataset's tars, and the folders of both."""

import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import askless as al
from askless.base.errors import InputError
from askless.data import as_pool, imagefolder, load, save_hf, save_imagefolder, webdataset
from askless.sources.image_file import pixels_of_row

from ..texts import reviews, write_csv


def small_pool(n: int = 6):
    x = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return as_pool((x, np.arange(n) % 2), test=(x[:2], [1, 0]), classes=["cat", "hot dog"])


def test_an_imagefolder_comes_back_with_the_same_labels(tmp_path):
    pool = small_pool()
    save_imagefolder(pool, tmp_path / "out", labels={0: 0, 3: 1, 5: 1})
    back = imagefolder(tmp_path / "out")
    assert back.classes == ("cat", "hot dog")
    assert back.labels.tolist() == [0, 1, 1]
    assert (np.asarray(back.x) == np.asarray(pool.x)[[0, 3, 5]]).all()
    assert back.test[1].tolist() == [0, 1]  # sorted by folder
    with pytest.raises(InputError, match="expected a new name or an empty folder"):
        save_imagefolder(pool, tmp_path / "out")
    with pytest.raises(InputError, match="cannot be the name of a folder"):
        save_imagefolder(replace(pool, classes=("a/b", "c")), tmp_path / "other")
    with pytest.raises(InputError, match="expected at least one labelled item"):
        save_imagefolder(pool, tmp_path / "other", labels={})
    assert not (tmp_path / "other").exists()


def test_what_is_unknown_is_left_out_and_a_class_too_many_is_told(tmp_path):
    pool = small_pool()
    save_imagefolder(pool, tmp_path / "out", labels={0: 0, 1: -1, 3: np.int64(1), 4: np.int64(-1)})
    assert imagefolder(tmp_path / "out").labels.tolist() == [0, 1]
    with pytest.raises(InputError, match="expected numbers of its 2 classes, cat, hot dog, got 2 for item 3"):
        save_imagefolder(pool, tmp_path / "other", labels={0: 0, 3: 2})
    with pytest.raises(InputError, match="expected positions from 0 to 5, got 6"):
        save_imagefolder(pool, tmp_path / "other", labels={6: 0})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_metadata_file_names_files_and_labels(tmp_path, suffix):
    for split, labels in (("train", ["cat", "", "dog"]), ("test", ["dog"])):
        (tmp_path / split / "more").mkdir(parents=True)
        rows = []
        for i, label in enumerate(labels):
            Image.fromarray(np.full((4, 4, 3), 10 * i + len(split), np.uint8)).save(tmp_path / split / f"more/{i}.png")
            rows.append({"path": f"once/{i}.png", "file_name": f"more/{i}.png", "label": label})
        lines = [json.dumps(r) for r in rows]
        if suffix == "csv":
            lines = ["path,file_name,label", *(",".join(r.values()) for r in rows)]
        (tmp_path / split / f"metadata.{suffix}").write_text("\n".join(lines) + "\n")
    pool = load(tmp_path)
    assert (pool.classes, pool.labels.tolist()) == (("cat", "dog"), [0, -1, 1])
    assert np.asarray(pool.x)[:, 0, 0, 0].tolist() == [5, 15, 25]
    assert pool.ids == ("train/more/0.png", "train/more/1.png", "train/more/2.png")
    assert pool.test[1].tolist() == [1]
    (tmp_path / "train" / f"metadata.{suffix}").write_text(
        "file_name,label\n../../x.png,cat\n" if suffix == "csv" else '{"file_name": "../../x.png"}\n'
    )
    with pytest.raises(InputError, match="expected files inside the folder of the metadata"):
        imagefolder(tmp_path)


def write_tar(path, samples):
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name, content in samples:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def png(pixels) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
def test_a_tar_of_images_and_labels(tmp_path, name):
    x = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 3), dtype=np.uint8)
    samples = [("s0.png", png(x[0])), ("s0.cls", b"1"), ("s1.png", png(x[1])), ("s1.json", b'{"label": "0"}')]
    samples += [("s2.png", b"damaged"), ("s3.png", png(x[3]))]
    write_tar(tmp_path / name, samples)
    pool = load(tmp_path / name, classes=["cat", "dog"])
    assert pool.ids == ("s0", "s1", "s3")
    assert pool.labels.tolist() == [1, 0, -1]
    assert (np.asarray(pool.x) == x[[0, 1, 3]].transpose(0, 3, 1, 2)).all()
    assert [key for key, _ in pool.skipped] == ["s2"]
    write_tar(tmp_path / "b.tar", samples[:2])
    assert webdataset(tmp_path).ids[-1] == "b.tar/s0"
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:100])
    with pytest.raises(InputError, match="expected"):
        webdataset(tmp_path / name)


def test_json_in_json_beside_an_image_costs_its_label_only(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)
    samples = [("a.png", png(x[0])), ("a.json", b'{"label": ' + b"[" * 100_000), ("b.png", png(x[1])), ("b.cls", b"1")]
    write_tar(tmp_path / "a.tar", samples)
    pool = webdataset(tmp_path / "a.tar")
    assert pool.ids == ("a", "b")
    assert pool.labels.tolist() == [-1, 0]


def test_a_tar_that_is_damaged_in_the_middle_is_refused(tmp_path):
    """tarfile itself stops there without a word."""
    x = np.random.default_rng(0).integers(0, 256, (6, 6, 6, 3), dtype=np.uint8)
    write_tar(tmp_path / "a.tar", [(f"s{i}.png", png(x[i])) for i in range(6)])
    with tarfile.open(tmp_path / "a.tar") as tar:
        fourth = tar.getmembers()[3].offset
    whole = (tmp_path / "a.tar").read_bytes()
    assert len(webdataset(tmp_path / "a.tar")) == 6
    flipped = bytearray(whole)
    flipped[fourth + 5] ^= 1
    for damaged in (bytes(flipped), whole[:fourth], whole[: fourth + 100]):
        (tmp_path / "a.tar").write_bytes(damaged)
        with pytest.raises(InputError, match="expected a complete tar file"):
            webdataset(tmp_path / "a.tar")


def test_pixels_out_of_range_are_refused_before_they_wrap(tmp_path):
    x = np.linspace(-0.5, 1.5, 2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3)
    with pytest.raises(InputError, match=r"pixels from -0\.5 to .*; expected \[0, 1\]"):
        save_imagefolder(as_pool((x, [0, 1])), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.int16])
def test_pixels_of_other_types_are_saved_from_0_to_1_and_else_refused(dtype, channels):
    row = (np.arange(channels * 16).reshape(channels, 4, 4) % 2).astype(dtype)
    pixels = pixels_of_row(row)
    assert (pixels.dtype, pixels.max(), pixels.shape) == (np.uint8, 255, (4, 4) if channels == 1 else (4, 4, 3))
    if dtype is not np.bool_:
        with pytest.raises(InputError, match=r"pixels from 0 to 100; expected \[0, 1\]"):
            pixels_of_row(row * 100)


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("ignore")
def test_the_package_webdataset_writes_and_reads_the_same(tmp_path):
    import webdataset as wds

    x = np.random.default_rng(0).integers(0, 256, (5, 6, 6, 3), dtype=np.uint8)
    with wds.TarWriter(str(tmp_path / "shard.tar")) as writer:
        for i in range(5):
            writer.write({"__key__": f"item{i:03d}", "png": x[i], "cls": i % 2})
    pool = load(tmp_path / "shard.tar")
    assert (np.asarray(pool.x) == x.transpose(0, 3, 1, 2)).all()
    assert pool.labels.tolist() == [0, 1, 0, 1, 0]
    read = list(
        wds.WebDataset(str(tmp_path / "shard.tar"), shardshuffle=False).decode("rgb8").to_tuple("__key__", "png", "cls")
    )
    assert [key for key, _, _ in read] == list(pool.ids)
    assert all(
        (np.asarray(image).transpose(2, 0, 1) == np.asarray(pool.x[i])).all() for i, (_, image, _) in enumerate(read)
    )
    assert [label for _, _, label in read] == pool.labels.tolist()


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("ignore")
def test_the_package_datasets_reads_what_a_learner_has(tmp_path):
    import datasets

    pool = small_pool()
    learner = al.ActiveLearner(pool, net="linear", learner=al.Supervised(steps=1))
    learner.tell([4, 1], [0, 1])
    save_hf(learner.pool, tmp_path / "saved", labels=learner.labels)
    back = datasets.load_from_disk(str(tmp_path / "saved"))
    assert back["train"].features["label"].names == ["cat", "hot dog"]
    assert back["train"]["label"] == [0, 1]
    for row, place in zip(back["train"], (4, 1), strict=True):
        assert (np.asarray(row["image"]).transpose(2, 0, 1) == np.asarray(pool.x[place])).all()
    ours = load(tmp_path / "saved")
    assert ours.labels.tolist() == [0, 1]
    assert (np.asarray(ours.test[0]) == np.asarray(pool.test[0])).all()
    save_imagefolder(pool, tmp_path / "folder", labels=learner.labels)
    read = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache"))
    assert read["train"].features["label"].names == ["cat", "hot dog"]
    assert sorted(read["train"]["label"]) == [0, 1]
    assert len(read["test"]) == 2
    texts = as_pool((["good day", "bad day"], ["pos", "neg"]))
    save_hf(texts, tmp_path / "texts")
    back = datasets.load_from_disk(str(tmp_path / "texts"))["train"]
    assert back["text"] == ["good day", "bad day"]
    assert [back.features["label"].names[y] for y in back["label"]] == ["pos", "neg"]
    assert load(tmp_path / "texts").x == texts.x


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("ignore")
def test_the_package_datasets_reads_what_a_run_exports(tmp_path):
    import datasets

    from askless.run import Run
    from askless.run.out.export import export_run

    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(12):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    options = {"classes": ("cat", "dog"), "budget": 8, "batch": 4, "net": "frozen:raw", "steps": 2, "check": 0.25}
    with Run.create(folder, tmp_path / "run", **options) as run:
        given = {}
        while not run.is_finished():
            while run.advance():
                pass
            new = {path: ("cat", "dog")[int(path.split(".")[0]) % 2] for path in run.waiting()}
            run.tell(new)
            given |= new
        export_run(run, "datasets", tmp_path / "saved")
        with pytest.raises(InputError, match="pass overwrite"):
            export_run(run, "datasets", tmp_path / "saved")
        export_run(run, "datasets", tmp_path / "saved", overwrite=True)
        with pytest.raises(InputError, match="an earlier export"):
            export_run(run, "datasets", folder, overwrite=True)
        export_run(run, "hf", tmp_path / "hf")
        export_run(run, "imagefolder", tmp_path / "imagefolder")
    back = datasets.load_from_disk(str(tmp_path / "saved"))
    names = back["train"].features["label"].names
    assert {row["id"]: names[row["label"]] for part in back.values() for row in part} == given
    for row in back["train"]:
        assert (np.asarray(row["image"]) == np.asarray(Image.open(folder / row["id"]))).all()
    cache = str(tmp_path / "cache")
    read = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "hf"), cache_dir=cache)
    assert {row["path"]: row["label"] for part in read.values() for row in part} == given
    read = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "imagefolder"), cache_dir=cache)
    counts = [0, 0]
    for part in read.values():
        names = part.features["label"].names
        for row in part:
            counts[("cat", "dog").index(names[row["label"]])] += 1
    assert counts == [list(given.values()).count(name) for name in ("cat", "dog")]
    ours = load(tmp_path / "hf")
    assert len(ours) + len(ours.test[1]) == len(given)


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("ignore")
def test_the_package_datasets_reads_runs_on_texts_and_arrays(tmp_path):
    import datasets

    from askless.run import Run
    from askless.run.out.export import export_run

    options = {"classes": ("neg", "pos"), "budget": 6, "batch": 6, "steps": 2, "check": 0, "learner": "supervised"}
    write_csv(tmp_path / "reviews.csv", ["review"], [[text] for text, _ in reviews(12)])
    pixels = np.random.default_rng(0).integers(0, 256, (12, 3, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", X=pixels)
    for name, more in (("reviews.csv", {"text": "review"}), ("images.npz", {"net": "frozen:raw"})):
        with Run.create(tmp_path / name, tmp_path / f"run-{name}", **options, **more) as run:
            while run.advance():
                pass
            given = {path: ("neg", "pos")[place % 2] for place, path in enumerate(run.waiting())}
            run.tell(given)
            export_run(run, "datasets", tmp_path / f"saved-{name}")
            texts = dict(zip(run.paths, run.texts().values(), strict=True)) if name == "reviews.csv" else {}
        back = datasets.load_from_disk(str(tmp_path / f"saved-{name}"))["train"]
        assert {row["id"]: ("neg", "pos")[row["label"]] for row in back} == given
        for row in back:
            if texts:
                assert row["text"] == texts[row["id"]]
            else:
                assert (np.asarray(row["image"]).transpose(2, 0, 1) == pixels[int(row["id"])]).all()
