from askless.run.steps.worker import tidy


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
    tidy(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["model/file", "rounds/001/file", "rounds/002/file"]
