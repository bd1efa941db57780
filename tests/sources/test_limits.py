"""How far a file may expand, and that every refusal names the way to raise the limit."""

import gzip
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from askless.active.embedding.sources import parts_of
from askless.base.errors import InputError, OptionError
from askless.data import load, mnist
from askless.sources import UnreadableError, image_size, read_arrays, read_image, read_texts
from askless.sources.limits import MAX_BYTES, most_bytes
from askless.sources.tars import by_key, whole_tar

BOMB = 20_000_000  # bytes of zeros
RAISE = r"expected at most 1,000,000 bytes once unpacked, got more; .* set the environment variable ASKLESS_MAX_BYTES"


@pytest.fixture
def low(monkeypatch):
    monkeypatch.setenv("ASKLESS_MAX_BYTES", "1_000_000")


def test_a_limit_is_a_whole_number(monkeypatch):
    assert most_bytes() == MAX_BYTES
    for given, meant in (("1,000", 1000), ("2_000", 2000), ("", MAX_BYTES)):
        monkeypatch.setenv("ASKLESS_MAX_BYTES", given)
        assert most_bytes() == meant
    for given in ("4 GB", "0", "-1", "1e9"):
        monkeypatch.setenv("ASKLESS_MAX_BYTES", given)
        with pytest.raises(
            OptionError, match=r"ASKLESS_MAX_BYTES: expected a whole number > 0, got '.*'; correct or unset"
        ):
            most_bytes()


def packed_tar(file, name, size, after=0):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = size
        tar.addfile(member, io.BytesIO(bytes(size)))
    file.write_bytes(gzip.compress(out.getvalue() + bytes(after), 1))


@pytest.mark.parametrize(("name", "size", "after"), [("a.png", BOMB, 0), ("a.txt", BOMB, 0), ("a.txt", 3, BOMB)])
def test_a_packed_tar(tmp_path, low, name, size, after):
    """A large image, a large label, and zeros behind the end."""
    packed_tar(tmp_path / "a.tar.gz", name, size, after)
    assert (tmp_path / "a.tar.gz").stat().st_size < 500_000
    for read in (load, lambda file: [list(part.read(None)) for part in parts_of(str(file), 10)]):
        with pytest.raises(InputError, match=RAISE):
            read(tmp_path / "a.tar.gz")


def test_a_tar_that_sends_its_reader_back(tmp_path):
    """A size below nothing leads back to the same header: tarfile goes round for ever, as of Python 3.13.5."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("a.txt", "b.txt"):
            tar.addfile(tarfile.TarInfo(name))
    content = bytearray(out.getvalue())
    content[512 + 124 : 512 + 136] = (-1024).to_bytes(12, "big", signed=True)
    content[512 + 148 : 512 + 156] = b" " * 8
    content[512 + 148 : 512 + 156] = b"%06o\0 " % sum(content[512:1024])
    with (
        pytest.raises(tarfile.ReadError, match="a header of -1,024 bytes"),
        whole_tar(io.BytesIO(content), "a.tar") as tar,
    ):
        list(by_key(tar))
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(InputError, match="expected a complete tar file, got one that cannot be read"):
        load(tmp_path / "a.tar")


def test_headers_of_headers_in_a_tar(tmp_path):
    """tarfile goes into each by a call."""
    note = tarfile.TarInfo("note")
    note.type = tarfile.XHDTYPE
    (tmp_path / "a.tar").write_bytes(note.tobuf(tarfile.USTAR_FORMAT) * 3000 + bytes(1024))
    with pytest.raises(InputError, match=r"cannot be read \(a header that cannot be read \(RecursionError\)\)"):
        load(tmp_path / "a.tar")
    note.size = 10_000_000
    (tmp_path / "a.tar").write_bytes(note.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    with pytest.raises(InputError, match="a header of 10,000,000 bytes"):
        load(tmp_path / "a.tar")


def test_an_npz_file(tmp_path, low):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((BOMB // 8, 1)))
    for read in (read_arrays, load):
        with pytest.raises(InputError, match=RAISE):
            read(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", X=np.zeros((BOMB // 8, 1)))  # takes that much on disk, too
    assert read_arrays(tmp_path / "a.npz").array.shape == load(tmp_path / "a.npz").x.shape == (BOMB // 8, 1)


def test_a_parquet_file(tmp_path, low):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for columns in ({"text": ["x" * 10_000] * 2000}, {"text": arrow.nulls(100_000, arrow.string())}):
        parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
        assert (tmp_path / "a.parquet").stat().st_size < 20_000
        for read in (lambda file: read_texts(file).read(), load):
            with pytest.raises(InputError, match=RAISE):
                read(tmp_path / "a.parquet")


def test_an_idx_file(tmp_path, low):
    for name, shape in (("train-images-idx3", (BOMB, 1, 1)), ("train-labels-idx1", (1,)), ("t10k-images-idx3", (1, 1, 1)),
                        ("t10k-labels-idx1", (1,))):  # fmt: skip
        head = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
        (tmp_path / f"{name}-ubyte.gz").write_bytes(gzip.compress(head + bytes(shape[0]), 1))
    with pytest.raises(InputError, match=RAISE):
        mnist(tmp_path)


def test_an_image(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow's own, and what is put there
    Image.new("1", (100, 100)).save(tmp_path / "a.png")
    for read in (read_image, image_size):
        with pytest.raises(
            UnreadableError, match=r"more than 1000 pixels .* the environment variable ASKLESS_MAX_PIXELS"
        ):
            read(tmp_path / "a.png")
    monkeypatch.setenv("ASKLESS_MAX_PIXELS", "10_000")
    assert image_size(tmp_path / "a.png") == (100, 100)
    assert read_image(tmp_path / "a.png").shape == (100, 100, 3)
