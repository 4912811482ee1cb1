"""The notebooks run from top to bottom, and the quick start still prints what it shows."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.filterwarnings("default"),  # Jupyter's own packages warn
]


def run(path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    monkeypatch.setenv("MULTILEAVE_SMALL", "1")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("MULTILEAVE_DATA", raising=False)
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    return book


def texts(book: Any) -> list[str]:
    """Return what cells print; of a verdict its sentence, for the last digits of its numbers may differ."""
    found = []
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            found.append(output.get("text") or data.get("text/html", "").partition("</p>")[0] or data["text/plain"])
    return found


def test_the_quick_start_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = FOLDER / "quick_start.ipynb"
    found, shown = texts(run(path, monkeypatch, tmp_path)), texts(nbformat.read(path, as_version=4))
    assert len(shown) > 5
    assert found == shown


def test_the_paper_is_reproduced_on_small_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = "".join(texts(run(FOLDER / "reproduce_the_paper.ipynb", monkeypatch, tmp_path)))
    assert "18 runs, 9,000 impressions" in found
    assert "(3 documents, 2 rankers)" in found
    assert "E[P" in found


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.name)
def test_notebooks_are_small_and_whole(path: Path) -> None:
    assert path.stat().st_size < 300_000
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    for cell in book.cells:
        if cell.cell_type == "code":
            assert cell.outputs, f"a cell was not run: {cell.source[:60]}"
