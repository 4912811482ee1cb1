"""TREC runs and qrels: what is read, what is left out and told, and how what makes no sense fails."""

import gzip
import subprocess
import sys
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, nDCG

from multileave.data import average_precision, join_runs, ndcg, precision, read_qrels, read_run, read_runs
from multileave.data import reciprocal_rank as rr
from multileave.errors import DataError

EXAMPLES = Path(__file__).parents[2] / "examples" / "runs"
RUNS = [EXAMPLES / f"{name}.run" for name in ("bm25", "dense", "ltr")]
QRELS = EXAMPLES / "topics.qrels"


def test_scores_are_those_of_ir_measures(tmp_path: Path) -> None:
    short = tmp_path / "short.run"  # with fewer documents than the cutoff
    lines = RUNS[2].read_text().splitlines(keepends=True)
    short.write_text("".join(line for line in lines if int(line.split()[3]) <= 1 + int(line.split()[0]) % 7))
    paths = [*RUNS, short]
    graded = read_runs(paths, QRELS)
    gains = {grade: 2**grade - 1 for grade in range(4)}
    ours = {nDCG(gains=gains) @ 10: ndcg, AP: average_precision, P @ 10: precision, RR: rr}
    qrels = list(ir_measures.read_trec_qrels(str(QRELS)))
    for position, path in enumerate(paths):
        run = list(ir_measures.read_trec_run(str(path)))
        theirs = ir_measures.calc_aggregate(list(ours), qrels, run)
        for measure, metric in ours.items():
            assert metric(graded.queries)[position] == pytest.approx(theirs[measure], abs=1e-12), measure


def test_the_examples_are_what_their_script_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / "make_runs.py"), str(tmp_path)], check=True)
    for path in (*RUNS, QRELS):
        assert (tmp_path / path.name).read_text() == path.read_text()


def test_documents_are_ordered_by_score_then_by_id_backwards(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    path.write_text("7 Q0 a 1 1.5 t\n7 Q0 c 2 2.5 t\n\n7 Q0 b 3 1.5 t\n8 Q0 a 1 -3 t\n")
    assert read_run(path) == {"7": ["c", "b", "a"], "8": ["a"]}
    packed = tmp_path / "a.run.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_run(packed) == read_run(path)


def test_unjudged_documents_have_the_stated_grade() -> None:
    runs = {"a": {"1": ["x", "y"]}, "b": {"1": ["y", "z"]}}
    qrels = {"1": {"x": 2, "y": -1, "w": 1}}
    plain, told = join_runs(runs, qrels), join_runs(runs, qrels, unjudged=1)
    assert plain.queries.labels.tolist() == [2, 0, 0, 1]  # x, y, z, w
    assert told.queries.labels.tolist() == [2, 0, 1, 1]
    assert plain.queries.lengths.tolist() == [[2, 2]]
    assert plain.queries.query(0)[1].tolist() == [[0, 1, 2, 3], [1, 2, 0, 3]]
    assert told.notes[1:] == (
        "1 of 4 documents have no judgement, and get grade 1.",
        "1 judgement below 0, counted as 0.",
    )


def test_missing_topics_are_left_out_and_counted() -> None:
    runs = {"a": {"1": ["x"], "2": ["x"], "9": ["x"]}, "b": {"1": ["y", "x"]}}
    graded = join_runs(runs, {"1": {"x": 1}, "2": {"x": 1}, "3": {"x": 1}})
    assert graded.topics == ("1",)
    assert graded.missing == {"a": 1, "b": 2}
    assert graded.without_qrels == 1
    assert graded.notes == (
        "1 topic is compared: those that all systems answered and the qrels judge.",
        "a has no documents for 1 judged topic, left out for all systems.",
        "b has no documents for 2 judged topics, left out for all systems.",
        "1 topic of the runs not in the qrels, left out.",
        "1 of 2 documents have no judgement, and get grade 0.",
    )
    assert graded.to_dict()["compared"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Q0 a 1 2.0 t\n1 Q0 b 2 t\n", r"bad\.run, line 2: found '1 Q0 b 2 t', expected topic Q0 document rank"),
        ("1 Q0 a 1 2.0 t\n\n1 Q0 b 2 high t\n", r"line 3: found '1 Q0 b 2 high t'.*could not convert string to float"),
        ("1 Q0 a 1 2.0 t\n1 Q0 a 2 1.0 t\n", r"line 2: document 'a' is listed twice for topic '1'"),
        ("1 Q0 a 1 nan t\n", "line 1: the score is not a number"),
        ("\n", "is empty"),
    ],
)
def test_lines_that_are_no_run_are_told_by_file_and_number(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.run"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_run(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 a\n", r"bad\.qrels, line 1: found '1 0 a', expected topic iteration document grade"),
        ("1 0 a 1\n1 0 b 1.5\n", "line 2"),
        ("1 0 a 1\n1 0 a 2\n", "line 2: document 'a' has grade 2 for topic '1' here and 1 before"),
        ("", "is empty"),
    ],
)
def test_lines_that_are_no_qrels_are_told_by_file_and_number(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.qrels"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_qrels(path)


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    other = tmp_path / "other.qrels"
    other.write_text("t1 0 a 1\n")
    with pytest.raises(DataError, match=r"No topic of .*bm25\.run is in .*other\.qrels.*'401'.*'t1'"):
        read_runs(RUNS, other)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_runs([*RUNS, tmp_path / "nowhere.run"], QRELS)
    with pytest.raises(DataError, match="is given twice"):
        read_runs([RUNS[0], RUNS[0]], QRELS)
    with pytest.raises(DataError, match="There is 1 run;"):
        read_runs(RUNS[:1], QRELS)
    with pytest.raises(DataError, match="unjudged documents is -1"):
        read_runs(RUNS, QRELS, unjudged=-1)
    cut = tmp_path / "cut.run.gz"
    cut.write_bytes(gzip.compress(RUNS[0].read_bytes())[:400])
    with pytest.raises(DataError, match=r"cut\.run\.gz cannot be read"):
        read_run(cut)
    with pytest.raises(DataError, match="in the qrels and in all runs"):
        join_runs({"a": {"1": ["x"]}, "b": {"2": ["x"]}}, {"1": {"x": 1}, "2": {"x": 1}})
    with pytest.raises(DataError, match="have grade 0, so no system is better"):
        join_runs({"a": {"1": ["x"]}, "b": {"1": ["x"]}}, {"1": {"x": 0}})


def test_lengths_are_checked() -> None:
    graded = read_runs(RUNS, QRELS).queries
    same = {name: getattr(graded, name) for name in ("rankers", "grades", "offsets", "labels", "rankings")}
    with pytest.raises(DataError, match="Lengths have the shape"):
        type(graded)(**same, lengths=graded.lengths[:3])
    with pytest.raises(DataError, match="A length is invalid"):
        type(graded)(**same, lengths=np.zeros_like(graded.lengths))
