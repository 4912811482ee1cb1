"""Keys that are limited to some experiments: no route and no page lets them do more."""

import pytest
from fastapi.routing import APIRoute
from http_service import API, DEFINITION, RANKINGS, serving
from starlette.routing import Route
from starlette.testclient import TestClient

from multileave.live.access.scope import read_numbers
from multileave.live.errors import Invalid

SESSION = "multileave_session"


def access_of(served):
    return served.app.state.service.access


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


# A limited key may use what names one of its experiments, and these:

FOR_EVERYBODY = {
    f"GET {API}/experiments", f"POST {API}/events", f"GET {API}/openapi.json", f"HEAD {API}/openapi.json",
    "GET /healthz", "GET /readyz", "GET /", "GET /login", "POST /login", "POST /logout", "GET /static/{name}",
}  # fmt: skip
# ... but not these, which name an experiment and make another one.
FOR_NOBODY = {
    f"POST {API}/experiments/{{number}}/clone", "GET /experiments/{number:int}/clone",
    "POST /experiments/{number:int}/clone",
}  # fmt: skip
BODIES = {
    f"{API}/experiments": DEFINITION, f"{API}/experiments/{{number}}": {"share": 0.5}, f"{API}/events": [],
    f"{API}/experiments/{{number}}/impressions": {"rankings": RANKINGS, "unit": "u"},
    f"{API}/keys": {"name": "more", "role": "admin"}, f"{API}/privacy/delete-unit": {"unit": "u"},
}  # fmt: skip


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """A service with two experiments, and an admin's key and session that are limited to the second."""
    with serving(f"sqlite:///{tmp_path_factory.mktemp('scope')}/live.db") as found:
        found.other, found.mine = found.running(), found.running()
        key, found.keys["limited"] = access_of(found).create_key("limited", "admin", experiments=[found.mine])
        found.cookie = access_of(found).open_session(key)
        yield found


def routes_of(app):
    for route in app.routes:
        assert isinstance(route, Route), "a mounted app would not be checked"
        for method in route.methods:
            yield f"{method} {route.path}", isinstance(route, APIRoute) and route.endpoint.__module__


def send_limited(limited, route, module, number):
    """Send a request with the limited key, or its session for a page."""
    method, path = route.split(" ")
    address = path.replace("{number}", str(number)).replace("{number:int}", str(number)).replace("{key}", "00")
    address = address.replace("{key_number}", str(number)).replace("{key_number:int}", str(number))
    address = address.replace("{name}", "style.css")
    if module and module.startswith("multileave.live.pages"):
        client = TestClient(limited.app, base_url="http://127.0.0.1:8421", follow_redirects=False)
        client.cookies.set(SESSION, limited.cookie)
        sent = {"data": {"csrf": access_of(limited).csrf(limited.cookie), "share": "50"}} if method == "POST" else {}
        return client.request(method, address, **sent)
    sent = {"json": BODIES.get(path, {})} if method in ("POST", "PATCH") else {}
    return limited.send(method, address, "limited", **sent)


def test_every_route_refuses_a_limited_key_what_is_not_its_own(limited):
    """A new route fails here unless it names its experiment as {number}, or refuses limited keys, or is listed."""
    refused = 0
    for route, module in routes_of(limited.app):
        if route in FOR_EVERYBODY:
            continue
        for number in (limited.other, 999):
            answer = send_limited(limited, route, module, number)
            assert answer.status_code == 403, (route, answer.status_code, answer.text[:200])
            assert f"limited to experiment {limited.mine};" in answer.text, (route, answer.text[:500])
            refused += 1
    assert refused > 50


def test_a_limited_key_may_do_everything_with_its_own_experiment(limited):
    allowed = 0
    for route, module in routes_of(limited.app):
        if "{number" not in route or "/delete" in route or "stop" in route or route.startswith("DELETE"):
            continue
        answer = send_limited(limited, route, module, limited.mine)
        if route in FOR_NOBODY:
            assert answer.status_code == 403, route
        else:
            assert answer.status_code not in (401, 403), (route, answer.text[:300])
            allowed += 1
    assert allowed > 12


def test_lists_leave_out_other_experiments(limited):
    listed = limited.send("GET", f"{API}/experiments", "limited").json()["experiments"]
    assert [one["number"] for one in listed] == [limited.mine]
    client = TestClient(limited.app, base_url="http://127.0.0.1:8421")
    client.cookies.set(SESSION, limited.cookie)
    page = client.get("/").text
    assert f'href="/experiments/{limited.mine}"' in page
    assert f'href="/experiments/{limited.other}"' not in page
    for link in ("/keys", "/audit", "/experiments/new"):
        assert f'href="{link}' not in page
        assert f'href="{link}' not in client.get(f"/experiments/{limited.mine}").text


@pytest.mark.parametrize("spelling", ["0{}", "+{}", "%20{}", "{}.0", "{}%00", "{}/"])
def test_another_spelling_of_a_number_gets_around_nothing(limited, spelling):
    for number in (limited.other, limited.mine):
        path = f"{API}/experiments/{spelling.format(number)}"
        assert limited.send("GET", path, "limited").status_code in (403, 404)


def test_limited_ingest_and_read_keys(limited):
    access = access_of(limited)
    for role, method, path, sent in (
        ("ingest", "POST", "impressions", {"json": {"rankings": RANKINGS, "unit": "u"}}),
        ("read", "GET", "verdict", {}),
    ):
        _, text = access.create_key(role, role, experiments=[limited.mine])
        for number, status in ((limited.mine, 200), (limited.other, 403), (limited.mine, 200)):
            address = f"{API}/experiments/{number}/{path}"
            assert limited.client.request(method, address, headers=bearer(text), **sent).status_code == status


def test_the_number_of_a_deleted_draft_is_never_used_again(address):
    with serving(address, secret="a secret of the tests") as served:
        made = [served.send("POST", f"{API}/experiments", json=DEFINITION).json()["number"] for _ in range(2)]
        assert served.send("DELETE", f"{API}/experiments/{made[-1]}").status_code == 204
        assert served.send("POST", f"{API}/experiments", json=DEFINITION).json()["number"] == made[-1] + 1


@pytest.mark.parametrize("text", [",", ",,,", " , "])
def test_commas_without_numbers_are_no_key_without_a_limit(text):
    with pytest.raises(Invalid, match="expected the numbers of experiments"):
        read_numbers(text)
