"""The pages, asked for as a browser asks: who may see and do what, and what hostile text becomes."""

import asyncio
import re
from html import unescape

import pytest

pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")

from fastapi.testclient import TestClient

from multileave.live.definition import Definition
from multileave.live.http.app import create_app
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.stats.rates.wording import rate_words

RANKINGS = {"bm25": ["d1", "d2", "d3", "d4"], "dense": ["d3", "d1", "d4", "d2"], "ltr": ["d4", "d3", "d2", "d1"]}
AUTUMN = Definition("Autumn", tuple(RANKINGS), "bm25", k=3, keep_queries=True, actions=("click", "purchase"))
NUL_AND_MORE = "<script>alert('x')</script>\x00\ud800\u202e&"
POSTS = [
    "/experiments/new", "/experiments/1/edit", "/experiments/1/clone", "/experiments/1/start", "/experiments/2/stop",
    "/experiments/2/share", "/experiments/1/delete", "/keys", "/keys/1/revoke",
]  # fmt: skip
GETS = [
    "/", "/experiments/new", "/experiments/1", "/experiments/1/live", "/experiments/1/pairs", "/experiments/1/segments",
    "/experiments/1/edit",
    "/experiments/1/clone", "/keys",
]  # fmt: skip


def open_service(folder, **settings):
    return Service(Settings(database=f"sqlite:///{folder / 'pages.db'}", secret="a secret of the tests", **settings))


def browser(service):
    app = create_app(service.settings)
    app.state.service = service
    return TestClient(app, base_url="http://127.0.0.1:8421", follow_redirects=False)


def token(client, path="/login"):
    return unescape(re.search(r'name="csrf" value="([^"]*)"', client.get(path).text).group(1))


def log_in(client, text, **more):
    return client.post("/login", data={"csrf": token(client), "key": text, **more})


def send_traffic(service, number, units=6, document=None):
    """Let some users search, who click the first document they see."""

    async def traffic():
        for user in range(units):
            rankings = RANKINGS if document is None else {name: [document, *ids] for name, ids in RANKINGS.items()}
            shown = await service.show(number, ShowRequest(rankings, unit=f"user-{user}", query=f"shoes {user}"))
            await service.record([Event(f"event-{user}", shown.impression, document=shown.shown[0])])

    asyncio.run(traffic())
    service.fold()


@pytest.fixture
def service(tmp_path):
    service = open_service(tmp_path)
    service.create(AUTUMN)
    service.create(AUTUMN.changed(name="Winter"))
    service.start(2)
    yield service
    service.close()


@pytest.fixture
def admin(service):
    client = browser(service)
    assert log_in(client, service.access.create_key("ops", "admin")[1]).status_code == 303
    return client


@pytest.fixture
def reader(service):
    client = browser(service)
    client.key, text = service.access.create_key("analyst", "read")
    assert log_in(client, text).status_code == 303
    return client


@pytest.mark.parametrize("path", GETS)
def test_a_page_sends_a_stranger_to_the_login(service, path):
    answer = browser(service).get(path)
    if path.endswith("/live"):
        assert (answer.status_code, answer.text) == (401, "")
    else:
        assert answer.status_code == 303
        assert answer.headers["location"] == ("/login" if path == "/" else f"/login?next={path}")


@pytest.mark.parametrize("secure", [False, True])
def test_the_session_cookie_is_out_of_reach_of_scripts_and_of_other_sites(tmp_path, secure):
    service = open_service(tmp_path, secure_cookies=secure)
    client = browser(service)
    if secure:
        client.base_url = "https://127.0.0.1:8421"
    answer = log_in(client, service.access.create_key("ops", "admin")[1], next="/keys")
    cookie = answer.headers["set-cookie"].lower()
    assert answer.headers["location"] == "/keys"
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert ("; secure" in cookie) is secure
    assert client.get("/keys").status_code == 200
    service.close()


def test_a_login_leads_back_to_the_search_that_was_asked_for(service):
    client = browser(service)
    asked = "/?q=a+b%3Cc&status=running&page=2"
    answer = client.get(asked)
    form = client.get(answer.headers["location"])
    found = unescape(re.search(r'name="next" value="([^"]*)"', form.text).group(1))
    answer = log_in(client, service.access.create_key("ops", "admin")[1], next=found)
    assert answer.headers["location"] == asked


def test_only_keys_that_may_look_open_a_session(service):
    client = browser(service)
    for text in ("", "wrong", "x" * 5000, service.access.create_key("frontend", "ingest")[1]):
        answer = log_in(client, text)
        assert answer.status_code == 401
        assert "multileave_session" not in answer.headers.get("set-cookie", "")
        assert 'role="alert"' in answer.text


