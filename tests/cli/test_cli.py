"""The command line: what it prints, and how it fails."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from multileave.cli import main
from multileave.methods.base import methods
from multileave.study.demo import run_demo
from multileave.version import __version__

DEMO = ["demo", "--impressions", "2000", "--runs", "2"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from multileave.cli import main; sys.exit(main())", *DEMO, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.stderr.strip() == ""  # old versions of Rich end a progress bar that is not shown with a line
    return found


@pytest.mark.acceptance
def test_demo_runs_every_method_that_takes_so_many_rankers(report: dict[str, Any]) -> None:
    assert [m["method"] for m in report["methods"]] == [n for n, m in methods().items() if m.most_rankers is None]
    assert report["settings"]["impressions"] == 2000


@pytest.mark.acceptance
def test_demo_finds_the_known_winner(report: dict[str, Any]) -> None:
    assert report["truth"]["order"] == ["ltr", "hybrid", "dense", "bm25", "bm25-tuned"]
    recommended = report["methods"][0]
    assert recommended["method"] == "rpm"
    assert recommended["winner"] == "ltr"
    assert recommended["order"][0] == "ltr"


@pytest.mark.acceptance
def test_demo_shows_what_biased_methods_do(report: dict[str, Any]) -> None:
    found = {method["method"]: method for method in report["methods"]}
    assert found["rpm"]["guarantees"] == ["considerate", "unbiased", "finds a better ranker", "clone-proof"]
    assert found["rpm"]["false_alarms"] <= 0.15  # 5 % by chance, of 20 pairs
    assert found["om"]["false_alarms"] > 0.5
    assert found["sosm"]["long_run_error"] > found["rpm"]["long_run_error"]


@pytest.mark.acceptance
def test_demo_measures_errors_and_time(report: dict[str, Any]) -> None:
    for method in report["methods"]:
        assert [entry["impressions"] for entry in method["mean_errors"]] == [20, 200, 2000]
        assert method["mean_errors"][-1]["error"] <= 0.45
        assert 0 <= method["right_winners"] <= 2
        assert method["microseconds_per_impression"] > 0
        signs = [[(x > 0) - (x < 0) for x in row] for row in method["preferences"]]
        truth = list(report["truth"]["ndcg@10"].values())
        pairs = [(n, m) for n in range(5) for m in range(5)]
        wrong = sum(signs[n][m] != (truth[n] > truth[m]) - (truth[n] < truth[m]) for n, m in pairs)
        assert method["error"] == pytest.approx(wrong / 20)


@pytest.mark.acceptance
def test_demo_gives_the_same_for_the_same_seed(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    def timeless(found: dict[str, Any]) -> list[Any]:
        return [{k: v for k, v in m.items() if not k.startswith("micro")} for m in found["methods"]]

    _, out, _ = run(capsys, *DEMO, "--json", "--seed", "42")
    assert timeless(json.loads(out)) == timeless(report)
    _, out, _ = run(capsys, *DEMO, "--json", "--seed", "other")
    assert timeless(json.loads(out)) != timeless(report)


@pytest.mark.acceptance
def test_demo_prints_a_table_that_fits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    code, out, err = run(capsys, *DEMO)
    assert code == 0
    assert err.strip() == ""
    assert max(map(len, out.splitlines())) <= 100
    assert "Recommended: rpm" in out
    assert "NDCG@10" in out
    assert "2,000 pages of 10 results to navigational users" in out
    for name, method in methods().items():
        assert (f"│ {name} " in out) == (method.most_rankers is None)


@pytest.mark.acceptance
def test_the_page_about_the_demo_shows_what_it_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    page = (Path(__file__).parents[2] / "docs" / "demo.md").read_text(encoding="utf-8")
    _, out, _ = run(capsys, "demo")
    assert "\n".join(line.rstrip() for line in out.strip().splitlines()) in page


@pytest.mark.acceptance
def test_demo_shows_methods_when_they_are_done_even_if_no_other_process_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    told: list[str] = []
    shown: list[list[str]] = []
    run_demo(
        impressions=1,
        runs=1,
        progress=lambda done, total, what: told.append(what),
        show=lambda report: shown.append([method["name"] for method in report["methods"]]),
    )
    able = [name for name, method in methods().items() if method.most_rankers is None]
    assert shown[0] == ["rpm"]
    assert [len(names) for names in shown] == [n for n, _ in enumerate(able, 1)]
    assert shown[-1] == able
    compiling = [what for what in told if what.startswith("compiling")]
    assert compiling[0] == f"compiling rpm, 1 of {len(able)} (once per machine)"
    assert len(compiling) == len(able)


def test_demo_of_two_rankers_includes_interleaving(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "demo", "--rankers", "2", "--impressions", "300", "--runs", "1", "--json")
    assert code == 0
    assert [m["method"] for m in json.loads(out)["methods"]] == list(methods())


@pytest.mark.acceptance
def test_demo_of_many_rankers_stays_readable(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "demo", "--rankers", "12", "--impressions", "1", "--runs", "1", "--user", "random")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    assert "Use --json" in out


@pytest.mark.fast
def test_methods_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "methods", "--json")
    assert code == 0
    found = {method["name"]: method for method in json.loads(out)["methods"]}
    assert list(found) == list(methods())
    assert found["pm"]["parameters"] == {"tau": 3.0, "credit": "expected"}
    assert found["bi"]["most_rankers"] == 2
    assert found["ppm"]["most_rankers"] is None
    assert found["pm"]["considerate"] is False
    assert set(found["tdm"]) == {
        "name", "title", "recommended", "considerate", "fidelity", "unbiased_lists", "reads", "clone_proof",
        "most_rankers", "parameters", "reference",
    }  # fmt: skip


@pytest.mark.fast
def test_methods_as_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    code, out, _ = run(capsys, "methods")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    for name, method in methods().items():
        assert f"│ {name}  {method.reference}" in out
    assert "exactly 2" in out
    assert "pairs='equation'" in out


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--rankers", "1"], "rankers is 1; the demo compares 2 to 100 rankers."),
        (["demo", "--rankers", "1000"], "rankers is 1000"),
        (["demo", "--rankers", "x"], "--rankers"),
        (["demo", "--impressions", "0"], "Impressions are 0"),
        (["demo", "--runs", "0"], "runs 0"),
        (["demo", "--user", "navigatonal"], "Did you mean 'navigational'?"),
        (["demo", "--seed", str(2**64)], "seed is"),
        (["demo", "--sede", "1"], "--sede"),
        (["dmo"], "dmo"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("multileave: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("def (", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_of_methods_that_fails_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, program: str, message: str
) -> None:
    path = tmp_path / "broken_methods.py"
    path.write_text(program)
    code, out, err = run(capsys, "check", "tdm", "--load", str(path))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"--load {path}: the file fails with {message}" in err


def test_a_folder_that_cannot_be_made_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, out, err = run(capsys, "simulate-log", "--impressions", "10", "--out", str(tmp_path / "file"))
    assert (code, out) == (2, "")
    assert err == f"multileave: {tmp_path}/file/impressions cannot be used: Not a directory. Choose another path.\n"


def test_options_for_separate_clicks_need_separate_clicks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "simulate-log", "--late", "0.5", "--out", str(tmp_path))
    assert code == 2
    assert "Add --separate" in err


@pytest.mark.fast
def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"multileave {__version__}\n", "")
    for arguments in ([], ["--help"], ["demo", "--help"]):
        code, out, _ = run(capsys, *arguments)
        assert code == 0
        assert "Usage: multileave" in out


@pytest.mark.fast
@pytest.mark.parametrize("arguments", [["--help"], ["methods"], ["demo", "--rankers", "1"]])
def test_help_and_errors_do_not_wait_for_numba(arguments: list[str]) -> None:
    program = "import sys; from multileave.cli import main; main(); print('numba' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"


def test_check_recomputes_table_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "tdm", "ppm", "--jobs", "1", "--json")
    assert code == 0
    tdm, ppm = json.loads(out)["reports"]
    assert tdm["pareto"]["counterexample"]["rankings"] == [["A", "B", "C"], ["A", "B", "C"], ["B", "C", "A"]]
    assert ppm["pareto"]["holds"]
    assert not ppm["pareto"]["proved"]
    assert ppm["considerate"]["proved"]


def test_check_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "om", "--rankers", "3", "--k", "3")
    assert code == 0
    assert "infeasible for 6 sets of rankings" in " ".join(out.split())
    assert "proved" in out


def test_check_searches(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "sosm", "--documents", "4", "--search", "30", "--jobs", "1")
    assert code == 0
    assert "Searched" in out


OWN = """
from dataclasses import dataclass
import multileave as ml
from multileave.methods.team_draft import TeamDraft

