"""A row holds the whole impression, in either notation, in few bytes; what is written today stays readable."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from replay_logs import make_log

import multileave as ml
from multileave.errors import ImpressionError
from multileave.log.writer import json_line
from multileave.methods.base import methods
from multileave.replay import JOINED, from_row, replay, to_row, write_parquet

PINNED = Path(__file__).parent / "pinned"


@pytest.mark.parametrize("method", list(methods()))
@pytest.mark.parametrize("pinned", [None, {0: "advert", 2: "news"}])
@pytest.mark.parametrize("propensities", [False, True])
def test_an_impression_comes_back_from_its_row(method, pinned, propensities):
    lists = {"a": "abcdef", "b": "fghabc"}
    impression = ml.get_method(method).combine(lists, k=5, seed=3, pinned=pinned, propensities=propensities)
    assert from_row(to_row(impression, impression_id="i", user_id="u", clicks=[])) == impression
    assert from_row(json.loads(json_line({**impression.to_dict(), "impression_id": "i"}))) == impression


def test_an_impression_comes_back_from_parquet(tmp_path):
    log = make_log(30)
    write_parquet(tmp_path / "log.parquet", [to_row(s.impression, **s.envelope, clicks=s.events) for s in log], JOINED)
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert [from_row(row) for row in rows] == [shown.impression for shown in log]
    assert [row["timestamp"] for row in rows] == [shown.timestamp for shown in log]
    assert [row["clicks"] for row in rows] == [shown.events for shown in log]


def test_ids_that_are_no_strings_come_back_with_their_type(tmp_path):
    impression = ml.TeamDraft().combine({"a": [1, "1", 2.5, None], "b": [None, 2.5, "1", 1]}, k=4, seed=1)
    row = to_row(impression, clicks=[])
    assert row["ids"] == "json"
    write_parquet(tmp_path / "log.parquet", [row], JOINED)
    assert from_row(pq.read_table(tmp_path / "log.parquet").to_pylist()[0]) == impression


def test_ids_that_are_said_to_be_json_and_are_not_are_refused():
    row = to_row(ml.TeamDraft().combine({"a": "ab", "b": "ba"}, k=2, seed=1))
    with pytest.raises(ImpressionError, match="JSON texts"):
        from_row({**row, "ids": "json"})


def test_a_ppm_impression_of_five_rankers_takes_well_under_300_bytes(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for number in range(2000):
        documents = rng.integers(0, 10**7, size=50)
        rankings = {f"ranker-{r}": [f"doc{d}" for d in rng.permutation(documents)] for r in range(5)}
        impression = ml.PairwisePreference().combine(rankings, k=10, seed=number)
        rows.append(to_row(impression, impression_id=rng.bytes(16).hex(), user_id=f"user-{number // 5}", clicks=[]))
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    assert (tmp_path / "log.parquet").stat().st_size / len(rows) < 250


@pytest.mark.parametrize("name", ["v1.jsonl", "v1.parquet"])
def test_a_log_of_the_first_version_is_read_and_infers_the_same(name):
    expected = json.loads((PINNED / "v1.expected.json").read_text())
    found = replay(PINNED / name, actions=["click", "purchase"])
    assert found.counts.inferred == expected["rows"]
    assert found.counts.wrong == {}
    assert {f"{c.method} {c.action}" for c in found.comparisons} == set(expected["preferences"])
    for comparison in found.comparisons:
        np.testing.assert_allclose(
            comparison.tally.preferences,
            expected["preferences"][f"{comparison.method} {comparison.action}"],
            rtol=0,
            atol=1e-12,
        )
