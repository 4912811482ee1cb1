"""The list of experiments: results in short, searched and filtered, with as many statements for many as for few."""

import asyncio
import json
import re
import time
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from http_service import API, check_refusal
from stalling import locked

from multileave.live.definition import Definition
from multileave.live.experiment import Experiment
from multileave.live.http.app import create_app
from multileave.live.pages.experiment_list import PAGE, Filters, rows_of
from multileave.live.pages.svg import small_forest
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store import aggregates
from multileave.live.store.database import Store
from multileave.live.store.impressions import load_new, oldest_uncounted
from multileave.live.store.times import SECOND
from multileave.live.verdicts.summary import Listed, Search, Summary, summary_of
from multileave.outcome import Outcome
from multileave.stats import Tally
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow, pairs_of

RANKINGS = {"bm25": ["a", "b", "c", "d"], "dense": ["c", "a", "d", "b"], "ltr": ["d", "c", "b", "a"]}
RANKERS = tuple(RANKINGS)
HOSTILE = "<script>alert('x')</script>&"


@pytest.fixture
def service(address):
    service = Service(Settings(database=address, open=True, durable=False))
    yield service
    service.close()


@pytest.fixture
def browser(service):
    app = create_app(service.settings)
    app.state.service = service
    return TestClient(app, base_url="http://127.0.0.1:8421", follow_redirects=False)


def add_experiment(service, name, effects=None, *, users=0, status="running", control="", **settings):
    """Create an experiment with a tally of users who prefer rankers by their effects; return its number."""
    rankers = tuple(effects or {"bm25": 0.0, "ltr": 0.0})
    number = service.create(Definition(name, rankers, control, **settings)).number
    for change in {"draft": (), "running": (service.start,), "stopped": (service.start, service.stop)}[status]:
        change(number)
    if users:
        rng = np.random.default_rng(number)
        tally = GroupedTally(rankers)
        for _ in range(users):
            credit = np.array(list(effects.values())) + rng.normal(0.0, 0.5, len(rankers))
            sums = pairs_of(credit[:, None] - credit[None, :])
            tally.change(None, UnitRow(1, 1, sums))
            tally.squares = tally.squares + sums * sums
        store = Store(service.settings.database)
        with store.write() as connection:
            aggregates.lock_tallies(store, connection, number)
            aggregates.save_tallies(connection, number, json.dumps({"click": tally.to_dict()}))
        store.close()
    return number


def search_and_click(service, number, users=12):
    async def traffic():
        for user in range(users):
            shown = await service.show(number, ShowRequest(RANKINGS, unit=f"user-{user}"))
            await service.record([Event(f"event-{user}", shown.impression, document="d")])

    asyncio.run(traffic())


def verdict_of(means, users=400, control="bm25"):
    rng = np.random.default_rng(5)
    tally = Tally(RANKERS)
    for user in range(users):
        tally.add(Outcome(RANKERS, "difference", rng.normal(means, 1.0)), unit=user)
    return tally.verdict(interval="anytime")


def cycle(*apart):
    """bm25 beats dense, dense beats ltr, ltr beats bm25; nothing is known about other rankers."""
    tally = Tally((*RANKERS, *apart))
    rng = np.random.default_rng(2)
    for user in range(400):
        matrix = np.zeros((3 + len(apart), 3 + len(apart)))
        matrix[[0, 1, 2], [1, 2, 0]] = 0.5 + rng.normal(0.0, 0.5, 3)
        tally.add(Outcome(tally.rankers, "matrix", matrix - matrix.T), unit=user)
    return tally.verdict(interval="anytime")


