"""The tutorial's search site, started as it is told to be, and used in a real browser beside simulated people."""

import itertools
import os
import random
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
    assert re.fullmatch(r"[\d,]+ searches\. Users prefer .*\nMean reciprocal rank .*: smart .*\.", said.strip())
    assert process.returncode == 0


@pytest.fixture(scope="module")
def engine():
    sys.path.insert(0, str(APP))
    from engine import Engine

    yield Engine()
    sys.path.remove(str(APP))


def test_the_corpus_is_the_standard_library(engine):
    assert len(engine.documents) > 5000
    assert {"json.loads", "os.path.join", "str.split", "collections.Counter", "sorted"} <= set(engine.documents)
    assert engine.documents["json.loads"].signature.startswith("(s")


def test_every_need_can_be_met_by_some_ranker(engine):
    from needs import NEEDS

    for query, needed in NEEDS.items():
        assert set(needed) <= set(engine.documents), query


def test_the_rankers_truly_differ(engine):
    from engine import RANKERS

    found = engine.rank("copy a directory")
    assert set(found) == set(RANKERS)
    assert len({tuple(ranking[:10]) for ranking in found.values()}) == len(RANKERS)
    assert engine.rank("shufle list")["smart"][0] == "random.shuffle"


def test_the_verdict_agrees_with_the_truth_for_twenty_seeds(engine):
    """After 3,000 searches, every pair of rankers is significant and in the order of what people need."""
    from engine import RANKERS
    from needs import NEEDS
    from searchers import clicks, truth

    import multileave

    rankings = {query: engine.rank(query) for query in NEEDS}
    known = truth(rankings)
    method = multileave.get_method("recommended")
    for seed in range(20):
        rng = random.Random(seed)
        tally = multileave.Tally(RANKERS)
        for search in range(3000):
            query = rng.choice(list(NEEDS))
            found = {ranker: ranking or None for ranker, ranking in rankings[query].items()}
            impression = method.combine(found, 10, seed=f"{seed} {search}")
            positions = clicks(rng, query, impression.shown)
            tally.add(multileave.infer(impression, positions=positions), unit=search // 3)
        verdict = tally.verdict()
        assert verdict.winner == max(known, key=known.get) == "smart"
        for pair in verdict.pairs:
            first, second = pair.rankers
            assert pair.significant, (seed, pair)
            assert (pair.preference > 0) == (known[first] > known[second]), (seed, pair)


def test_a_search_and_a_click_reach_the_dashboard(addresses, chromium):
    site, service = addresses
    page = chromium.new_page()
    page.goto(site)
    page.get_by_label("Search").fill("copy a directory")
    page.keyboard.press("Enter")
    page.wait_for_selector("ol.results")
    results = page.locator("ol.results h2 a")
    assert results.count() == 10
    assert "shutil.copytree" in results.all_inner_texts()
    name = results.nth(2).inner_text()
    results.nth(2).click()
    page.wait_for_selector("pre")
    assert page.locator("h1").inner_text() == name

    page.goto(f"{service}/experiments/1")
    page.locator("a[href*='/impressions/']").first.click()
    for _ in range(100):  # clicks are sent together, a moment later
        if page.locator("tr.clicked").count():
            break
        page.wait_for_timeout(100)
        page.reload()
    assert page.locator("tr.clicked td").first.inner_text() == "3"
    assert page.locator("table.documents thead").inner_text().split()[2:6] == ["text", "names", "fuzzy", "smart"]


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
    for scheme, width in itertools.product(("light", "dark"), (375, 1280)):
        check_pages(axe, chromium.new_page(color_scheme=scheme, viewport={"width": width, "height": 800}), addresses[0])


def check_pages(axe, page, site):
    for path in ("/", "/?q=parse+json", "/?q=zzzz", "/doc/json.loads"):
        page.goto(site + path)
        found = axe.run(page)
        assert found.violations_count == 0, found.generate_report()


def test_a_search_that_finds_nothing_says_so(addresses):
    assert "Nothing found" in httpx.get(addresses[0], params={"q": "zzzz"}).text
    assert "<script>" not in httpx.get(addresses[0], params={"q": "<script>json"}).text
