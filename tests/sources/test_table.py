import pytest
from PIL import Image

from askless.base.errors import InputError
from askless.data import csv, imagefolder


@pytest.fixture
def root(tmp_path):
    for i, name in enumerate(("a.png", "b.png", "sub/c.png", "d,e.png")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (i, i, i)).save(tmp_path / name)
    return tmp_path


def write(root, text, name="list.csv"):
    (root / name).write_text(text, encoding="utf-8")
    return root / name


def test_paths_and_labels_are_read_and_other_columns_kept(root):
    pool = csv(write(root, 'path,label,group\nb.png,dog,g1\nsub/c.png,,g2\n"d,e.png",cat,g1\n'))
    assert pool.ids == ("b.png", "sub/c.png", "d,e.png")
    assert pool.classes == ("cat", "dog")
    assert pool.labels.tolist() == [1, -1, 0]
    assert pool.x[:, 0, 0, 0].tolist() == [1, 2, 3]
    assert pool.columns == {"group": ("g1", "g2", "g1")}
    assert pool.name == "list"


@pytest.mark.parametrize("path_name", ["file_name", "filename", "image", "file", "Path"])
@pytest.mark.parametrize("label_name", ["class", "category", "target"])
def test_other_column_names_are_accepted(root, path_name, label_name):
    assert csv(write(root, f"{label_name},{path_name}\nx,a.png\n")).labels.tolist() == [0]


def test_tabs_semicolons_and_a_byte_order_mark_are_understood(root):
    for text in ("path\tlabel\na.png\tx\n", "path;label\na.png;x\n", "\ufeffpath,label\r\na.png,x\r\n"):
        pool = csv(write(root, text))
        assert (pool.ids, pool.classes) == (("a.png",), ("x",))


def test_without_labels_nothing_is_known(root):
    pool = csv(write(root, "path\na.png\nb.png\n"))
    assert pool.labels.tolist() == [-1, -1]
    assert pool.classes is None


def test_the_order_of_classes_can_be_fixed_and_numbers_are_ordered_as_numbers(root):
    manifest = write(root, "path,label\na.png,10\nb.png,9\n")
    assert csv(manifest).classes == ("9", "10")
    assert csv(manifest, classes=["10", "9", "8"]).labels.tolist() == [0, 1]
    with pytest.raises(InputError, match="label '9' of item 1 is not one of the classes 10; add the class"):
        csv(manifest, classes=["10"])


def test_rows_marked_test_are_held_out(root):
    pool = csv(write(root, "path,label,split\na.png,x,train\nb.png,y,test\nsub/c.png,,\n"))
    assert pool.ids == ("a.png", "sub/c.png")
    assert pool.test[1].tolist() == [1]
    assert pool.columns["split"] == ("train", "")


def test_missing_and_damaged_files_are_listed(root):
    (root / "broken.png").write_text("no")
    pool = csv(write(root, "path,label\na.png,x\nabsent.png,y\nbroken.png,x\n"))
    assert pool.ids == ("a.png",)
    assert pool.skipped == (("absent.png", "no such file"), ("broken.png", "not an image, or an unknown format"))


def test_absolute_paths_and_lazy_reading_work(root):
    manifest = write(root, f"path,label\n{root / 'b.png'},x\n")
    assert csv(manifest, lazy=True).take([0])[0, 0, 0, 0] == 1
    assert csv(manifest, size=2).shape == (3, 2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,label\na.png,x\n", "expected a column path or file_name or .*, got name, label; rename one of them"),
        ("path,label\n", "expected a header and at least one row, got path, label and no row"),
        ("path,label\na.png,x\nb.png,x\na.png,y\n", "expected each file once, got 'a.png' in rows 2 and 4; drop one"),
        ("path,label\nz.png,x\n", "found none; 1 left out, the first, z.png: no such file"),
        ("path,label\nd,e.png,x\n", "line 2 has 3 fields and the header 2; quote cells that contain commas"),
        ("path,label\na.png\n", "line 2 has 1 fields and the header 2"),
        ("path,label,split\na.png,x,\nb.png,,test\n", "expected a label for every test row, 'b.png' has none"),
        ("path,label,split\na.png,x,test\n", "list: expected items for the pool, got only 1 for test"),
    ],
)
def test_wrong_manifests_are_refused(root, text, message):
    with pytest.raises(InputError, match=message):
        csv(write(root, text))


def test_an_absent_or_binary_manifest_is_refused(root):
    with pytest.raises(InputError, match="expected a CSV file with the columns path and label, found nothing there"):
        csv(root / "absent.csv")
    (root / "latin.csv").write_bytes(b"path,label\n\xe9.png,x\n")
    with pytest.raises(InputError, match="expected UTF-8 text"):
        csv(root / "latin.csv")


def test_json_in_json_is_refused_and_no_more(tmp_path):
    for n in range(900, 1000, 5):  # some of these parse, and are not written again
        deep = "[" * n + "]" * n
        (tmp_path / "metadata.jsonl").write_text(f'{{"file_name": "a.png", "label": {deep}, "more": {deep}}}\n')
        with pytest.raises(InputError):
            imagefolder(tmp_path)
