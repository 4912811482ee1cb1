"""The documentation site is built with warnings as errors, and can be read without internet."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="pip install 'multileave[docs]'")

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[1]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    quiet = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "unrecognized relative link" not in done.stderr
    return folder


class Loaded(HTMLParser):
    """Collects what a page loads by itself: scripts, styles, pictures."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in LOADED and given.get("rel") != "canonical" and given.get(LOADED[tag]):
            self.found.append(given[LOADED[tag]])


def test_every_page_is_on_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        made = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / (made.with_name("index.html") if page.name == "README.md" else made)).exists(), page
    for made in ("index.html", "reference/python.html", "reference/command-line.html", "reference/changes.html"):
        assert (site / made).exists()


def test_the_references_hold_names_commands_and_examples(site):
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in ("multileave.methods.pairwise_preference.PairwisePreference", "multileave.client.clients.Client"):
        assert f'id="{name}"' in python
    assert '<span class="gp">&gt;&gt;&gt; </span>' in python
    assert "<blockquote>" not in python
    commands = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for option in ("--qrels", "--check-ids", "--install-completion"):
        assert option in commands


def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        for address in Loaded(page).found:
            assert not re.match(r"(https?:)?//", address), f"{page.name} loads {address}"
            if not address.startswith("data:"):
                target = (page.parent if not address.startswith("/") else site) / address.lstrip("/").split("?")[0]
                assert page.name == "404.html" or target.exists(), f"{page.name} loads {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", style.read_text(encoding="utf-8"))


def test_a_folder_can_be_searched_without_internet(site, chromium):
    page = chromium.new_context(offline=True).new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "how-to" / "solr.html").as_uri())
    page.click("input[name=query]")
    page.keyboard.type("counterexample")
    page.wait_for_selector(".md-search-result__link", state="attached")
    assert page.locator(".md-search-result__link", has_text="Theory").count() > 0
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []
