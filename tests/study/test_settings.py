"""Settings from files and for the paper's grid, and run files compared from Python."""

from pathlib import Path

import pytest

from multileave.errors import DataError
from multileave.study.settings import PAPER_METHODS, PAPER_USERS, Settings, describe, load_settings, paper_settings
from multileave.study.systems import compare_runs


def test_the_papers_grid_is_made_of_the_data_sets_that_are_there(tmp_path: Path) -> None:
    for name in ("MQ2008", "MSLR-WEB10K"):
        (tmp_path / name / "Fold1").mkdir(parents=True)
    few, many = paper_settings(data=str(tmp_path), runs=3, k=None)
    assert (few.datasets, few.rankers) == (("MQ2008", "MSLR-WEB10K"), (5, 15))
    assert (many.datasets, many.rankers) == (("MSLR-WEB10K",), (40,))
    assert (few.methods, few.users, few.runs, few.k) == (PAPER_METHODS, PAPER_USERS, 3, 10)
    assert describe([few, many])["rankers"] == [5, 15, 40]
    toml = tmp_path / "study.toml"
    toml.write_text(f'data = "{tmp_path}"\nmethods = ["rpm"]\nk = 5\n')
    (few, _) = paper_settings(toml)
    assert (few.methods, few.k) == (("rpm",), 5)
    with pytest.raises(DataError, match="none of the paper's data sets"):
        paper_settings(data=str(tmp_path / "MQ2008" / "Fold1"))
    with pytest.raises(DataError, match="it holds MQ2008 MSLR-WEB10K"):
        load_settings(toml)


def test_run_files_are_compared_without_the_command_line() -> None:
    examples = Path(__file__).parents[2] / "examples" / "runs"
    settings = Settings(
        run_files=tuple(str(examples / f"{name}.run") for name in ("bm25", "ltr")),
        qrels=str(examples / "topics.qrels"), methods=("rpm",), users=("perfect",), impressions=1500,
    )  # fmt: skip
    steps: list[tuple[int, int, str]] = []
    compared = compare_runs(settings, lambda *step: steps.append(step))
    assert compared.verdicts["perfect"].winner == "ltr"
    assert [row.name for row in compared.table.sections[0].rows] == ["ltr", "bm25"]
    assert [step[:2] for step in steps] == [(1000, 1500), (1500, 1500)]
