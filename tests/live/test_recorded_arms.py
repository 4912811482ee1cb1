"""Recorded arms: units see one ranker's own pages, stay in their arm, and are judged as an A/B test, never compared."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow.parquet as pq
import pytest

from multileave import Impression
from multileave.live.definition import Definition
from multileave.live.errors import Conflict, Invalid
from multileave.live.experiment import Drop
from multileave.live.pages.arm_table import arm_table
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store import experiments as stored
from multileave.live.store.aggregates import load_all_units
from multileave.live.verdicts.arms import load_sums
from multileave.replay import replay
from multileave.stats import Rules
from multileave.stats.arms import ArmTally
from multileave.stats.arms.judging import judge_arms

NAMES = ("bm25", "dense", "ltr")
RANKINGS = {"bm25": ["a", "b", "c", "d", "e"], "dense": ["e", "d", "c", "b", "a"], "ltr": ["c", "a", "e", "b", "d"]}
METRICS = {"clicks": 0, "success": 1, "reciprocal_rank": 2, "value": 3}


@pytest.fixture
def service(address):
    yield from opened(address)


@pytest.fixture
def on_sqlite(sqlite_address):
    yield from opened(sqlite_address)


def opened(address):
    found = Service(Settings(database=address, secret="s" * 32, durable=False))
    yield found
    found.close()


def definition(**changes):
    arms = {"arms": {"bm25": 0.3, "ltr": 0.3}}
    return Definition(
        **{"name": "x", "rankers": NAMES, "control": "bm25", "method": "tdm", "k": 3, "hash_units": False, **arms}
        | changes
    )


def running(service, **changes):
    return service.start(service.create(definition(**changes)).number).number


def show(service, number, unit="u", **fields):
    return asyncio.run(
        service.show(number, ShowRequest(**{"rankings": RANKINGS, "unit": unit, "query": "q", **fields}))
    )


def record(service, impression, *positions, action="click"):
    events = [Event(f"e{x}", impression, position=x, action=action) for x in positions]
    return asyncio.run(service.record(events))


def search(service, number, users=150, seed=0):
    """Let users of unequal activity search and click; return their pages and clicks."""
    rng = random.Random(seed)
    done = []

    async def one(user, n):
        shown = await service.show(number, ShowRequest(RANKINGS, f"u{user}", f"q{n}"))
        appeal = {"a": 0.5, "c": 0.4}
        clicked = [x for x, d in enumerate(shown.shown) if rng.random() < appeal.get(d, 0.2) * (0.5 + user % 3)]
        if clicked:
            prices = {x: round(rng.lognormvariate(3, 1), 2) for x in clicked}
            sent = [Event(f"e{x}", shown.impression, position=x, value=price) for x, price in prices.items()]
            await service.record([*sent, replace(sent[0], value=0.5), replace(sent[-1], value=None)])
        done.append((f"u{user}", shown.shown, clicked))

    async def everyone():
        await asyncio.gather(*(one(user, n) for user in range(users) for n in range(1 + user % 5 * (user % 7 == 0))))

    asyncio.run(everyone())
    return done


def arms_of(service, number, units):
    """The arm in which each unit's page would be recorded, "compared", or None if it would not be recorded."""
    experiment = service.experiment(number)
    drawn = (service._intake.draw(experiment, ShowRequest(RANKINGS, unit, "q")) for unit in units)
    return [None if one.row is None else one.row["arm"] or "compared" for one in drawn]


def arm_of(service, number, unit):
    return arms_of(service, number, [unit])[0]


def exported(service, number, folder):
    service.export(number, folder / "log.parquet")
    return pq.read_table(folder / "log.parquet").to_pylist()


def sums_of(service, number, action="click"):
    with service._store.read() as connection:
        return load_sums(connection, service.experiment(number))[action]


