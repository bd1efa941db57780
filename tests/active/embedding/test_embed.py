"""Embedding a pool into shards: every source, every column, killed and begun again."""

import gzip
import io
import json
import os
import signal
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import askless
from askless import ActiveLearner, InputError, OptionError, Supervised, embed, kernels, open_shards, select
from askless.active.embedding.sources import parts_of
from askless.base.errors import AsklessError
from askless.data import digits
from askless.features.frozen import Frozen, make_backbone
from askless.sources import read_image

sys.path.insert(0, str(Path(__file__).parent))
from pools import N, images, png, write_folder, write_parquet, write_tars


@pytest.fixture
def x():
    return images()


def raw(x):
    """What the backbone `raw` makes of images (n, H, W, 3), in float16."""
    return (torch.from_numpy(x).movedim(3, 1).flatten(1).float() / 255).half().numpy()


def test_a_folder_of_images(tmp_path, x):
    ids = write_folder(tmp_path / "photos", x)
    (tmp_path / "photos" / ".hidden.png").write_bytes(png(x[0]))
    calls = []
    shards = embed(tmp_path / "photos", tmp_path / "out", backbone="raw", rows=20, progress=lambda *p: calls.append(p))
    assert calls == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert shards.texts("id", np.arange(N)) == ids
    order = [int(name[-7:-4]) for name in ids]
    np.testing.assert_array_equal(np.asarray(shards["features"]), raw(x)[order])
    assert shards.columns == ("features",)


@pytest.mark.parametrize("write", [write_tars, write_parquet])
def test_tars_and_parquet_with_labels(tmp_path, x, write):
    write(tmp_path / "pool", x)
    shards = embed(tmp_path / "pool", tmp_path / "out", backbone="raw")
    assert len(shards.files) == 3
    np.testing.assert_array_equal(np.asarray(shards["features"]), raw(x))
    assert shards.texts("label", np.arange(N)) == [str(i % 3) for i in range(N)]
    ids = shards.texts("id", np.arange(N))
    assert len(set(ids)) == N
    assert all(name.startswith("part-00") for name in ids)
    one = embed(sorted((tmp_path / "pool").iterdir())[1], tmp_path / "one", backbone="raw")
    np.testing.assert_array_equal(np.asarray(one["features"]), raw(x)[20:40])
    some = embed(str(tmp_path / "pool" / "part-00[12]*"), tmp_path / "some", backbone="raw")
    np.testing.assert_array_equal(np.asarray(some["features"]), raw(x)[20:])


@pytest.mark.parametrize("write", [write_folder, write_tars, write_parquet])
def test_storage_that_is_no_folder_of_this_machine(tmp_path, x, write):
    """An archive opened through fsspec stands for object storage: no path in it is a path here."""
    write(tmp_path / "pool", x)
    with zipfile.ZipFile(tmp_path / "pool.zip", "w") as archive:
        for file in sorted(p for p in (tmp_path / "pool").rglob("*") if p.is_file()):
            archive.write(file, f"below/{file.relative_to(tmp_path / 'pool')}")
    inside = embed(f"zip://below::file://{tmp_path}/pool.zip", tmp_path / "a", backbone="raw", rows=20)
    outside = embed(tmp_path / "pool", tmp_path / "b", backbone="raw", rows=20)
    np.testing.assert_array_equal(np.asarray(inside["features"]), np.asarray(outside["features"]))
    assert inside.texts("id", np.arange(N)) == outside.texts("id", np.arange(N))


def test_a_data_set_by_name_and_an_array_file(tmp_path):
    pool = digits()
    shards = embed("digits", tmp_path / "a", backbone="raw", rows=500)
    expected = (pool.take(np.arange(len(pool))).flatten(1).float() / 255).half().numpy()
    np.testing.assert_array_equal(np.asarray(shards["features"]), expected)
    assert shards.texts("label", np.arange(len(pool))) == [str(y) for y in pool.labels]
    np.savez(tmp_path / "mine.npz", X=images(), ids=np.array([f"photo {i}" for i in range(N)]))
    shards = embed(tmp_path / "mine.npz", tmp_path / "b", backbone="raw", rows=7, dtype="float32")
    assert shards["features"].dtype == np.float32
    assert shards.texts("id", np.array([49, 0])) == ["photo 49", "photo 0"]
    assert shards.texts("label", np.array([49, 0])) == ["", ""]


