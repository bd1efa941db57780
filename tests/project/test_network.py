from pathlib import Path

import pytest

from askless.project.store import Store, on_network

MOUNTS = """/dev/sda1 / ext4 rw 0 0
server:/export /mnt/net nfs4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
/dev/sdb1 /mnt/net/local xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ann/run", False),
        ("/mnt/net/run", True),
        ("/mnt/net/local/run", False),
        ("/mnt/my share/run", True),
        ("/mnt/network/run", False),
    ],
)
def test_a_network_disk_is_known_by_its_mount(tmp_path, path, expected):
    (tmp_path / "mounts").write_text(MOUNTS)
    assert on_network(Path(path), tmp_path / "mounts") is expected


def test_without_a_list_of_mounts_the_disk_counts_as_local(tmp_path):
    assert on_network(tmp_path, tmp_path / "none") is False


def test_on_a_network_disk_the_other_journal_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr("askless.project.store.on_network", lambda path: True)
    store = Store(tmp_path / "state.sqlite", create=True)
    with store.change() as db:
        db.execute("INSERT INTO meta VALUES ('a', '1')")
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    with store.look() as db:
        assert db.execute("SELECT value FROM meta").fetchone()[0] == "1"
    store.close()
    assert [p.name for p in tmp_path.iterdir()] == ["state.sqlite"]
