"""The in-process client: the calls of the others on the library and a log."""

import json
import threading

import pytest

import multileave as ml
from multileave.client import LocalClient
from multileave.errors import DataError
from multileave.replay import replay

RANKINGS = {"bm25": ["a", "b", "c", "d", "e"], "dense": ["e", "d", "c", "b", "a"], "ltr": ["c", "a", "e", "b", "d"]}


def local(folder, **settings):
    return LocalClient("ppm", control="bm25", folder=folder, **{"k": 3, **settings})


def impressions(folder):
    return [json.loads(line) for path in folder.glob("impressions-*.jsonl") for line in path.read_text().splitlines()]


def test_replay_reads_what_was_shown_and_clicked(tmp_path):
    tally = ml.Tally(("bm25", "dense", "ltr"))
    with local(tmp_path, experiment="shop", version=2) as client:
        for user in range(30):
            page = client.interleave(RANKINGS, f"u{user}", "shoes")
            client.click(page.impression, page.shown[user % 3])
            seed = json.dumps(["shop", 2, f"u{user}", "shoes", ""])
            impression = ml.PairwisePreference().combine(RANKINGS, 3, seed=seed)
            assert page.shown == impression.shown
            tally.add(ml.infer(impression, positions=[user % 3]), unit=f"u{user}")
        assert client.stats.accepted == 30
    found = replay(sorted(tmp_path.glob("impressions-*")), clicks=sorted(tmp_path.glob("clicks-*")))
    assert str(found.tally().verdict()) == str(tally.verdict())


def test_the_same_search_is_logged_once_and_another_again(tmp_path):
    with local(tmp_path) as client:
        first = client.interleave(RANKINGS, "u", "q")
        threads = [threading.Thread(target=client.interleave, args=(RANKINGS, "u", "q")) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.interleave(RANKINGS, "u", "q") == first
        assert client.interleave({**RANKINGS, "ltr": None}, "u", "q").impression != first.impression
    assert len(impressions(tmp_path)) == 2
    with local(tmp_path, window=0.0) as client:
        assert len({client.interleave(RANKINGS, "u", "q").impression for _ in range(3)}) == 3


def test_further_pages_continue_the_list_and_the_first_is_logged(tmp_path):
    with local(tmp_path, k=2, pages=2) as client:
        one, two = (client.interleave(RANKINGS, "u", "q", page=page) for page in (1, 2))
        assert len({*one.shown, *two.shown}) == 4
        assert two.impression is None
        assert not two.fallback
        assert client.interleave(RANKINGS, "u", "q", page=3).fallback
    (logged,) = impressions(tmp_path)
    assert tuple(logged["shown"]) == one.shown
    assert logged["hidden"] == [two.shown[0]]


def test_rankings_that_cannot_be_combined_fall_back(tmp_path):
    with local(tmp_path) as client:
        page = client.interleave({"bm25": ["a", "b", "a"], "dense": ["b"]}, "u")
        assert page.shown == ("a", "b")
        assert "twice" in page.reason
        assert client.interleave({"bm25": ["a"], "dense": None}, "u").shown == ("a",)
        assert client.stats.fallbacks == 2
        client.click(page.impression, "a")
        assert client.stats.ignored == 1
    assert impressions(tmp_path) == []


def test_a_ranker_that_returned_nothing_takes_no_part(tmp_path):
    with local(tmp_path) as client:
        assert not client.interleave({**RANKINGS, "ltr": []}, "u").fallback
    (logged,) = impressions(tmp_path)
    assert logged["lengths"] == [5, 5, 0]


def test_what_a_programmer_gets_wrong_raises(tmp_path):
    with pytest.raises(ml.MultileaveError, match="no method 'pmm'"):
        LocalClient("pmm", control="bm25", folder=tmp_path)
    with pytest.raises(DataError, match="pages is 0"):
        local(tmp_path, pages=0)
    with local(tmp_path) as client, pytest.raises(DataError, match="neither a document nor a position"):
        client.click("i")


def test_units_in_an_arm_get_one_rankers_own_pages_and_replay_judges_them(tmp_path):
    seen = {}
    with local(tmp_path, arms={"bm25": 0.3, "ltr": 0.3}) as client:
        for user in range(200):
            page = client.interleave(RANKINGS, f"u{user}", "q")
            client.click(page.impression, page.shown[0], action="click", value=2.5)
            seen[f"u{user}"] = page.shown
        assert client.stats.fallbacks == 0
    rows = {row["user_id"]: row for row in impressions(tmp_path)}
    for unit, row in rows.items():
        if row["method"] == "alone":
            assert list(seen[unit]) == row["shown"] == RANKINGS[row["rankers"][0]][:3]
    arms = [row["rankers"][0] for row in rows.values() if row["method"] == "alone"]
    assert arms.count("bm25") / 200 == pytest.approx(0.3, abs=0.12)
    found = replay(sorted(tmp_path.glob("impressions-*")), clicks=sorted(tmp_path.glob("clicks-*")))
    assert found.counts.in_arms == len(arms)
    assert found.arms[0].verdict["reciprocal_rank"]["ltr"].mean == 1.0
    assert found.arms[0].verdict["value"]["bm25"].mean == 2.5
    with local(tmp_path / "more", arms={"bm25": 0.5, "ltr": 0.3}) as client:  # units stay where they were
        for unit, row in rows.items():
            if row["method"] == "alone":
                assert client.interleave(RANKINGS, unit, "q").shown == seen[unit]


def test_an_arm_whose_ranker_failed_is_logged_with_the_controls_list(tmp_path):
    with local(tmp_path, k=2, pages=2, arms={"ltr": 0.999}) as client:
        rankings = {**RANKINGS, "ltr": None}
        one, two = (client.interleave(rankings, "u", "q", page=page, pinned={0: "ad"}) for page in (1, 2))
        assert (one.shown, two.shown) == (("ad", "a"), ("b", "c"))
        assert client.interleave({}, "u", "nothing").shown == ()
    first, nothing = impressions(tmp_path)
    assert (first["rankers"], first["lengths"], first["shown"], first["note"]) == (["ltr"], [0], ["ad", "a"], [-1])
    assert nothing["shown"] == []
    assert replay(sorted(tmp_path.glob("impressions-*"))).arms[0].sums["ltr"].missing == 2


@pytest.mark.parametrize("arms", [{"a": 0.0}, {"a": 1}, {"a": "0.1"}, {1: 0.1}, {"a": 0.6, "b": 0.5}])
def test_wrong_arms_are_refused(tmp_path, arms):
    with pytest.raises(DataError, match="arm"):
        local(tmp_path, arms=arms)


@pytest.mark.parametrize("value", ["9", 1e10, float("nan")])
def test_wrong_values_are_refused(tmp_path, value):
    with local(tmp_path) as client, pytest.raises(DataError, match="expected a number of at most"):
        client.click("i", "a", value=value)
