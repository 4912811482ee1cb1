"""Values of events: an action such as "purchase:value" is judged as purchases are, and its rates add up values."""

import json
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from replay_logs import START, assert_same, make_log

import multileave as ml
from multileave.log import to_row
from multileave.log.schema import CLICKS, EVENT, IMPRESSIONS, JOINED
from multileave.log.writer import json_line, parquet_writer, spell_time
from multileave.replay import replay

pytestmark = pytest.mark.filterwarnings("ignore::multileave.errors.MultileaveWarning")


def with_values(size=150):
    """Return a log in which events have a value, none, or several; some are below 0."""
    rng = np.random.default_rng(4)
    log = make_log(size, methods=("dpm",))
    for shown in log:
        for event in list(shown.events):
            event["value"] = [None, 12.5, -3.0, float(rng.integers(1, 90))][rng.integers(4)]
            if rng.random() < 0.3:
                later = event["timestamp"] + timedelta(seconds=5)
                shown.events.append({**event, "timestamp": later, "value": float(rng.integers(1, 90))})
    return log


def expected_tally(log, action):
    """Return what the library says: a document's largest value."""
    tally = ml.Tally(log[0].impression.rankers)
    for shown in log:
        events = [event for event in shown.events if event["action"] == action]
        values = {}
        for event in events:
            if event["value"] is not None:
                document = shown.impression.shown[event["position"]]
                values[document] = max(event["value"], values.get(document, event["value"]))
        outcome = ml.infer(shown.impression, positions=[event["position"] for event in events], values=values)
        tally.add(outcome, unit=shown.user_id)
    return tally


def write(folder, log, form):
    rows = [to_row(shown.impression, **shown.envelope) for shown in log]
    clicks = [{"impression_id": shown.impression_id, **event} for shown in log for event in shown.events]
    if form == "separate":
        for name, schema, held in (("impressions", IMPRESSIONS, rows), ("clicks", CLICKS, clicks)):
            (folder / name).mkdir()
            with parquet_writer(folder / name / "log.parquet", schema) as file:
                file.write_batch(pa.RecordBatch.from_pylist(held, schema=schema))
        return {"paths": folder / "impressions", "clicks": folder / "clicks"}
    joined = [{**row, "clicks": shown.events} for row, shown in zip(rows, log, strict=True)]
    if form == "parquet":
        with parquet_writer(folder / "log.parquet", JOINED) as file:
            file.write_batch(pa.RecordBatch.from_pylist(joined, schema=JOINED))
    else:
        for row in joined:
            row["timestamp"] = spell_time(row["timestamp"])
            row["clicks"] = [{**e, "timestamp": spell_time(e["timestamp"])} for e in row["clicks"]]
        (folder / "log.jsonl").write_bytes(b"".join(map(json_line, joined)))
    return {"paths": folder}


@pytest.mark.parametrize("form", ["parquet", "jsonl", "separate"])
def test_rates_of_values_are_those_of_the_library(tmp_path, form):
    log = with_values()
    found = replay(**write(tmp_path, log, form), actions=["click", "click:value", "purchase:value"])
    for action in ("click", "purchase"):
        assert_same(found.tally(f"{action}:value"), expected_tally(log, action))
    counted, valued = found.tally("click"), found.tally("click:value")
    assert np.array_equal(counted.preferences, valued.preferences)
    assert counted.rates()["ltr"].rate != valued.rates()["ltr"].rate


def test_values_of_satisfied_clicks_need_their_dwell(tmp_path):
    log = with_values()
    found = replay(**write(tmp_path, log, "parquet"), actions=["satisfied:value"], dwell=20)
    for shown in log:
        shown.events[:] = [e for e in shown.events if e["action"] == "click" and e["dwell"] >= 20]
    assert_same(found.tally("satisfied:value"), expected_tally(log, "click"))


def test_logs_of_earlier_versions_have_no_values(tmp_path):
    log = make_log(60, methods=("dpm",))
    older = IMPRESSIONS.append(pa.field("clicks", pa.list_(pa.struct([f for f in EVENT if f.name != "value"]))))
    with parquet_writer(tmp_path / "log.parquet", older) as file:
        rows = [{**to_row(shown.impression, **shown.envelope), "clicks": shown.events} for shown in log]
        file.write_batch(pa.RecordBatch.from_pylist(rows, schema=older))
    found = replay(tmp_path, actions=["click:value"]).tally("click:value")
    assert found.rate_sums().totals[:3].tolist() == [0.0] * 3
    assert found.preferences.any()


@pytest.mark.parametrize("value", [1e13, "9", True])
def test_a_value_that_makes_no_sense_is_quarantined(tmp_path, value):
    (shown,) = make_log(1, methods=("dpm",))
    event = {"position": 0, "action": "purchase", "timestamp": spell_time(START), "value": value}
    row = {**to_row(shown.impression, **shown.envelope), "timestamp": spell_time(START), "clicks": [event]}
    (tmp_path / "log.jsonl").write_bytes(json_line(row))
    found = replay(tmp_path, actions=["purchase:value"])
    assert found.counts.malformed == 1
    assert "The 'value' of a click is" in json.dumps(found.examples)
