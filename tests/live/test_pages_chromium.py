"""The pages in a real browser: by the keyboard alone, refreshed while traffic runs, and readable by everybody."""

import json
import random
import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")

import httpx
import uvicorn

from multileave.live.definition import Definition
from multileave.live.http.app import create_app
from multileave.live.settings import Settings

pytestmark = pytest.mark.acceptance

DOCUMENTS = [f"d{n}" for n in range(12)]
RANKINGS = {"bm25": DOCUMENTS[::-1], "dense": DOCUMENTS[6:] + DOCUMENTS[:6], "ltr": DOCUMENTS}
HOSTILE = "<img src=x onerror=alert(1)>\x00\u202e" + "W" * 450
MOST_TABS = 80


@contextmanager
def serving(folder, **settings):
    """Serve the whole app on a free port; give its address and its service."""
    app = create_app(Settings(database=f"sqlite:///{folder}/pages.db", fold_seconds=0.3, **settings))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", app.state.service
    finally:
        server.should_exit = True
        thread.join()


def send_traffic(address, key, number, users, seed=0, rankings=RANKINGS):
    """Let users search through the HTTP API; they click what is relevant, mostly."""
    rng = random.Random(seed)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with httpx.Client(base_url=f"{address}/api/v1", headers=headers) as client:
        events = []
        for user in range(users):
            body = {"rankings": rankings, "unit": f"user-{seed}-{user}", "query": f"shoes {user % 7}"}
            shown = (
                client.post(f"/experiments/{number}/impressions", content=json.dumps(body)).raise_for_status().json()
            )
            for position, document in enumerate(shown["shown"]):
                if rng.random() < (0.6 if document in DOCUMENTS[:4] else 0.05):
                    event = {"id": f"{seed}-{user}-{position}", "impression": shown["impression"], "position": position}
                    events.append(event)
        for start in range(0, len(events), 500):
            answer = client.post("/events", json=events[start : start + 500]).raise_for_status().json()
            assert answer["rejected"] == 0


def open_page(chromium, address, **context):
    """Open the start page, and fail on anything that the browser complains about."""
    page = chromium.new_context(**{"color_scheme": "light", **context}).new_page()
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
    page.goto(address)
    return page


def click(page, selector):
    """Click on what leads to another page, and wait for it."""
    with page.expect_navigation():
        page.click(selector)


