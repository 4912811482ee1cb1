"""Any retriever: where ids are found, what runs at once, and what happens when some do not answer."""

import asyncio
import threading
import time
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

import multileave as ml
from multileave.errors import RankingsError
from multileave.integrations.retrievers import Multisearch, document_id


def bm25(query: str) -> list[str]:
    return ["d1", "d2", "d3", "d4"]


def dense(query: str) -> list[str]:
    return ["d3", "d1", "d5", "d2"]


def ltr(query: str) -> list[str]:
    return ["d3", "d5", "d1", "d4"]


RANKERS = {"bm25": bm25, "dense": dense, "ltr": ltr}


def failing(query: str) -> list[str]:
    raise ConnectionError("connection refused")


def empty(query: str) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("d1", "d1"),
        (17, 17),
        (np.int64(17), 17),
        ({"id": "d1"}, "d1"),
        ({"doc_id": 5}, 5),
        ({"docno": "d1"}, "d1"),
        ({"_id": "d1", "_source": {"id": "other"}}, "d1"),
        (SimpleNamespace(id="d1"), "d1"),
        (namedtuple("ScoredDoc", "query_id doc_id score")("q", "d1", 1.0), "d1"),
        (Document(page_content="text", id="d1"), "d1"),
        (Document(page_content="text", metadata={"doc_id": "d1"}), "d1"),
        (SimpleNamespace(id=None, meta={"_id": "d1"}), "d1"),
    ],
    ids=str,
)
def test_where_ids_are_found(document: Any, expected: str | int) -> None:
    found = document_id(document)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("document", [{"title": "x"}, 1.5, None, True, Document(page_content="text")], ids=str)
def test_documents_without_an_id_are_told(document: Any) -> None:
    with pytest.raises(RankingsError, match=r"has no id; expected a string.*Pass id_of="):
        document_id(document)


def test_a_page_is_what_the_method_draws_from_all_lists() -> None:
    page = Multisearch(RANKERS, "ppm", 3)("red shoes", seed="user-17")
    drawn = ml.PairwisePreference().combine({n: r("") for n, r in RANKERS.items()}, 3, seed="user-17")
    assert page.impression == drawn
    assert page.shown == page.documents == drawn.shown
    assert page.missing == {}
    assert page.fallback is None


def test_documents_come_in_the_order_shown_and_with_what_is_pinned() -> None:
    def titled(ids: list[str], source: str) -> Any:
        return lambda query: [{"id": d, "title": f"{d} by {source}"} for d in ids]

    search = Multisearch({"a": titled(["d1", "d2"], "a"), "b": titled(["d2", "d3"], "b")}, "tdm", 3)
    page = search("q", seed=1, pinned={0: {"id": "ad", "title": "buy"}})
    assert page.documents[0] == {"id": "ad", "title": "buy"}
    assert [document["id"] for document in page.documents] == list(page.shown)
    titles = {document["id"]: document["title"] for document in page.documents}
    assert titles["d2"] == "d2 by a"
    assert page.impression is not None
    assert page.impression.pinned == ((0, "ad"),)


def test_retrievers_run_at_once() -> None:
    together = threading.Barrier(3, timeout=5)

    def waiting(ids: list[str]) -> Any:
        def call(query: str) -> list[str]:
            together.wait()  # passes only while all three are called
            return ids

        return call

    page = Multisearch({name: waiting(r("")) for name, r in RANKERS.items()}, deadline=5)("q")
    assert page.missing == {}