def test_a_summary_says_who_leads_against_whom_and_how_far_it_is():
    winner = summary_of(verdict_of((0.0, 0.5, 1.5)), "bm25")
    assert (winner.standing, winner.leader, winner.beats, winner.more_units) == ("winner", "ltr", 2, None)
    assert winner.p < 0.05
    near = verdict_of((0.0, 0.98, 1.0))
    leader = summary_of(near, "bm25")
    assert (leader.standing, leader.beats) == ("leader", 1)
    assert leader.versus == ({"dense", "ltr"} - {leader.leader}).pop()  # the control is beaten, that one is not
    assert leader.p == near.pair(leader.leader, leader.versus).p_corrected > 0.05
    alike = verdict_of((0.0, 0.02, 0.25), users=60)
    still_open = summary_of(alike, "bm25")
    assert (still_open.standing, still_open.leader, still_open.beats) == ("open", "ltr", 0)
    assert still_open.versus == "bm25"
    pair = alike.pair("ltr", "bm25")
    assert still_open.more_units == (pair.more_units_low, pair.more_units_high)
    assert [(one.ranker, one.preference) for one in still_open.pairs] == [
        (name, alike.pair(name, "bm25").preference) for name in alike.copeland if name != "bm25"
    ]
    control_leads = summary_of(verdict_of((1.0, 0.5, 0.0)), "bm25")
    assert (control_leads.standing, control_leads.leader, control_leads.versus) == ("winner", "bm25", "dense")


def test_no_leader_is_named_in_a_cycle_and_without_clicks():
    for verdict in (cycle(), cycle("apart")):
        assert verdict.circles
        summary = summary_of(verdict, "bm25")
        assert (summary.standing, summary.leader, len(summary.pairs)) == ("open", None, len(verdict.rankers) - 1)
    silent = verdict_of((0.0, 0.0, 0.0))
    none = replace(silent, pairs=tuple(replace(p, preference=0.0, low=0.0, high=0.0) for p in silent.pairs))
    assert summary_of(none, "bm25") == Summary(none.impressions, none.units)


@pytest.mark.parametrize("more", [None, (3, None), (3, 9)])
def test_a_summary_survives_json(more):
    summary = replace(summary_of(verdict_of((0.0, 0.1, 0.2)), "dense"), more_units=more)
    assert Summary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary


def test_the_stored_summary_follows_traffic_and_deletions(service):
    number = service.create(Definition("Autumn", RANKERS, "bm25", k=3)).number
    service.start(number)
    assert service.search(Search()).found[0].summary is None
    search_and_click(service, number)
    service.fold()
    for users in (12, 11):
        report = service.report(number)
        assert report.traffic.units == users
        assert service.search(Search()).found[0].summary == summary_of(report.verdict, "bm25")
        service.delete_unit(f"user-{users - 1}")


def test_a_database_of_an_earlier_version_gets_its_summaries(service):
    number = add_experiment(service, "Old", {"bm25": 0.0, "ltr": 1.0}, users=80, status="stopped")
    assert service.search(Search()).found[0].summary is None
    service.fold()
    expected = summary_of(service.report(number).verdict, "bm25")
    assert service.search(Search()).found[0].summary == expected
    assert expected.standing == "winner"


def test_experiments_are_found_by_words_status_standing_and_scope(service):
    add_experiment(service, "Über-Suche", {"bm25": 0.0, "ltr": 1.0}, users=80)
    add_experiment(service, "50%_off", {"bm25": 0.0, "dense": 0.01}, users=20, status="stopped", group="Shop")
    add_experiment(service, "draft", status="draft")
    add_experiment(service, "silent")
    service.fold()

    def numbers(*, within=None, **wanted):
        return [one.experiment.number for one in service.search(Search(**wanted), within=within).found]

    assert numbers() == [4, 3, 2, 1]
    assert numbers(text="über") == numbers(text="SUCHE üBER") == [1]
    assert numbers(text="%_") == numbers(text="shop") == numbers(text="dense 2") == [2]
    assert numbers(text="rankers") == numbers(text="definition") == []  # keys of the stored JSON
    assert numbers(status="running") == [4, 1]
    assert numbers(status="running", standing="winner") == [1]
    assert numbers(standing="open") == [2]
    assert numbers(standing="none") == [4, 3]
    assert numbers(within=(2, 3, 99)) == [3, 2]
    part = service.search(Search(), offset=1, limit=2)
    assert ([one.experiment.number for one in part.found], part.total) == ([3, 2], 4)


