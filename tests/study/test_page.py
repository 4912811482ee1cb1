"""The report: every file is there, and the page holds all of it, escaped, whole and on its own."""

import base64
import csv
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from multileave.cli import app
from multileave.errors import DataError, MissingExtra
from multileave.study.html_report import html_page, write_report
from multileave.study.results import RunResult
from multileave.study.summaries import summarise
from multileave.study.tables import make_tables
from multileave.version import __version__

HOSTILE = "</title></style><script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp;{0}|`"
VOID = {"meta", "img", "br", "hr", "link", "input"}


def grid(methods: tuple[str, ...] = ("tdm", "ppm"), dataset: str = "MQ2008", user: str = "perfect") -> list[RunResult]:
    rng = np.random.default_rng(2)
    return [
        RunResult(
            dataset=name,
            method=method,
            user=who,
            rankers=rankers,
            fold=1,
            run=run,
            impressions=(10, 1000),
            error_heldout=(0.5, rng.uniform(0.1, 0.2) + 0.2 * (method != "ppm")),
            error_same_queries=(0.5, rng.uniform(0.0, 0.1)),
            floor=0.1,
            bias=0.01,
            bias_z=1.0,
            seconds=0.25,
        )
        for name in (dataset, "OHSUMED")
        for who in (user, "random")
        for rankers in (5, 15)
        for method in methods
        for run in range(5)
    ]


class Page(HTMLParser):
    """Reads a page: its tags with attributes, its text, and whether tags close as they should."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(results: list[RunResult], settings: dict[str, object], **options: str) -> str:
    return html_page(make_tables(results), {}, summarise(results), settings, **options)


def write(out: Path) -> list[Path]:
    command = ["multileave", "study", "--data", "my data"]
    return write_report(grid(), {"runs": 5, "data": Path("/data")}, out, command=command)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """Return a folder that had to be made, and the files written to it."""
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("study") / "a" / "report"
    return out, write(out)


def test_every_file_of_the_report_is_written_and_named(report: tuple[Path, list[Path]]) -> None:
    out, written = report
    assert {path.name for path in written} == {
        "tables.md", "tables.tex", "results.csv", "summary.json", "index.html",
        *(f"errors-{rankers}-rankers.{form}" for rankers in (5, 15) for form in ("png", "pdf")),
    }  # fmt: skip
    assert sorted(out.iterdir()) == sorted(written)
    assert all(path.stat().st_size > 100 for path in written)
    document = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert document["settings"] == {"runs": 5, "data": "/data"}
    assert document["version"] == __version__
    assert document["results"] == [summary.to_dict() for summary in summarise(grid())]
    with open(out / "results.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(document["results"]) == 2 * 2 * 2 * 2


def test_the_figures_are_within_the_page_and_nothing_is_fetched(report: tuple[Path, list[Path]]) -> None:
    page = Page((report[0] / "index.html").read_text(encoding="utf-8"))
    images = page.all("img")
    assert len(images) == 2
    for image in images:
        source = str(image["src"])
        assert source.startswith("data:image/svg+xml;base64,")
        assert b"<svg" in base64.b64decode(source.partition(",")[2], validate=True)
        assert image["alt"]
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object"})
    addresses = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(str(value).startswith("data:") for value in addresses)
    (policy,) = [str(meta["content"]) for meta in page.all("meta") if meta.get("http-equiv")]
    assert "default-src 'none'" in policy


def test_a_report_made_twice_is_the_same_to_the_byte(report: tuple[Path, list[Path]], tmp_path: Path) -> None:
    for path in write(tmp_path):
        assert path.read_bytes() == (report[0] / path.name).read_bytes(), path.name


def test_tables_have_captions_scopes_and_every_cell() -> None:
    text = page_of(grid(), {"runs": 5})
    page = Page(text)
    assert page.open == []
    tables = make_tables(grid())
    assert len(page.all("caption")) == len(page.all("table")) == len(tables) + 1  # and the settings
    scopes = [attributes.get("scope") for attributes in page.all("th")]
    assert set(scopes) == {"col", "row", "rowgroup"}
    rows = [row for table in tables for section in table.sections for row in section.rows]
    assert scopes.count("row") == len(rows) + 1
    for row in rows:
        for cell in row.cells:
            assert cell.text in page.text
    assert len(page.all("html")) == 1
    assert page.all("html")[0]["lang"] == "en"
    identities = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    assert all(a["aria-labelledby"] in identities for _, a in page.tags if "aria-labelledby" in a)


def test_marks_say_in_words_what_they_mean() -> None:
    text = page_of(grid(), {})
    assert 'aria-label="ppm better, p &lt; .01" title="ppm better, p &lt; .01">▼</span>' in text


def test_the_best_is_strong() -> None:
    table = make_tables(grid())[0]
    best = table.sections[0].rows[0].cells[1]
    assert best.bold
    assert f"<td><strong>{best.text}</strong> <small>({best.aside})</small></td>" in page_of(grid(), {})


def test_settings_command_and_version_are_on_the_page() -> None:
    page = Page(
        page_of(
            grid(),
            {"title": "My study", "methods": ["tdm", "ppm"], "own": {"me": {"click": [0, 1]}}, "data": None, "k": 10},
            command=["multileave", "study", "--runs", "5"],
        )
    )
    for shown in ("My study", "tdm, ppm", '{"me": {"click": [0, 1]}}', "multileave study --runs 5", __version__):
        assert shown in page.text
    assert "title" not in [word.strip() for word in page.words]  # it is the heading, and no setting


def test_a_command_is_quoted_for_the_shell(report: tuple[Path, list[Path]]) -> None:
    assert "multileave study --data 'my data'" in Page((report[0] / "index.html").read_text(encoding="utf-8")).text


def test_nothing_from_outside_becomes_markup() -> None:
    results = grid((HOSTILE, "ppm"), HOSTILE + "d", HOSTILE + "u")
    plain = page_of(grid(), {"a": "b"}, command=["c"])
    text = page_of(results, {HOSTILE: [HOSTILE], "x": {HOSTILE: HOSTILE}, "title": HOSTILE}, command=[HOSTILE])
    page = Page(text)
    assert page.open == []
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in Page(plain).tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not re.search(r"<script|onerror=\"", text)
    assert page.text.count(HOSTILE) >= 8


def test_a_hostile_reference_cannot_leave_its_attribute() -> None:
    results = grid(("tdm", HOSTILE))
    page = Page(html_page(make_tables(results, against=HOSTILE), {}, summarise(results), {}))
    labels = [attributes["aria-label"] for attributes in page.all("span") if "aria-label" in attributes]
    assert labels
    assert all(str(label).startswith(HOSTILE + " ") for label in labels)


def test_without_matplotlib_the_tables_are_there_and_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"multileave\[study\]"):
        write_report(grid(), {}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tables.md", "tables.tex", "results.csv", "summary.json"}


def test_without_jinja_a_study_fails_before_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "multileave.study.html_report")
    with pytest.raises(MissingExtra, match=r"Jinja.*multileave\[study\]"):
        app(["study", "--out", str(tmp_path / "out")], standalone_mode=False)
    assert not (tmp_path / "out").exists()


def test_random_users_alone_make_a_report_of_bias(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = [replace(run) for run in grid() if run.user == "random"]
    names = {path.name for path in write_report(results, {}, tmp_path)}
    assert names == {"tables.md", "tables.tex", "results.csv", "summary.json", "index.html"}
    assert "click at random" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_no_results_are_an_error_and_no_report(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no results"):
        write_report([], {}, tmp_path / "report")
    assert not (tmp_path / "report").exists()
