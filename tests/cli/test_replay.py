"""multileave simulate-log and multileave replay."""

import json

import pytest

pytest.importorskip("pyarrow")

from multileave.cli import main

SIMULATE = ["simulate-log", "--impressions", "3000", "--queries", "100", "--users", "300"]


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    assert main([*SIMULATE, "--out", str(folder / "joined"), "--files", "3"]) == 0
    more = ["--separate", "--duplicates", ".03", "--late", ".03", "--files", "3"]
    assert main([*SIMULATE, "--out", str(folder / "separate"), *more]) == 0
    assert main([*SIMULATE, "--out", str(folder / "lines"), "--lines"]) == 0
    return folder


def verdicts(report):
    return {c["action"]: c["verdict"]["pairs"] for c in report["comparisons"]}


def test_a_simulated_log_has_the_known_winner(folder, capsys):
    code, out, err = run(capsys, "replay", folder / "joined", "--actions", "click", "purchase", "satisfied", "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert [c["action"] for c in report["comparisons"]] == ["click", "purchase", "satisfied"]
    assert report["counts"]["inferred"] == 3000
    assert report["comparisons"][0]["rankers"] == ["r1", "r2", "r3", "r4", "r5"]
    best = next(p for p in report["comparisons"][0]["verdict"]["pairs"] if p["rankers"] == ["r1", "r5"])
    assert best["preference"] > 0
    assert best["significant"]


def test_the_log_of_an_experiment_that_may_stop_early_is_judged_by_its_plan(folder, capsys):
    def pairs(*options):
        code, out, _ = run(capsys, "replay", folder / "joined", "--json", *options)
        assert code == 0
        (found,) = json.loads(out)["comparisons"]
        return found["verdict"]["interval"], [pair["p"] for pair in found["verdict"]["pairs"]]

    one_look, at_any_time = pairs(), pairs("--anytime", "--tuned-for", 3000)
    last, first = pairs("--looks", 4, "--look", 4), pairs("--looks", 4, "--look", 1)
    assert [kind for kind, _ in (one_look, at_any_time, last)] == ["clustered", "anytime", "scheduled"]
    for once, sequence, late, early in zip(one_look[1], at_any_time[1], last[1], first[1], strict=True):
        assert once <= 5.0 * late  # far out, Student's t is approximate
        assert late <= early <= 1.0
        assert once <= sequence


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--look", 2], "--look is given without --looks"),
        (["--looks", 2], "--looks is given without --look"),
        (["--anytime", "--looks", 2, "--look", 1], "Both --anytime and --looks are given"),
        (["--tuned-for", 3000], "--tuned-for is given without --anytime"),
    ],
)
def test_options_about_looks_that_contradict_each_other_are_refused(folder, capsys, options, message):
    code, out, err = run(capsys, "replay", folder / "joined", *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"multileave: {message}")
    assert err.count("\n") == 1


def test_the_health_of_the_data_is_in_every_report(folder, tmp_path, capsys):
    out = run(capsys, "replay", folder / "joined", "--out", tmp_path / "report")[1]
    assert "impressions without clicks" in out
    assert "exposure balance" in out
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    health = report["comparisons"][0]["verdict"]["health"]
    assert health["first"]["impressions"] == health["exposure"]["impressions"] == 3000
    assert health["exposure"]["p"] > 0.001
    assert 0.0 < health["without_clicks"] < 0.5
    assert json.loads(run(capsys, "replay", folder / "joined", "--json")[1]) == report


def test_rates_are_printed_unless_they_are_left_out(tmp_path, capsys):
    small = ["--impressions", "400", "--queries", "20", "--users", "50", "--method", "dpm"]
    assert run(capsys, "simulate-log", *small, "--out", tmp_path)[0] == 0
    out = run(capsys, "replay", tmp_path)[1]
    assert "r1 alone: " in out
    assert " clicks per page, " in out
    found = json.loads(run(capsys, "replay", tmp_path, "--json")[1])["comparisons"][0]["verdict"]["rates"]
    assert (found["control"], found["impressions"], len(found["rankers"])) == ("r1", 400, 5)
    assert "alone" not in run(capsys, "replay", tmp_path, "--no-rates")[1]


