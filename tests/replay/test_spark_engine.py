"""On a real Spark cluster of two executors, started here: the local engine's verdict, whatever happens to them."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from replay_logs import assert_close, assert_same, make_log

from multileave.cli import main
from multileave.errors import DataError, MissingExtra
from multileave.log.writer import json_line, spell_time
from multileave.replay import CLICKS, IMPRESSIONS, JOINED, replay, to_row, write_parquet

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"),  # of pyspark 3.5
]
SOURCES = Path(__file__).parents[2] / "src"
ACTIONS = ["click", "purchase", "satisfied", "purchase:value"]
WITH_ARMS = ("ppm", "tdm", "pm", "alone")


@pytest.fixture(scope="session")
def cluster():
    """Start Spark with two executors, each its own process."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("install a Java runtime: apt-get install openjdk-17-jre-headless")
    pyspark = pytest.importorskip("pyspark", reason="pip install 'multileave[spark]'")
    pytest.importorskip("pandas", reason="pip install 'multileave[spark]'")
    from pyspark.sql import SparkSession

    home = Path(pyspark.__file__).parent
    [core] = home.glob("jars/spark-core_*.jar")
    settings = {
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": core.name.removeprefix("spark-core_").partition("-")[0],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCES),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.executorEnv.PYTHONPATH", str(SOURCES))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "9")
        .config("spark.task.maxFailures", "2")
        # A JVM that lives a minute is better not optimised.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.session.timeZone", "America/New_York")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def row(shown):
    return to_row(shown.impression, **shown.envelope, clicks=shown.events)


def line(shown, *, clicks=True):
    events = [{**event, "timestamp": spell_time(event["timestamp"])} for event in shown.events]
    return json_line({**shown.envelope, **shown.impression.to_dict(), **({"clicks": events} if clicks else {})})


def assert_same_replay(found, expected):
    assert found.counts == expected.counts
    assert found.reasons == expected.reasons
    assert found.files == expected.files
    key = [(c.method, c.action, frozenset(c.tally.rankers)) for c in expected.comparisons]
    assert {(c.method, c.action, frozenset(c.tally.rankers)) for c in found.comparisons} == set(key)
    for comparison in expected.comparisons:
        assert_same(found.tally(comparison.action, comparison.method), comparison.tally)
    assert [one.action for one in found.arms] == [one.action for one in expected.arms]
    for mine, theirs in zip(found.arms, expected.arms, strict=True):
        assert_close(*({arm: sums.to_dict() for arm, sums in one.sums.items()} for one in (mine, theirs)))


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """Return a log with its clicks, shuffled over many files of Parquet."""
    folder = tmp_path_factory.mktemp("joined")
    log = make_log(480, methods=WITH_ARMS)
    random.Random(1).shuffle(log)
    for number in range(24):
        write_parquet(folder / f"{number}.parquet", map(row, log[number::24]), JOINED)
    return folder


def test_a_log_shuffled_over_many_files_gives_the_local_verdict(cluster, joined):
    from multileave.replay import spark

    options = {"actions": ACTIONS, "dwell": 20.0, "window": timedelta(minutes=20), "cap": 8, "check_ids": True}
    found = spark.replay(cluster.read.parquet(str(joined)), **options)
    assert found.counts.units_over_cap > 0
    assert_same_replay(found, replay(joined, **options))


def test_a_filter_is_a_column_and_tallies_of_partitions_are_merged(cluster, joined):
    import pyarrow.compute as pc
    from pyspark.sql import functions as F

    from multileave.replay.spark import engine as spark

    chosen = ["user-1", "user-2", "user-3"]
    frame = cluster.read.parquet(str(joined))
    found = spark.replay(frame, filter=~F.col("user_id").isin(chosen), partitions=9)
    assert found.counts.filtered > 0
    expected = replay(joined, filter=~pc.field("user_id").isin(chosen) & pc.field("user_id").is_valid())
    assert_same_replay(found, expected)


