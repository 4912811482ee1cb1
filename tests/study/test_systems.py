"""Studies of run files: unequal lists go through the engine as through the API, and users give a verdict."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multileave.cli import main
from multileave.clicks import cascade_clicks, user
from multileave.data import QuerySet, read_runs
from multileave.errors import DataError
from multileave.methods.base import get_method, methods
from multileave.random import below, seed_state
from multileave.study import Simulation
from multileave.study.engine import pack
from multileave.study.runner import run_study
from multileave.study.settings import Settings
from multileave.study.systems import simulated_verdict

EXAMPLES = Path(__file__).parents[2] / "examples" / "runs"
RUNS = tuple(str(EXAMPLES / f"{name}.run") for name in ("bm25", "dense", "ltr"))
QRELS = str(EXAMPLES / "topics.qrels")
STUDY = ["study", "--runs", *RUNS, "--qrels", QRELS, "--methods", "dpm", "tdm", "--impressions", "2000",
         "--repeats", "3", "--jobs", "1"]  # fmt: skip


def unequal(rankers: int = 3) -> QuerySet:
    """Return made-up queries whose rankers returned 1 to 12 documents."""
    rng = np.random.default_rng(5)
    sizes, labels, rows, lengths = [0], [], [], []
    for _ in range(8):
        n = int(rng.integers(4, 13))
        sizes.append(sizes[-1] + n)
        labels.append(rng.integers(0, 3, n))
        rows += [rng.permutation(n) for _ in range(rankers)]
        lengths.append(rng.integers(1, n + 1, rankers))
    return QuerySet(
        tuple(f"r{r}" for r in range(rankers)), 3, np.array(sizes), np.concatenate(labels).astype(np.uint8),
        np.concatenate(rows).astype(np.int32), np.array(lengths, dtype=np.int32),
    )  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize("spec", list(methods()))
def test_the_loop_equals_the_api_on_unequal_lists(spec: str) -> None:
    method = get_method(spec)
    data, model, k = unequal(method.most_rankers or 3), user("informational", 3), 4
    simulation = Simulation(data, method, model, k=k, seed=11)
    simulation.run(200)
    rng = seed_state(11)
    total = np.zeros_like(simulation.preferences)
    for _ in range(200):
        q = int(below(rng, len(data)))
        labels, rankings = data.query(q)
        lists = [row[:n].tolist() for row, n in zip(rankings, data.lengths[q], strict=True)]
        impression = _combined(method, lists, k, rng)
        drawn = np.array(impression.drawn)
        clicks = np.zeros(len(drawn), dtype=np.uint8)
        cascade_clicks(labels[drawn], len(impression.shown), model.parameters, rng, clicks)
        total += method.infer(impression, clicks).preferences
    assert np.array_equal(simulation._rng, rng)
    assert simulation.preferences == pytest.approx(total, abs=1e-9)
    assert total.any()


def _combined(method: Any, lists: list[list[int]], k: int, rng: Any) -> Any:
    """Combine with the state of a generator rather than with a seed, and leave the state where the draw did."""
    import multileave.methods.base as base

    before = base.seed_state
    base.seed_state = lambda seed: rng
    try:
        return method.combine(lists, k)
    finally:
        base.seed_state = before


@pytest.mark.fast
def test_what_was_not_returned_is_absent() -> None:
    data = unequal()
    packed = pack(data, get_method("dpm"), 4)
    starts = packed.starts[:, 1]
    assert np.array_equal(packed.rows[starts], data.lengths)
    assert (packed.rows == 2**31 - 1).any()
    assert (packed.rows == -1).any()


def test_users_prefer_the_best_system() -> None:
    graded = read_runs(RUNS, QRELS)
    verdict = simulated_verdict(graded.queries, "dpm", user("navigational", 4), impressions=2000, seed=1)
    assert verdict.winner == "ltr"
    assert not verdict.warnings
    assert verdict.health.different_documents > 0.99
    steps: list[int] = []
    again = simulated_verdict(
        graded.queries, "dpm", user("navigational", 4), impressions=2000, seed=1, progress=steps.append
    )
    assert again.to_dict() == verdict.to_dict()
    assert sum(steps) == 2000


def test_one_command_gives_a_verdict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*STUDY, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "40 topics are compared" in out
    assert "navigational: ltr is preferred to bm25 and dense" in out
    assert "Binary error against NDCG@10 according to the qrels" in out
    assert "floor" not in out
    for name in ("tables.md", "tables.tex", "results.csv", "summary.json", "errors-3-rankers.png", "index.html"):
        assert (tmp_path / name).stat().st_size > 0
    page = (tmp_path / "index.html").read_text()
    assert "<strong>navigational users, by dpm</strong>: ltr is preferred to" in page
    assert "Warning:" not in page
    assert "<title>Which system do users prefer?</title>" in page
    assert "The systems according to the qrels, 40 topics" in page
    assert "held-out" not in page
    markdown = (tmp_path / "tables.md").read_text()
    assert "held-out" not in markdown
    assert "Binary error against NDCG@10 on the queries the users issued" in markdown
    latex = (tmp_path / "tables.tex").read_text().splitlines()
    widths = {line.count("&") for line in latex if line.startswith(("perfect &", "navigational &", "informational &"))}
    assert widths == {2}  # name, dpm, tdm; ppm, the reference of the marks, is not among the methods


def test_the_page_shows_the_verdicts_that_the_examples_give(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is by the first method and does not depend on the others or on the number of runs."""
    page = (EXAMPLES.parents[1] / "docs" / "study.md").read_text(encoding="utf-8")
    command = next(line for line in page.splitlines() if line.startswith("multileave study --runs"))
    monkeypatch.chdir(EXAMPLES)
    assert (
        main([*command.split()[1:], "--methods", "rpm", "--repeats", "1", "--out", str(tmp_path), "--jobs", "1"]) == 0
    )
    end = capsys.readouterr().out.partition("Verdict of simulated users")
    assert end[1] + end[2] in page