def test_images_of_several_sizes_and_a_real_backbone(tmp_path, x):
    from PIL import Image

    write_folder(tmp_path / "photos", x[:6])
    Image.fromarray(images(1, 40)[0]).save(tmp_path / "photos" / "z.png")
    shards = embed(tmp_path / "photos", tmp_path / "out", backbone=Frozen(backbone="efficientnet-lite0", size=32))
    embedding = make_backbone(Frozen(backbone="efficientnet-lite0", size=32)).embed
    for i, name in enumerate(shards.texts("id", np.arange(7))):
        pixels = torch.from_numpy(read_image(tmp_path / "photos" / name)).movedim(2, 0)[None]
        torch.testing.assert_close(
            torch.from_numpy(shards["features"][i]).float(), embedding(pixels)[0], atol=2e-3, rtol=2e-3
        )
    with pytest.raises(InputError, match=r"differ in size, which this backbone cannot take; pass size"):
        embed(tmp_path / "photos", tmp_path / "raw", backbone="raw")
    assert embed(tmp_path / "photos", tmp_path / "raw8", backbone="raw", size=8)["features"].shape == (7, 192)


def test_damaged_images_are_left_out_and_named(tmp_path, x):
    write_folder(tmp_path / "photos", x[:9])
    (tmp_path / "photos" / "class 1" / "004.png").write_bytes(b"not an image")
    shards = embed(tmp_path / "photos", tmp_path / "out", backbone="raw", rows=4)
    assert len(shards) == 8
    assert shards.skipped() == [("class 1/004.png", "not an image, or an unknown format")]


@pytest.fixture
def learner(tmp_path):
    pool = digits()
    learner = ActiveLearner(pool, net="small-cnn", learner=Supervised(steps=5, batch=16), seed=0)
    learner.start_balanced()
    learner.fit()
    learner.save(tmp_path / "learner")
    return learner


