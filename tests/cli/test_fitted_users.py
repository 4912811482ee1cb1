"""--users-from: users fitted to a log, on every command that simulates users."""

import json
from pathlib import Path
from typing import Any

import pytest

from multileave.cli import main
from multileave.clicks import find_user
from multileave.data import read_runs
from multileave.methods.base import get_method
from multileave.stats import Design
from multileave.stats import plan as make
from multileave.study.engine import Simulation
from multileave.study.power import upper_pairs
from multileave.study.runner import all_tasks, run_task
from multileave.study.settings import Settings

RUNS = Path(__file__).parents[2] / "examples" / "runs"
FILES = [str(RUNS / f"{name}.run") for name in ("bm25", "dense", "ltr")]
QRELS = str(RUNS / "topics.qrels")
USERS = """
version = 1
best = "dependent"
[attractiveness]
quantiles = [0.0, 0.1, 0.2, 0.6]
[models.dependent]
go_on_after_click = [0.5, 0.6]
go_on = 0.9
[models.returning]
go_on_after_click = 0.7
go_on_after_skip = 0.9
back = 0.4
"""


@pytest.fixture
def users(tmp_path: Path) -> str:
    path = tmp_path / "ours.toml"
    path.write_text(USERS)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([*map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_study_compares_systems_with_fitted_users(
    capsys: pytest.CaptureFixture[str], users: str, tmp_path: Path
) -> None:
    given = ["study", "--runs", *FILES, "--qrels", QRELS, "--methods", "tdm", "--impressions", 400, "--repeats", 1,
             "--users-from", users, "--jobs", 1, "--out", tmp_path / "s", "--json"]  # fmt: skip
    code, out, err = run(capsys, *given)
    assert code == 0, err
    found = json.loads(out)
    assert list(found["verdicts"]) == ["ours.dependent"]
    assert {record["user"] for record in found["results"]} == {"ours.dependent"}
    code, out, _ = run(capsys, *given, "--users", "ours", "navigational")
    assert list(json.loads(out)["verdicts"]) == ["ours", "navigational"]
    Path(users).write_text(USERS.replace("0.6]\n[models.dep", "0.7]\n[models.dep"))
    code, _, err = run(capsys, *given)
    assert (code, "holds a study with users_from" in err) == (2, True)  # not mixed with those of another fit


def test_study_gives_fitted_users_the_attractiveness_of_the_grades_shown(users: str) -> None:
    queries = read_runs(FILES, QRELS).queries
    settings = Settings(run_files=tuple(FILES), qrels=QRELS, users=("ours",), users_from=(users,), methods=("tdm",))
    task = next(all_tasks(settings))
    (result,) = run_task(settings.changed(impressions=300), task)
    user = find_user("ours", queries.grades, [users], shares=queries.grade_shares(10))
    assert user != find_user("ours", queries.grades, [users])
    simulation = Simulation(queries, "tdm", user, seed=task.seed(settings, f"{get_method('tdm').spelled}/ours"))
    simulation.run(300)
    assert result.preferences == upper_pairs(simulation.preferences / 300)


def test_plan_counts_the_users_that_a_decision_takes(capsys: pytest.CaptureFixture[str], users: str) -> None:
    given = ["plan", "--runs", *FILES, "--qrels", QRELS, "--users-from", users, "--method", "tdm",
             "--simulated", 40_000, "--impressions-per-user", 3]  # fmt: skip
    code, out, err = run(capsys, *given, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert len(found["plans"]) + len(found["too_close"]) == 3
    (planned,) = (one for one in found["plans"] if one["pair"] == "bm25 / ltr")
    queries = read_runs(FILES, QRELS).queries
    user = find_user("ours.dependent", queries.grades, [users], shares=queries.grade_shares(10))
    simulation = Simulation(queries, "tdm", user, seed=42)
    simulation.run(40_000)
    design = Design.assumed(simulation.variances[0, 2] ** 0.5, 3.0)
    expected = make(design, simulation.preferences[0, 2] / 40_000, comparisons=3)
    assert (planned["units"], planned["impressions"]) == (expected.units, expected.impressions)
    code, out, _ = run(capsys, *given, "--pair", "ltr", "dense", "--effect", 0.05)
    assert code == 0
    assert "dense / ltr: about" in out


def test_demo_and_simulated_logs_have_fitted_users(
    capsys: pytest.CaptureFixture[str], users: str, tmp_path: Path
) -> None:
    code, _, err = run(
        capsys, "simulate-log", "--out", tmp_path / "log", "--lines", "--impressions", 400, "--users-from", users,
        "--user", "ours.returning", "--method", "tdm",
    )  # fmt: skip
    assert code == 0, err
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (tmp_path / "log" / "impressions" / "part-00000.jsonl").open()
    ]
    clicked = [[c["position"] for c in row["clicks"] if c["action"] == "click"] for row in rows]
    assert any(page != sorted(page) for page in clicked)
    code, _, err = run(capsys, "demo", "--users-from", users, "--user", "ours.browsing", "--impressions", 10)
    assert (code, "ours have no model 'browsing'" in err) == (2, True)


def test_check_decides_for_a_fitted_user(capsys: pytest.CaptureFixture[str], users: str) -> None:
    code, out, err = run(
        capsys, "check", "tdm", "rpm", "--documents", 3, "--rankers", 2, "--users-from", users, "--user",
        "ours.returning", "--json", "--jobs", 1,
    )  # fmt: skip
    assert code == 0, err
    team_draft, rounds = json.loads(out)["reports"]
    assert team_draft["user"] == "ours.returning"
    assert not team_draft["pareto"]["holds"]
    assert team_draft["pareto"]["counterexample"]["user"]["back"] == ["2/5"]
    assert rounds["pareto"]["proved"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--runs", FILES[0], "--qrels", QRELS], "needs two or more of them"),
        (["plan", "--runs", *FILES], "needs two or more of them and their qrels"),
        (["plan", "--users-from", "{users}", "--effect", "0.1", "--sd", "1"], "are for run files"),
        (["plan", "tally.json", "--runs", *FILES, "--qrels", QRELS], "Plan from one of them"),
        (["plan", "--runs", *FILES, "--qrels", QRELS, "--pair", "bm25", "bm52"], "expected two of bm25, dense, ltr"),
        (["plan", "--runs", *FILES, "--qrels", QRELS, "--simulated", "0"], "impressions is 0"),
        (["study", "--users-from", "nowhere.toml"], "cannot be read"),
        (["study", "--users-from", "{users}", "--users", "theirs"], "no user 'theirs'"),
        (["study", "--users-from", "{users}", "--attractiveness", "x"], "attractiveness is 'x'"),
        (["check", "tdm", "--users-from", "{users}", "--user", "ours.position"], "no model 'position'"),
    ],
)
def test_nonsense_is_refused(
    capsys: pytest.CaptureFixture[str], users: str, tmp_path: Path, arguments: list[str], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *(argument.replace("{users}", users) for argument in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
