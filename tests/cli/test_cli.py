import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import askless as al
from askless.cli import main


@pytest.fixture
def arrays(tmp_path):
    """Arrays in memory and in files, singly and in one archive."""
    rng = np.random.default_rng(0)
    made = {
        "features": rng.normal(size=(80, 6)).astype(np.float32),
        "probs": rng.dirichlet(np.ones(3), size=80),
        "labelled": np.array([4, 9, 11]),
    }
    for name, array in made.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez(tmp_path / "all.npz", **made)
    (tmp_path / "labelled.csv").write_text("index,label\n4,0\n9,1\n11,0\n")
    return made


def run(capsys, *arguments):
    """Exit code, standard output and standard error of the command line."""
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_select_from_a_parquet_file(capsys, arrays, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = arrays["features"].tolist()
    parquet.write_table(arrow.table({"vector": rows}), tmp_path / "v.parquet")
    code, out, _ = run(capsys, "select", "--strategy", "coreset", "-n", 5, "--features", tmp_path / "v.parquet")
    assert code == 0
    assert read_picks(out) == al.select("coreset", 5, features=arrays["features"], seed=0).indices.tolist()
    parquet.write_table(arrow.table({"vector": [*rows, None]}), tmp_path / "v.parquet")
    code, _, err = run(capsys, "select", "--strategy", "coreset", "-n", 5, "--features", tmp_path / "v.parquet")
    assert code == 3
    assert "row 80 is invalid (no features); fix it" in err


def test_select_takes_the_vectors_of_a_parquet_file_or_the_column_that_is_named(capsys, arrays, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = arrays["features"].tolist()
    others = {"image": [b"x"] * 80, "text": ["a"] * 80, "label": [0] * 80}
    command = ("select", "--strategy", "coreset", "-n", 5, "--features", tmp_path / "v.parquet")
    wanted = al.select("coreset", 5, features=arrays["features"], seed=0).indices.tolist()
    parquet.write_table(arrow.table({**others, "vector": rows}), tmp_path / "v.parquet")
    code, out, _ = run(capsys, *command)
    assert (code, read_picks(out)) == (0, wanted)
    parquet.write_table(arrow.table({**others, "small": [r[:2] for r in rows], "vector": rows}), tmp_path / "v.parquet")
    code, _, err = run(capsys, *command)
    assert code == 3
    assert "small and vector could be the features; pass one, as --column small" in err
    code, out, _ = run(capsys, *command, "--column", "vector")
    assert (code, read_picks(out)) == (0, wanted)
    for name, got in (("image", "got binary"), ("nothing", "got none of that name among image, text, label, small")):
        code, _, err = run(capsys, *command, "--column", name)
        assert code == 3
        assert f"expected a column '{name}' of lists of floats, {got}" in err
    parquet.write_table(arrow.table(others), tmp_path / "v.parquet")
    assert "expected a column of lists of floats, got image, text, label" in run(capsys, *command)[2]


def test_a_column_is_for_parquet_only(capsys, arrays, tmp_path):
    np.save(tmp_path / "f.npy", arrays["features"])
    for features in (("--features", tmp_path / "f.npy"), ("--pool", 9), ("--features", tmp_path)):
        code, _, err = run(capsys, "select", "--strategy", "random", "-n", 5, *features, "--column", "vector")
        assert code == 2, err
        assert "--column names a column of --features FILE.parquet, got" in err


def read_picks(text):
    rows = list(csv.DictReader(text.splitlines()))
    assert [int(r["rank"]) for r in rows] == list(range(len(rows)))
    return [int(r["index"]) for r in rows]


def test_select_from_files_reproduces_select_from_arrays(capsys, arrays, tmp_path):
    expected = al.select("npc", 5, features=arrays["features"], labelled=[4, 9, 11], seed=3).indices.tolist()
    for labelled in ("labelled.npy", "labelled.csv"):
        code, out, err = run(
            capsys, "select", "--strategy", "npc", "-n", 5, "--features", tmp_path / "features.npy",
            "--labelled", tmp_path / labelled, "--seed", 3,
        )  # fmt: skip
        assert code == 0
        assert read_picks(out) == expected
        assert "5 picks by npc" in err
        assert "lambda_min" in err


def test_select_from_one_archive_with_options_into_a_file(capsys, arrays, tmp_path):
    strategy = al.NPC(draws=77, score="schur", normalize=True)
    expected = al.select(strategy, 4, features=arrays["features"], labelled=[4, 9, 11]).indices.tolist()
    code, out, err = run(
        capsys, "select", "--strategy", "npc", "-n", 4, "--arrays", tmp_path / "all.npz", "--option", "draws=77",
        "--option", "score=schur", "--option", "normalize=true", "--out", tmp_path / "picks.csv",
    )  # fmt: skip
    assert (code, out) == (0, "")
    assert read_picks((tmp_path / "picks.csv").read_text()) == expected
    assert "picks.csv" in err
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_a_mark_and_blank_lines_in_a_csv_are_no_items(capsys, arrays, tmp_path):
    from askless.cli.files import read_column

    for text in (
        "\ufeffindex,label\n4,0\n\n9,1\n",
        "\ufeff4\n9\n",
        "positions\n4\n9\n",
        "\n4\n\n9\n",
        "label,index\n0,4\n1,9\n",
    ):
        (tmp_path / "l.csv").write_text(text, encoding="utf-8")
        assert read_column(tmp_path / "l.csv", "labelled").tolist() == [4, 9]
    (tmp_path / "l.csv").write_text("\n4\n\nx\n")
    with pytest.raises(al.InputError, match="line 4, got 'x'"):
        read_column(tmp_path / "l.csv", "labelled")


def test_a_pipe_is_written_through_and_not_replaced(capsys, arrays, tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    command = ("select", "-n", 2, "--features", tmp_path / "features.npy", "--out", tmp_path / "pipe")
    code, _, err = run(capsys, *command)
    assert (code, "this pipe has no reader; start the reader first" in err) == (3, True)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run(capsys, *command)[0] == 0
    assert (tmp_path / "pipe").is_fifo()
    assert len(read_picks(os.read(reader, 10_000).decode())) == 2
    os.close(reader)
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    run(capsys, "select", "-n", 2, "--features", tmp_path / "features.npy", "--out", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len(read_picks((tmp_path / "real.csv").read_text())) == 2


def test_a_learning_strategy_keeps_its_memory_in_a_file(capsys, arrays, tmp_path):
    common = ("--strategy", "albl", "-n", 3, "--arrays", tmp_path / "all.npz", "--state", tmp_path / "albl.json")
    code, out, err = run(capsys, "select", *common)
    assert code == 0, err
    first = read_picks(out)
    (tmp_path / "told.csv").write_text("index,label\n" + "".join(f"{i},0\n" for i in [4, 9, 11, *first]))
    told = ("--labelled", tmp_path / "told.csv", "--labels", tmp_path / "told.csv")
    code, out, err = run(capsys, "select", *common, *told)
    assert code == 0, err
    state = json.loads((tmp_path / "albl.json").read_text())
    assert [len(past["indices"]) for past in state] == [3, 3]
    assert state[1]["info"]["log_weights"] != [0, 0]
    before = {"log_weights": [0, 0], "probabilities": [0.5, 0.5], "arm": 1, "batch": first}
    before["asked"] = dict.fromkeys(map(str, first), 0.5)  # as an older askless wrote it
    (tmp_path / "albl.json").write_text(json.dumps(before))
    assert run(capsys, "select", *common, *told)[0] == 0
    again = json.loads((tmp_path / "albl.json").read_text())
    assert again[-1]["info"]["log_weights"] != [0, 0]
    assert not set(first) & set(read_picks(out))


def test_scores_are_written_where_there_are_some(capsys, arrays, tmp_path):
    _, out, _ = run(capsys, "select", "--strategy", "margin", "-n", 2, "--probs", tmp_path / "probs.npy")
    scores = [float(r["score"]) for r in csv.DictReader(out.splitlines())]
    assert scores == al.select("margin", 2, probs=arrays["probs"]).scores.tolist()


def test_logits_in_files_stand_in_for_probabilities(capsys, arrays, tmp_path):
    logits = np.log(arrays["probs"]) - 7
    np.save(tmp_path / "logits.npy", logits)
    np.savez(tmp_path / "logits.npz", features=arrays["features"], logits=logits)
    for name in ("margin", "entropy", "confidence", "badge", "egl", "albl"):
        expected = al.select(name, 4, features=arrays["features"], probs=arrays["probs"]).indices.tolist()
        features = ("--features", tmp_path / "features.npy")
        for given in ((*features, "--logits", tmp_path / "logits.npy"), ("--arrays", tmp_path / "logits.npz")):
            code, out, err = run(capsys, "select", "--strategy", name, "-n", 4, *given)
            assert code == 0, err
            assert read_picks(out) == expected


def test_strategies_lists_every_strategy_with_its_arrays(capsys):
    code, out, _ = run(capsys, "strategies")
    assert code == 0
    for name in al.acquire.STRATEGIES:
        assert name in out
    for word in ("features", "probs", "grad_dot", "Ash et al."):
        assert word in out


def test_version_and_help(capsys):
    assert run(capsys, "--version")[1].strip() == f"askless {al.__version__}"
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in ("select", "strategies", "demo"):
        assert command in out


BAD = [
    (["select", "-n", 5, "--strategy", "nonsense"], 2, "the known ones are askless, random, confidence"),
    (
        ["select", "-n", 5, "--features", "{}/features.npy", "--option", "drawz=3"],
        2,
        "Askless: got drawz; its options are",
    ),
    (["select", "-n", 5, "--features", "{}/features.npy", "--option", "draws"], 2, "expected an option as name=value"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--max-memory", "lots"], 2, "expected a size such as 256MB"),
    (["select", "-n", 5], 3, "askless needs features (N, d), one vector per item, which are missing"),
    (["select", "-n", 500, "--features", "{}/features.npy"], 3, "n = 500 exceeds the 80 unlabelled items"),
    (["select", "-n", 5, "--features", "{}/nowhere.npy"], 3, "nowhere.npy: no such file; looked in {}: check the name"),
    (["select", "-n", "abc", "--features", "{}/features.npy"], 2, "'abc'"),
    (["select", "-n", 5, "--features", "{}/objects.npy"], 3, "never unpickles"),
    (["select", "-n", 5, "--arrays", "{}/objects.npz"], 3, "never unpickles"),
    (["select", "-n", 5, "--features", "{}/text.npy"], 3, "never unpickles"),
    (["select", "-n", 5, "--features", "{}/cut.npy"], 3, "expected an .npy file with a plain array"),
    (["select", "-n", 5, "--features", "{}/all.npz"], 3, "pass it as --arrays"),
    (["select", "-n", 5, "--arrays", "{}/features.npy"], 3, "expected a .npz archive"),
    (["select", "-n", 5, "--arrays", "{}/other.npz"], 3, "expected arrays named features"),
    (["select", "-n", 5, "--features", "{}/labelled.csv"], 3, "expected a .npy file for features"),
    (
        ["select", "-n", 5, "--features", "{}/features.npy", "--labelled", "{}/names.csv"],
        3,
        "expected a column 'index'",
    ),
    (["select", "-n", 5, "--features", "{}/features.npy", "--labelled", "{}/words.csv"], 3, "line 3, got 'two'"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--labelled", "{}/gone.csv"], 3, "no such file"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--out", "{}/no/picks.csv"], 3, "does not exist"),
    (["select", "-n", 5, "--arrays", "{}/cut.npz"], 3, "expected an .npz file of plain arrays"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--labelled", "{}/latin.csv"], 3, "text file in UTF-8"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--labelled", "{}/huge.csv"], 3, "whole number in line 2"),
    (
        ["select", "-n", 5, "--features", "{}/features.npy", "--labelled", "{}/float.csv"],
        3,
        "in line 1, got '3.0'; write whole",
    ),
    (
        ["select", "-n", 5, "--features", "{}/features.npy", "--labels", "{}/cats.csv"],
        3,
        "got 'cat'; number the classes",
    ),
    (["select", "-n", 5, "--features", "{}/features.npy", "--labelled", "{}/bare.csv"], 3, "name the columns"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--out", "{}"], 3, "got a folder"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--option", "name=x"], 2, "Askless: got name"),
    (["select", "-n", 5, "--features", "{}/features.npy", "--option", "targets={{[]:1}}"], 3, "targets must be"),
    (
        ["select", "-n", 5, "--features", "{}/features.npy", "--state", "{}/s.json"],
        2,
        "--state: askless does not learn from earlier picks",
    ),
    (
        ["select", "-n", 5, "--strategy", "albl", "--state", "{}/words.csv"],
        3,
        "expected a state file written by askless",
    ),
    (["select"], 2, "-n"),
    (["selekt"], 2, "selekt"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD, ids=[" ".join(map(str, b[0]))[:60] for b in BAD])
def test_bad_input_ends_with_a_sentence_and_a_code(capsys, arrays, tmp_path, arguments, code, message):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}, None], dtype=object))
    np.savez(tmp_path / "objects.npz", features=np.array([{"a": 1}, None], dtype=object))
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "text.npy").write_text("this is not an array")
    whole = (tmp_path / "features.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[: len(whole) // 2])
    zipped = (tmp_path / "all.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(zipped[: len(zipped) // 2])
    (tmp_path / "latin.csv").write_bytes(b"index\n\xe9\n")
    (tmp_path / "huge.csv").write_text("index\n99999999999999999999\n")
    (tmp_path / "float.csv").write_text("3.0\n8\n")
    (tmp_path / "cats.csv").write_text("index,label\n3,cat\n")
    (tmp_path / "bare.csv").write_text("0,3\n1,8\n")
    (tmp_path / "names.csv").write_text("file,class\na.png,3\n")
    (tmp_path / "words.csv").write_text("index\n1\ntwo\n")
    got, _, err = run(capsys, *(str(a).format(tmp_path) for a in arguments))
    assert got == code
    assert message.replace("{}", str(tmp_path)) in err
    assert "Traceback" not in err


def test_the_installed_command_runs_without_developers_tools():
    # Everything the command line imports is declared: with the developers' tools hidden it still starts.
    script = (
        "import sys\n"
        "for name in ('pytest', 'xdist', 'ruff', 'mypy'): sys.modules[name] = None\n"
        "from askless.cli import main\n"
        "main(['strategies'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "npc" in done.stdout


def test_python_dash_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "askless", "--version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, f"askless {al.__version__}")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("askless stra", {"strategies"}),
        ("askless select --strategy n", {"npc"}),
        ("askless bench r", {"run", "report"}),
    ],
)
def test_a_shell_completes_commands_and_strategies(typed, offered):
    words = {"_ASKLESS_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "askless"], env=os.environ | words, capture_output=True, text=True, timeout=120
    )
    assert set(done.stdout.split()) == offered, done.stderr


def test_data_list_and_fetch(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path))
    code, out, _ = run(capsys, "data", "list")
    assert code == 0
    for name in ("digits", "fashion-mnist", "cifar-10"):
        assert name.split("-")[0] in out.lower()
    code, _, err = run(capsys, "data", "fetch", "digits")
    assert code == 3
    assert "needs no fetching" in err
    code, _, err = run(capsys, "data", "fetch", "nonsense")
    assert code in (2, 3)
    assert "nonsense" in err


