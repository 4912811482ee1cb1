"""Every Python block of the README and the docs runs, and prints what the text block after it says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import stand_in_engine
from multileave.cli.methods import reads
from multileave.methods import base

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLOW = {"is-my-traffic-like-this.md"}
PAGES = [
    pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.acceptance] if page.name in SLOW else [])
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
]


@pytest.fixture(scope="module")
def engine():
    """Return the address of a search server for clients to talk to."""
    with stand_in_engine.running() as address:
        yield address


@pytest.mark.usefixtures("forget_methods")
@pytest.mark.parametrize("page", PAGES)
def test_code_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch, engine):
    monkeypatch.chdir(tmp_path)
    for name in ("OPENSEARCH_URL", "ELASTICSEARCH_URL", "SOLR_URL"):
        monkeypatch.setenv(name, engine)
    namespace = {"__name__": "docs"}
    printed = None
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(body, str(page), "exec"), namespace)
            printed = output.getvalue()
        elif language == "text" and printed:
            assert body.strip() == printed.strip()
            printed = None


def test_the_readme_is_short_and_links_to_what_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) < 110
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", readme)
    assert "docs/methods.md" in links
    for link in links:
        assert (ROOT / link).exists(), f"README.md links to {link}, which is absent"


def test_every_how_to_starts_with_what_you_will_have_at_the_end():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("- How to:\n")[2].partition("\n  - ")[0]
    pages = re.findall(r": (\S+\.md)$", listed, re.MULTILINE)
    assert len(pages) > 15
    for page in (*pages, "tutorial.md", "demo.md", "library.md"):
        first = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n\n")[1]
        assert first.startswith("At the end"), f"docs/{page} does not start with what you will have at the end"


def test_every_reference_key_is_in_the_bibliography():
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(), re.MULTILINE))
    for source in (ROOT / "src").rglob("*.py"):
        for key in re.findall(r"\[([a-z]+(?:19|20)\d\d)\]", source.read_text(encoding="utf-8")):
            assert key in known, f"{source.name} cites [{key}], which docs/references.bib does not have"
    for method in base.methods().values():
        if method.__module__.startswith("multileave."):
            assert method.reference in known


def test_the_public_names_are_few_and_there():
    import multileave as ml

    assert 20 <= len(ml.__all__) <= 25
    assert list(ml.__all__) == sorted(ml.__all__)
    for name in (*ml.__all__, *ml.errors.__all__):
        assert hasattr(ml, name)
    assert set(ml.__all__) <= set(dir(ml))
    with pytest.raises(AttributeError, match="has no attribute 'nearest'"):
        _ = ml.nearest


def test_every_method_stands_in_the_table_of_methods():
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    for name, method in base.methods().items():
        assert f"| `{name}` |" in page, f"docs/methods.md lacks {name}, {method.title}"
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[2].startswith("yes") == method.considerate
        assert bool(method.unbiased_lists) == (cells[3] == "yes")
        assert cells[5] == reads(method)
        assert (cells[6] == "yes") == method.clone_proof
        assert cells[7] == str(method.most_rankers or "any")