def test_a_revoked_key_ends_its_session_and_logging_out_does(service, admin, reader):
    service.access.revoke_key(reader.key.number)
    assert reader.get("/").status_code == 303
    answer = admin.post("/logout", data={"csrf": token(admin, "/")})
    assert answer.headers["location"] == "/login"
    assert admin.get("/").status_code == 303


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "javascript:x", "/?a=//b", "/?a\r\nb"],
)
def test_the_login_never_leads_elsewhere(service, target):
    client = browser(service)
    answer = log_in(client, service.access.create_key("ops", "admin")[1], next=target)
    assert answer.headers["location"] == "/"
    assert client.get("/login", params={"next": target}).headers["location"] == "/"


@pytest.mark.parametrize("path", [*POSTS, "/logout"])
def test_a_form_without_its_token_is_refused(service, admin, path):
    before = (service.experiments(), service.access.keys())
    other = browser(service)
    log_in(other, service.access.create_key("another", "admin")[1])
    before = (service.experiments(), service.access.keys())
    for wrong in ({}, {"csrf": ""}, {"csrf": "x" * 40}, {"csrf": token(other, "/")}, {"csrf": "ü\ud7ff"}):
        answer = admin.post(path, data={"share": "50", "name": "n", "role": "admin", **wrong})
        assert answer.status_code == 403
        assert "Reload the page" in answer.text
    assert admin.post(path, json={"csrf": token(admin, "/")}).status_code == 422
    assert admin.get(path).status_code != 303
    assert (service.experiments(), service.access.keys()) == before


def test_a_login_without_its_token_is_refused(service):
    answer = browser(service).post("/login", data={"key": service.access.create_key("ops", "admin")[1]})
    assert answer.status_code == 403
    assert "multileave_session" not in answer.headers.get("set-cookie", "")


@pytest.mark.parametrize("path", POSTS)
def test_a_reader_sees_no_buttons_and_is_refused(service, reader, path):
    before = service.experiments()
    assert reader.post(path, data={"csrf": token(reader, "/"), "share": "50"}).status_code == 403
    assert service.experiments() == before
    for page in ("/", "/experiments/1", "/experiments/2"):
        text = reader.get(page).text
        assert re.findall(r'<form method="post"[^>]*action="([^"]*)"', text) == ["/logout"]
        assert "/clone" not in text
        assert "/keys" not in text
    for page in ("/experiments/new", "/experiments/1/edit", "/experiments/1/clone", "/keys"):
        assert reader.get(page).status_code == 403


def test_an_open_service_asks_for_no_login_but_for_tokens(tmp_path):
    service = open_service(tmp_path, open=True)
    client = browser(service)
    assert "Create the first one" in client.get("/").text
    form = {"name": "Open", "rankers": "a\nb"}
    assert client.post("/experiments/new", data=form).status_code == 403
    answer = client.post("/experiments/new", data={**form, "csrf": token(client, "/experiments/new")})
    assert answer.headers["location"] == "/experiments/1?done=created"
    assert client.get("/login").headers["location"] == "/"
    service.close()


def test_an_open_service_is_not_reached_under_another_name(tmp_path):
    service = open_service(tmp_path, open=True)
    client = browser(service)
    for host, status in (("127.0.0.1:8421", 200), ("localhost:8421", 200), ("[::1]:8421", 200), ("evil.example", 403)):
        assert client.get("/", headers={"Host": host}).status_code == status
    service.close()