def test_who_is_late_fails_or_has_nothing_takes_no_part() -> None:
    held = threading.Event()
    try:
        search = Multisearch(
            {**RANKERS, "slow": lambda query: held.wait() and [], "down": failing, "none": empty},
            deadline={"slow": 0.05, "down": 5, "none": 5, "bm25": 5, "dense": 5, "ltr": 5},
        )
        started = time.monotonic()
        page = search("q", seed=1)
        assert time.monotonic() - started < 4
    finally:
        held.set()
    assert page.missing == {
        "slow": "no answer within 0.05 s",
        "down": "ConnectionError: connection refused",
        "none": "returned no documents",
    }
    assert page.impression is not None
    assert page.impression.rankers == (*RANKERS, "slow", "down", "none")
    assert page.impression.lengths.tolist() == [4, 4, 4, 0, 0, 0]
    alone = Multisearch(RANKERS)("q", seed=1)
    assert page.shown == alone.shown
    assert alone.impression is not None
    clicks = [page.shown[0]]
    found, expected = ml.infer(page.impression, clicks), ml.infer(alone.impression, clicks)
    np.testing.assert_array_equal(found.preferences[:3, :3], expected.preferences)
    assert not found.preferences[3:].any()


def test_the_control_is_shown_where_nothing_can_be_compared() -> None:
    page = Multisearch({"down": failing, "bm25": bm25, "none": empty}, k=2, control="bm25")("q", pinned={1: "ad"})
    assert page.impression is None
    assert page.fallback == "bm25"
    assert page.shown == ("d1", "ad")
    page = Multisearch({"bm25": bm25, "down": failing}, k=2, control="down")("q")
    assert page.fallback == "bm25"
    assert page.shown == ("d1", "d2")
    assert page.missing == {"down": "ConnectionError: connection refused"}


def test_the_control_can_stand_in_whenever_a_ranker_is_missing() -> None:
    careful = Multisearch({**RANKERS, "down": failing}, k=2, control="ltr", on_missing="control")("q", seed=1)
    assert careful.impression is None
    assert careful.fallback == "ltr"
    assert careful.shown == ("d3", "d5")
    other = Multisearch({**RANKERS, "down": failing}, k=2, control="down", on_missing="control")("q", seed=1)
    assert other.fallback == "bm25"
    whole = Multisearch(RANKERS, k=2, control="ltr", on_missing="control")("q", seed=1)
    assert whole.impression is not None


def test_nobody_answering_is_an_error_and_nothing_found_is_not() -> None:
    with pytest.raises(RankingsError, match="No ranker answered: a: ConnectionError: connection refused; b: "):
        Multisearch({"a": failing, "b": failing})("q")
    page = Multisearch({"a": empty, "b": failing})("q")
    assert page.documents == ()
    assert page.impression is page.fallback is None


def test_a_tally_takes_what_pages_say_of_the_rankers_that_answered() -> None:
    tally, expected = ml.Tally(list(RANKERS)), ml.Tally(list(RANKERS))
    whole, part = Multisearch(RANKERS), Multisearch({**RANKERS, "ltr": failing})
    for user in range(30):
        page = whole("q", seed=f"user-{user}")
        page.add_to(tally, ["d3"], unit=f"user-{user}")
        expected.add(ml.infer(page.impression, ["d3"]), unit=f"user-{user}")
    for seed in range(10):
        page = part("q", seed=seed)
        page.add_to(tally, ["d3"], unit="u")
        alone = ml.get_method("recommended").combine({"bm25": bm25(""), "dense": dense("")}, seed=seed)
        preferences = np.zeros((3, 3))
        preferences[:2, :2] = ml.infer(alone, ["d3"]).preferences
        expected.add(ml.Outcome(tuple(RANKERS), "matrix", preferences), unit="u")
    assert tally.impressions == 40
    np.testing.assert_allclose(tally.preferences, expected.preferences)
    health = tally.health()
    assert health.fallbacks == 10 / 40
    assert health.missing == {"bm25": 0.0, "dense": 0.0, "ltr": 10 / 40}


def test_a_page_of_the_control_counts_as_a_fallback_only() -> None:
    tally = ml.Tally(list(RANKERS))
    Multisearch({**RANKERS, "ltr": failing}, on_missing="control")("q").add_to(tally, ["d3"], unit="u")
    assert tally.impressions == 0
    assert tally.evidence.fallbacks == tally.evidence.left_out == 1


