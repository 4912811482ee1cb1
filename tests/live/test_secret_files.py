"""The files of an SQLite database and of its secret: other users of the machine get nothing from them."""

import os
import stat

import pytest
from stored_secrets import HALF, click, opened, show

from multileave.live.access.secret_file import SecretFile
from multileave.live.errors import Invalid


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_the_database_and_its_journals_are_created_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        service = opened(f"sqlite:///{tmp_path}/store.db")
        service.create(HALF)
        assert {path.name: mode(path) for path in tmp_path.iterdir()} == dict.fromkeys(
            ("store.db", "store.db-wal", "store.db-shm", "store.db.secret"), 0o600
        )
        assert service.warnings == ()
        service.close()
    finally:
        os.umask(before)


def test_a_database_with_a_uri_is_created_for_its_owner_alone(tmp_path):
    opened(f"sqlite:///file:{tmp_path}/store.db?mode=rwc&uri=true").close()
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {"store.db": 0o600, "store.db.secret": 0o600}


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604, 0o660])
def test_a_database_that_others_can_read_is_warned_about(tmp_path, bits):
    opened(f"sqlite:///{tmp_path}/store.db").close()
    os.chmod(tmp_path / "store.db", bits)
    service = opened(f"sqlite:///{tmp_path}/store.db")
    service.close()
    assert "store.db can be read by other users" in " ".join(service.warnings)
    assert "chmod 600" in " ".join(service.warnings)


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604, 0o620])
def test_a_secret_that_others_can_read_or_write_is_refused(tmp_path, bits):
    opened(f"sqlite:///{tmp_path}/store.db").close()
    os.chmod(tmp_path / "store.db.secret", bits)
    with pytest.raises(Invalid, match=r"store\.db\.secret can be read or changed by other users.*chmod 600"):
        opened(f"sqlite:///{tmp_path}/store.db")


def test_a_secret_that_is_a_link_or_no_file_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("chosen by an attacker\n")
    os.chmod(elsewhere, 0o600)
    (tmp_path / "store.db.secret").symlink_to(elsewhere)
    with pytest.raises(Invalid, match="symbolic link"):
        opened(f"sqlite:///{tmp_path}/store.db")
    (tmp_path / "store.db.secret").unlink()
    os.mkfifo(tmp_path / "store.db.secret", 0o600)
    with pytest.raises(Invalid, match="not a regular file"):
        opened(f"sqlite:///{tmp_path}/store.db")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_secret_of_another_user_is_refused(tmp_path):
    (tmp_path / "store.db.secret").write_text("chosen by an attacker\n")
    os.chmod(tmp_path / "store.db.secret", 0o600)
    os.chown(tmp_path / "store.db.secret", 65534, 65534)
    with pytest.raises(Invalid, match="belongs to another user"):
        opened(f"sqlite:///{tmp_path}/store.db")


@pytest.mark.parametrize("text", ["", "\n \n", "short\n", "x" * 16 + "\nshort\n", "\xff" * 20, "x" * 100_000])
def test_a_secret_file_with_anything_else_in_it_is_refused_without_repeating_it(tmp_path, text):
    path = tmp_path / "store.db.secret"
    path.write_text(text, encoding="latin-1")
    os.chmod(path, 0o600)
    with pytest.raises(Invalid, match=r"store\.db\.secret") as raised:
        SecretFile(path).read()
    assert "short" not in str(raised.value)
    assert "xxxx" not in str(raised.value)


def test_a_database_under_two_names_has_one_secret(tmp_path):
    (tmp_path / "real").mkdir()
    first = opened(f"sqlite:///{tmp_path}/real/store.db")
    number = first.create(HALF.changed(share=1.0)).number
    first.start(number)
    impression = show(first, number, "u").impression
    first.close()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "store.db")
    second = opened(f"sqlite:///{tmp_path}/link.db")
    assert click(second, impression).accepted
    second.close()
