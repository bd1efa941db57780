from askless.run.steps.worker import catch_up, clean_up_after_kill


def test_what_a_kill_left_half_done_is_cleaned_away(tmp_path):
    for name in (
        ".model.making",
        "rounds/.001.making",
        ".model.askless-old",
        "rounds/.002.askless-old",
        "model",
        "rounds/001",
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    clean_up_after_kill(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["model/file", "rounds/001/file", "rounds/002/file"]


def test_without_a_page_the_first_batch_does_not_wait_for_what_only_training_needs(shapes, tmp_path):
    with shapes.start(tmp_path / "run", learner="fixmatch") as run:
        steps = []
        catch_up(run, lambda step, *_: steps.append(step))
        assert list(dict.fromkeys(steps)) == ["embedding", "comparing", "choosing"]
        assert steps[-1] == "choosing"
        assert run.waiting()
        shapes.tell(run)
        steps.clear()
        catch_up(run, lambda step, *_: steps.append(step))
        assert list(dict.fromkeys(steps)) == ["embedding", "training", "choosing"]
