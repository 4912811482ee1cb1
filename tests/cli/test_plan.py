"""`multileave plan` from assumptions, from a saved tally and from a study's folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multileave.cli import main
from multileave.cli.plan import NO_AB
from multileave.outcome import Outcome
from multileave.stats import Design, Tally
from multileave.stats import plan as make
from multileave.study.planning import impressions_until
from multileave.study.results import RunResult

ABC = ("bm25", "dense", "ltr")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["plan", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tally = Tally(ABC)
    rng = np.random.default_rng(3)
    for user in range(300):
        taste = rng.normal([0.0, 0.05, 0.2], 0.5)
        for _ in range(rng.integers(1, 5)):
            tally.add(Outcome(ABC, "difference", taste + rng.normal(0.0, 1.0, 3)), user)
    path = tmp_path / "tally.json"
    path.write_text(json.dumps(tally.to_dict()))
    return path


def test_assumptions_give_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--effect", 0.03, "--sd", 1, "--impressions-per-user", 4)
    expected = make(Design.assumed(1.0, 4.0), 0.03)
    assert (code, out, err) == (0, f"{expected}\n", "")


def test_assumptions_as_json_with_a_curve(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "power.png"
    code, out, _ = run(
        capsys, "--effect", 0.1, "--sd", 1, "--anytime", "--pairs", 3, "--power", 0.9, "--plot", path, "--json"
    )
    (found,) = json.loads(out)["plans"]
    assert code == 0
    assert found["units"] == make(Design(1.0), 0.1, interval="anytime", comparisons=3, power=0.9).units
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_a_tally_plans_every_pair_for_the_preference_it_shows(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    code, out, _ = run(capsys, saved)
    assert code == 0
    assert "bm25 / ltr" in out
    assert "if the true preference is within one standard error" in " ".join(out.split())
    assert "corrected for 3 pairs" in " ".join(out.split())
    code, out, _ = run(capsys, saved, "--json")
    plans = json.loads(out)["plans"]
    assert len(plans) == 3
    assert [one["units"] for one in plans] == sorted(one["units"] for one in plans)
    assert {one["comparisons"] for one in plans} == {3}
    assert all(one["units_low"] <= one["units"] <= (one["units_high"] or one["units"]) for one in plans)


def test_a_tally_plans_one_pair_for_an_effect(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    tally = Tally.from_dict(json.loads(saved.read_text()))
    design = Design.of_moments(tally.moments())[1]
    assert design is not None
    for pair in (("ltr", "bm25"), ("bm25", "ltr")):
        code, out, _ = run(capsys, saved, "--effect", 0.05, "--pair", *pair, "--pairs", 1)
        assert code == 0
        assert out == f"bm25 / ltr: {make(design, 0.05)}\n{NO_AB}\n"


def result(run_number: int, errors: tuple[float, ...], method: str = "ppm") -> RunResult:
    points = (1, 10, 100, 1000)
    return RunResult(
        "synthetic", method, "perfect", 5, 1, run_number, points, errors, errors, 0.1, 0.0, 0.0, 1.0, {}
    )  # fmt: skip


def test_a_study_says_when_the_error_is_small_enough(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in range(2):
        for method, errors in (("ppm", (0.5, 0.3, 0.1, 0.0)), ("tdm", (0.5, 0.4, 0.35, 0.3))):
            path = tmp_path / "runs" / f"{method}-{number}.json"
            path.parent.mkdir(exist_ok=True)
            result(number, errors, method).write(path)
    code, out, _ = run(capsys, tmp_path, "--error", 0.2, "--json")
    found: dict[str, Any] = {one["method"]: one for one in json.loads(out)["plans"]}
    assert code == 0
    assert found["ppm"]["impressions"] == pytest.approx(10**1.5, abs=1)
    assert (found["tdm"]["impressions"], found["tdm"]["error_at_end"]) == (None, pytest.approx(0.3))
    code, out, _ = run(capsys, tmp_path, "--error", 0.2)
    assert "> 1,000 (0.300)" in out


def test_an_error_that_rises_again_has_not_been_reached() -> None:
    assert impressions_until([result(0, (0.5, 0.05, 0.2, 0.0))], 0.1)[0] == pytest.approx(10**2.5, abs=1)
    assert impressions_until([result(0, (0.05, 0.05, 0.0, 0.0))], 0.1)[0] == 1


def test_a_pilot_log_plans_as_its_tally_does(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from multileave.replay import replay

    log = tmp_path / "log"
    simulate = ["simulate-log", "--impressions", "600", "--queries", "50", "--rankers", "3", "--users", "90"]
    assert main([*simulate, "--separate", "--out", str(log)]) == 0
    capsys.readouterr()
    given = ("--pilot", log / "impressions", "--clicks", log / "clicks")
    code, out, err = run(capsys, *given, "--effect", 0.1, "--json")
    tally = replay(log / "impressions", clicks=log / "clicks").tally()
    designs = [design for design in Design.of_moments(tally.moments()) if design is not None]
    assert (code, err) == (0, "")
    assert sorted(one["units"] for one in json.loads(out)["plans"]) == sorted(
        make(design, 0.1, comparisons=3).units for design in designs
    )
    code, _, err = run(capsys, *given, "--action", "cart")
    assert code == 2
    assert "show no preference" in err
    assert run(capsys, *given, "--method", "tdm")[0] == 2


def test_a_pilot_says_what_an_ab_test_would_take(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    simulate = ["simulate-log", "--impressions", "900", "--queries", "50", "--rankers", "3", "--users", "200"]
    assert main([*simulate, "--method", "dpm", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    code, out, _ = run(capsys, "--pilot", tmp_path, "--json")
    plans = json.loads(out)["plans"]
    assert code == 0
    assert all(one["ab"]["clicks"]["units"] == pytest.approx(one["ab"]["clicks"]["times"] * one["units"])
               for one in plans)  # fmt: skip
    out = " ".join(run(capsys, "--pilot", tmp_path)[1].split())
    assert "An A/B test shows each ranker to an equal share of the users." in out
    out = run(capsys, "--pilot", tmp_path, "--pair", "r1", "r3", "--lift", 0.05)[1].splitlines()[1]
    assert out.startswith("an A/B test on clicks: about ")
    assert "times as many) to detect a difference of" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--effect", "1", "--sd", "1", "--lift", "0.1"], "--lift is relative to the clicks"),
        (["{tally}", "--pilot", "log"], "Plan from one of them"),
        (["--clicks", "log"], "Name its impressions with --pilot"),
        (["--pilot", "{tmp}/nowhere"], "no file or folder"),
        ([], "A plan needs --effect and --sd"),
        (["--sd", "1"], "A plan needs --effect:"),
        (["--effect", "0", "--sd", "1"], "The effect is 0.0"),
        (["--effect", "1", "--sd", "1", "--pair", "a", "b"], "--pair names two rankers of a tally, but there is no"),
        (["--pilot", "{tmp}/nothing.jsonl"], "No impression of the log can be inferred"),
        (["--effect", "nan", "--sd", "1"], "The effect is nan"),
        (["--effect", "0.1", "--sd", "0"], "standard deviation is 0.0"),
        (["--effect", "0.1", "--sd", "1", "--power", "2"], "The power is 2.0"),
        (["--effect", "0.1", "--sd", "1", "--confidence", "95"], "confidence is 95.0"),
        (["--effect", "0.1", "--sd", "1", "--plot", "curve.txt"], "Choose a name ending in .png"),
        (["nowhere.json"], "nowhere.json cannot be read"),
        (["{tmp}/text.json"], "is not JSON"),
        (["{tmp}/list.json"], "The tally is a list; expected a dictionary"),
        (["{tmp}/empty.json"], "The tally holds no impressions; a plan needs"),
        (["{tmp}/one.json"], "impressions of only one unit"),
        (["{tmp}/silent.json"], "show no preference between bm25 and dense"),
        (["{tmp}"], "holds no results of a study"),
        (["{tmp}", "--error", "1"], "The error is 1"),
        (["{tmp}", "--plot", "x.png"], "a study has its own figures"),
        (["{tally}", "--pair", "ltr", "bm52"], "Did you mean 'bm25'?"),
        (["{tally}", "--pair", "ltr", "ltr"], "with itself"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, saved: Path, arguments: list[str], message: str
) -> None:
    zero = Outcome(ABC, "difference", np.zeros(3))
    tallies = {"empty": Tally(ABC), "one": Tally(ABC), "silent": Tally(ABC)}
    for user in range(5):
        tallies["one"].add(zero, "u")
        tallies["silent"].add(zero, user)
    for name, tally in tallies.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(tally.to_dict()))
    (tmp_path / "text.json").write_text("no JSON")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "nothing.jsonl").touch()
    code, out, err = run(capsys, *(a.format(tmp=tmp_path, tally=saved) for a in arguments))
    assert code == 2
    assert out == ""
    assert err.startswith("multileave: ")
    assert err.count("\n") == 1
    assert message in err


def test_scheduled_looks_are_planned(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--effect", 0.1, "--sd", 1, "--looks", 5, "--spending", "pocock", "--json")
    (found,) = json.loads(out)["plans"]
    assert (code, found["interval"], found["looks"], found["spending"]) == (0, "scheduled", 5, "pocock")
    assert found["units"] == make(Design(1.0), 0.1, interval="scheduled", looks=5, spending="pocock").units
    assert found["expected_units"] < found["units"]


def test_any_number_of_looks_and_scheduled_ones_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--effect", 0.1, "--sd", 1, "--looks", 5, "--anytime")
    assert code == 2
    assert "Plan for any number of looks, or for scheduled ones" in err