@ml.register
@dataclass(frozen=True)
class Mine(TeamDraft):
    name = "mine"
"""


def test_a_method_of_ones_own_is_checked_by_the_same_command(tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    for source in ("mine.py", "mine"):
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from multileave.cli import main; sys.exit(main())",
             "check", "mine", "--load", source, "--json"],
            capture_output=True, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)["reports"][0]
        assert report["method"] == "mine"
        assert report["unbiased"]["holds"]
        assert not report["pareto"]["holds"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "ppmm"], "Did you mean 'ppm'"),
        (["check", "ppm", "--documents", "1"], "documents is 1"),
        (["check", "ppm", "--user", "nobody"], "no user 'nobody'"),
        (["check", "pm(tau=2.5)"], "has no exact form"),
        (["check", "--load", "nowhere.py"], "no such file"),
        (["check", "--load", "no_such_module"], "No module named 'no_such_module'"),
    ],
)
def test_check_refuses_nonsense(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


STUDY = ["study", "--datasets", "toy", "--methods", "tdm", "ppm", "--rankers", "3", "--users", "perfect", "random",
         "--impressions", "200", "--runs", "2", "--jobs", "1"]  # fmt: skip


def test_study_prints_one_record_per_setting(capsys: pytest.CaptureFixture[str], toy: Any, tmp_path: Any) -> None:
    code, out, err = run(capsys, *STUDY, "--data", str(toy), "--out", str(tmp_path / "s"), "--json")
    assert code == 0, err
    records = json.loads(out)
    assert [(r["dataset"], r["method"], r["user"], r["rankers"]) for r in records] == [
        ("toy", method, user, 3) for method in ("tdm", "ppm") for user in ("perfect", "random")
    ] or len(records) == 4
    for record in records:
        keys = {"error_heldout", "error_heldout_sd", "error_same_queries", "floor", "runs", "impressions_per_second"}
        assert keys <= set(record)
        assert record["runs"] == 4
    for name in ("index.html", "tables.md", "tables.tex", "results.csv", "summary.json"):
        assert (tmp_path / "s" / name).stat().st_size > 0
    code, out, _ = run(capsys, *STUDY, "--data", str(toy), "--out", str(tmp_path / "s"))
    assert code == 0
    assert "toy" in out
    assert "floor" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--datasets", "MQ2009"], "no folder to look for MQ2009 in"),
        (["--datasets", "MQ2009", "--data", "{toy}"], "MQ2009"),
        (["--data", "{toy}/nowhere", "--datasets", "toy"], "is not a folder"),
        (["--data", "{toy}"], "Name them with --datasets"),
        (["--data", "{toy}/nowhere"], "is not a folder"),
        (["--paper"], "The paper's grid needs data"),
        (["--paper", "--data", "{toy}"], "none of the paper's data sets"),
        (["--methods", "tdn"], "Did you mean 'tdm'"),
        (["--users", "perfekt"], "no user 'perfekt'"),
        (["--settings", "nowhere.toml"], "cannot be read"),
    ],
)
def test_study_refuses_nonsense(
    capsys: pytest.CaptureFixture[str], toy: Any, tmp_path: Any, arguments: list[str], message: str
) -> None:
    given = [argument.replace("{toy}", str(toy)) for argument in arguments]
    code, out, err = run(capsys, "study", *given, "--out", str(tmp_path / "s"), "--runs", "1", "--jobs", "1")
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_help_waits_for_nothing_heavy() -> None:
    code = (
        "import sys; from multileave.cli import main; main(['--help']); "
        "sys.exit(str({'rich', 'numba', 'scipy', 'pyarrow', 'fastapi', 'matplotlib'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == ""
    _, found, commands = done.stdout.partition("Commands:")
    assert found
    assert "..." not in commands  # no command's line is cut