def test_the_verdict_equals_statsmodels_on_the_export_and_replay_of_it(service, tmp_path):
    sm = pytest.importorskip("statsmodels.api", reason="pip install statsmodels")
    number = running(service)
    search(service, number)
    report = service.report(number)
    rows = [row for row in exported(service, number, tmp_path) if row["method"] == "alone"]
    positions = [{click["position"] for click in row["clicks"]} for row in rows]
    values = [sum(click["value"] for click in row["clicks"]) for row in rows]
    pages = np.array(
        [[len(p), bool(p), 1.0 / (1 + min(p)) if p else 0.0, v] for p, v in zip(positions, values, strict=True)]
    )
    design = sm.add_constant(np.array([row["rankers"] == ["ltr"] for row in rows], dtype=float))
    units = np.unique([row["user_id"] for row in rows], return_inverse=True)[1]
    one_look = judge_arms(sums_of(service, number), Rules(control="bm25"))
    log = replay(tmp_path / "log.parquet")
    replayed = log.judged(Rules(control="bm25")).arms[0].verdict
    for metric, place in METRICS.items():
        fit = sm.OLS(pages[:, place], design).fit(cov_type="cluster", cov_kwds={"groups": units}, use_t=True)
        assert report.arms[metric]["bm25"].mean == pytest.approx(fit.params[0], rel=1e-9)
        for found in (report.arms[metric]["ltr"], one_look[metric]["ltr"], replayed[metric]["ltr"]):
            assert (found.difference, found.error) == pytest.approx((fit.params[1], fit.bse[1]), rel=1e-9)
        for found in (one_look[metric]["ltr"], replayed[metric]["ltr"]):
            ends = (found.p, found.difference_low, found.difference_high)
            assert ends == pytest.approx((fit.pvalues[1], *fit.conf_int()[1]), rel=1e-9, abs=1e-12)
    same_arms(report.arms, log.judged(Rules(interval="anytime", control="bm25")).arms[0].verdict)
    assert report.arms.anytime
    assert {one.ranker for one in report.agreements} == {"ltr"}
    assert report.arms["value"]["ltr"].mean > 1.0


def same_arms(one, other):
    assert one.sizes == other.sizes
    for mine, theirs in zip(one.metrics, other.metrics, strict=True):
        for estimate, its in zip(mine.arms, theirs.arms, strict=True):
            for name, value in estimate.to_dict().items():
                expected = getattr(its, name)
                if isinstance(value, float):
                    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9), (mine.metric, name)
                else:
                    assert value == expected, (mine.metric, name)


def test_arms_are_in_no_part_of_the_comparison(service, tmp_path):
    number = running(service, arms={"bm25": 0.5, "dense": 0.25})
    done = search(service, number)
    report, rows = service.report(number), exported(service, number, tmp_path)
    compared = [row for row in rows if row["method"] != "alone"]
    assert 0 < len(compared) < len(rows) == len(done)
    assert report.traffic.impressions == report.verdict.impressions == len(compared)
    assert report.traffic.events["click"] == sum(len(row["clicks"]) for row in compared)
    assert report.verdict.units == len({row["user_id"] for row in compared})
    tally = report.tallies["click"]
    assert tally.evidence.examined == tally.evidence.first.impressions == len(compared)
    assert sum(size.impressions for size in report.arms.sizes) == len(rows) - len(compared)
    with service._store.read() as connection:
        assert {unit for unit, *_ in load_all_units(connection, number)} == {row["user_id"] for row in compared}
    assert service.segments(number).impressions == len(compared)
    (comparison,) = replay(tmp_path / "log.parquet").comparisons
    assert (comparison.tally.impressions, comparison.tally.units) == (len(compared), report.verdict.units)


def test_each_unit_sees_one_arm_and_its_rankers_own_pages(service, tmp_path):
    number = running(service)
    for unit, shown, _ in search(service, number, users=60):
        arm = arm_of(service, number, unit)
        if arm != "compared":
            assert list(shown) == RANKINGS[arm][:3]
    arms = {}
    for row in exported(service, number, tmp_path):
        arms.setdefault(row["user_id"], set()).add(row["rankers"][0] if row["method"] == "alone" else "compared")
    assert all(len(found) == 1 for found in arms.values())
    assert {next(iter(found)) for found in arms.values()} == {"bm25", "ltr", "compared"}