@pytest.fixture(scope="module")
def separate(tmp_path_factory):
    """Return impressions and clicks in files of both forms: late, doubled, orphan and malformed ones among them."""
    folder = tmp_path_factory.mktemp("separate")
    log = make_log(300, methods=WITH_ARMS)
    random.Random(2).shuffle(log)
    clicks = [{"impression_id": shown.impression_id, **event} for shown in log for event in shown.events]
    clicks += clicks[::7]
    clicks += [{"impression_id": "nobody", "position": 0}, {"impression_id": "nobody", "document": "d1"}]
    clicks += [{**click, "position": None} for click in clicks[:40]]
    random.Random(3).shuffle(clicks)
    for kind in ("impressions", "clicks"):
        for country in ("country=nl", "country=b%2Fe"):
            (folder / kind / country).mkdir(parents=True)
    nl, be = folder / "impressions/country=nl", folder / "impressions/country=b%2Fe"
    for number in range(4):
        rows = [to_row(shown.impression, **shown.envelope) for shown in log[number:200:4]]
        if number == 2:
            rows[5]["version"], rows[7]["k"] = 9, -1
        write_parquet(nl / f"{number}.parquet", rows, IMPRESSIONS)
        lines = [line(shown, clicks=False) for shown in log[200 + number :: 4]]
        (be / f"{number}.jsonl").write_bytes(b"".join(lines) + b'\n\n{"cut')
        write_parquet(folder / f"clicks/country=nl/{number}.parquet", clicks[number:-80:4], CLICKS)
    write_parquet(folder / "clicks/country=nl/bad.parquet", [{"impression_id": "i1"}], CLICKS)
    (folder / "clicks/country=b%2Fe/0.jsonl").write_bytes(
        b"".join(map(json_line, clicks[-80:])) + b'\xff\xfe\n[1]\n{"impression_id": "i1"}\n{"position": 1}\n'
    )
    return folder


def test_separate_clicks_late_doubled_and_wrong_give_the_same(cluster, separate, tmp_path):
    from multileave.replay import spark

    options = {"window": timedelta(minutes=40), "actions": ["click", "purchase"], "unit": "country"}
    found = spark.replay(
        spark.read_log(cluster, separate / "impressions"),
        spark.read_log(cluster, [separate / "clicks"]),
        quarantine=str(tmp_path / "wrong rows"),
        **options,
    )
    local = replay(separate / "impressions", clicks=separate / "clicks", quarantine=tmp_path / "wrong.jsonl", **options)
    assert_same_replay(found, local)
    assert min(local.counts.orphan_clicks, local.counts.duplicate_clicks, local.counts.late_clicks) > 0
    assert (local.counts.malformed, local.counts.unknown_versions, local.counts.malformed_clicks) == (5, 1, 5)
    assert found.quarantine == str(tmp_path / "wrong rows")
    entries = [json.loads(x) for path in (tmp_path / "wrong rows").glob("part-*") for x in path.open()]
    expected = [json.loads(x) for x in (tmp_path / "wrong.jsonl").open()]
    named = ("file", "kind", "reason")
    assert sorted([e[x] for x in named] for e in entries) == sorted([e[x] for x in named] for e in expected)
    assert all(entry["content"] for entry in entries)
    rows = {(entry["file"], entry["row"]) for entry in entries if entry["file"].endswith("2.parquet")}
    assert rows == {(entry["file"], entry["row"]) for entry in expected if entry["file"].endswith("2.parquet")}


def test_repeated_impressions_are_left_out_as_by_the_local_engine(cluster, tmp_path):
    from multileave.replay import spark

    log = make_log(150)
    other = make_log(150, seed=5)  # of the same ids, with other content
    (tmp_path / "log").mkdir()
    write_parquet(tmp_path / "log" / "2.parquet", map(row, log[:100]), JOINED)
    write_parquet(tmp_path / "log" / "3.parquet", map(row, log[50:] + other[:4]), JOINED)
    # Within one file, the first line counts, unless it is invalid.
    lines = [line(shown) for shown in (*log[:20], *other[140:], *log[140:])]
    (tmp_path / "log" / "1.jsonl").write_bytes(b"".join([line(other[0])[:-30] + b"\n", *lines]))
    experiment = make_log(20, methods=["bi"], names=("old", "new"))
    write_parquet(tmp_path / "log" / "4.parquet", map(row, [*experiment, *experiment[5:]]), JOINED)
    local = replay(tmp_path / "log")
    assert_same_replay(spark.replay(spark.read_log(cluster, tmp_path / "log")), local)
    assert (local.counts.inferred, local.counts.malformed, local.counts.rows) == (170, 1, 41 + 100 + 104 + 35)
    assert local.counts.conflicting_impressions == 10 + 10 + 4  # in lines, in 3.parquet after them, and at its end
    for path in (tmp_path / "log").iterdir():  # the order in which Spark reads files does not matter
        path.rename(tmp_path / "log" / f"{9 - int(path.name[0])}{path.suffix}")
    assert_same_replay(spark.replay(spark.read_log(cluster, tmp_path / "log")), replay(tmp_path / "log"))