def test_replay_says_why_there_are_no_rates_and_what_to_do(tmp_path, capsys):
    assert run(capsys, "simulate-log", "--impressions", "300", "--queries", "20", "--out", tmp_path)[0] == 0
    out = " ".join(run(capsys, "replay", tmp_path)[1].split())
    note = json.loads(run(capsys, "replay", tmp_path, "--json")[1])["comparisons"][0]["rates_note"]
    assert note.startswith("No rates: With lead=32, rpm shows a ranker's own results at its ranks too seldom")
    assert note in out
    assert json.loads(run(capsys, "replay", tmp_path, "--no-rates", "--json")[1])["comparisons"][0]["rates_note"] == ""


def test_lines_and_separate_clicks_give_the_same_verdict(folder, capsys):
    _, joined, _ = run(capsys, "replay", folder / "joined", "--json")
    _, lines, _ = run(capsys, "replay", folder / "lines", "--json")
    there = folder / "separate"
    code, separate, err = run(capsys, "replay", there / "impressions", "--clicks", there / "clicks", "--json")
    assert code == 0
    assert "duplicate clicks" in err
    expected = verdicts(json.loads(joined))["click"]
    for other in (lines, separate):
        for mine, theirs in zip(verdicts(json.loads(other))["click"], expected, strict=True):
            assert mine["preference"] == pytest.approx(theirs["preference"], abs=1e-9)
            assert mine["low"] == pytest.approx(theirs["low"], abs=1e-9)


def test_late_clicks_fall_out_of_the_window(folder, capsys):
    there = folder / "separate"
    arguments = ["replay", there / "impressions", "--clicks", there / "clicks", "--window", "30m", "--json"]
    counts = json.loads(run(capsys, *arguments)[1])["counts"]
    assert 0.01 < counts["late_clicks"] / counts["clicks"] < 0.05


def test_what_is_wrong_is_said_and_strict_fails(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # a long path is not folded
    [good] = (folder / "lines" / "impressions").glob("*.jsonl")
    rows = good.read_text().splitlines()[:200]
    newer = rows[0].replace('"version":1', '"version":7')
    (tmp_path / "log.jsonl").write_text("\n".join([*rows, '{"version": 1, "sho', newer]))
    code, out, err = run(capsys, "replay", tmp_path / "log.jsonl", "--out", tmp_path / "report")
    assert code == 0
    assert "200 impressions inferred" in out
    assert "log.jsonl line 201: The line is not JSON" in " ".join(out.split())
    assert err.startswith("multileave: warning: the log contains 1 malformed rows, 1 rows of an unknown version; see ")
    entries = [json.loads(line) for line in (tmp_path / "report" / "quarantine.jsonl").open()]
    assert [(entry["kind"], entry["line"]) for entry in entries] == [("malformed", 201), ("unknown version", 202)]
    assert json.loads((tmp_path / "report" / "report.json").read_text())["counts"]["malformed"] == 1
    assert json.loads((tmp_path / "report" / "tallies.json").read_text())[0]["tally"]["rankers"][0] == "r1"
    assert run(capsys, "replay", tmp_path / "log.jsonl", "--strict")[0] == 1
    assert run(capsys, "replay", good, "--strict")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "nowhere"], "no file or folder"),
        (["replay", ".", "--window", "soon"], "not a duration"),
        (["simulate-log", "--out", "x", "--impressions", "0"], "from 1"),
        (["simulate-log", "--out", "x", "--method", "nosuch"], "no method"),
        (["simulate-log", "--out", "x", "--late", "2"], "shares"),
    ],
)
def test_nonsense_exits_with_two_and_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize("method", ["tdm", "om", "dpm"])
def test_every_kind_of_method_can_be_simulated(method, tmp_path, capsys):
    arguments = ["simulate-log", "--impressions", "200", "--queries", "20", "--method", method, "--out", tmp_path]
    assert json.loads(run(capsys, *arguments, "--json")[1])["impressions"] == 200
    report = json.loads(run(capsys, "replay", tmp_path, "--json")[1])
    assert report["counts"]["inferred"] == 200
    assert report["wrong"] == {}
