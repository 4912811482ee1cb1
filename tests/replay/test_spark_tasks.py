"""What Spark's workers do, without Spark: in pieces of any size, the same as the local engine."""

import json
import pickle
import random
from functools import reduce

import pyarrow as pa
import pytest
from replay_logs import assert_close, assert_same, make_log

from multileave.replay import JOINED, Replay, replay, to_row, write_parquet
from multileave.replay.run import Settings
from multileave.replay.spark import tasks as spark_tasks
from multileave.replay.spark.batches import FILE, KEEP

NAMES = ("click", "purchase", "click:value")


def run(pieces, unit, cap):
    """Pass batches through the tasks, with a shuffle between them as Spark does it."""
    job = spark_tasks.Job(Settings.checked(NAMES, 30.0, None, unit=unit, cap=cap))
    tasks = [pa.Table.from_batches([piece]).to_batches(max_chunksize=20) for piece in pieces]
    partial = [batch for task in tasks for batch in spark_tasks.infer_rows(job, task)]
    table = pa.Table.from_batches(partial).sort_by([("key", "ascending"), ("unit", "ascending")])
    [merged] = spark_tasks.merge_units(job, table.to_batches(max_chunksize=7))
    [found] = merged.column("found").to_pylist()
    return pickle.loads(found).ordered(NAMES), len(partial)


@pytest.mark.parametrize(("unit", "cap"), [("user_id", None), ("user_id", 4), (None, None)])
@pytest.mark.parametrize("most", [1, 1 << 24])
def test_pieces_of_any_size_give_the_local_verdict(tmp_path, monkeypatch, unit, cap, most):
    monkeypatch.setattr(spark_tasks, "MOST_BYTES", most)
    log = make_log(300, methods=("ppm", "tdm", "pm", "alone"), users=30)
    rows = [to_row(shown.impression, **shown.envelope, clicks=shown.events) for shown in log]
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    random.Random(5).shuffle(rows)
    table = pa.Table.from_pylist(rows, schema=JOINED)
    table = table.append_column(KEEP, pa.array([True] * len(rows)))
    table = table.append_column(FILE, pa.array(["log"] * len(rows)))
    found, pieces = run(table.to_batches(max_chunksize=60), unit, cap)
    expected = replay(tmp_path, unit=unit, cap=cap, actions=NAMES)
    assert found.counts == expected.counts
    assert found.counts.units_over_cap > 0 or cap is None
    assert len(found.comparisons) == len(expected.comparisons)
    for comparison in expected.comparisons:
        tally = found.tally(comparison.action, comparison.method)
        assert_same(tally, comparison.tally)
        mine, theirs = tally.to_dict(), comparison.tally.to_dict()
        for part in ("single", "evidence"):
            assert_close(mine[part], theirs[part])
        assert_close(mine["units"]["squares"], theirs["units"]["squares"])
    assert [one.action for one in found.arms] == [one.action for one in expected.arms] == [*NAMES]
    for mine, theirs in zip(found.arms, expected.arms, strict=True):
        assert_close({arm: one.to_dict() for arm, one in mine.sums.items()},
                     {arm: one.to_dict() for arm, one in theirs.sums.items()})  # fmt: skip
    # Units' sums are passed on after every batch, or at the end.
    assert (pieces > 30) == (most == 1 and unit is not None)


def test_merging_does_not_depend_on_the_order(tmp_path):
    found = []
    for number, names in enumerate((("bm25", "dense", "ltr"), ("ltr", "bm25", "dense"), ("dense", "ltr", "bm25"))):
        path = tmp_path / f"{number}.jsonl"
        lines = [shown.impression.to_dict() for shown in make_log(30, methods=["ppm"], names=names, seed=number)]
        path.write_text("\n".join([*map(json.dumps, lines), f'{{"cut {number}']))
        found.append(lambda path=path: replay(path))
    orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0]]
    merged = [reduce(Replay.merge, (found[x]() for x in order)) for order in orders]
    for one in merged:
        assert one.tally().rankers == ("bm25", "dense", "ltr")
        assert one.counts == merged[0].counts
        assert one.examples == merged[0].examples
        assert one.reasons == {"malformed": 3}
        assert one.files == 3
        assert_same(one.tally(), merged[0].tally())
