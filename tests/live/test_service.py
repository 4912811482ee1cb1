"""The contract of the service, the same on SQLite and on Postgres."""

import asyncio
import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.parquet
import pytest
from http_service import forged

import multileave as ml
from multileave.live.definition import Definition
from multileave.live.errors import Conflict, Invalid, NotFound, TooLarge
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store.aggregates import load_tallies
from multileave.replay import replay

NAMES = ("bm25", "dense", "ltr")


@pytest.fixture
def service(address):
    found = Service(Settings(database=address, secret="s" * 32))
    yield found
    found.close()


def definition(**changes):
    return Definition(**{"name": "first", "rankers": NAMES, "control": "bm25", "k": 4, **changes})


def running(service, **changes):
    return service.start(service.create(definition(**changes)).number).number


def rankings(seed, documents=12):
    rng = random.Random(seed)
    return {name: rng.sample([f"d{n}" for n in range(documents)], documents) for name in NAMES}


def show(service, number, **fields):
    request = ShowRequest(**{"rankings": rankings(1), "unit": "u1", "query": "q", **fields})
    return asyncio.run(service.show(number, request))


def record(service, *events):
    return asyncio.run(service.record(events))


def search(service, number, users=60, seed=0):
    """Let users search, and prefer what ltr ranks high."""
    rng = random.Random(seed)

    async def one(user, n):
        ranked = rankings(f"{user}{n}")
        shown = await service.show(number, ShowRequest(ranked, f"u{user}", f"q{n}"))
        if shown.impression is None:
            return
        best = min(range(len(shown.shown)), key=lambda x: ranked["ltr"].index(shown.shown[x]))
        events = [Event(f"e{x}", shown.impression, position=x) for x in {best, rng.randrange(4)} if rng.random() < 0.7]
        if events:
            assert all(receipt.accepted for receipt in await service.record(events))

    async def everyone():
        await asyncio.gather(*(one(user, n) for user in range(users) for n in range(1 + user % 4)))

    asyncio.run(everyone())


def same_verdicts(one, other):
    assert (one.impressions, one.units) == (other.impressions, other.units)
    for mine, theirs in zip(one.pairs, other.pairs, strict=True):
        for name in ("preference", "low", "high", "p", "p_corrected", "share"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-9), name
    assert (one.rates is None) == (other.rates is None)
    for mine, theirs in zip(one.rates.rankers, other.rates.rankers, strict=True) if one.rates else ():
        for name in ("rate", "low", "high", "lift", "lift_low", "lift_high"):
            found, expected = getattr(mine, name), getattr(theirs, name)
            # The service rounds sums to a grid, which a ratio of small rates feels more.
            near = 1e-6 if name.startswith("lift") else 1e-7
            close = None if expected is None else pytest.approx(expected, rel=near, abs=1e-9)
            assert found == close, name


def replayed(service, number, folder, action="click", **options):
    service.export(number, folder / "log.parquet")
    found = replay(folder / "log.parquet", actions=[action], **options)
    assert not found.counts.wrong
    (comparison,) = found.comparisons
    return comparison.tally.verdict(interval="anytime")


def test_the_verdict_is_that_of_a_replay_of_the_export(service, tmp_path):
    number = running(service)
    search(service, number)
    verdict = service.report(number).verdict
    assert verdict.condorcet == "ltr"
    same_verdicts(verdict, replayed(service, number, tmp_path))


@pytest.mark.parametrize("method", ["dpm", "rpm(lead=2)"])
def test_rates_are_those_of_a_replay_of_the_export(service, tmp_path, method):
    number = running(service, method=method)
    search(service, number)
    verdict = service.report(number).verdict
    assert verdict.rates.impressions == verdict.impressions
    same_verdicts(verdict, replayed(service, number, tmp_path))


@pytest.mark.parametrize("weights", [{"cap": 3}, {"winsorise": 2}, {"estimand": "users"}], ids=str)
def test_rates_weight_units_as_the_verdict_does(service, tmp_path, weights):
    number = running(service, method="dpm", **weights)
    search(service, number)
    verdict = service.report(number).verdict
    service.export(number, tmp_path / "log.parquet")
    expected = replay(tmp_path / "log.parquet").tally().verdict(interval="anytime", **weights)
    same_verdicts(verdict, expected)
    assert expected.rates["ltr"].rate != replay(tmp_path / "log.parquet").tally().rates()["ltr"].rate