def test_ramping_keeps_units_in_place(on_sqlite):
    service, units = on_sqlite, [f"u{n}" for n in range(3000)]

    def arms(number):
        return arms_of(service, number, units)

    number = running(service, arms={"bm25": 0.1, "ltr": 0.05}, share=0.5)
    first = arms(number)
    assert first.count(None) / 3000 == pytest.approx(0.5, abs=0.04)
    assert first.count("bm25") / 3000 == pytest.approx(0.05, abs=0.02)
    service.edit(number, {"share": 1.0})
    second = arms(number)
    assert all(was in (None, now) for was, now in zip(first, second, strict=True))
    service.edit(number, {"arms": {"bm25": 0.1, "ltr": 0.2, "dense": 0.1}})
    third = arms(number)
    for was, now in zip(second, third, strict=True):
        assert now == was or (was == "compared" and now in ("ltr", "dense"))
    assert third.count("dense") / 3000 == pytest.approx(0.1, abs=0.02)
    service.edit(number, {"arms": {"bm25": 0.1, "dense": 0.3}, "share": 0.8})  # ltr rests
    for was, now in zip(third, arms(number), strict=True):
        assert now == was or now is None or (was == "compared" and now == "dense")
        assert was != "ltr" or now is None
    with pytest.raises(Conflict, match="The arm 'dense' needs"):
        service.edit(number, {"arms": {"bm25": 0.1, "dense": 0.8}})
    service.edit(number, {"arms": {"bm25": 0.1, "ltr": 0.2, "dense": 0.3}, "share": 1.0})
    for was, now in zip(third, arms(number), strict=True):
        assert now == was or (was == "compared" and now == "dense")
    service.stop(number)
    with pytest.raises(Conflict, match="shares of the traffic cannot be changed"):
        service.edit(number, {"arms": {}})


def test_late_clicks_deleted_units_and_retention_leave_the_sums_as_if_made_at_once(service):
    number = running(service, retention_days=0.0, window=1.0, actions=["click", "buy"])
    rng, kept = random.Random(3), ArmTally()
    for user in range(40):
        unit = f"u{user}"
        for n in range(1 + user % 3):
            page = show(service, number, unit, query=f"q{n}")
            clicked = [x for x in range(3) if rng.random() < 0.4]
            record(service, page.impression, *clicked[:1])
            if user % 2:
                service.fold()  # some are counted before their other clicks arrive
            record(service, page.impression, *clicked[1:])
            record(service, page.impression, *clicked[1:], action="buy")
            arm = arm_of(service, number, unit)
            if user % 5 and arm != "compared":
                kept.add(Impression.alone(arm, RANKINGS[arm], k=3), positions=clicked, unit=unit)
    service.fold()
    for user in range(0, 20, 5):
        service.delete_unit(f"u{user}")
    time.sleep(1.1)
    assert service.sweep() > 0  # all past the retention; they are still counted
    for user in range(20, 40, 5):
        service.delete_unit(f"u{user}")
    found, expected = sums_of(service, number), kept.arms
    assert set(found) == set(expected)
    for arm, sums in expected.items():
        for name in ("units", "active", "totals", "products"):
            assert np.asarray(getattr(found[arm], name)) == pytest.approx(np.asarray(getattr(sums, name)), abs=1e-9)
    assert sums_of(service, number, "buy")["ltr"].impressions == expected["ltr"].impressions


def in_arm(service, number, arm):
    units = [f"u{n}" for n in range(100)]
    return units[arms_of(service, number, units).index(arm)]


def test_a_page_counts_for_its_arm_although_its_ranker_returned_nothing(on_sqlite, tmp_path):
    service = on_sqlite
    number = running(service)
    unit = in_arm(service, number, "ltr")
    for query, missing in (("none", None), ("empty", [])):
        page = show(service, number, unit, rankings={**RANKINGS, "ltr": missing}, query=query)
        assert list(page.shown) == RANKINGS["bm25"][:3]
        assert record(service, page.impression, 1)[0].accepted
    nothing = show(service, number, unit, rankings={}, query="nothing")
    assert (nothing.shown, nothing.impression, nothing.recorded) == ((), None, True)
    other = show(service, number, unit, rankings={**RANKINGS, "dense": None}, query="another is missing")
    assert list(other.shown) == RANKINGS["ltr"][:3]
    service.fold()
    sums = sums_of(service, number)["ltr"]
    assert (sums.impressions, sums.missing, sums.totals.tolist()) == (4, 3, [2.0, 2.0, 1.0, 0.0, 4.0])
    recent = service.recent(number)
    assert Counter(one.missing for one in recent) == {("ltr",): 3, (): 1}
    assert all(one.arm == "ltr" for one in recent)
    assert sum(row["lengths"] == [0] for row in exported(service, number, tmp_path)) == 3
    log = replay(tmp_path / "log.parquet")
    assert log.arms[0].sums["ltr"].to_dict() == sums.to_dict()
    assert log.counts.in_arms == log.counts.rows == 4


