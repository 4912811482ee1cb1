"""Pages of single rankers in a log: out of the comparison, and judged as an A/B test, however they are logged."""

import json
import random

import numpy as np
import pytest
from replay_logs import Shown, assert_close, assert_same, make_log, tallies

import multileave as ml
from multileave.cli import main
from multileave.log.writer import json_line, spell_time
from multileave.replay import CLICKS, IMPRESSIONS, JOINED, replay, to_row, write_parquet
from multileave.stats import Rules
from multileave.stats.arms import ArmTally

LOG = make_log(400, methods=("tdm", "alone", "alone"), users=40)
COMPARED = [shown for shown in LOG if shown.impression.arm is None]


def arm_sums(log, action="click"):
    """Return the sums of `ArmTally`, one impression after another."""
    tally = ArmTally()
    for shown in log:
        if shown.impression.arm is not None:
            events = [event for event in shown.events if event["action"] == action]
            values = {event["document"]: event["value"] or 0.0 for event in events}
            positions = [event["position"] for event in events]
            tally.add(shown.impression, positions=positions, unit=shown.user_id, values=values)
    return {arm: sums.to_dict() for arm, sums in tally.arms.items()}


def write(folder, log, form):
    """Write a log in a form; return the options that read it."""
    rows = [to_row(shown.impression, **shown.envelope, clicks=shown.events) for shown in log]
    if form == "parquet":
        write_parquet(folder / "log.parquet", rows, JOINED)
    elif form == "lines":
        for row, shown in zip(rows, log, strict=True):
            events = [{**event, "timestamp": spell_time(event["timestamp"])} for event in shown.events]
            row.update(shown.impression.to_dict(), timestamp=spell_time(shown.timestamp), clicks=events)
        (folder / "log.jsonl").write_bytes(b"".join(map(json_line, rows)))
    else:
        clicks = [{"impression_id": shown.impression_id, **event} for shown in log for event in shown.events]
        random.Random(1).shuffle(clicks)
        write_parquet(folder / "clicks.parquet", clicks, CLICKS)
        write_parquet(folder / "log.parquet", rows, IMPRESSIONS)
        return {"paths": folder / "log.parquet", "clicks": folder / "clicks.parquet"}
    return {"paths": folder}


@pytest.mark.parametrize("form", ["parquet", "lines", "separate"])
def test_arms_are_summed_as_by_arm_tally_and_the_comparison_is_that_of_the_other_rows(tmp_path, form):
    found = replay(**write(tmp_path, LOG, form), actions=["click", "purchase"])
    assert (found.counts.in_arms, found.counts.inferred) == (len(LOG) - len(COMPARED), len(COMPARED))
    assert not found.counts.wrong
    for arms in found.arms:
        assert_close({arm: sums.to_dict() for arm, sums in arms.sums.items()}, arm_sums(LOG, arms.action))
    for method, tally in tallies(COMPARED).items():
        assert_same(found.tally("click", method), tally)
    alone = write(tmp_path, COMPARED, form)
    assert replay(**alone).comparisons[0].verdict.to_dict() == found.comparisons[0].verdict.to_dict()


def test_repeated_rows_count_once_and_parts_merge(tmp_path):
    for name, part in (("a", LOG[:250]), ("b", LOG[200:])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, part, "parquet")
    found = replay([tmp_path / "a", tmp_path / "b"])
    assert found.counts.repeated_impressions == 50
    assert_close({arm: sums.to_dict() for arm, sums in found.arms[0].sums.items()}, arm_sums(LOG))


def test_segments_and_other_methods_leave_arms_alone(tmp_path):
    rows = [
        to_row(shown.impression, **shown.envelope, clicks=shown.events, device="phone" if x % 2 else "tablet")
        for x, shown in enumerate(LOG)
    ]
    (tmp_path / "log.jsonl").write_bytes(b"".join(json_line({**row, "clicks": []}) for row in rows))
    found = replay(tmp_path, segment="device", method="tdm")
    assert found.counts.in_arms == len(LOG) - len(COMPARED)
    assert found.comparisons[0].segments.tallies.keys() == {"phone", "tablet"}
    assert len(found.arms) == 1


def test_a_unit_in_two_arms_is_left_out_and_reported(tmp_path):
    both = [Shown(1000 + x, page(arm), "both", []) for x, arm in enumerate(("bm25", "dense"))]
    found = replay(**write(tmp_path, [*LOG, *both], "parquet"))
    assert found.counts.wrong == {"units_in_two_arms": 1}
    for arm, sums in arm_sums(LOG).items():
        assert found.arms[0].sums[arm].units == sums["units"]
        assert found.arms[0].sums[arm].totals.tolist() == pytest.approx(sums["totals"])


