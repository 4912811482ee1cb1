"""Commands that open a database: what is wrong with it is one line, exit code 2, and never a password."""

import json
import logging
import os
import shutil
import sqlite3

import pytest

from multileave.cli import main

pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")

from multileave.live.settings import Settings
from multileave.live.store.addresses import safe_address, without_secrets

COMMANDS = [
    ["keys", "list"], ["keys", "list", "--json"], ["keys", "create", "--name", "a", "--role", "read"],
    ["keys", "revoke", "1"], ["serve", "--port", "0"], ["serve", "--port", "0", "--json"],
]  # fmt: skip
WRITING = COMMANDS[2:]
PASSWORD = "s3cr3t"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith("MULTILEAVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MULTILEAVE_DATABASE_SECONDS", "0.5")


@pytest.fixture
def good(tmp_path):
    """A database that works."""
    assert main(["keys", "list", "--db", f"sqlite:///{tmp_path}/good.db"]) == 0
    return tmp_path / "good.db"


def check_line(capsys, command, address, *said):
    """Run a command on a database; check that it ends with one line that says something."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("multileave.live"), "handlers", [])
        code = main([*command, "--db", address])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("multileave: ")
    assert captured.err.count("\n") == 1, captured.err
    for text in said:
        assert text in captured.err
    for part in (PASSWORD, PASSWORD[:3] + "/", "Traceback", "Background on this error"):
        assert part not in captured.err


def make(kind, good, tmp_path):
    """Return the address of a database that cannot be used."""
    path = tmp_path / "bad.db"
    if kind == "directory":
        path.mkdir()
    elif kind == "corrupt":
        path.write_bytes(bytes(range(256)) * 40)
    elif kind == "truncated":
        path.write_bytes(good.read_bytes()[:6000])
    elif kind == "newer":
        shutil.copy(good, path)
        with sqlite3.connect(path) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.close()
    elif kind == "read-only":
        return f"sqlite:///file:{good}?mode=ro&uri=true"
    elif kind == "no folder":
        return f"sqlite:///{tmp_path}/no/folder.db"
    return f"sqlite:///{path}"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", ["directory", "corrupt", "truncated", "newer", "no folder"])
def test_a_file_that_cannot_be_used_is_one_line(capsys, good, tmp_path, command, kind):
    said = {"newer": "newer version", "corrupt": "not a database"}.get(kind, "cannot be used")
    check_line(capsys, command, make(kind, good, tmp_path), said)


@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_a_file_that_is_read_only_is_one_line(capsys, good, tmp_path, command):
    check_line(capsys, command, make("read-only", good, tmp_path), "readonly")


def test_keys_of_a_file_that_is_read_only_or_locked_can_be_listed(capsys, good, tmp_path):
    assert main(["keys", "list", "--json", "--db", make("read-only", good, tmp_path)]) == 0
    holder = sqlite3.connect(good, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert main(["keys", "list", "--json", "--db", f"sqlite:///{good}"]) == 0
    holder.close()


@pytest.mark.acceptance
@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_a_locked_file_is_one_line(capsys, good, command):
    holder = sqlite3.connect(good, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        check_line(capsys, command, f"sqlite:///{good}", "locked")
    finally:
        holder.close()


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/x",
        f"postgres://u:{PASSWORD}@127.0.0.1:1/x",
        f"postgresql+asyncpg://u:{PASSWORD}@127.0.0.1:1/x",
        f"postgresql://u:{PASSWORD}%2F%40%3A@127.0.0.1:1/x",
        f"postgresql://u:s3c/r@{PASSWORD}@127.0.0.1:1/x",
        f"postgresql://u:{PASSWORD}:more@127.0.0.1:1/x",
        f"postgresql://u:{PASSWORD}?#&=@127.0.0.1:1/x",
        f"postgresql://u:{PASSWORD}@127.0.0.1:port/x",
        f"postgresql://u:{PASSWORD}@[::1/x",
        f"postgresql://127.0.0.1:1/x?user=u&password={PASSWORD}",
        f"postgresql://127.0.0.1:1/x?PASSWORD={PASSWORD}",
        f"postgresql://u@127.0.0.1:1/x?sslpassword={PASSWORD}",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/x?nonsense={PASSWORD}",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/x?connect_timeout={PASSWORD}",
        f"postgresql://u:{PASSWORD}@{PASSWORD}.invalid/x",
        f"mysql://u:{PASSWORD}@h/n",
        f"host=127.0.0.1 user=u password={PASSWORD}",
        f"{PASSWORD}",
        f"://u:{PASSWORD}@h",
        f"sqlite://u:{PASSWORD}@h/x",
    ],
)
def test_no_password_is_printed_whatever_is_wrong_with_the_address(capsys, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_line(capsys, COMMANDS[0], address)
    check_line(capsys, COMMANDS[5], address)
    assert PASSWORD not in safe_address(address)
    assert not list(tmp_path.iterdir())  # no empty database is left behind


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_missing_server_is_one_line(capsys, command):
    check_line(capsys, command, f"postgresql://u:{PASSWORD}@127.0.0.1:1/x", "127.0.0.1", "u:***@")


@pytest.mark.parametrize("command", [["serve"], ["keys", "list"]])
@pytest.mark.parametrize(("variable", "value"), [("PORT", "abc"), ("PORT", ""), ("DATABASE_SECONDS", "0")])
def test_a_setting_that_is_no_number_is_one_line(capsys, monkeypatch, command, variable, value):
    monkeypatch.setenv(f"MULTILEAVE_{variable}", value)
    assert main(command) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"multileave: MULTILEAVE_{variable} is ")
    assert err.count("\n") == 1


def test_settings_and_their_errors_do_not_repeat_passwords():
    settings = Settings(database=f"postgresql://u:{PASSWORD}@h/x", secret=f"{PASSWORD} and more of it")
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in str(settings)


def test_a_drivers_text_is_told_without_any_spelling_of_the_password():
    address = "postgresql://u:p%40ss%2Fword@h/x?sslpassword=other"
    told = without_secrets("bad: p@ss/word, p%40ss%2Fword, word, other", address)
    assert told == "bad: ***, ***, ***, ***"


def test_the_address_that_serve_announces_has_no_password(capsys):
    from multileave.cli.serve import _announce

    settings = Settings(database=f"postgres://u:{PASSWORD}@h/x?password={PASSWORD}")
    for as_json in (True, False):
        _announce(settings, (), has_keys=False, as_json=as_json)
        out = capsys.readouterr().out
        assert PASSWORD not in out
        if as_json:
            assert json.loads(out)["database"] == "postgresql://u:***@h/x?password=***"
