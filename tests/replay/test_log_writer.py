"""LogWriter: what it wrote is there after a crash, in files that are not too large."""

import json
from datetime import UTC, datetime

import pytest
from replay_logs import assert_same, make_log, tallies

import multileave as ml
from multileave.errors import DataError
from multileave.replay import LogWriter, from_row, replay


def impression(seed=0):
    return ml.TeamDraft().combine({"bm25": "abcd", "dense": "bcda"}, k=3, seed=seed)


def lines(folder, kind):
    return [json.loads(line) for path in sorted(folder.glob(f"{kind}-*.jsonl")) for line in path.open()]


def test_what_is_written_is_read(tmp_path):
    when = datetime(2026, 5, 4, 12, 0, 1, tzinfo=UTC)
    with LogWriter(tmp_path) as log:
        shown = log.impression(impression(), user_id="u1", timestamp=when, country="nl")
        log.click(shown, document="b", dwell=3.5)
    [row], [click] = lines(tmp_path, "impressions"), lines(tmp_path, "clicks")
    assert from_row(row) == impression()
    assert (row["impression_id"], row["user_id"], row["country"]) == (shown, "u1", "nl")
    assert row["timestamp"] == "2026-05-04T12:00:01.000000Z"
    assert (click["impression_id"], click["document"], click["action"], click["dwell"]) == (shown, "b", "click", 3.5)


@pytest.mark.parametrize("limit", [{"most_rows": 3}, {"most_bytes": 800}])
def test_files_are_rotated_and_hold_every_row_in_order(tmp_path, limit):
    with LogWriter(tmp_path, **limit) as log:
        ids = [log.impression(impression(seed), user_id="u") for seed in range(10)]
    paths = sorted(tmp_path.glob("impressions-*.jsonl"))
    assert len(paths) > 2
    assert [row["impression_id"] for row in lines(tmp_path, "impressions")] == ids
    for path in paths:
        assert path.stat().st_size <= limit.get("most_bytes", 10**9)
        assert len(path.read_text().splitlines()) <= limit.get("most_rows", 10**9)


def test_a_reopened_log_goes_on_where_it_was(tmp_path):
    for seed in range(5):
        with LogWriter(tmp_path, most_rows=2) as log:
            log.impression(impression(seed), impression_id=str(seed))
    assert [len(path.read_text().splitlines()) for path in sorted(tmp_path.glob("*.jsonl"))] == [2, 2, 1]
    assert [row["impression_id"] for row in lines(tmp_path, "impressions")] == list("01234")


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_cut_last_line_is_recovered_from(tmp_path, cut):
    with LogWriter(tmp_path) as log:
        for seed in range(3):
            log.impression(impression(seed), impression_id=str(seed))
    [path] = tmp_path.glob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    if cut == 1:  # only the newline is gone
        log = LogWriter(tmp_path)
    else:
        with pytest.warns(ml.MultileaveWarning, match="was truncated"):
            log = LogWriter(tmp_path)
    with log:
        log.impression(impression(7), impression_id="7")
    kept = ["0", "1", "2", "7"] if cut == 1 else ["0", "1", "7"]
    assert [row["impression_id"] for row in lines(tmp_path, "impressions")] == kept
    if cut > 1:
        [aside] = tmp_path.glob("*.cut")
        assert aside.read_bytes().rstrip(b"\n") == whole.splitlines()[-1][: 1 - cut]
        assert replay(tmp_path, unit=None).counts.inferred == 3


def test_a_written_log_gives_the_verdict(tmp_path):
    made = make_log(60, methods=("ppm",))
    with LogWriter(tmp_path, most_rows=7) as log:
        for shown in made:
            log.impression(shown.impression, **shown.envelope)
            for event in shown.events:
                log.click(shown.impression_id, **event)
    impressions, clicks = sorted(tmp_path.glob("impressions-*")), sorted(tmp_path.glob("clicks-*"))
    found = replay(impressions, clicks=clicks)
    assert_same(found.tally(), tallies(made)["ppm"])


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(DataError, match="most_bytes"):
        LogWriter(tmp_path, most_bytes=0)
    with pytest.raises(DataError, match="file names"):
        LogWriter(tmp_path, name="../up")
    with LogWriter(tmp_path) as log:
        with pytest.raises(DataError, match="neither"):
            log.click("i1")
        with pytest.raises(DataError, match="'method'"):
            log.impression(impression(), method="tdm")