def test_what_a_trained_network_says(tmp_path, learner):
    every = ("features", "probs", "logits", "grad_sq", "grad_dot", "grad_sq_by_class")
    shards = embed("digits", tmp_path / "out", learner=tmp_path / "learner", rows=512, columns=every, dtype="float32")
    views, N = learner.views, len(learner.pool)
    x = views.plain(torch.arange(N))
    seen = kernels.look(learner.model, x)
    stats = kernels.gradient_stats(
        learner.model, x, against=(views.plain(torch.from_numpy(learner.labelled)), learner.known_labels)
    )
    expected = {
        "features": seen.features,
        "probs": seen.logits.double().softmax(dim=1),
        "logits": seen.logits,
        "grad_sq": stats.sq,
        "grad_dot": stats.dot,
        "grad_sq_by_class": kernels.gradient_sq_by_class(learner.model, x),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(np.asarray(shards[name]), values.numpy(), rtol=2e-4, atol=1e-5, err_msg=name)
    arrays = {name: shards[name] for name in ("features", "probs")}
    picks = select("badge", 10, labelled=learner.labelled, **arrays)
    assert len(picks) == 10


def test_passes_with_dropout_are_those_of_the_whole_pool(tmp_path):
    pool = digits()
    frozen = Frozen(backbone="raw", weak=0, strong=0, dropout=0.3, cache=tmp_path)
    learner = ActiveLearner(pool, net=frozen, learner=Supervised(steps=5, batch=16), strategy="bald", seed=2)
    learner.start_balanced()
    learner.fit()
    learner.save(tmp_path / "named")
    shards = embed("digits", tmp_path / "out", learner=tmp_path / "named", rows=512, columns=["probs_by_pass"])
    assert shards["probs_by_pass"].shape == (len(pool), 20, 10)
    expected = learner.observe()["probs_by_pass"]
    np.testing.assert_allclose(np.asarray(shards["probs_by_pass"]), expected.numpy(), rtol=1e-4, atol=1e-5)
    lazy = select("bald", 10, labelled=learner.labelled, probs_by_pass=shards["probs_by_pass"])
    assert (
        lazy.indices.tolist() == select("bald", 10, labelled=learner.labelled, probs_by_pass=expected).indices.tolist()
    )


def test_images_from_files_for_a_grey_pool(tmp_path, learner):
    pool = learner.pool
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for i in range(5):
        Image.fromarray(pool.take([i])[0, 0].numpy()).save(tmp_path / "photos" / f"{i}.png")
    usual = embed(tmp_path / "photos", tmp_path / "usual", learner=tmp_path / "learner")
    assert usual.columns == ("features", "probs", "grad_sq", "grad_dot")
    shards = embed(tmp_path / "photos", tmp_path / "out", learner=tmp_path / "learner", columns=["logits"])
    expected = kernels.look(learner.model, learner.views.plain(torch.arange(5))).logits
    np.testing.assert_allclose(np.asarray(shards["logits"]), expected.numpy(), rtol=1e-4, atol=1e-5)


def tar_of(path, members):
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_tars_as_people_have_them(tmp_path, x):
    """Dots in names, names that come twice, folders, labels that are none, gzip: no image is lost."""
    members = [(f"./img.{i}.png", png(x[i])) for i in range(3)] + [("a/b.png", png(x[3])), ("a/b.png", png(x[4]))]
    members += [("c.png", png(x[5])), ("c.json", b"[1]"), ("d.png", png(x[6])), ("d.json", b'{"label": "cat"}')]
    for name in ("plain.tar", "packed.tar.gz"):
        shards = embed(tar_of(tmp_path / name, members), tmp_path / f"out {name}", backbone="raw")
        np.testing.assert_array_equal(np.asarray(shards["features"]), raw(x[:7]))
        ids = ["img.0.png", "img.1.png", "img.2.png", "a/b.png", "a/b.png#2", "c", "d"]
        assert shards.texts("id", np.arange(7)) == ids
        assert shards.texts("label", np.arange(7)) == ["", "", "", "", "", "", "cat"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: 512 * 6],  # cut between two members
        lambda whole: whole[:5000],  # inside one
        lambda whole: whole[: 512 * 6] + b"\0" * 1024 + whole[512 * 8 :],  # zeros in the middle
        lambda whole: whole[: 512 * 6] + b"x" * 512 + whole[512 * 7 :],  # a header that is none
        lambda whole: b"nonsense" * 100,
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_tars_are_refused_and_lose_nothing_without_a_word(tmp_path, x, damage, packed):
    tar = tar_of(tmp_path / "whole.tar", [(f"{i}.png", png(x[i])) for i in range(10)])
    assert tar.read_bytes()[512 * 6 : 512 * 6 + 5] == b"3.png"
    broken = damage(tar.read_bytes())
    path = tmp_path / ("broken.tar.gz" if packed else "broken.tar")
    path.write_bytes(gzip.compress(broken) if packed else broken)
    with pytest.raises(InputError, match="broken"):
        embed(path, tmp_path / "out", backbone="raw")
    assert not list((tmp_path / "out").glob("*.arrow"))


def test_a_part_without_a_readable_item_does_not_stop_the_others(tmp_path, x):
    write_folder(tmp_path / "photos", x[:9])
    (tmp_path / "photos" / "class 2" / "008.png").write_bytes(b"not an image")
    shards = embed(tmp_path / "photos", tmp_path / "out", backbone="raw", rows=4)
    assert len(shards) == 8
    assert [name for name, _ in shards.skipped()] == ["class 2/008.png"]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_bytes(b"no")
    with pytest.raises(InputError, match="expected shards with rows, got 1 without any"):
        embed(tmp_path / "bad", tmp_path / "none", backbone="raw")


def test_a_pool_that_changed_with_the_same_sizes_is_noticed(tmp_path, x):
    np.savez(tmp_path / "mine.npz", X=x)
    write_tars(tmp_path / "pool", x)
    write_folder(tmp_path / "photos", x)
    pools = [tmp_path / "mine.npz", tmp_path / "pool", tmp_path / "photos"]
    for k, pool in enumerate(pools):
        embed(pool, tmp_path / f"out {k}", backbone="raw")
    other = x[::-1].copy()
    np.savez(tmp_path / "mine.npz", X=other)
    write_tars(tmp_path / "pool", other)
    write_folder(tmp_path / "photos", other)
    for file in (path for path in tmp_path.rglob("*") if path.is_file() and not path.parent.name.startswith("out")):
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))  # the clock of the files may be coarse
    for k, pool in enumerate(pools):
        with pytest.raises(InputError, match="from another pool, or from this one before it changed"):
            embed(pool, tmp_path / f"out {k}", backbone="raw")
    again = embed(tmp_path / "mine.npz", tmp_path / "new", backbone="raw")
    np.testing.assert_array_equal(np.asarray(again["features"]), raw(other))