def test_an_experiment_is_created_edited_started_ramped_cloned_stopped_and_a_draft_deleted(service, admin):
    form = {
        "csrf": token(admin, "/"), "name": "Spring", "rankers": " bm25 \r\n\r\nltr\r\n", "control": "ltr",
        "method": "pm", "parameters": "tau=2", "k": "5", "pages": "2", "actions": "click\norder", "unit": "session",
        "confidence": "99", "window": "1.5", "group": "g", "share": "7", "keep_queries": "yes", "retention_days": "30",
        "estimand": "users",
    }  # fmt: skip
    assert admin.post("/experiments/new", data=form).headers["location"] == "/experiments/3?done=created"
    assert service.experiment(3).definition == Definition(
        "Spring", ("bm25", "ltr"), "ltr", "pm(tau=2)", 5, 2, ("click", "order"), unit="session",
        confidence=0.99, window=5400.0, group="g", share=0.07, hash_units=False, keep_queries=True, retention_days=30.0,
        estimand="users",
    )  # fmt: skip
    assert admin.post("/experiments/3/edit", data={**form, "name": "May"}).headers["location"].endswith("changed")
    assert service.experiment(3).definition.name == "May"
    assert admin.post("/experiments/3/start", data=form).headers["location"].endswith("started")
    assert "Experiment started." in admin.get("/experiments/3?done=started").text
    assert admin.post("/experiments/3/edit", data=form).status_code == 409
    admin.post("/experiments/3/share", data={**form, "share": "12.5"})
    assert service.experiment(3).definition.share == 0.125
    clone = admin.get("/experiments/3/clone").text
    for expected in (
        'value="May"', 'value="12.5"', 'value="tau=2.0', '<option value="pm" selected>',
        "<option>impressions</option><option selected>users</option>",
        "<option selected>none</option><option>losers</option>",
    ):  # fmt: skip
        assert expected in clone
    answer = admin.post("/experiments/3/clone", data={**form, "name": "June", "hash_units": "yes"})
    assert answer.headers["location"] == "/experiments/4?done=cloned"
    made = service.experiment(4)
    assert (made.version, made.parent, made.status) == (2, 3, "draft")
    assert (made.definition.name, made.definition.hash_units, made.definition.k) == ("June", True, 5)
    admin.post("/experiments/3/stop", data=form)
    assert service.experiment(3).status == "stopped"
    refused = admin.post("/experiments/3/start", data=form)
    assert (refused.status_code, "<h1>Not possible</h1>" in refused.text) == (409, True)
    assert admin.post("/experiments/4/delete", data=form).headers["location"] == "/?done=deleted"
    assert admin.get("/experiments/4").status_code == 404


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [("rankers", "one", "rankers is"), ("control", "nobody", "control is"), ("k", "ten", "k is"),
     ("share", "200", "share is"), ("parameters", "rho=1", "rpm has no parameter"), ("name", "", "name is"),
     ("name", "x" * 200_000, "name has 200,000"), ("retention_days", "long", "retention_days is"),
     ("method", "magic", "no method"), ("name", "\x00", "name is"), ("confidence", "nan", "confidence is"),
     ("window", "1e400", "window is"), ("estimand", "clicks", "estimand is"), ("drop", "all", "drop is")],
)  # fmt: skip
def test_a_wrong_form_comes_back_with_what_is_wrong_and_what_was_typed(admin, service, field, value, says):
    form = {"csrf": token(admin, "/"), "name": "Kept <as typed>", "rankers": "a\nb\nc", "unit": "visit", field: value}
    answer = admin.post("/experiments/new", data=form)
    assert answer.status_code == 422
    assert says in unescape(answer.text)
    assert 'value="visit"' in answer.text
    assert field == "name" or 'value="Kept &lt;as typed&gt;"' in answer.text
    assert len(answer.content) < 60_000
    assert len(service.experiments()) == 2


def test_a_form_beyond_the_limits_is_refused(admin):
    assert admin.post("/experiments/new", data={"name": "x" * 1_200_000}).status_code == 413
    assert admin.post("/experiments/new", data={f"f{n}": "" for n in range(101)}).status_code == 422


def test_a_key_is_shown_once_and_revoked(service, admin):
    form = {"csrf": token(admin, "/"), "name": "web <frontend>", "role": "ingest"}
    text = re.search(r'id="key-text">([^<]+)<', admin.post("/keys", data=form).text).group(1)
    key = service.access.authenticate(unescape(text))
    assert (key.name, key.role) == ("web <frontend>", "ingest")
    assert text not in admin.get("/keys").text
    assert admin.post("/keys", data={**form, "role": "root"}).status_code == 422
    assert admin.post("/keys", data={**form, "name": ""}).status_code == 422
    assert admin.post(f"/keys/{key.number}/revoke", data=form).headers["location"] == "/keys?done=revoked"
    assert service.access.authenticate(unescape(text)) is None
    assert admin.post(f"/keys/{10**30}/revoke", data=form).status_code == 404


def test_hostile_ids_and_queries_are_harmless(service, admin):
    send_traffic(service, 2, document=NUL_AND_MORE + "x" * 400)
    page = admin.get("/experiments/2")
    first = re.search(r'href="(/experiments/2/impressions/[^"]+)"', page.text).group(1)
    for answer in (page, admin.get(first)):
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "\x00" not in answer.text
        answer.content.decode("utf-8", "strict")
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\\x00\\ud800\\u202e&amp;xxx" in admin.get(first).text


def test_hostile_addresses_are_refused_politely(admin):
    paths = [
        "/experiments/0", "/experiments/77", f"/experiments/{10**40}", "/experiments/2/impressions/nothing",
        "/experiments/2/impressions/%00", "/experiments/2/impressions/%ED%A0%80",
        "/experiments/2/impressions/" + "x" * 3000, "/experiments/2?action=%3Cb%3E",
        "/static/../views.py", "/static/%2e%2e/views.py", "/static/nothing",
    ]  # fmt: skip
    for path in paths:
        answer = admin.get(path)
        assert answer.status_code == 404, path
        assert "<b>" not in answer.text