def test_the_list_takes_as_many_statements_for_many_experiments_as_for_few(service, browser):
    statements = []
    sa.event.listen(service._store.engine, "before_cursor_execute", lambda *event: statements.append(event[2]))

    def count(path):
        statements.clear()
        assert browser.get(path).status_code == 200
        return len(statements)

    paths = ("/", "/?q=ltr&result=open", f"{API}/experiments")
    counts = []
    for experiments in (2, 20):
        for n in range(experiments):
            add_experiment(service, f"one {n}", {"bm25": 0.0, "ltr": 0.1}, users=5)
        service.fold()
        counts.append([count(path) for path in paths])
        statements.clear()
        service.fold()
        counts[-1].append(len(statements))
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 8


def test_the_page_shows_leaders_samples_and_charts_and_hostile_names_are_text(service, browser):
    add_experiment(service, HOSTILE + "W" * 60, {HOSTILE: 0.0, "L" * 100: 2.0}, users=60, control=HOSTILE)
    add_experiment(service, "Many", {f"r{n}": n / 40 for n in range(40)}, users=30, control="r3")
    add_experiment(service, "Close", {"bm25": 0.0, "ltr": 0.1}, users=40, unit="session")
    add_experiment(service, "Draft", status="draft")
    add_experiment(service, "Quiet")
    add_experiment(service, "Ended", status="stopped")
    add_experiment(service, "Alone", {"bm25": 0.0, "ltr": 0.1}, users=1)
    service.fold()
    text = browser.get("/").text
    assert "<script" not in text
    words = re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", text)))
    for expected in (
        "7 experiments", "L" * 31 + "… wins", f"Significantly better than {HOSTILE}", "40 rankers",
        "ltr is ahead", "Not significantly better than bm25 yet, p =", "40 sessions", "more needed",
        "Not started", "No data yet", "Ended stopped", "1 user",
    ):  # fmt: skip
        assert expected in words, expected
    assert text.count('<svg class="small"') == 3
    assert text.count('class="dot"') == 1 + 4 + 1
    assert browser.get("/?result=winner").text.count("<li>") == 1


def test_zero_is_in_the_middle_of_every_chart():
    for estimates in ([(0.1, 0.05, 1.0)], [(-2.0, -3.0, -1.0), (0.1, -0.1, 0.3)], [(0.0, -9.0, 9.0)]):
        chart = small_forest(estimates, ["open"] * len(estimates))
        dots = [float(at) for at in re.findall(r'cx="([\d.]+)%"', chart)]
        assert [np.sign(dot - 50.0) for dot in dots] == [np.sign(preference) for preference, _, _ in estimates]


def test_only_a_running_experiment_says_how_many_are_needed():
    definition = Definition("x", ("a", "b"))
    summary = Summary(90, 40, "open", "b", 0, "a", 0.4, (120, 900), ())
    state = {"version": 1, "parent": None, "start_of_slice": 0.0, "created": None}
    for status, more, needed in (
        ("running", (120, 900), "about 120 to 900 more needed"),
        ("running", (120, None), "at least 120 more needed"),
        ("running", None, "over 100 times as many users needed"),
        ("stopped", (120, 900), ""),
    ):
        experiment = Experiment(1, definition, status=status, **state)
        [row] = rows_of([Listed(experiment, replace(summary, more_units=more))])
        assert (row.needed, row.leader, row.result) == (needed, "b", "is ahead")


def test_pages_keep_the_search_in_their_address(service, browser):
    for n in range(PAGE + 3):
        service.create(Definition(f"draft {n}", ("a", "b")))
    first = unescape(browser.get("/?q=draft&status=draft").text)
    assert first.count("<li>") == PAGE
    assert f"{PAGE + 3} experiments found" in first
    assert 'href="/?q=draft&status=draft&page=2"' in first
    assert '<option value="draft" selected>' in first
    second = unescape(browser.get("/?q=draft&status=draft&page=2").text)
    assert second.count("<li>") == 3
    assert 'rel="prev" href="/?q=draft&status=draft"' in second
    beyond = browser.get("/?q=draft&page=7")
    assert (beyond.status_code, beyond.headers["location"]) == (303, "/?q=draft&page=2")
    assert "No experiment matches" in browser.get("/?q=nothing").text