def test_the_same_pool_by_another_path(tmp_path, x, monkeypatch):
    write_folder(tmp_path / "photos", x[:5])
    monkeypatch.chdir(tmp_path)
    one = embed("photos", "out", backbone="raw")
    two = embed(tmp_path / "photos", tmp_path / "out", backbone="raw")
    assert one.texts("id", np.arange(5)) == two.texts("id", np.arange(5))
    assert one.texts("id", np.array([0])) == ["class 0/000.png"]
    assert embed("photos/class 0/000.png", "single", backbone="raw").texts("id", np.array([0])) == ["000.png"]
    assert len(embed("photos/class ?/00[02].png", "pattern", backbone="raw")) == 2


def test_a_table_of_images_with_a_size(tmp_path, x):
    write_folder(tmp_path / "photos", x[:6])
    rows = "".join(f"photos/class {i % 3}/{i:03d}.png,{i % 2}\n" for i in range(6))
    (tmp_path / "list.csv").write_text("path,label\n" + rows + "photos/none.png,1\n")
    shards = embed(tmp_path / "list.csv", tmp_path / "out", backbone="raw", size=4)
    assert shards["features"].shape == (6, 48)
    assert [name for name, _ in shards.skipped()] == ["photos/none.png"]
    with pytest.raises(OptionError, match="size: expected none for digits"):
        embed("digits", tmp_path / "digits", backbone="raw", size=4)


def test_what_is_no_plain_file_is_passed_over(tmp_path, x):
    write_folder(tmp_path / "photos", x[:3])
    os.mkfifo(tmp_path / "photos" / "pipe.png")
    (tmp_path / "photos" / "nowhere.png").symlink_to(tmp_path / "gone.png")
    shards = embed(tmp_path / "photos", tmp_path / "out", backbone="raw")
    assert len(shards) == 3


def test_numbers_that_half_precision_cannot_hold(tmp_path, x, monkeypatch):
    from askless.active.embedding import shard_maker

    plain = make_backbone(Frozen(backbone="raw"))
    huge = plain._replace(embed=lambda images: images.flatten(1).float() * 1000)
    monkeypatch.setattr(shard_maker, "make_backbone", lambda frozen, device: huge)
    write_tars(tmp_path / "pool", x[:3])
    with pytest.raises(InputError, match=r"expected finite numbers, got others at .*; try dtype float32"):
        embed(tmp_path / "pool", tmp_path / "out", backbone="raw")


# --- finished work is kept --------------------------------------------------------------------------------------------


def stamps(folder):
    return {f.name: (f.stat().st_ino, f.stat().st_mtime_ns) for f in folder.glob("*.arrow")}


def test_what_is_finished_is_not_done_again(tmp_path, x):
    write_tars(tmp_path / "pool", x)
    whole = np.asarray(embed(tmp_path / "pool", tmp_path / "out", backbone="raw")["features"])
    before = stamps(tmp_path / "out")
    embed(tmp_path / "pool", tmp_path / "out", backbone="raw")
    assert stamps(tmp_path / "out") == before
    (tmp_path / "out" / "shard-00001.arrow").unlink()
    with pytest.raises(InputError, match="1 of 3 shards are missing"):
        open_shards(tmp_path / "out")
    again = embed(tmp_path / "pool", tmp_path / "out", backbone="raw")
    np.testing.assert_array_equal(np.asarray(again["features"]), whole)
    now = stamps(tmp_path / "out")
    assert {k: v for k, v in now.items() if k != "shard-00001.arrow"} == {
        k: v for k, v in before.items() if k != "shard-00001.arrow"
    }


def test_a_killed_embedding_goes_on_where_it_was(tmp_path, x, run_script):
    write_tars(tmp_path / "pool", np.concatenate([x] * 4), each=5)
    (tmp_path / "killed.py").write_text(
        "import os, signal, sys, askless.active.embedding.shard_maker as m\n"
        "real, written = m.write_shard, []\n"
        "def write_shard(*given):\n"
        "    if len(written) == 5:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    written.append(real(*given))\n"
        "m.write_shard = write_shard\n"
        "from askless import embed\n"
        "embed(sys.argv[1], sys.argv[2], backbone='raw')\n"
    )
    child = run_script(tmp_path / "killed.py", tmp_path / "pool", tmp_path / "out")
    child.join()
    assert child.exitcode == -signal.SIGKILL
    before = stamps(tmp_path / "out")
    assert len(before) == 5
    shards = embed(tmp_path / "pool", tmp_path / "out", backbone="raw")
    np.testing.assert_array_equal(np.asarray(shards["features"]), raw(np.concatenate([x] * 4)))
    assert before.items() <= stamps(tmp_path / "out").items()


