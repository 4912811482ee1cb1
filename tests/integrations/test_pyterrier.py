"""PyTerrier: pipelines become one list, and simulated users compare them; no index, no Java, no download."""

import subprocess
import sys

import pandas as pd
import pyterrier as pt
import pytest

import multileave as ml
from multileave.data import synthetic
from multileave.errors import RankingsError
from multileave.integrations.pyterrier import Experiment, Multileave

DATA = synthetic(queries=25, documents=20, rankers=(0.7, 0.5, 0.3), grades=3, seed=4)
TOPICS = pd.DataFrame([(f"q{q}", f"query {q}") for q in range(25)], columns=["qid", "query"])
QRELS = pd.DataFrame(
    [(f"q{q}", f"d{d}", int(label)) for q in range(25) for d, label in enumerate(DATA.query(q)[0])],
    columns=["qid", "docno", "label"],
)


def results_of(ranker: int, depth: int) -> pd.DataFrame:
    rows = [
        (f"q{q}", f"query {q}", f"d{d}", 1.0 / (rank + 1), rank)
        for q in range(25)
        for rank, d in enumerate(DATA.query(q)[1][ranker][:depth])
    ]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank"])


def pipe(ranker: int, depth: int = 15) -> pt.Transformer:
    """Return a pipeline whose rows come in any order, as the contract allows."""
    return pt.Transformer.from_df(results_of(ranker, depth).sample(frac=1.0, random_state=1))


GOOD, FAIR, POOR = pipe(0), pipe(1), pipe(2, depth=12)


def test_the_shown_list_comes_with_its_impression() -> None:
    together = Multileave([GOOD, FAIR, POOR], "tdm", 5, names=["good", "fair", "poor"], seed=7)
    assert isinstance(together, pt.Transformer)
    out = together(TOPICS)
    assert list(out.columns) == ["qid", "docno", "score", "rank", "impression", "query"]
    assert len(out) == 25 * 5
    for qid, page in out.groupby("qid"):
        impression = page["impression"].iloc[0]
        assert page["docno"].tolist() == list(impression.shown)
        assert page["rank"].tolist() == [0, 1, 2, 3, 4]
        assert page["score"].is_monotonic_decreasing
        assert impression.rankers == ("good", "fair", "poor")
        assert impression.lengths.tolist() == [15, 15, 12]
        assert impression.method == ml.TeamDraft().spelled
        rankings = {
            n: r[r["qid"] == qid]["docno"].tolist()
            for n, r in zip(impression.rankers, (results_of(0, 15), results_of(1, 15), results_of(2, 12)), strict=True)
        }
        assert ml.TeamDraft().combine(rankings, 5, seed=f"7/{qid}") == impression
        ml.infer(impression, [page["docno"].iloc[0]])


def test_the_same_seed_shows_the_same_and_pipelines_compose() -> None:
    together = Multileave({"good": GOOD, "poor": POOR}, k=4, seed="s")
    assert together(TOPICS)["docno"].tolist() == together(TOPICS)["docno"].tolist()
    assert len(together.search("query 3", qid="q3")) == 4
    longer = together >> pt.apply.title(lambda row: row["docno"].upper())
    assert longer.search("query 3", qid="q3")["title"].str.startswith("D").all()
    reranked = Multileave([GOOD % 3, POOR >> pt.apply.doc_score(lambda row: -row["score"])], seed=1)
    lengths = reranked(TOPICS)["impression"].iloc[0].lengths
    assert lengths.tolist() == [3, 12]


def test_queries_that_a_pipeline_does_not_answer() -> None:
    only = results_of(0, 15)
    some = pt.Transformer.from_df(only[only["qid"] != "q3"])
    out = Multileave({"some": some, "poor": POOR}, k=4, seed=1)(TOPICS)
    page = out[out["qid"] == "q3"]
    assert page["impression"].tolist() == [None] * 4
    assert page["docno"].tolist() == results_of(2, 4)[lambda f: f["qid"] == "q3"]["docno"].tolist()
    nobody = Multileave({"some": some, "other": some}, k=4)(TOPICS[TOPICS["qid"] == "q3"])
    assert len(nobody) == 0
    assert "impression" in nobody.columns


def test_users_find_the_best_pipeline() -> None:
    found = Experiment([POOR, GOOD, results_of(1, 15)], TOPICS, QRELS, names=["poor", "good", "fair"], impressions=3000)
    assert found.verdict.winner == "good"
    frame = found.results.set_index("name")
    assert frame["preference"].idxmax() == "good"
    assert frame.loc["good", "preferred_to"] == 2
    theirs = pt.Experiment(
        [POOR, GOOD, FAIR], TOPICS, QRELS, ["map", "P_10", "recip_rank"], names=["poor", "good", "fair"]
    )
    theirs = theirs.set_index("name")
    for ours, measure in (("ap", "map"), ("p@10", "P_10"), ("rr", "recip_rank")):
        for name in ("poor", "good", "fair"):
            assert frame.loc[name, ours] == pytest.approx(theirs.loc[name, measure])


def test_pipelines_that_make_no_sense_are_refused() -> None:
    with pytest.raises(RankingsError, match="There is 1 system"):
        Multileave([GOOD])
    with pytest.raises(RankingsError, match="expected a different one for each of 2 systems"):
        Multileave([GOOD, FAIR], names=["a", "a"])
    with pytest.raises(RankingsError, match="System '1' returns the columns qid, query; expected docno, rank as well"):
        Multileave([GOOD, pt.Transformer.identity()], names=["0", "1"])(TOPICS)
    twice = pd.concat([results_of(0, 2), results_of(0, 2)])
    with pytest.raises(RankingsError, match=r"returns document '.*' twice for query 'q0'"):
        Multileave([GOOD, twice])(TOPICS)


def test_what_is_missing_is_told_with_the_install_line() -> None:
    code = "import sys; sys.modules['pyterrier'] = None; import multileave.integrations.pyterrier"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'multileave[pyterrier]'" in done.stderr