def test_a_page_shows_verdict_plots_tables_health_and_recent_impressions(service, admin):
    send_traffic(service, 2, units=40)
    text = unescape(admin.get("/experiments/2").text)
    assert service.report(2).verdict.sentence in text
    for expected in (
        "ltr</span>",
        'class="strip',
        "Data health",
        "Recent impressions",
        ">40<",
        "Preference matrix",
    ):
        assert expected in text
    assert text.count('<tr class="open">') + text.count('<tr class="up">') + text.count('<tr class="down">') == 3
    assert 'href="/experiments/2?action=purchase"' in text
    assert "No preference between" in admin.get("/experiments/2?action=purchase").text
    fragment = admin.get("/experiments/2/live?action=click").text
    assert "<html" not in fragment
    assert 'id="sentence"' in fragment


def test_a_page_says_what_each_ranker_would_earn_alone(service, admin):
    number = service.create(AUTUMN.changed(name="Rates", method="dpm")).number
    service.start(number)
    send_traffic(service, number, units=60)
    rates = service.report(number).verdict.rates
    text = unescape(admin.get(f"/experiments/{number}").text)
    assert "What each ranker would earn alone" in text
    assert all(rate_words(rates, rate) in text for rate in rates.rankers)
    assert "If users stop after a good result, rates are biased" in text


def test_a_page_says_why_there_are_no_rates_and_what_to_do(service, admin):
    send_traffic(service, 2)
    text = unescape(admin.get("/experiments/2").text)
    note = service.report(2).rates_note
    assert note.startswith("No rates: With lead=32, rpm shows a ranker's own results at its ranks too seldom")
    assert "use dpm, or rpm(lead=2)" in note
    assert note in text
    assert "per page, " not in text


def test_an_impression_shows_who_contributed_what(service, admin):
    send_traffic(service, 2)
    key = service.recent(2)[0].key
    text = admin.get(f"/experiments/2/impressions/{key}").text
    detail = service.impression(2, key)
    for document in detail.documents:
        assert f">{document.document}</span>" in text
    assert re.findall(r'<th scope="col" class="number"><span class="name">(\w+)</span>', text) == list(RANKINGS)
    assert len(re.findall(r'<tr class="clicked">', text)) == 1
    assert "hidden" in text


def test_an_impression_says_which_rankers_failed(service, admin):
    def shown(**rankings):
        request = ShowRequest(rankings, unit=f"user of {len(rankings)}")
        assert asyncio.run(service.show(2, request)).recorded
        newest = max(service.recent(2), key=lambda one: one.at)
        return admin.get(f"/experiments/2/impressions/{newest.key}").text

    two = shown(bm25=RANKINGS["bm25"], ltr=RANKINGS["ltr"])
    assert re.search(r'Missing rankers \(failed or timed out\): <span class="name">dense</span>\.', two)
    assert "Documents as shown" in two
    one = shown(bm25=RANKINGS["bm25"])
    assert "no list was drawn" in one
    assert "Documents as shown" not in one


def test_many_rankers_are_drawn_in_part_and_all_on_a_page_of_their_own(service, admin):
    names = [f"ranker-{n}" for n in range(20)]
    number = service.create(Definition("Many", tuple(names), "ranker-7", k=4)).number
    service.start(number)

    async def traffic():
        for user in range(12):
            rankings = {name: [f"d{(n + user) % 9}", f"d{(n * 5 + 1) % 9 + 10}"] for n, name in enumerate(names)}
            shown = await service.show(number, ShowRequest(rankings, unit=f"user-{user}"))
            await service.record([Event(f"e{user}", shown.impression, position=0)])

    asyncio.run(traffic())
    service.fold()
    page = admin.get(f"/experiments/{number}").text
    assert "12 of 20 rankers" in page
    everything = admin.get(f"/experiments/{number}/pairs").text
    assert len(re.findall(r'<tr class="(?:open|up|down)">', everything)) == 190


def test_every_page_obeys_its_own_policy(service, admin):
    send_traffic(service, 2)
    first = f"/experiments/2/impressions/{service.recent(2)[0].key}"
    for path in [*GETS, "/experiments/2", first, "/experiments/9", "/static/style.css", "/static/live.js"]:
        answer = admin.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        if path.startswith("/static"):
            assert "immutable" in answer.headers["cache-control"]
            continue
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<style|\sstyle=|<script(?! src=\"/static/)|\son\w+=|https?://", answer.text)
        if not path.endswith("/live"):
            assert len(re.findall(r"<title>[^<]+ · multileave</title>", answer.text)) == 1
            assert len(re.findall(r"<h1", answer.text)) == 1