def test_values_of_events_add_up_to_rates(service, tmp_path):
    """Of several reports the largest value counts, in whatever order they come; a late one changes the rates."""
    number = running(service, method="dpm", actions=["click", "purchase", "purchase:value"])
    rng = random.Random(3)
    for user in range(40):
        shown = show(service, number, unit=f"u{user % 15}", query=f"q{user}", rankings=rankings(user))
        position, worth = rng.randrange(4), [None, -2.5, 10.0, rng.randrange(1, 90) + 0.01]
        sent = [
            Event(f"{user}-{x}", shown.impression, position=position, action="purchase", value=value)
            for x, value in enumerate(rng.sample(worth, rng.randrange(4)))
        ]
        for events in (sent[:1], sent[1:], sent):
            assert all(receipt.accepted for receipt in record(service, *events))
        if user % 10 == 0:
            service.report(number)
    found = service.report(number, "purchase:value").verdict
    same_verdicts(found, replayed(service, number, tmp_path, "purchase:value"))
    same_verdicts(service.report(number, "purchase").verdict, replayed(service, number, tmp_path, "purchase"))
    assert found.rates["ltr"].rate > service.report(number, "purchase").verdict.rates["ltr"].rate
    with service._store.read() as connection:
        state = load_tallies(connection, number)
    assert [tally["rates"].get("valued", False) for tally in json.loads(state).values()] == [False, False, True]


def test_values_are_only_of_actions_that_are_counted(service):
    number = running(service, actions=["purchase:value"])
    shown = show(service, number)
    (refused,) = record(service, Event("e", shown.impression, position=0, value=3.0))
    assert refused.code == "unknown_action"


def test_a_planned_experiment_is_judged_by_its_plan(service, tmp_path):
    number = running(service, tuned_for=400.0)
    search(service, number)
    verdict = service.report(number).verdict
    service.export(number, tmp_path / "log.parquet")
    tally = replay(tmp_path / "log.parquet").tally()
    same_verdicts(verdict, tally.verdict(interval="anytime", tuned_for=400.0))
    assert verdict.pairs[0].low != tally.verdict(interval="anytime").pairs[0].low


def test_scheduled_looks_are_taken_at_their_units_and_stay_until_the_next(service):
    number = running(service, looks=[20, 40, 60])
    search(service, number, users=15)
    assert service.report(number).verdict is None
    search(service, number, users=30)
    first = service.report(number).verdict
    assert (first.interval, first.rules.look, first.units >= 20) == ("scheduled", 1, True)
    assert "look 1 of 3" in first.sentence
    search(service, number, users=38, seed=5)
    same_verdicts(service.report(number).verdict, first)
    assert service.report(number).traffic.units == 38
    search(service, number, users=100, seed=6)
    last = service.report(number).verdict
    assert last.rules.look == 3
    assert [len(look.pairs) for look in service.history(number).looks] == [3] * len(service.history(number).looks)
    search(service, number, users=120, seed=7)
    same_verdicts(service.report(number).verdict, last)


def test_a_scheduled_look_is_that_of_the_library(service, tmp_path):
    number = running(service, looks=[30, 400])
    search(service, number, users=36)  # 90 impressions, which are added at once
    found = service.report(number)
    service.export(number, tmp_path / "log.parquet")
    tally = replay(tmp_path / "log.parquet").tally()
    same_verdicts(found.verdict, tally.verdict(interval="scheduled", looks=(30 / 400, 1.0), look=1))