# --- shards -----------------------------------------------------------------------------------------------------------


def test_select_reads_a_folder_of_shards_and_says_so(capsys, arrays, tmp_path):
    from askless.sources.shards import write_shard

    for k in range(4):
        some = slice(20 * k, 20 * k + 20)
        ids = [f"photo {i}, left" for i in range(some.start, some.stop)]
        part = {"features": arrays["features"][some], "probs": arrays["probs"][some]}
        write_shard(tmp_path / "shards" / f"{k}.arrow", {"id": ids, **part})
    files = ["--arrays", tmp_path / "all.npz"]
    shards = ["--features", tmp_path / "shards", "--labelled", tmp_path / "labelled.csv"]
    for strategy in ("askless", "badge", "margin", "random"):
        _, expected, _ = run(capsys, "select", "--strategy", strategy, "-n", 5, *files, "--pool", 80)
        code, out, err = run(capsys, "select", "--strategy", strategy, "-n", 5, *shards)
        assert code == 0, err
        assert read_picks(out) == read_picks(expected)
        assert all(row["id"] == f"photo {row['index']}, left" for row in csv.DictReader(out.splitlines()))
        assert "read from 4 shards with 80 rows; the picks are the same as in memory" in err
    _, _, err = run(capsys, "select", "--strategy", "margin", "-n", 5, "--parts", 4, *shards)
    assert "in two levels" in err
    code, _, err = run(capsys, "select", "-n", 5, "--max-memory", "100MB", *shards)
    assert code != 0
    assert "max_memory: expected at least 0.6 GB for 80 items, got 0.1 GB" in err