def test_repeated_impressions_with_separate_clicks_are_left_out_as_well(cluster, tmp_path):
    from multileave.replay import spark

    log = make_log(90)
    other = make_log(90, seed=5)
    (tmp_path / "impressions").mkdir()
    rows = [to_row(shown.impression, **shown.envelope) for shown in (*log, *log[20:], *other[:7])]
    write_parquet(tmp_path / "impressions" / "1.parquet", [*rows, {**rows[3], "impression_id": None}], IMPRESSIONS)
    lines = [line(shown, clicks=False) for shown in log[:30]]
    (tmp_path / "impressions" / "0.jsonl").write_bytes(b"".join(lines) + lines[0][:-30] + b"\n")
    clicks = [{"impression_id": shown.impression_id, **event} for shown in log for event in shown.events]
    clicks += [{"impression_id": "nowhere", "position": 0}]
    write_parquet(tmp_path / "clicks.parquet", clicks, CLICKS)
    local = replay(tmp_path / "impressions", clicks=tmp_path / "clicks.parquet")
    found = spark.replay(
        spark.read_log(cluster, tmp_path / "impressions"), spark.read_log(cluster, tmp_path / "clicks.parquet")
    )
    assert_same_replay(found, local)
    assert (local.counts.inferred, local.counts.without_id, local.counts.clicks) == (91, 1, len(clicks))
    assert (local.counts.repeated_impressions, local.counts.conflicting_impressions) == (107, 7)
    assert local.counts.clicks_of_other_rows == 0

    # A copy that is filtered out does not make its clicks count twice.
    import pyarrow.compute as pc
    from pyspark.sql import functions as F

    first = [{**each, "session_id": "first"} for each in rows[:90]]
    write_parquet(tmp_path / "twice.parquet", [*rows[:90], *first], IMPRESSIONS)
    found = spark.replay(
        spark.read_log(cluster, tmp_path / "twice.parquet"),
        spark.read_log(cluster, tmp_path / "clicks.parquet"),
        filter=F.col("session_id") == "first",
    )
    chosen = pc.field("session_id") == "first"
    local = replay(tmp_path / "twice.parquet", clicks=tmp_path / "clicks.parquet", filter=chosen)
    assert_same_replay(found, local)
    assert (local.counts.filtered, local.counts.inferred, local.counts.clicks) == (90, 90, len(clicks))


def test_the_example_of_the_docs_gives_the_local_verdict(cluster, tmp_path, capsys):
    page = (SOURCES.parent / "docs" / "replay.md").read_text()
    [code] = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    log = make_log(90)
    (tmp_path / "impressions").mkdir()
    (tmp_path / "clicks").mkdir()
    rows = [to_row(shown.impression, **shown.envelope) for shown in [*log, log[3]]]
    write_parquet(tmp_path / "impressions" / "0.parquet", rows, IMPRESSIONS)
    clicks = [{"impression_id": shown.impression_id, **event} for shown in log for event in shown.events]
    write_parquet(tmp_path / "clicks" / "0.parquet", [*clicks, {"impression_id": "i1"}], CLICKS)
    namespace = {}
    exec(code.replace("lake/", f"{tmp_path}/"), namespace)
    actions, window = ["click", "purchase"], timedelta(minutes=30)
    local = replay(tmp_path / "impressions", clicks=tmp_path / "clicks", actions=actions, window=window)
    assert_same_replay(namespace["found"], local)
    assert local.counts.repeated_impressions == local.counts.malformed_clicks == 1
    assert "ppm, click: " in capsys.readouterr().out


def test_an_executor_killed_in_the_middle_changes_nothing(cluster, joined, tmp_path):
    from pyspark.sql import functions as F

    from multileave.replay import spark

    partitions, slow = 5, 2
    frame = cluster.read.parquet(str(joined)).repartition(partitions, "impression_id")

    def note(partition):
        """Say which executor has come to a partition, and let one of them wait."""
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        (tmp_path / f"{partition}-{daemon[1]}").touch()
        until = time.monotonic() + 300
        while partition == slow and not (tmp_path / "go").exists() and time.monotonic() < until:
            time.sleep(0.05)
        return True

    def seen():
        return {tuple(map(int, path.name.split("-"))) for path in tmp_path.iterdir() if path.name != "go"}

    results = []

    def work():
        results.append(spark.replay(frame, filter=F.udf(note, "boolean")(F.spark_partition_id())))

    thread = threading.Thread(target=work)
    thread.start()
    until = time.monotonic() + 300
    while {partition for partition, _ in seen()} != set(range(partitions)) and time.monotonic() < until:
        time.sleep(0.05)
    before = seen()
    [waiting] = {executor for partition, executor in before if partition == slow}
    # This one has done all the other partitions, and what it found goes with it.
    [victim] = {executor for _, executor in before} - {waiting}
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{victim}/cmdline").read_bytes()
    os.kill(victim, signal.SIGKILL)
    (tmp_path / "go").touch()
    thread.join(timeout=300)
    again = {partition for partition, _ in seen() - before}
    assert again >= {partition for partition, executor in before if executor == victim} - {slow}
    [found] = results
    assert_same_replay(found, replay(joined))