def page(arm):
    return ml.Impression.alone(arm, ["a", "b"], 2)


@pytest.mark.parametrize("value", [True, "9", 1e10, float("inf"), float("nan")])
def test_values_that_are_no_amounts_are_quarantined(tmp_path, value):
    row = {**page("bm25").to_dict(), "clicks": [{"position": 0, "value": value}]}
    (tmp_path / "log.jsonl").write_text(json.dumps(row))
    assert "The 'value' of a click" in replay(tmp_path).examples[0]["reason"]
    if isinstance(value, float):
        shown = Shown(1, page("bm25"), "u", [{"position": 0, "value": value}])
        (tmp_path / "more").mkdir()
        found = replay(**write(tmp_path / "more", [shown], "parquet"))
        assert "The 'value' of a click" in found.examples[0]["reason"]


def test_of_several_values_of_an_action_on_a_document_the_largest_counts(tmp_path):
    worth = [(0, 3.0), (0, 5.0), (0, 4.0), (1, -2.0), (1, None)]
    events = [{"position": x, "value": v, "timestamp": n} for n, (x, v) in enumerate(worth)]
    (tmp_path / "log.jsonl").write_text(json.dumps({**page("bm25").to_dict(), "clicks": events}))
    assert replay(tmp_path).arms[0].sums["bm25"].totals.tolist() == [2.0, 1.0, 1.0, 3.0, 1.0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"note": []}, "'note' has 0 entries; expected 1 for each of 2 documents"),
        ({"note": [-2, 0]}, "'note' contains a number below -1"),
        ({"lengths": []}, "'lengths' must be one number"),
        ({"lengths": [2, 2]}, "'lengths' must be one number"),
        ({"k": -1}, "'k' is below 0"),
        ({"pinned": [7], "note": [0]}, "'pinned' must be different positions"),
        ({"rankers": []}, "expected two or more different names"),
        ({"rankers": ["a", "b"], "lengths": [1, 1]}, "alone"),
        ({"method": "tdm"}, "expected two or more different names"),
        ({"version": 2}, "this multileave reads 1"),
    ],
)
def test_invalid_rows_of_arms_are_quarantined_and_never_compared(tmp_path, changes, reason):
    row = {**page("bm25").to_dict(), "impression_id": "i", "clicks": [{"position": 0}], **changes}
    (tmp_path / "log.jsonl").write_text(json.dumps(row))
    found = replay(tmp_path)
    assert found.counts.inferred == 0
    assert not found.comparisons
    assert found.counts.in_arms == 0
    assert reason in found.examples[0]["reason"]


def test_the_report_says_what_the_arms_say_and_whether_they_agree(tmp_path, capsys):
    rng, log = np.random.default_rng(5), []
    for number in range(600):
        rankings = {"x": ["a", "b", "c"], "y": ["c", "b", "a"]}
        arm = (None, "x", "y")[number % 3]
        made = ml.TeamDraft().combine(rankings, 2, seed=number) if arm is None else None
        made = made or ml.Impression.alone(arm, rankings[arm], 2)
        clicked = [x for x, d in enumerate(made.shown) if rng.random() < {"a": 0.7, "b": 0.3, "c": 0.1}[d]]
        log.append(Shown(number, made, f"u{number}", [{"position": x, "action": "click"} for x in clicked]))
    write(tmp_path, [*log], "parquet")
    assert main(["replay", str(tmp_path / "log.parquet"), "--control", "y"]) == 0
    said = capsys.readouterr().out
    for text in ("200 impressions inferred and 400 in arms", "A/B test between arms, click", "pages without a click",
                 "Interleaving and the A/B test agree about x and y."):  # fmt: skip
        assert text in said, said
    assert main(["replay", str(tmp_path / "log.parquet"), "--control", "y", "--json"]) == 0
    [arms] = json.loads(capsys.readouterr().out)["arms"]
    assert arms["agreements"][0]["agree"] is True
    found = replay(tmp_path)
    assert arms["verdict"] == found.judged(Rules(control="y")).arms[0].verdict.to_dict()
    assert arms["verdict"]["anytime"] is False
    assert found.judged(Rules(interval="scheduled", looks=2, look=1)).arms[0].verdict.anytime
    assert "A/B test, click:" in str(found)
    assert main(["replay", str(tmp_path / "log.parquet"), "--control", "z"]) == 2
    assert "The control is 'z'; expected one of the rankers in the log, x, y." in capsys.readouterr().err