def test_pins_several_pages_repeats_and_repeated_documents(on_sqlite, tmp_path):
    service = on_sqlite
    number = running(service, pages=2, k=2)
    unit = in_arm(service, number, "bm25")
    pinned = show(service, number, unit, pinned={0: "ad", 3: "b"}, query="pins")
    assert list(pinned.shown) == ["ad", "a"]
    later = show(service, number, unit, pinned={0: "ad", 3: "b"}, query="pins", page=2)
    assert list(later.shown) == ["c", "b"]
    assert later.impression == pinned.impression  # one impression with two pages
    record(service, later.impression, 0, 2, 3)  # of these, only c is the ranker's
    again = show(service, number, unit, pinned={0: "ad", 3: "b"}, query="pins")
    assert again == pinned
    twice = show(service, number, unit, rankings={"bm25": ["a", "a", "b"], "ltr": ["b"]}, query="twice")
    assert list(twice.shown) == ["a", "b"]
    with pytest.raises(Exception, match="expected positions 0 to 3 mapped to different documents"):
        show(service, number, unit, pinned={0: "ad", 1: "ad"})
    service.fold()
    assert sums_of(service, number)["bm25"].totals.tolist() == pytest.approx([1.0, 1.0, 1 / 3, 0.0, 2.0])
    exported(service, number, tmp_path)
    found = replay(tmp_path / "log.parquet").arms[0].sums["bm25"]
    assert found.totals.tolist() == pytest.approx([1.0, 1.0, 1 / 3, 0.0, 2.0])
    detail = service.impression(number, service.recent(number)[-1].key)
    assert (detail.arm, detail.preferences, [one.document for one in detail.documents]) == (
        "bm25", None, ["ad", "a", "c", "b"],
    )  # fmt: skip


def test_a_dropped_rankers_arm_is_closed_and_the_holdout_stays(on_sqlite):
    service = on_sqlite
    number = running(service, drop="losers", arms={"bm25": 0.2, "dense": 0.2})
    units = [f"u{n}" for n in range(400)]
    before = dict(zip(units, arms_of(service, number, units), strict=True))
    search(service, number, users=60)
    drop = Drop("dense", datetime.now(UTC), "ltr", 40, 40, 0.5, 0.25, 0.75, 0.001)
    with service._store.write() as connection:
        stored.update(connection, replace(service.experiment(number), drops=(drop,)))
    service._recent.forget(number)
    for unit, now in zip(units, arms_of(service, number, units), strict=True):
        assert now == {"dense": None}.get(before[unit], before[unit])
    unit = next(unit for unit in units if before[unit] == "dense")
    page = show(service, number, unit, query="after the drop")
    assert (list(page.shown), page.recorded) == (RANKINGS["bm25"][:3], False)
    assert {size.arm for size in service.report(number).arms.sizes} == {"bm25", "dense"}


def test_arms_of_unknown_rankers_or_wrong_shares_are_refused():
    for arms, reason in (
        ({"bm52": 0.1}, "arms has 'bm52'; expected rankers"),
        ({"bm25": 0.6, "ltr": 0.5}, r"add up to 1\.1; expected at most 1"),
        ({"bm25": 0.0}, "greater than 0"),
        ({"bm25": 1.0}, "less than 1"),
    ):
        with pytest.raises(Invalid, match=reason):
            Definition.from_dict({"name": "x", "rankers": NAMES, "arms": arms})
    assert list(definition(arms={"ltr": 0.5, "bm25": 0.5}).arms) == ["bm25", "ltr"]


def test_all_units_may_be_in_arms_and_there_is_no_verdict_yet_with_few(on_sqlite):
    number = running(on_sqlite, arms={"bm25": 0.5, "ltr": 0.5})
    assert set(arms_of(on_sqlite, number, [f"u{n}" for n in range(200)])) == {"bm25", "ltr"}
    assert on_sqlite.report(number).arms is None
    search(on_sqlite, number, users=30)
    report = on_sqlite.report(number)
    assert (report.verdict, report.agreements, report.traffic.impressions) == (None, (), 0)
    assert {size.arm for size in report.arms.sizes} == {"bm25", "ltr"}


def test_a_holdout_alone_has_means(on_sqlite):
    number = running(on_sqlite, arms={"bm25": 0.5})
    search(on_sqlite, number, users=30)
    report = on_sqlite.report(number)
    assert [one.arm for one in report.arms["clicks"].arms] == ["bm25"]
    assert report.agreements == ()
    assert [len(rows) for _, rows in arm_table(report).metrics] == [1, 1, 1, 1, 1]


def test_without_an_arm_of_the_control_the_first_arm_is_compared_with(on_sqlite):
    number = running(on_sqlite, arms={"dense": 0.4, "ltr": 0.4})
    search(on_sqlite, number, users=60)
    assert on_sqlite.report(number).arms.control == "dense"
