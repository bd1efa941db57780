"""What goes wrong around a run: images that are away, a cache that was deleted, labels that come at the wrong moment."""

import shutil

import numpy as np
import pytest
from PIL import Image

from askless.run import Run, RunError
from askless.run.out.gather import account_of
from askless.run.steps import one_round
from askless.run.store.importing import import_answers


def test_images_that_are_away_while_they_are_read_are_not_marked_as_damaged(own_shapes, tmp_path):
    with own_shapes.start(tmp_path / "run") as run:
        away = own_shapes.folder.rename(tmp_path / "away")
        with pytest.raises(RunError, match="put them back"):
            run.advance()
        own_shapes.folder.mkdir()  # as where a disk is not mounted
        with pytest.raises(RunError, match="put them back"):
            run.advance()
        own_shapes.folder.rmdir()
        away.rename(own_shapes.folder)
        own_shapes.finish(run)
        assert len(run.readable()) == len(own_shapes.truth)


def test_a_run_whose_images_are_away_trains_on_what_it_has_seen_of_them(own_shapes, tmp_path):
    with own_shapes.start(tmp_path / "run") as run:
        while run.advance(ahead=False):
            pass
        own_shapes.folder.rename(tmp_path / "away")
        assert not (run.folder / "cache" / "views").exists()
        own_shapes.finish(run)
        assert run.is_finished()
        assert not (run.folder / "cache" / "views").exists()
        assert account_of(run).measure is not None


def test_a_cache_that_was_deleted_is_made_again(own_shapes, tmp_path):
    with own_shapes.start(tmp_path / "run", budget=10, learner="fixmatch") as run:
        own_shapes.finish(run)
    shutil.rmtree(tmp_path / "run" / "cache")
    with Run.open(tmp_path / "run") as run:
        with run.store.look() as db:
            before = [r["split"] for r in db.execute("SELECT split FROM item ORDER BY id")]
        run.set_budget("more-labels", "ann", 20)
        assert own_shapes.finish(run)[:4] == ["embedding", "comparing", "embedding", "choosing"]
        assert account_of(run).progress.spent == 20
        with run.store.look() as db:
            after = [r["split"] for r in db.execute("SELECT split FROM item ORDER BY id")]
        assert [s == "pool" for s in after] == [s == "pool" for s in before]


def film(folder, scenes=3, frames=20):
    """Frames that hardly differ within a scene."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for s in range(scenes):
        still = rng.integers(0, 256, (16, 16, 3))
        for f in range(frames):
            noisy = np.clip(still + rng.normal(0, 1, still.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"{s}-{f:02d}.png")
    return folder


def test_where_everything_looks_like_a_check_image_it_is_said(tmp_path):
    options = {"classes": ("0", "1", "2"), "net": "frozen:raw", "steps": 5, "budget": 30, "batch": 8}
    with Run.create(film(tmp_path / "film"), tmp_path / "run", **options) as run:
        while run.advance():
            pass
        run.tell({path: path[0] for path in run.waiting()})
        found = account_of(run)
    assert found.progress.spent > 0
    assert any("look like check images, which may flatter" in reason for reason in found.advice.reasons)


def test_look_alikes_that_are_kept_out_are_listed(own_shapes, tmp_path):
    with own_shapes.start(tmp_path / "run") as run, run.store.look() as db:
        check = [run.paths[r["id"]] for r in db.execute("SELECT id FROM item WHERE split = 'check'")]
        copied = next(path for path in run.paths if path not in check)
        pixels = np.array(Image.open(own_shapes.folder / check[0]))
    pixels[0, 0] = 255 - pixels[0, 0]
    Image.fromarray(pixels).save(own_shapes.folder / copied)
    with Run.open(tmp_path / "run") as run:
        run.advance(), run.advance()
    listed = (tmp_path / "run" / "skipped.csv").read_text()
    assert f"{copied},look-alike," in listed


def test_equal_rows_of_features_are_kept_from_the_check_rows(tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", X=np.concatenate([rows, rows]))
    options = {"classes": ("a", "b"), "steps": 5, "budget": 10, "batch": 4}
    with Run.create(tmp_path / "rows.npz", tmp_path / "run", **options) as run:
        while run.advance():
            pass
        with run.store.look() as db:
            split = [r["split"] for r in db.execute("SELECT split FROM item ORDER BY id")]
    held = {i % 40 for i, s in enumerate(split) if s in ("check", "reserve")}
    assert held
    assert all(i % 40 not in held for i, s in enumerate(split) if s == "pool")


def test_labels_that_come_in_while_a_batch_is_chosen_are_not_asked_again(own_shapes, tmp_path, monkeypatch):
    with own_shapes.start(tmp_path / "run", budget=20, batch=5) as run:
        run.advance(), run.advance()
        next_batch, seen = one_round.next_batch, []

        def choose_and_import(*arguments):
            picks, info = next_batch(*arguments)
            if not seen:
                seen.append(picks[0].item)
                given = [(run.paths[picks[0].item], "red")]
                with run.store.change() as db:
                    import_answers(db, "import-00000001", "bo", given, overlap=1)
            return picks, info

        monkeypatch.setattr(one_round, "next_batch", choose_and_import)
        assert run.advance() == "choosing"
        assert run.paths[seen[0]] not in run.waiting()
        own_shapes.finish(run)
        assert run.is_finished()


def test_labels_of_one_class_only_are_told_as_the_reason(own_shapes, tmp_path):
    with own_shapes.start(tmp_path / "run", budget=10, batch=4) as run:
        while run.advance():
            pass
        run.tell(dict.fromkeys(run.waiting(), "red"))
        advice = account_of(run).advice.text
    assert "all labels so far are of one class" in advice
    assert "not measured (no model yet)" in advice
