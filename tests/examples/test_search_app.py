"""The tutorial's search site, started as it is told to be, and used in a real browser beside simulated people."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")
httpx = pytest.importorskip("httpx", reason="pip install 'multileave[client]'")

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "search_app"
SEARCHES = 40


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Run the example on free ports; return the addresses of the site and of the service that it prints."""
    command = [sys.executable, APP / "run.py", "--port", "0", "--service-port", "0", "--deadline", "10"]
    folder = tmp_path_factory.mktemp("recorded")
    process = subprocess.Popen(
        [*map(str, command), "--data", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    try:
        line = process.stdout.readline()
        site, service = re.findall(r"http://127\.0\.0\.1:\d+", line)
        yield site, service
    finally:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert said.strip() == "Stopping."
    assert process.returncode == 0


def test_the_rankers_truly_differ(monkeypatch):
    monkeypatch.syspath_prepend(APP)
    from engine import RANKERS, Engine

    found = Engine().rank("carrot soup")
    assert set(found) == set(RANKERS)
    assert len({tuple(ranking[:10]) for ranking in found.values()}) == len(RANKERS)
    assert len({recipe for ranking in found.values() for recipe in ranking}) > 10


def test_a_search_and_a_click_reach_the_dashboard(addresses, chromium):
    site, service = addresses
    page = chromium.new_page()
    page.goto(site)
    page.get_by_label("Search").fill("carrot soup")
    page.keyboard.press("Enter")
    page.wait_for_selector("ol")
    results = page.locator("ol li a")
    assert results.count() == 10
    assert "carrot" in " ".join(results.all_inner_texts())
    title = results.nth(2).inner_text()
    results.nth(2).click()
    page.wait_for_selector("h2")
    assert page.locator("h2").inner_text() == title

    page.goto(f"{service}/experiments/1")
    page.locator("a[href*='/impressions/']").first.click()
    for _ in range(100):  # clicks are sent together, a moment later
        if page.locator("tr.clicked").count():
            break
        page.wait_for_timeout(100)
        page.reload()
    assert page.locator("tr.clicked td").first.inner_text() == "3"
    assert page.locator("table.documents thead").inner_text().split()[2:5] == ["text", "title", "popular"]


def test_people_search_and_are_counted(addresses, monkeypatch):
    monkeypatch.syspath_prepend(APP)
    from searchers import searcher

    site, service = addresses
    before = httpx.get(f"{service}/api/v1/experiments/1/impressions", params={"limit": 500}).json()["impressions"]
    assert searcher(site, 7, threading.Event(), most=SEARCHES) == SEARCHES
    after = httpx.get(f"{service}/api/v1/experiments/1/impressions", params={"limit": 500}).json()["impressions"]
    assert 0.9 * SEARCHES <= len(after) - len(before) <= SEARCHES  # the same search again is the same impression


def test_the_site_is_readable_by_everybody(addresses, chromium):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'multileave[dev]'").Axe()
    page = chromium.new_page()
    for path in ("/", "/?q=carrot+soup", "/recipe/recipe-0200"):
        page.goto(addresses[0] + path)
        found = axe.run(page)
        assert found.violations_count == 0, found.generate_report()


def test_a_search_that_finds_nothing_says_so(addresses):
    assert "Nothing found" in httpx.get(addresses[0], params={"q": "zzz"}).text
    assert "<script>" not in httpx.get(addresses[0], params={"q": "<script>soup"}).text