def test_addresses_that_make_no_sense_show_a_page(service, browser):
    service.create(Definition("draft", ("a", "b")))
    wrong = ("page=x", "page=0", "page=-1", "page=²", "status=lost&result=x", "q=%00%ff", f"q={'w' * 9000}")
    for query in wrong:
        answer = browser.get(f"/?{query}")
        assert answer.status_code == 200, query
        assert "Experiments" in answer.text
    assert browser.get(f"/?page={'9' * 40}").status_code == 200
    assert browser.get("/?page=999999999").headers["location"] == "/"


def test_filters_are_read_and_written_back():
    filters = Filters.of({"q": " a  b ", "status": "running", "result": "open", "page": "3"})
    assert filters == Filters(Search("a b", "running", "open"), 3)
    assert filters.address(1) == "/?q=a+b&status=running&result=open"
    assert Filters.of({}).address(1) == "/"
    assert not Filters.of({"page": "2"}).filtered


def test_the_api_lists_summaries_and_filters(service, browser):
    add_experiment(service, "Won", {"bm25": 0.0, "ltr": 1.0}, users=80)
    add_experiment(service, "Draft", status="draft")
    service.fold()
    every = browser.get(f"{API}/experiments").json()
    assert [one["name"] for one in every["experiments"]] == ["Draft", "Won"]
    assert (every["total"], every["stale"]) == (2, False)
    draft, won = (one["summary"] for one in every["experiments"])
    assert draft is None
    assert (won["leader"], won["standing"], won["units"], won["pairs"][0]["significant"]) == ("ltr", "winner", 80, True)
    found = browser.get(f"{API}/experiments", params={"search": "wo", "standing": "winner", "status": "running"}).json()
    assert [one["name"] for one in found["experiments"]] == ["Won"]
    part = browser.get(f"{API}/experiments", params={"offset": 1, "limit": 1}).json()
    assert ([one["name"] for one in part["experiments"]], part["total"]) == (["Won"], 2)
    for wrong in ({"status": "lost"}, {"standing": "x"}, {"limit": 0}, {"offset": -1}, {"search": "w" * 101}):
        check_refusal(browser.get(f"{API}/experiments", params=wrong), 422, "invalid")


def test_a_list_whose_results_cannot_be_updated_says_so(sqlite_address):
    settings = Settings(database=sqlite_address, open=True, database_seconds=0.3)
    service = Service(settings)
    app = create_app(settings)
    app.state.service = service
    browser = TestClient(app, base_url="http://127.0.0.1:8421")
    number = service.create(Definition("Autumn", RANKERS, "bm25", k=3)).number
    service.start(number)
    search_and_click(service, number, users=3)
    service.fold()
    assert 'id="stale"' not in browser.get("/").text
    search_and_click(service, number, users=5)
    with locked(sqlite_address, "IMMEDIATE"):
        service._counted_until -= 60 * SECOND  # as if the lock had been held for a minute
        assert service.fold() == 0
        page = browser.get("/")
        assert (page.status_code, 'id="stale"' in page.text) == (200, True)
        assert "3 users" in page.text
        said = browser.get(f"{API}/experiments").json()
        assert said["stale"]
        assert said["experiments"][0]["summary"]["units"] == 3
    ends = time.monotonic() + 20
    while service.fold() == 0 and time.monotonic() < ends:
        time.sleep(0.05)
    page = browser.get("/")
    assert "5 users" in page.text
    assert 'id="stale"' not in page.text
    service.close()


def test_looking_for_new_impressions_reads_only_those(sqlite_address):
    """SQLite uses the index of new impressions, so that a fold costs the same however many were counted."""
    store = Store(sqlite_address)
    statements = []
    sa.event.listen(store.engine, "before_cursor_execute", lambda *event: statements.append((event[2], event[3])))
    with store.read() as connection:
        aggregates.experiments_with_new(connection)
        load_new(connection, 1, 1)
        oldest_uncounted(connection, 1)
        asked = [found for found in statements if found[0].startswith("SELECT")]
        assert len(asked) == 3
        for statement, parameters in asked:
            [plan] = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            assert "ix_impressions_dirty" in plan[3], (statement, plan)
    store.close()