def test_processes_give_the_same(tmp_path, x):
    write_tars(tmp_path / "pool", x)
    shards = embed(tmp_path / "pool", tmp_path / "out", backbone="raw", workers=2)
    np.testing.assert_array_equal(np.asarray(shards["features"]), raw(x))


def test_other_settings_or_another_pool_are_refused(tmp_path, x):
    write_tars(tmp_path / "pool", x)
    embed(tmp_path / "pool", tmp_path / "out", backbone="raw")
    with pytest.raises(InputError, match="made with another dtype; use another folder"):
        embed(tmp_path / "pool", tmp_path / "out", backbone="raw", dtype="float32")
    with pytest.raises(InputError, match="made with another backbone"):
        embed(tmp_path / "pool", tmp_path / "out", backbone=Frozen(backbone="raw", size=8))
    write_tars(tmp_path / "pool", x[:-1])
    with pytest.raises(InputError, match="from another pool, or from this one before it changed"):
        embed(tmp_path / "pool", tmp_path / "out", backbone="raw")
    (tmp_path / "out" / "shards.json").unlink()
    with pytest.raises(InputError, match="expected an empty folder, got one with shard-00000"):
        embed(tmp_path / "pool", tmp_path / "out", backbone="raw")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"dtype": "int8"}, OptionError, "dtype must be one of float16, float32, got 'int8'"),
        ({"columns": ["probs"]}, OptionError, "expected some of features, got 'probs'; the others need a learner"),
        ({"columns": []}, OptionError, "got none"),
        ({"rows": 0}, InputError, "rows must be a whole number >= 1"),
        ({"gpus": 1}, OptionError, "gpus: expected 0 with the engine local"),
        ({"workers": 0}, InputError, "workers must be a whole number >= 1"),
        ({"engine": "slurm"}, OptionError, "engine: expected local or ray, got 'slurm'"),
        ({"learner": "nowhere"}, InputError, "expected a folder that ActiveLearner.save wrote"),
        (
            {"backbone": Frozen(backbone=torch.nn.Flatten())},
            OptionError,
            "expected the name of a backbone, got a module",
        ),
    ],
)
def test_bad_options(tmp_path, x, given, error, says):
    write_tars(tmp_path / "pool", x[:3])
    with pytest.raises(error, match=says):
        embed(tmp_path / "pool", tmp_path / "out", **({"backbone": "raw"} | given))


def test_bad_pools(tmp_path, x):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="found nothing there"):
        embed(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(InputError, match="found nothing there"):
        embed(tmp_path / "missing", tmp_path / "out")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.md").write_text("hello")
    with pytest.raises(InputError, match="only Parquet files, got none"):
        embed(tmp_path / "text", tmp_path / "out")
    write_tars(tmp_path / "mixed", x[:3])
    write_folder(tmp_path / "mixed", x[:3])
    with pytest.raises(InputError, match="got 1 tars and 3 images"):
        embed(tmp_path / "mixed", tmp_path / "out")
    with pytest.raises(OptionError, match="an address that fsspec can open"):
        parts_of("nonsense://bucket/photos", 10)
    write_parquet(tmp_path / "parquet", x[:3])
    table = askless.sources.shards.pyarrow().table({"text": ["a"]})
    askless.sources.shards.pyarrow().parquet.write_table(table, tmp_path / "parquet" / "part-000.parquet")
    with pytest.raises(InputError, match="expected a column image, img or bytes, got text"):
        embed(tmp_path / "parquet", tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.arrow"))


def test_a_worker_that_is_lost_for_good_is_told_of(tmp_path, x, monkeypatch):
    write_tars(tmp_path / "pool", x)

    def lose(make, tasks, hear, **options):
        hear(0, "again", "its process ended")
        hear(0, "lost", "its process ended")

    monkeypatch.setattr("askless.active.embedding.running.work", lose)
    with pytest.raises(
        AsklessError, match="a worker was lost: its process ended; finished shards are kept: run the same"
    ):
        embed(tmp_path / "pool", tmp_path / "out", backbone="raw", workers=2)


def command(*arguments):
    from askless.cli import main

    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    assert not ended.value.code


def test_the_command(tmp_path, x, capsys):
    write_tars(tmp_path / "pool", x)
    command("embed", tmp_path / "pool", "--out", tmp_path / "out", "--backbone", "raw", "--workers", 1)
    assert "50 rows in 3 shards: features" in capsys.readouterr().out
    command("select", "-n", 3, "--features", tmp_path / "out")
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "rank,index,score,id"
    assert len(rows) == 4
    assert json.loads((tmp_path / "out" / "shards.json").read_text())["format"] == 1
