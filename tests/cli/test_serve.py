"""multileave serve and multileave keys: a service in its own process."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from multileave.cli import main

pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")

COMMAND = [sys.executable, "-c", "import sys; from multileave.cli import main; sys.exit(main())"]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("MULTILEAVE_", "PROMETHEUS_"))]:
        monkeypatch.delenv(name)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@contextmanager
def serving(*arguments):
    """Run `multileave serve` until it is ready; yield its address, and the process, ended at the end."""
    with subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--json", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            lines = [process.stdout.readline()]
            while lines[-1].strip() != "}":
                assert lines[-1], process.stderr.read()
                lines.append(process.stdout.readline())
            process.out = "".join(lines)
            address = json.loads(process.out)["address"]
            ends = time.monotonic() + 120
            while ask(address + "/readyz")[0] != 200 and time.monotonic() < ends:
                time.sleep(0.2)
            yield address, process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.stdout.close()
            process.err = process.stderr.read()
            process.wait(30)


def ask(url, data=None, key=None, method=None):
    """Return status and text of an answer; 0 where nobody answers."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    body = data if data is None or isinstance(data, bytes) else json.dumps(data).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def peak(process):
    """Return the most memory a process ever had, in kB."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])


def test_keys_are_created_listed_and_revoked(capsys, tmp_path):
    db = f"sqlite:///{tmp_path}/live.db"
    code, out, _ = run(capsys, "keys", "create", "--role", "read", "--name", "me", "--db", db)
    text = out.splitlines()[-1]
    assert (code, text[:4]) == (0, "mlv_")
    code, out, _ = run(capsys, "keys", "list", "--db", db, "--json")
    (key,) = json.loads(out)
    assert (key["name"], key["role"], key["revoked"]) == ("me", "read", None)
    assert text not in out
    assert "me" in run(capsys, "keys", "list", "--db", db)[1]
    assert run(capsys, "keys", "revoke", key["number"], "--db", db)[0] == 0
    assert json.loads(run(capsys, "keys", "list", "--db", db, "--json")[1])[0]["revoked"]
    assert text.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--log", "loud"], "expected one of debug"),
        (["serve", "--db", "nonsense"], "sqlite:///FILE"),
        (["serve", "--db", "mysql://u:hidden@h/n"], "postgresql"),
        (["serve", "--db", "sqlite:////no/such/folder/x.db"], "cannot be used"),
        (["serve", "--workers", "0"], "workers"),
        (["serve", "--port", "70000"], "port"),
        (["serve", "--open", "--host", "0.0.0.0"], "keys"),
        (["keys", "revoke", "17"], "17"),
        (["keys", "create", "--name", "", "--role", "read"], "name"),
        (["keys", "create", "--name", "a", "--role", "king"], "king"),
    ],
)
def test_what_makes_no_sense_is_one_line(capsys, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert "hidden" not in err


def test_another_address_needs_a_key_first(capsys, tmp_path):
    db = f"sqlite:///{tmp_path}/live.db"
    code, _, err = run(capsys, "serve", "--host", "0.0.0.0", "--db", db)
    assert code == 2
    assert "multileave keys create --role admin" in err
    assert db in err


def test_a_port_in_use_is_said(capsys, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "serve", "--port", port, "--db", f"sqlite:///{tmp_path}/live.db")
    assert code == 2
    assert f"port {port}" in err


def test_a_part_that_is_missing_is_told_with_its_install_line(capsys, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[:2] == ["multileave", "live"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for command in (["serve"], ["keys", "list"]):
        code, _, err = run(capsys, *command)
        assert code == 2
        assert "pip install 'multileave[live]'" in err


@pytest.mark.acceptance
def test_the_service_runs_answers_and_ends_cleanly(tmp_path):
    db = f"sqlite:///{tmp_path}/live.db"
    with serving("--db", db, "--open") as (address, process):
        definition = {"name": "a", "rankers": ["x", "y"], "control": "x"}
        assert ask(f"{address}/api/v1/experiments", definition)[0] == 201
        assert ask(f"{address}/api/v1/experiments/1/start", b"")[0] == 200
        body = {"rankings": {"x": ["a", "b"], "y": ["b", "a"]}, "unit": "unit-secret"}
        status, text = ask(f"{address}/api/v1/experiments/1/impressions", body)
        assert (status, json.loads(text)["recorded"]) == (200, True)
        before = peak(process)
        status, text = ask(f"{address}/api/v1/events", b"x" * 50_000_000)
        assert (status, json.loads(text)["error"]["code"]) == (413, "too_large")
        assert peak(process) - before < 20_000
        assert ask(f"{address}/healthz")[0] == 200
    assert process.returncode == 0
    lines = [json.loads(line) for line in process.err.splitlines()]
    assert {"request"} <= {line["event"] for line in lines}
    assert "unit-secret" not in process.err


@pytest.mark.acceptance
def test_a_database_that_others_can_read_is_warned_about_in_the_output_and_the_log(tmp_path, capsys):
    db = f"sqlite:///{tmp_path}/live.db"
    run(capsys, "keys", "list", "--db", db)
    (tmp_path / "live.db").chmod(0o644)
    with serving("--db", db, "--open") as (_, process):
        pass
    assert "live.db can be read by other users" in process.out
    logged = [json.loads(line) for line in process.err.splitlines()]
    assert [line["level"] for line in logged if "can be read by other users" in line["event"]] == ["warning"]


@pytest.mark.acceptance
def test_two_workers_share_the_database_and_the_metrics(tmp_path, capsys):
    db = f"sqlite:///{tmp_path}/live.db"
    _, out, _ = run(capsys, "keys", "create", "--role", "admin", "--name", "me", "--db", db, "--json")
    key = json.loads(out)["key"]
    with serving("--db", db, "--workers", 2, "--log", "warning") as (address, process):
        definition = {"name": "a", "rankers": ["x", "y"], "control": "x", "method": "tdm"}
        assert ask(f"{address}/api/v1/experiments", definition)[0] == 401
        assert ask(f"{address}/api/v1/experiments", definition, key)[0] == 201
        assert ask(f"{address}/api/v1/experiments/1/start", b"", key)[0] == 200
        for user in range(30):
            body = {"rankings": {"x": ["a", "b"], "y": ["b", "a"]}, "unit": f"user {user}"}
            assert ask(f"{address}/api/v1/experiments/1/impressions", body, key)[0] == 200
        verdict = json.loads(ask(f"{address}/api/v1/experiments/1/verdict", key=key)[1])
        assert verdict["traffic"]["impressions"] == 30
        page = ask(f"{address}/metrics", key=key)[1]
        counted = re.findall(r'^multileave_impressions_total\{recorded="(?:yes|no)"\} (\S+)', page, re.MULTILINE)
        assert sum(map(float, counted)) == 30
    assert process.returncode == 0