def test_losers_are_dropped_logged_and_left_out_of_later_pages(service, tmp_path):
    number = running(service, drop="losers", tuned_for=150.0)
    search(service, number, users=150)
    before = service.report(number)
    assert service.experiment(number).drops == ()  # only the background task drops
    show(service, number, unit="another")
    service.fold()
    experiment = service.experiment(number)
    (drop,) = experiment.drops
    control = experiment.definition.control
    assert drop.ranker != control
    assert before.verdict.pair(drop.lost_to, drop.ranker).significant
    entries = [entry for entry in service.audit()[0] if entry.action == "dropped"]
    assert [(entry.experiment, entry.details["ranker"]) for entry in entries] == [(number, drop.ranker)]
    search(service, number, users=150, seed=2)
    report = service.report(number)
    assert (report.verdict.dropped, report.traffic.fallbacks) == ((drop.ranker,), 0)
    latest = service.impression(number, service.recent(number)[0].key)
    assert all(document.ranks[drop.ranker] is None for document in latest.documents)
    assert service.recent(number)[0].missing == ()
    service.export(number, tmp_path / "log.parquet")
    found = replay(tmp_path / "log.parquet").tally()
    replayed = found.verdict(interval="anytime", tuned_for=150.0, dropped=[drop.ranker])
    same_verdicts(report.verdict, replayed)
    metadata = pyarrow.parquet.read_schema(tmp_path / "log.parquet").metadata
    assert json.loads(metadata[b"multileave.dropped"]) == [drop.ranker]


def test_nobody_is_dropped_unless_that_is_asked_for(service):
    number = running(service, tuned_for=150.0)
    search(service, number, users=150)
    service.fold()
    assert service.experiment(number).drops == ()
    with pytest.raises(Invalid, match="any time"):
        running(service, drop="losers", looks=[10, 20])


def test_after_a_drop_the_same_request_is_another_list(service):
    number = running(service, drop="losers", tuned_for=150.0)
    first = show(service, number)
    search(service, number, users=150)
    service.fold()
    assert service.experiment(number).dropped
    second = show(service, number)
    assert second.impression != first.impression
    assert second == show(service, number)


def test_verdicts_do_not_depend_on_when_they_are_asked_for(service, tmp_path):
    number = running(service)
    for part in range(4):
        search(service, number, seed=part, users=10 + 10 * part)
        service.report(number).verdict
    same_verdicts(service.report(number).verdict, replayed(service, number, tmp_path))
    looks = service.history(number).looks
    assert looks[-1].impressions <= service.report(number).traffic.impressions
    assert [look.impressions for look in looks] == sorted({look.impressions for look in looks})
    assert looks[0].pairs[0].rankers == ("bm25", "dense")


@pytest.mark.parametrize("method", ["rpm", "dpm", "tdm", "pm", "om", "ppm(pairs='all')", "sosm"])
def test_every_method_can_be_served(service, tmp_path, method):
    number = running(service, method=method)
    search(service, number, users=25)
    same_verdicts(service.report(number).verdict, replayed(service, number, tmp_path))


def test_the_same_request_is_one_impression_and_changed_rankings_are_another(service):
    number = running(service)
    first, again = show(service, number), show(service, number)
    other = show(service, number, rankings=rankings(2))
    assert (first, first.recorded) == (again, True)
    assert other.impression != first.impression
    assert show(service, number, unit="u2").impression != first.impression
    service.fold()
    assert service.report(number).traffic.impressions == 3


def test_requests_at_the_same_time_are_one_impression(service):
    number = running(service)

    async def together():
        request = ShowRequest(rankings(1), "u1", "q")
        return await asyncio.gather(*(service.show(number, request) for _ in range(30)))

    assert len(set(asyncio.run(together()))) == 1
    service.fold()
    assert service.report(number).traffic.impressions == 1


def test_after_the_window_a_request_is_another_impression_of_the_same_list(service, monkeypatch):
    number = running(service, window=60.0)
    times = []
    for seconds in (0, 30, 90, 120, 200, 230):
        monkeypatch.setattr("multileave.live.intake.now", lambda seconds=seconds: 10**15 + seconds * 10**6)
        times.append(show(service, number))
    assert len({shown.shown for shown in times}) == 1
    ids = [shown.impression for shown in times]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert ids[4] == ids[5]
    assert len(set(ids)) == 3
    service.fold()
    assert service.report(number).traffic.impressions == 3