def tab_to(page, selector):
    """Press Tab until an element has the focus, and see that it shows."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid", f"the focus on {selector} cannot be seen"
            return
    raise AssertionError(f"no Tab leads to {selector}")


def press(page, selector):
    """Go to a link or a button by Tab, press Enter, and wait for the page it leads to."""
    tab_to(page, selector)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def fill(page, selector, text):
    tab_to(page, selector)
    for number, line in enumerate(text.split("\n")):
        if number:
            page.keyboard.press("Enter")
        page.keyboard.type(line)


def test_an_experiment_is_run_by_the_keyboard_alone_while_traffic_changes_its_verdict(chromium, tmp_path):
    with serving(tmp_path) as (address, service):
        key, ingest = service.access.create_key("ops", "admin")[1], service.access.create_key("frontend", "ingest")[1]
        page = open_page(chromium, address)
        assert page.url == f"{address}/login"
        fill(page, "#key", key)
        with page.expect_navigation():
            page.keyboard.press("Enter")

        press(page, "a[href='/experiments/new']")
        fill(page, "#name", "Autumn")
        fill(page, "#rankers", "bm25\ndense\nltr")
        fill(page, "#control", "bm25")
        press(page, ".submit button")
        assert "draft" in page.inner_text("#live-heading")
        press(page, "#start")
        assert "running" in page.inner_text("#live-heading")
        assert page.inner_text("#sentence") == "No verdict yet."

        page.evaluate("window.notLoadedAgain = true; window.firstSentence = document.getElementById('sentence')")
        tab_to(page, "#share")
        page.keyboard.press("Control+A")
        page.keyboard.type("55")
        send_traffic(address, ingest, 1, 40)
        page.locator("#sentence", has_not_text="No verdict yet.").wait_for(timeout=20_000)
        early = page.inner_text("#sentence")
        tab_to(page, "#others summary")
        page.keyboard.press("Enter")
        send_traffic(address, ingest, 1, 400, seed=1)
        page.locator("#sentence", has_text="ltr is preferred to bm25 and dense").wait_for(timeout=20_000)
        assert page.inner_text("#sentence") != early
        assert page.evaluate("window.notLoadedAgain && document.activeElement.parentElement.id") == "others"
        assert page.evaluate("document.getElementById('others').open")
        assert page.evaluate("document.getElementById('sentence') === window.firstSentence"), (
            "it would be announced again"
        )
        assert page.input_value("#share") == "55"
        assert page.locator("[aria-live]").count() == 1
        assert page.locator("#live-forest .strip.up").count() >= 2

        press(page, "#live-recent tbody a")
        assert page.inner_text("h1") == "Impression"
        assert page.locator(".documents tbody tr").count() == 11
        page.go_back()

        press(page, "#clone")
        assert page.input_value("#rankers") == "bm25\ndense\nltr"
        press(page, ".submit button")
        assert "version 2" in page.inner_text("#live-heading")
        assert "draft" in page.inner_text("#live-heading")

        page.goto(f"{address}/experiments/1")
        tab_to(page, "#stop summary")
        page.keyboard.press("Enter")
        press(page, "#stop button")
        assert "stopped" in page.inner_text("#live-heading")
        assert service.experiment(1).status == "stopped"
        press(page, ".who button")
        assert page.url == f"{address}/login"
        assert page.complaints == []
        page.context.close()


def test_a_page_says_when_it_cannot_refresh_and_can_be_paused(chromium, tmp_path):
    with serving(tmp_path, open=True) as (address, service):
        service.create(Definition("Autumn", tuple(RANKINGS), "bm25"))
        service.start(1)
        page = open_page(chromium, f"{address}/experiments/1")
        page.clock.install()
        page.reload()
        page.clock.run_for(3500)
        page.locator("#refreshed", has_text="Refreshed at").wait_for()
        page.route("**/live*", lambda route: route.abort())
        page.clock.run_for(3500)
        page.locator("#refreshed", has_text="does not answer").wait_for()
        page.unroute("**/live*")
        page.focus("#pause")
        page.keyboard.press("Enter")
        assert page.get_attribute("#pause", "aria-pressed") == "true"
        service.stop(1)
        page.clock.run_for(60_000)
        assert "running" in page.inner_text("#live-heading")
        page.keyboard.press("Enter")
        page.locator("#live-heading", has_text="stopped").wait_for()
        page.context.close()


def test_the_page_refreshes_without_javascript(chromium, tmp_path):
    with serving(tmp_path, open=True) as (address, service):
        service.create(Definition("Autumn", tuple(RANKINGS), "bm25"))
        page = open_page(chromium, f"{address}/experiments/1", java_script_enabled=False)
        assert page.get_attribute("meta[http-equiv=refresh]", "content") == "20"
        assert not page.is_visible("#pause")
        click(page, "#start")
        assert "running" in page.inner_text("#live-heading")
        page.context.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A service with something on every page, hostile names among it, and the addresses of the pages."""
    with serving(tmp_path_factory.mktemp("filled"), open=True) as (address, service):
        wide = Definition("<b>" + "W" * 90, ("W" * 100, "<i>&amp;", "ltr"), "<i>&amp;", keep_queries=True)
        service.create(Definition("Autumn", tuple(RANKINGS), "bm25", keep_queries=True, actions=("click", "order")))
        service.create(wide)
        service.create(Definition("Draft", ("a", "b"), "a"))
        named = dict(zip(("bm25-with-synonyms-and-spelling", "W" * 100, "ltr"), RANKINGS.values(), strict=True))
        service.create(Definition("Rates", tuple(named), "ltr", method="dpm"))
        for number in (1, 2, 4):
            service.start(number)
        for name, role in (("<b>ops</b>", "admin"), ("W" * 100, "read")):
            service.access.create_key(name, role, experiments=range(1, 200))
        service.edit(3, {"share": 0.5, "name": "W" * 100})
        send_traffic(address, "none", 1, 60)
        hostile = {name: [HOSTILE, *ids] for name, ids in zip(wide.rankers, RANKINGS.values(), strict=True)}
        send_traffic(address, "none", 2, 30, rankings=hostile)
        send_traffic(address, "none", 4, 200, rankings=named)
        service.stop(2)
        service.fold()
        seen = [f"/experiments/{n}/impressions/{service.recent(n)[0].key}" for n in (1, 2)]
        paths = ["/", "/?q=W&status=stopped&result=none", "/?q=<b>nothing",
                 "/experiments/new", "/experiments/1", "/experiments/2", "/experiments/3", "/experiments/4",
                 "/experiments/1/pairs", "/experiments/1/segments",
                 "/experiments/1/clone", *seen, "/keys", "/audit", "/audit?experiment=1",
                 "/experiments/99"]  # fmt: skip
        yield address, paths


def look_at(page, address):
    """Load a page, with all details open."""
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach(details => (details.open = true))")


@pytest.mark.parametrize("width", [1280, 360])
def test_no_page_is_wider_than_the_screen_and_hostile_text_runs_no_script(chromium, filled, width):
    address, paths = filled
    page = open_page(chromium, address, viewport={"width": width, "height": 800})
    for path in paths:
        look_at(page, address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.locator("main img, main b, main i").count() == 0
    assert [text for text in page.complaints if "404" not in text] == []
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(chromium, filled, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'multileave[dev]'").Axe()
    address, paths = filled
    page = open_page(chromium, address, color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 384) is (scheme == "dark")
    for path in paths:
        look_at(page, address + path)
        found = axe.run(page).response
        assert found["passes"], path
        said = [(v["id"], node["html"][:200]) for v in found["violations"] for node in v["nodes"]]
        assert said == [], path
    page.context.close()


def test_axe_finds_nothing_on_the_login_and_on_refused_forms(chromium, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'multileave[dev]'").Axe()
    with serving(tmp_path) as (address, service):
        page = open_page(chromium, address)
        page.fill("#key", "wrong")
        click(page, "main button")
        page.wait_for_function("document.activeElement.id === 'error'")
        assert axe.run(page).response["violations"] == []
        page.fill("#key", service.access.create_key("ops", "admin")[1])
        click(page, "main button")
        page.goto(f"{address}/experiments/new")
        page.fill("#name", "Autumn")
        page.fill("#rankers", "one")
        page.fill("#k", "ten")
        click(page, ".submit button")
        page.wait_for_function("document.activeElement.id === 'error'")
        assert page.get_attribute("#rankers", "aria-invalid") == "true"
        assert axe.run(page).response["violations"] == []
        page.context.close()
