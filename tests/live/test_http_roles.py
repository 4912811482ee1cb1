"""Every route is refused to the roles that may not use it, and to those without a key."""

from pathlib import Path

import pytest
from http_service import API, DEFINITION, RANKINGS, check_refusal, serving
from starlette.routing import Route

from multileave.live.settings import Settings

READ, INGEST, ADMIN = {"read", "admin"}, {"ingest", "admin"}, {"admin"}
ANYBODY = {"ingest", "read", "admin", None}
ROUTES = {
    f"POST {API}/experiments": (ADMIN, {"json": DEFINITION}),
    f"GET {API}/experiments": (READ, {}),
    f"GET {API}/experiments/{{number}}": (READ, {}),
    f"PATCH {API}/experiments/{{number}}": (ADMIN, {"json": {"share": 0.5}}),
    f"DELETE {API}/experiments/{{number}}": (ADMIN, {}),
    f"POST {API}/experiments/{{number}}/start": (ADMIN, {}),
    f"POST {API}/experiments/{{number}}/stop": (ADMIN, {}),
    f"POST {API}/experiments/{{number}}/clone": (ADMIN, {"json": {}}),
    f"POST {API}/experiments/{{number}}/impressions": (INGEST, {"json": {"rankings": RANKINGS, "unit": "u"}}),
    f"GET {API}/experiments/{{number}}/impressions": (READ, {}),
    f"GET {API}/experiments/{{number}}/impressions/{{key}}": (READ, {}),
    f"GET {API}/experiments/{{number}}/verdict": (READ, {}),
    f"GET {API}/experiments/{{number}}/segments": (READ, {}),
    f"GET {API}/experiments/{{number}}/arms": (READ, {}),
    f"GET {API}/experiments/{{number}}/health": (READ, {}),
    f"GET {API}/experiments/{{number}}/history": (READ, {}),
    f"GET {API}/experiments/{{number}}/export": (READ, {}),
    f"POST {API}/events": ({None, *INGEST}, {"json": []}),
    f"GET {API}/audit": (ADMIN, {}),
    f"GET {API}/keys": (ADMIN, {}),
    f"POST {API}/keys": (ADMIN, {"json": {"name": "other", "role": "read"}}),
    f"DELETE {API}/keys/{{key_number}}": (ADMIN, {}),
    f"POST {API}/privacy/delete-unit": (ADMIN, {"json": {"unit": "u"}}),
    f"GET {API}/openapi.json": (ANYBODY, {}),
    f"HEAD {API}/openapi.json": (ANYBODY, {}),
    "GET /healthz": (ANYBODY, {}),
    "GET /readyz": (ANYBODY, {}),
    "GET /metrics": (READ, {}),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('roles')}/live.db") as served:
        served.number = served.running()
        yield served


def declared(app):
    """Return method and path of all routes but the page's, which has its own login and tests."""
    for route in app.routes:
        if isinstance(route, Route) and not route.endpoint.__module__.startswith("multileave.live.pages"):
            for method in route.methods:
                yield f"{method} {route.path}"


def test_every_route_is_in_the_table_of_roles(served):
    assert sorted(declared(served.app)) == sorted(ROUTES)


def test_every_route_and_setting_is_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    for route in ROUTES:
        assert f"`{route}`" in page or route.startswith("HEAD"), f"docs/service.md lacks {route}"
    for name in Settings(secret="x" * 16).to_environment():
        assert name in page, f"docs/service.md lacks {name}"


@pytest.mark.parametrize("role", [None, "ingest", "read", "admin"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_route_is_open_to_its_roles_alone(served, route, role):
    allowed, sent = ROUTES[route]
    method, path = route.split(" ")
    path = path.replace("{number}", str(served.number)).replace("{key}", "none").replace("{key_number}", "999999")
    answer = served.send(method, path, role, **sent)
    if role in allowed:
        assert answer.status_code not in (401, 403)
        assert answer.status_code < 500
    elif role is None:
        check_refusal(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    else:
        check_refusal(answer, 403, "forbidden")
        assert role in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "authorization",
    ["Bearer wrong", "Bearer ", "Bearer", "Basic YTpi", "mlv_wrong", "Bearer \xff\xfe", "Bearer " + "x" * 5000],
)
def test_what_is_no_key_is_refused(served, authorization):
    for path in (f"{API}/experiments", f"{API}/keys", "/metrics"):
        answer = served.client.get(path, headers={"Authorization": authorization.encode("latin-1")})
        check_refusal(answer, 401, "unauthorized")
    answer = served.client.post(f"{API}/events", json=[], headers={"Authorization": authorization.encode("latin-1")})
    check_refusal(answer, 401, "unauthorized")


def test_a_revoked_key_is_refused(served):
    made = served.send("POST", f"{API}/keys", json={"name": "for a while", "role": "read"}).json()
    headers = {"Authorization": f"Bearer {made['key']}"}
    assert served.client.get(f"{API}/experiments", headers=headers).status_code == 200
    assert served.send("DELETE", f"{API}/keys/{made['number']}").status_code == 204
    check_refusal(served.client.get(f"{API}/experiments", headers=headers), 401)
    listed = served.send("GET", f"{API}/keys").json()["keys"]
    assert [key["revoked"] is not None for key in listed if key["number"] == made["number"]] == [True]
    assert all("key" not in key for key in listed)


def test_the_key_comes_before_the_body_and_the_parameters(served):
    check_refusal(served.client.post(f"{API}/experiments", content=b"x" * 10), 401)
    check_refusal(served.client.get(f"{API}/experiments/none"), 401)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('open')}/live.db", open=True) as served:
        yield served


def test_an_open_service_asks_for_no_key(opened):
    assert opened.send("POST", f"{API}/experiments", None, json=DEFINITION).status_code == 201
    assert opened.send("GET", f"{API}/keys", None).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8421", "10.0.0.1:8421", "127.0.0.1.evil.example", ""])
def test_an_open_service_is_not_served_under_other_names(opened, host):
    answer = opened.send("GET", f"{API}/experiments", None, headers={"Host": host})
    check_refusal(answer, 403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "localhost:8421", "127.0.0.1", "[::1]:8421", "[::1]"])
def test_an_open_service_is_served_under_names_of_this_machine(opened, host):
    assert opened.send("GET", f"{API}/experiments", None, headers={"Host": host}).status_code == 200


def test_pages_of_other_sites_change_nothing_in_an_open_service(opened):
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
        answer = opened.send("POST", f"{API}/experiments", None, json=DEFINITION, headers={"Origin": origin})
        check_refusal(answer, 403, "forbidden")
    same = {"Origin": "http://127.0.0.1:8421"}
    assert opened.send("POST", f"{API}/experiments", None, json=DEFINITION, headers=same).status_code == 201