def test_later_pages_continue_the_draw_and_inference_uses_all_that_was_drawn(service, tmp_path):
    number = running(service, pages=3)
    whole = ml.RoundPreference().combine(rankings(1), 12, seed=json.dumps([number, 1, "u1", "q", ""]))
    pages = [show(service, number, page=page) for page in (1, 2)]
    assert sum((page.shown for page in pages), ()) == whole.shown[:8]
    assert pages[0].impression == pages[1].impression
    assert record(service, Event("e1", pages[0].impression, position=5))[0].accepted
    assert not record(service, Event("e2", pages[0].impression, position=8))[0].accepted
    show(service, number, unit="u2")
    found = service.report(number).verdict
    expected = ml.infer(whole, positions=[5]).preferences / 2
    assert found.preferences == pytest.approx(expected, abs=1e-9)
    show(service, number, page=3)
    assert service.report(number).verdict.preferences == pytest.approx(expected, abs=1e-9)
    same_verdicts(service.report(number).verdict, replayed(service, number, tmp_path))


def test_pins_stay_where_they_are_and_count_for_nobody(service):
    number = running(service)
    shown = show(service, number, pinned={0: "ad", 2: "d1"})
    assert (shown.shown[0], shown.shown[2], len(shown.shown)) == ("ad", "d1", 4)
    show(service, number, unit="u2", pinned={0: "ad"})
    assert record(service, Event("e", shown.impression, document="ad"))[0].accepted
    assert not service.report(number).verdict.preferences.any()
    stopped = service.stop(number)
    assert show(service, stopped.number, pinned={0: "ad", 2: "d1"}).shown[0] == "ad"


def test_a_missing_ranker_takes_no_part_and_is_recorded(service, tmp_path):
    number = running(service)
    search(service, number, users=20)
    for user in range(10):
        ranked = {**rankings(user), "dense": None}
        shown = show(service, number, rankings=ranked, unit=f"m{user}")
        best = min(shown.shown, key=ranked["ltr"].index)
        record(service, Event("e", shown.impression, document=best))
    for user in range(5):
        alone = show(service, number, rankings={"ltr": rankings(user)["ltr"]}, unit=f"n{user}")
        assert (alone.impression, alone.recorded, alone.shown) == (None, True, tuple(rankings(user)["ltr"][:4]))
    verdict = service.report(number).verdict
    assert service.report(number).traffic.fallbacks == 15
    assert service.report(number).health.missing["dense"] == pytest.approx(15 / (verdict.impressions + 5))
    same_verdicts(verdict, replayed(service, number, tmp_path))


def test_events_are_counted_once_and_refused_with_a_reason(service):
    number = running(service, actions=("click", "purchase"))
    shown = show(service, number)
    good = Event("e1", shown.impression, document=shown.shown[1])
    assert [r.duplicate for r in record(service, good, good)] == [False, True]
    assert record(service, good)[0].duplicate
    bad = {
        "unknown_impression": replace(good, id="x", impression=forged(shown.impression)),
        "not_shown": replace(good, id="x", document="nowhere"),
        "unknown_action": replace(good, id="x", action="wave"),
        "in_the_future": replace(good, id="x", timestamp=datetime.now(UTC) + timedelta(days=1)),
    }
    for code, event in bad.items():
        (receipt,) = record(service, event)
        assert (receipt.accepted, receipt.code) == (False, code)
    assert record(service, replace(good, id="x", document=None, position=4))[0].code == "not_shown"
    assert record(service, replace(good, id="p", action="purchase"))[0].accepted
    show(service, number, unit="u2")
    assert service.report(number, "purchase").verdict.preferences.any()
    service.fold()
    assert service.report(number).traffic.events == {"click": 1, "purchase": 1}


def test_events_after_the_window_are_refused(service, monkeypatch):
    number = running(service, window=60.0)
    shown = show(service, number)
    monkeypatch.setattr("multileave.live.intake.now", lambda: int(datetime.now(UTC).timestamp() * 1e6) + 61 * 10**6)
    assert record(service, Event("e", shown.impression, position=0))[0].code == "expired"


