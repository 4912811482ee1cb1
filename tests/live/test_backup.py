"""A backup taken under load is one state of the database, and what is restored from it is that state."""

import contextlib
import json
import stat
import threading

import httpx
import pytest

from multileave.cli import main
from multileave.errors import MultileaveError
from multileave.live import Settings, running
from multileave.live.service import Service
from multileave.live.store.backup import back_up, restore

DEFINITION = {"name": "backup", "rankers": ["a", "b"], "control": "a", "k": 3}
RANKINGS = {"a": ["d1", "d2", "d3"], "b": ["d3", "d2", "d4"]}


def service(address):
    return running(Settings(database=address, port=0, open=True, secret="x" * 20))


def search(http, n):
    body = {"rankings": RANKINGS, "unit": f"u{n}"}
    shown = http.post("/api/v1/experiments/1/impressions", json=body).json()
    http.post("/api/v1/events", json=[{"id": "e", "impression": shown["impression"], "position": 0}])
    return shown["impression"]


def verdict(http):
    return http.get("/api/v1/experiments/1/verdict").json()


def test_a_backup_under_load_is_restored_as_one_state(address, empty_address, tmp_path):
    target = tmp_path / "copy.backup"
    with (
        running(Settings(database=address, port=0, open=True, secret="x" * 20)) as base,
        httpx.Client(base_url=base) as http,
    ):
        http.post("/api/v1/experiments", json=DEFINITION).raise_for_status()
        http.post("/api/v1/experiments/1/start").raise_for_status()
        first = [search(http, n) for n in range(30)]
        over = threading.Event()

        def load():
            with httpx.Client(base_url=base) as other:
                n = 1000
                while not over.is_set():
                    search(other, n)
                    n += 1

        thread = threading.Thread(target=load)
        thread.start()
        try:
            size = back_up(address, target)
        finally:
            over.set()
            thread.join()
    assert target.stat().st_size == size > 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    restore(target, empty_address)
    with (
        running(Settings(database=empty_address, port=0, open=True, secret="x" * 20)) as base,
        httpx.Client(base_url=base) as http,
    ):
        found = verdict(http)["traffic"]
        assert found["impressions"] >= 30
        assert found["impressions"] - found["events"]["click"] in (
            0,
            1,
        )  # a search may be between its requests
        again = [{"id": "e", "impression": text, "position": 0} for text in first]
        assert http.post("/api/v1/events", json=again).json()["duplicates"] == 30
        assert search(http, 3) == first[3]  # the same request is the same impression


def test_nobody_stays_logged_in_after_a_restore(address, empty_address, tmp_path):
    with contextlib.closing(Service(Settings(database=address, secret="x" * 20))) as before:
        key, _ = before.access.create_key("somebody", "admin")
        cookie = before.access.open_session(key)
        assert before.access.session(cookie) is not None
    back_up(address, tmp_path / "copy")
    restore(tmp_path / "copy", empty_address)
    with contextlib.closing(Service(Settings(database=empty_address, secret="x" * 20))) as after:
        assert after.access.session(cookie) is None
        assert after.access.keys()[0].name == "somebody"
        assert after.audit()[0][0].action == "restored"


def test_restoring_overwrites_nothing(address, empty_address, tmp_path):
    target = tmp_path / "copy.backup"
    with service(address):
        pass
    back_up(address, target)
    with pytest.raises(MultileaveError, match="already"):
        back_up(address, target)
    with pytest.raises(MultileaveError, match="already"):
        restore(target, address)
    restore(target, empty_address)
    with pytest.raises(MultileaveError, match="already"):
        restore(target, empty_address)
    if address.startswith("sqlite"):
        assert stat.S_IMODE((tmp_path / "empty.db").stat().st_mode) == 0o600


def test_the_commands_say_what_is_wrong(sqlite_address, tmp_path, capsys):
    missing = tmp_path / "missing.db"
    assert main(["backup", str(tmp_path / "b"), "--db", f"sqlite:///{missing}"]) == 2
    assert "There is no database" in capsys.readouterr().err
    assert not missing.exists()
    (tmp_path / "text").write_text("hello")
    assert main(["restore", str(tmp_path / "text"), "--db", sqlite_address]) == 2
    assert "is not a backup" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "nothing"), "--db", sqlite_address]) == 2
    assert "cannot be read" in capsys.readouterr().err
    with service(sqlite_address):
        pass
    assert main(["backup", str(tmp_path / "no" / "folder"), "--db", sqlite_address]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "b"), "--db", sqlite_address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] > 0
    assert main(["restore", str(tmp_path / "b"), "--db", "postgresql://nobody@localhost/x"]) == 2
    assert "is a backup of sqlite" in capsys.readouterr().err
    damaged = bytearray((tmp_path / "b").read_bytes())
    damaged[4096:40960] = bytes(36864)
    (tmp_path / "damaged").write_bytes(damaged)
    assert main(["restore", str(tmp_path / "damaged"), "--db", f"sqlite:///{tmp_path}/new.db"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "new.db").exists()
    assert not list(tmp_path.glob("*.partial"))


def test_a_password_is_not_printed(tmp_path, capsys):
    address = "postgresql://someone:s3cr%40t@127.0.0.1:9/none"
    assert main(["backup", str(tmp_path / "b"), "--db", address]) == 2
    told = capsys.readouterr()
    assert "s3cr" not in told.err + told.out