def test_a_list_with_a_repeat_is_missing_rather_than_mended() -> None:
    page = Multisearch({**RANKERS, "twice": lambda query: ["d1", "d1"]})("q")
    assert page.missing == {"twice": "listed a document twice"}


def test_an_engine_that_hangs_does_not_pile_up_calls() -> None:
    held = threading.Event()
    running = []

    def hanging(query: str) -> list[str]:
        running.append(query)
        held.wait()
        return ["d1"]

    try:
        limits = {"bm25": 5.0, "dense": 5.0, "hangs": 0.02}
        search = Multisearch({"bm25": bm25, "dense": dense, "hangs": hanging}, deadline=limits, pending=3)
        reasons = [search(f"q{i}").missing.get("hangs") for i in range(8)]
        assert reasons == ["no answer within 0.02 s"] * 3 + ["too many calls are still running"] * 5
        assert len(running) == 3
    finally:
        held.set()


async def _later(ids: list[str]) -> list[str]:
    await asyncio.sleep(0)
    return ids


class AsyncRetriever:
    async def __call__(self, query: str) -> list[str]:
        return await _later(ltr(query))


def test_async_retrievers_with_and_without_a_loop() -> None:
    async def forever(query: str) -> list[str]:
        await asyncio.sleep(60)
        return []

    mixed = {"bm25": bm25, "dense": lambda query: _later(dense(query)), "ltr": AsyncRetriever()}
    plain = Multisearch(RANKERS)("q", seed=5)
    assert Multisearch(mixed)("q", seed=5) == plain
    assert asyncio.run(Multisearch(mixed).search_async("q", seed=5)) == plain

    late = Multisearch({**mixed, "late": forever, "down": failing}, deadline={"late": 0.05})
    page = asyncio.run(late.search_async("q", seed=5))
    assert page.missing == {"late": "no answer within 0.05 s", "down": "ConnectionError: connection refused"}
    assert page.shown == plain.shown


def test_a_timeout_of_the_client_is_its_own_reason() -> None:
    def client_timeout(query: str) -> list[str]:
        raise TimeoutError("read timed out")

    search = Multisearch({**RANKERS, "down": client_timeout})
    assert search("q").missing == {"down": "TimeoutError: read timed out"}
    assert asyncio.run(search.search_async("q")).missing == {"down": "TimeoutError: read timed out"}


def test_a_langchain_retriever_is_called_as_it_is() -> None:
    class Fixed(BaseRetriever):
        ids: list[str]

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(page_content=f"text of {d}", id=d) for d in self.ids]

    search = Multisearch({"one": Fixed(ids=["a", "b"]).invoke, "two": Fixed(ids=["b", "c"]).invoke})
    page = search("q", seed=1)
    assert [document.page_content for document in page.documents] == [f"text of {d}" for d in page.shown]
    chain = Multisearch({"one": Fixed(ids=["a", "b"]).ainvoke, "two": Fixed(ids=["b", "c"]).ainvoke})
    assert asyncio.run(chain.search_async("q", seed=1)).shown == page.shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retrievers": {"a": bm25}}, "two or more names"),
        ({"retrievers": {"a": bm25, "b": "url"}}, "Retriever 'b' is a str, which cannot be called"),
        ({"control": "bm52"}, "control names 'bm52'.*Did you mean 'bm25'"),
        ({"deadline": {"dens": 1}}, "deadline names 'dens'"),
        ({"deadline": 0}, "seconds above 0"),
        ({"pending": 0}, "calls from 1"),
        ({"on_missing": "stop"}, "expected 'compare' or 'control'"),
        ({"method": "bi"}, "exactly 2 rankers"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ml.MultileaveError, match=message):
        Multisearch(**{"retrievers": RANKERS, **arguments})