def test_satisfied_clicks_are_clicks_with_dwell_time(service, tmp_path):
    number = running(service, actions=("click", "satisfied"), dwell=10.0)
    for user in range(8):
        shown = show(service, number, unit=f"u{user}")
        record(service, Event("e", shown.impression, position=user % 4, dwell=5.0 * user))
    same_verdicts(
        service.report(number, "satisfied").verdict, replayed(service, number, tmp_path, "satisfied", dwell=10.0)
    )
    assert service.report(number).traffic.events == {"click": 8, "satisfied": 6}


def test_outside_the_share_and_when_stopped_users_get_the_control(service):
    number = running(service, share=0.3)
    control = tuple(rankings(1)["bm25"][:4])

    def taking():
        return {user for user in range(200) if show(service, number, unit=f"u{user}").recorded}

    few = taking()
    assert 35 <= len(few) <= 85
    outside = next(user for user in range(200) if user not in few)
    assert show(service, number, unit=f"u{outside}").shown == control
    service.edit(number, {"share": 0.6})
    assert few < taking()
    service.stop(number)
    before = service.report(number).traffic.impressions
    assert show(service, number).shown == control
    assert show(service, number).impression is None
    service.fold()
    assert (
        service.report(number).traffic.impressions == len(taking() | few)
        or service.report(number).traffic.impressions >= before
    )


def test_no_unit_takes_part_in_two_experiments_of_a_group(service):
    one, two = running(service, group="g", share=0.5), running(service, group="g", share=0.3)
    for user in range(150):
        assert sum(show(service, number, unit=f"u{user}").recorded for number in (one, two)) <= 1
    with pytest.raises(Conflict, match=r"0\.2 free"):
        running(service, group="g", share=0.4)
    with pytest.raises(Conflict, match=r"begins after 0\.5"):
        service.edit(one, {"share": 0.6})
    service.stop(two)
    assert service.edit(one, {"share": 0.6}).definition.share == 0.6


def test_what_defines_an_experiment_is_fixed_once_it_runs(service):
    draft = service.create(definition())
    assert service.edit(draft.number, {"k": 7}).definition.k == 7
    service.start(draft.number)
    for forbidden in (
        lambda: service.edit(draft.number, {"k": 8}),
        lambda: service.start(draft.number),
        lambda: service.delete_draft(draft.number),
    ):
        with pytest.raises(Conflict):
            forbidden()
    clone = service.clone(draft.number, {"k": 9})
    assert (clone.version, clone.parent, clone.status, clone.definition.k) == (2, draft.number, "draft", 9)
    service.delete_draft(clone.number)
    with pytest.raises(NotFound):
        service.experiment(clone.number)
    assert service.stop(draft.number).stopped is not None
    with pytest.raises(Conflict):
        service.stop(draft.number)
    with pytest.raises(Conflict, match="stopped"):
        service.edit(draft.number, {"share": 0.5})
    assert service.edit(draft.number, {}).status == "stopped"
    assert [e.number for e in service.experiments()] == [draft.number]


def test_deleting_a_unit_takes_it_out_of_the_verdict(service, tmp_path):
    number = running(service)
    search(service, number, users=20)
    service.fold()
    search(service, number, users=25, seed=5)
    assert service.delete_unit("u3") == 4
    assert service.delete_unit("u3") == 0
    verdict = service.report(number).verdict
    assert verdict.units == 24
    again = replayed(service, number, tmp_path)
    same_verdicts(verdict, again)
    assert service.report(number).health.without_clicks is not None
    for name in ("first", "exposure"):
        mine, theirs = getattr(verdict.health, name), getattr(again.health, name)
        assert mine["chi_square"] == pytest.approx(theirs["chi_square"])
        assert mine["p"] == pytest.approx(theirs["p"])


def test_retention_deletes_rows_and_keeps_the_verdict(service, monkeypatch):
    number = running(service, retention_days=2.0)
    search(service, number, users=20)
    before = service.report(number).verdict
    assert service.sweep() == 0
    real = int(datetime.now(UTC).timestamp() * 1e6)
    monkeypatch.setattr("multileave.live.service.now", lambda: real + 3 * 86_400 * 10**6)
    assert service.sweep() == before.impressions
    assert service.report(number).verdict == before
    assert service.recent(number) == []