def test_json_holds_topics_truth_verdicts_and_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*STUDY, "--against", "tdm", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["topics"]["compared"] == 40
    truth = found["truth"]["ndcg@10"]
    assert sorted(truth, key=truth.get) == ["bm25", "dense", "ltr"]
    assert found["method"] == "dpm"
    assert list(found["verdicts"]) == ["perfect", "navigational", "informational"]
    assert found["verdicts"]["perfect"]["winner"] == "ltr"
    assert len(found["results"]) == 6
    for record in found["results"]:
        assert record["error_heldout"] is record["floor"] is None
        assert record["runs"] == 3
        assert record["error_same_queries"] <= 1 / 3
    rows = [line for line in (tmp_path / "tables.tex").read_text().splitlines() if line.startswith("perfect &")]
    assert {row.count("&") for row in rows} == {2, 3}  # in tables of errors a mark of tdm against dpm; no floor


def test_a_changed_run_file_is_another_study(tmp_path: Path) -> None:
    copies = [tmp_path / Path(run).name for run in RUNS]
    for copy, run in zip(copies, RUNS, strict=True):
        copy.write_text(Path(run).read_text())
    settings = Settings(
        run_files=tuple(map(str, copies)), qrels=QRELS, methods=("tdm",), users=("perfect",), runs=1, impressions=50
    )
    before = run_study(settings, tmp_path / "out")
    assert run_study(settings, tmp_path / "out") == before
    copies[0].write_text(copies[0].read_text().replace("401 Q0 401-", "401 Q0 x-"))
    with pytest.raises(DataError, match=r"holds a study with run_files=.*Choose another folder"):
        run_study(settings, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--runs", *RUNS], "need qrels to be judged by. Name the file with --qrels"),
        (["--runs", RUNS[0], "--qrels", QRELS], "a comparison needs two or more"),
        (["--qrels", QRELS], "a comparison needs two or more"),
        (["--runs", *RUNS, "--qrels", QRELS, "--data", "."], "one or the other"),
        (["--runs", *RUNS, "--qrels", QRELS, "--unjudged", "-1"], "unjudged is -1"),
        (["--runs", *RUNS, "--qrels", "nowhere.qrels"], "nowhere.qrels cannot be read"),
        (["--runs", *RUNS, QRELS, "--qrels", QRELS], "topics.qrels, line 1: found"),
        (["--runs", "0"], "runs is 0"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert main(["study", *arguments, "--out", str(tmp_path / "out"), "--jobs", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
