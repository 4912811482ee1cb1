"""The audit log: it names who did what, is written with the change, and nobody changes it."""

import json
import re
import sqlite3
from html import unescape

import pytest
import sqlalchemy as sa
from http_service import API, DEFINITION, check_refusal, serving
from starlette.routing import Route
from starlette.testclient import TestClient

from multileave.cli import main
from multileave.live.access import keys as access_module
from multileave.live.access.actor import Actor, acting
from multileave.live.definition import Definition
from multileave.live.errors import Conflict
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store import audit as stored
from multileave.live.store.database import Store

SECRET = "a secret of the tests"


@pytest.fixture
def served(address):
    with serving(address, secret=SECRET) as found:
        yield found


def entries(served, **parameters):
    answer = served.send("GET", f"{API}/audit", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"]


def log_in(served, text):
    client = TestClient(served.app, base_url="http://127.0.0.1:8421", follow_redirects=False)
    token = unescape(re.search(r'name="csrf" value="([^"]*)"', client.get("/login").text).group(1))
    return client, client.post("/login", data={"csrf": token, "key": text})


def test_every_change_is_recorded_with_who_did_it(served):
    number = served.running(share=0.5)
    path = f"{API}/experiments/{number}"
    assert served.send("PATCH", path, json={"share": 0.75}).status_code == 200
    assert served.send("PATCH", path, json={"share": 0.75}).status_code == 200  # changes nothing
    assert served.show(number, "user-17").json()["recorded"] is not None
    shown = [served.show(number, f"user {n}").json()["recorded"] for n in range(10)]
    unit = f"user {shown.index(True)}"
    assert served.send("GET", f"{path}/export", "read").status_code == 200
    assert served.send("POST", f"{API}/privacy/delete-unit", json={"unit": unit}).json() == {"deleted": 1}
    assert served.send("POST", f"{path}/stop").status_code == 200
    clone = served.send("POST", f"{path}/clone", json={"k": 2}).json()["number"]
    assert served.send("PATCH", f"{API}/experiments/{clone}", json={"k": 4, "share": 0.1}).status_code == 200
    assert served.send("DELETE", f"{API}/experiments/{clone}").status_code == 204
    made = served.send("POST", f"{API}/keys", json={"name": "more", "role": "read", "experiments": [7]}).json()
    assert served.send("DELETE", f"{API}/keys/{made['number']}").status_code == 204

    found = entries(served)[::-1][3:]  # after the keys of the fixture
    assert [(one["action"], one["experiment"]) for one in found] == [
        ("created", number), ("started", number), ("edited", number), ("exported", number), ("unit deleted", number),
        ("stopped", number), ("cloned", clone), ("edited", clone), ("deleted", clone), ("key created", None),
        ("key revoked", None),
    ]  # fmt: skip
    who = {role: access_number(served, role) for role in ("admin", "read")}
    assert {(one["actor"], one["key"], one["name"]) for one in found if one["action"] != "exported"} == {
        ("key", who["admin"], "of admin")
    }
    assert (found[3]["key"], found[3]["name"]) == (who["read"], "of read")
    assert found[2]["details"] == {"changed": {"share": [0.5, 0.75]}}
    assert found[6]["details"] == {"parent": number, "changed": {"k": [3, 2]}}
    assert found[7]["details"] == {"changed": {"k": [2, 4], "share": [0.75, 0.1]}}
    assert found[4]["details"]["impressions"] == 1
    assert found[9]["details"] == {
        "number": made["number"], "name": "more", "role": "read", "expires": None, "experiments": [7]
    }  # fmt: skip
    text = json.dumps(found)
    assert unit not in text
    assert made["key"] not in text


def access_number(served, role):
    return served.app.state.service.access.authenticate(served.keys[role]).number


def test_sessions_are_named_and_logins_recorded(served):
    client, answer = log_in(served, served.keys["admin"])
    assert answer.status_code == 303
    page = client.get("/experiments/new").text
    token = unescape(re.search(r'name="csrf" value="([^"]*)"', page).group(1))
    form = {"csrf": token, "name": "from a page", "rankers": "a\nb", "k": "3", "method": "tdm"}
    texts = dict(re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', page))
    assert client.post("/experiments/new", data={**texts, **form}).status_code == 303
    assert client.post("/logout", data={"csrf": token}).status_code == 303
    found = entries(served)[:3]
    assert [one["action"] for one in found] == ["logout", "created", "login"]
    assert {(one["actor"], one["name"]) for one in found} == {("session", "of admin")}


def test_failed_logins_cannot_fill_the_disk(served, monkeypatch):
    before = len(entries(served, limit=500))
    for _ in range(60):
        assert log_in(served, "mlv_wrong")[1].status_code == 401
    found = entries(served, limit=500)
    assert len(found) == before + 1
    assert (found[0]["action"], found[0]["actor"], found[0]["details"]) == ("login failed", "visitor", {"times": 1})
    monkeypatch.setattr(access_module, "SAVED", 0.0)
    served.app.state.service.access.save()
    assert entries(served)[0]["details"] == {"times": 59}


def test_a_change_that_fails_is_not_recorded_and_one_that_is_not_recorded_fails(address, monkeypatch):
    service = Service(Settings(database=address, secret=SECRET))
    number = service.create(Definition.from_dict(DEFINITION)).number
    with pytest.raises(Conflict):
        service.stop(number)
    assert [entry.action for entry in service.audit()[0]] == ["created"]

    def broken(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(stored, "record", broken)
    for change in (
        lambda: service.create(Definition.from_dict(DEFINITION)),
        lambda: service.start(number),
        lambda: service.edit(number, {"k": 9}),
        lambda: service.clone(number, {}),
        lambda: service.delete_draft(number),
        lambda: service.access.create_key("x", "admin"),
    ):
        with pytest.raises(OSError, match="full"):
            change()
    monkeypatch.undo()
    assert [(one.number, one.status, one.definition.k) for one in service.experiments()] == [(number, "draft", 3)]
    assert service.access.keys() == []
    service.close()


def test_no_statement_changes_or_deletes_an_entry(address):
    service = Service(Settings(database=address, secret=SECRET))
    service.create(Definition.from_dict(DEFINITION))
    before = service.audit()
    store = Store(address)
    statements = ["UPDATE audit SET name = 'x'", "DELETE FROM audit", "UPDATE audit SET number = number + 1"]
    row = "INTO audit (number, at, actor, action, details) VALUES (1, 0, 'x', 'x', '{}')"
    if address.startswith("sqlite"):
        statements += [f"INSERT OR REPLACE {row}", f"REPLACE {row}", "UPDATE OR REPLACE audit SET number = 1"]
        statements += [f"INSERT {row} ON CONFLICT (number) DO UPDATE SET name = 'x'"]
    else:
        statements += ["TRUNCATE audit", f"INSERT {row} ON CONFLICT (number) DO UPDATE SET name = 'x'"]
    for statement in statements:
        with pytest.raises(sa.exc.DatabaseError, match="append-only"), store.write() as connection:
            connection.execute(sa.text(statement))
    store.close()
    assert service.audit() == before
    service.close()


def test_a_plain_connection_without_our_settings_cannot_either(tmp_path):
    service = Service(Settings(database=f"sqlite:///{tmp_path}/a.db"))
    service.create(Definition.from_dict(DEFINITION))
    service.close()
    with sqlite3.connect(tmp_path / "a.db") as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("DELETE FROM audit")


def test_no_route_changes_the_log(served):
    found = {(method, r.path) for r in served.app.routes if isinstance(r, Route) for method in r.methods}
    assert {(method, path) for method, path in found if "audit" in path} == {("GET", f"{API}/audit"), ("GET", "/audit")}


def test_pages_of_the_log_follow_each_other_and_can_be_filtered(served):
    numbers = [served.send("POST", f"{API}/experiments", json=DEFINITION).json()["number"] for _ in range(5)]
    whole = entries(served, limit=500)
    assert [one["number"] for one in whole] == sorted((one["number"] for one in whole), reverse=True)
    read, before = [], None
    while True:
        page = served.send("GET", f"{API}/audit", params={"limit": 3, **({"before": before} if before else {})}).json()
        read += page["entries"]
        before = page["next"]
        if before is None:
            break
    assert read == whole
    assert [one["experiment"] for one in entries(served, experiment=numbers[2])] == [numbers[2]]
    assert entries(served, experiment=2**31 - 1) == []
    for wrong in ({"limit": 0}, {"limit": 501}, {"before": "x"}, {"experiment": 0}, {"before": 2**40}):
        check_refusal(served.send("GET", f"{API}/audit", params=wrong), 422)


def test_the_page_shows_hostile_names_as_text_and_pages(served):
    service = served.app.state.service
    hostile = "<script>alert(1)</script>\u202e"
    service.access.create_key(hostile.strip("\u202e"), "read")
    acting.set(Actor("key", 3, hostile))
    for _ in range(60):
        service.create(Definition.from_dict(DEFINITION))
    client, _ = log_in(served, served.keys["admin"])
    page = client.get("/audit")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text
    older = unescape(re.search(r'href="(/audit\?before=[^"]+)"', page.text).group(1))
    assert "&lt;script&gt;" in client.get(older).text
    for odd in ("/audit?before=x", "/audit?before=-1", "/audit?experiment=99999999999999", "/audit?experiment=%00"):
        assert client.get(odd).status_code == 200
    reader, _ = log_in(served, served.keys["read"])
    assert reader.get("/audit").status_code == 403
    acting.set(Actor("program"))


def test_the_command_line_is_named_and_reads_the_log(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("MULTILEAVE_SECRET", raising=False)
    db = ["--db", f"sqlite:///{tmp_path}/a.db"]
    service = Service(Settings(database=db[1]))
    number = service.create(Definition.from_dict(DEFINITION)).number
    service.close()
    assert (
        main(["keys", "create", "--role", "read", "--name", "[b]me", "--expires", "90d", "--experiments", "3,5", *db])
        == 0
    )
    assert main(["keys", "revoke", "1", *db]) == 0
    assert main(["keys", "rotate-secret", "--keep", "1", *db]) == 0
    assert len((tmp_path / "a.db.secret").read_text().split()) == 2
    capsys.readouterr()
    assert main(["audit", "--json", *db]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["action"] for one in found] == ["secret rotated", "key revoked", "key created", "created"]
    assert [one["actor"] for one in found] == ["command line"] * 3 + ["program"]
    assert all(one["name"] for one in found[:3])
    assert (tmp_path / "a.db.secret").read_text().split()[0] not in json.dumps(found)
    assert main(["audit", "--experiment", str(number), "--json", *db]) == 0
    assert [one["action"] for one in json.loads(capsys.readouterr().out)] == ["created"]
    assert main(["audit", *db]) == 0
    assert "[b]me" in capsys.readouterr().out
    monkeypatch.setenv("MULTILEAVE_SECRET", SECRET)
    assert main(["keys", "rotate-secret", *db]) == 2
    assert "MULTILEAVE_OLD_SECRETS" in capsys.readouterr().err