def test_units_and_queries_are_kept_only_if_asked_for(service):
    number, plain = running(service), running(service, hash_units=False, keep_queries=True)
    show(service, number, unit="ann", query="rash")
    show(service, plain, unit="ann", query="rash")
    (private,), (open_,) = service.recent(number), service.recent(plain)
    assert private.query is None
    assert "ann" not in private.unit
    assert (open_.unit, open_.query) == ("ann", "rash")


def test_an_impression_can_be_opened(service):
    number = running(service)
    shown = show(service, number, pinned={1: "ad"})
    record(service, Event("e", shown.impression, position=2, dwell=3.0))
    (recent,) = service.recent(number)
    assert (recent.shown, recent.clicks, recent.missing) == (4, 1, ())
    detail = service.impression(number, recent.key)
    assert [d.document for d in detail.documents[:4]] == list(shown.shown)
    assert [d.pinned for d in detail.documents] == [False, True, False, False, False]
    assert detail.documents[4].hidden
    assert detail.documents[2].actions == ("click",)
    assert detail.documents[0].ranks == {n: rankings(1)[n].index(shown.shown[0]) + 1 for n in NAMES}
    assert len(detail.preferences) == 3
    for wrong in ("00", "zz", "\ud800"):
        with pytest.raises(NotFound):
            service.impression(number, wrong)


def test_hostile_texts_are_stored_and_given_back(service):
    number = running(service, hash_units=False, keep_queries=True)
    hostile = ["<script>", "nul\0", "\ud800", "'; drop table impressions; --", "é" * 500]
    ranked = {"bm25": hostile, "dense": hostile[::-1], "ltr": hostile[1:] + hostile[:1]}
    shown = show(service, number, rankings=ranked, unit="\0\ud800", query="\udfff\0")
    assert set(shown.shown) < set(hostile)
    assert record(service, Event("\0\ud800", shown.impression, document=shown.shown[0]))[0].accepted
    assert record(service, Event("\0\ud800", shown.impression, document=shown.shown[0]))[0].duplicate
    show(service, number, rankings=ranked, unit="other")
    assert service.report(number).verdict is not None
    assert service.recent(number)[-1].query == "\udfff\0"


def test_bad_requests_are_refused(service):
    number = running(service)
    with pytest.raises(Invalid, match=r"no ranker .bm26.*Did you mean .bm25"):
        show(service, number, rankings={"bm26": ["a"]})
    with pytest.raises(ml.RankingsError, match="twice"):
        show(service, number, rankings={**rankings(1), "ltr": ["a", "a"]})
    with pytest.raises(Invalid, match="page is 2"):
        show(service, number, page=2)
    with pytest.raises(TooLarge, match="has 5,000"):
        show(service, number, rankings={**rankings(1), "ltr": [f"d{n}" for n in range(5000)]})
    with pytest.raises(NotFound):
        show(service, 2**40)


def test_a_new_process_goes_on_where_the_last_stopped(address):
    first = Service(Settings(database=address))
    number = running(first)
    search(first, number, users=10)
    shown = show(first, number)
    first.close()
    second = Service(Settings(database=address))
    assert show(second, number) == shown
    assert record(second, Event("e", shown.impression, position=0))[0].accepted
    assert second.report(number).verdict.units == 10
    second.close()


def test_keys_are_shown_once_and_can_be_revoked(service):
    assert not service.access.has_keys()
    key, text = service.access.create_key("ci", "ingest")
    assert service.access.authenticate(text) == key
    assert service.access.authenticate(text[:-1]) is None
    assert text not in repr(service.access.keys())
    cookie = service.access.open_session(key)
    assert service.access.session(cookie) == key
    assert service.access.session(cookie[:-1] + ("0" if cookie[-1] != "0" else "1")) is None
    assert service.access.csrf_matches(cookie, service.access.csrf(cookie))
    assert not service.access.csrf_matches(cookie, "x")
    service.access.revoke_key(key.number)
    assert service.access.authenticate(text) is None
    assert service.access.session(cookie) is None
    assert not service.access.has_keys()
    with pytest.raises(NotFound):
        service.access.revoke_key(key.number)
    with pytest.raises(Invalid, match="role"):
        service.access.create_key("x", "root")