def test_the_command_gives_the_same_json(cluster, separate, tmp_path, capsys):
    def run(*more):
        arguments = ["replay", str(separate / "impressions"), "--clicks", str(separate / "clicks"), "--json"]
        assert main([*arguments, *more]) == 0
        out, err = capsys.readouterr()
        return json.loads(out), err

    local, warning = run("--out", str(tmp_path / "local"))
    found, same = run("--out", str(tmp_path / "spark"), "--engine", "spark")
    assert warning.replace("local/quarantine.jsonl", "spark/quarantine") == same
    assert found.keys() == local.keys()
    for name in ("counts", "wrong", "reasons", "files"):
        assert found[name] == local[name]
    assert len(found["examples"]) == len(local["examples"])
    assert (tmp_path / "spark" / "tallies.json").exists()
    comparisons = {c["method"]: c for c in found["comparisons"]}
    for expected in local["comparisons"]:
        assert_close(comparisons[expected["method"]], expected)


OWN = """
from dataclasses import dataclass
import multileave as ml
from multileave.methods.team_draft import TeamDraft

@ml.register
@dataclass(frozen=True)
class Mine(TeamDraft):
    name = "mine"
"""


def test_executors_know_methods_of_ones_own(cluster, tmp_path, capsys, forget_methods):
    (tmp_path / "mine.py").write_text(OWN)
    log = make_log(60, methods=["tdm"])
    mine = [json_line({**shown.envelope, **shown.impression.to_dict(), "method": "mine"}) for shown in log]
    (tmp_path / "log.jsonl").write_bytes(b"".join(mine))
    arguments = ["--engine", "spark", "--load", str(tmp_path / "mine.py"), "--json"]
    assert main(["replay", str(tmp_path / "log.jsonl"), *arguments]) == 0
    sys.modules.pop("mine")
    report = json.loads(capsys.readouterr().out)
    assert report["comparisons"][0]["method"] == "mine"
    assert report["counts"]["inferred"] == 60


def test_what_fails_is_told_in_one_line(cluster, joined, tmp_path, capsys):
    from pyspark.sql import functions as F

    from multileave.replay import spark

    def fail(user):
        raise KeyError("no such thing")

    with pytest.raises(DataError, match="Spark could not replay the log: KeyError: 'no such thing'"):
        spark.replay(cluster.read.parquet(str(joined)), filter=F.udf(fail, "boolean")("user_id"))
    with pytest.raises(DataError, match="cap is 0"):
        spark.replay(cluster.read.parquet(str(joined)), cap=0)
    assert main(["replay", str(tmp_path / "nowhere"), "--engine", "spark"]) == 2
    (tmp_path / "other.txt").touch()
    assert main(["replay", str(tmp_path), "--engine", "spark"]) == 2
    (tmp_path / "wrong.parquet").write_bytes(b"PAR1 no PAR1")
    assert main(["replay", str(tmp_path), "--engine", "spark"]) == 2
    first, second, third = capsys.readouterr().err.splitlines()
    assert "There is no file or folder" in first
    assert "has no files ending in" in second
    assert "Spark could not read the log" in third
    assert main(["replay", str(joined), "--engine", "flink"]) == 2
    assert main(["replay", str(joined), "--master", "yarn"]) == 2
    assert main(["replay", str(joined), "--engine", "spark", "--format", "ubi", "--clicks", "x"]) == 2


@pytest.mark.parametrize("absent", ["pyspark", "pandas"])
def test_without_pyspark_the_install_line_is_told(absent, joined):
    code = (
        f"import sys; sys.modules[{absent!r}] = None; from multileave.cli import main; "
        f"sys.exit(main(['replay', {str(joined)!r}, '--engine', 'spark']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCES)}
    )
    assert done.returncode == 2
    assert done.stderr.strip().endswith(f"needs {absent}, which is not installed: pip install 'multileave[spark]'")
    assert len(done.stderr.splitlines()) == 1


def test_the_missing_extra_is_an_error_of_ours(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "multileave.replay.spark.engine", raising=False)
    with pytest.raises(MissingExtra, match="pip install 'multileave\\[spark\\]'"):
        __import__("multileave.replay.spark.engine")


def test_another_method_infers_the_log_as_the_local_engine_does(cluster, tmp_path):
    from multileave.replay import spark

    log = make_log(60, methods=("ppm", "dpm"), pins=False)
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    found = spark.replay(spark.read_log(cluster, [str(tmp_path)]), method="opm")
    assert_same_replay(found, replay(tmp_path, method="opm"))
