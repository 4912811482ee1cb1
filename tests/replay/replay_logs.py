"""Logs for the tests of replay."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import multileave as ml

pytest.importorskip("pyarrow")

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
NAMES = ("bm25", "dense", "ltr")


class Shown:
    """One impression with its envelope and events, to be written in any form."""

    def __init__(self, number, impression, user_id, events):
        self.impression, self.user_id, self.events = impression, user_id, events
        self.impression_id = f"i{number}"
        self.timestamp = START + timedelta(seconds=number)

    @property
    def envelope(self):
        return {"impression_id": self.impression_id, "timestamp": self.timestamp, "user_id": self.user_id}


def make_log(size, *, methods=("ppm", "tdm", "pm"), users=20, seed=0, pins=True, names=NAMES, propensities=False):
    """Return impressions of several methods, some with pinned documents, with up to three clicks each.

    The method "alone" makes pages of the first two rankers, for users of their own; every seventh ranker fails.
    """
    rng = np.random.default_rng(seed)
    log = []
    for number in range(size):
        method = methods[number % len(methods)]
        rankings = {name: [f"d{x}" for x in rng.permutation(15)[: rng.integers(6, 15)]] for name in names}
        pinned = {1: "advert"} if pins and number % 5 == 0 else None
        if method == "alone":
            arm = number // len(methods) % 2
            own = [] if number % 7 == 0 else rankings[names[arm]]
            impression = ml.Impression.alone(names[arm], own, 5, pinned=pinned, fallback=rankings[names[2]])
        else:
            impression = ml.get_method(method).combine(
                rankings, k=5, seed=number, pinned=pinned, propensities=propensities
            )
        places = rng.choice(len(impression.shown), size=rng.integers(0, 4), replace=False).tolist()
        events = [
            {
                "document": impression.shown[place],
                "position": place,
                "action": "purchase" if rng.random() < 0.2 else "click",
                "timestamp": START + timedelta(seconds=number + int(rng.integers(1, 3600))),
                "dwell": float(rng.integers(0, 60)),
                "value": None if place == 1 else 10.0 * place + number / 8,
            }
            for place in places
        ]
        user = None if number % 11 == 10 else f"user-{rng.integers(users)}"
        if method == "alone" and user is not None:
            user = f"{user}-{arm}"
        log.append(Shown(number, impression, user, events))
    return log


def tallies(log, counts=lambda shown, event: event["action"] == "click"):
    """Return the tallies that `infer` and `Tally.add` give, one impression after another."""
    found = {}
    for shown in log:
        method = str(ml.get_method(shown.impression.method))
        tally = found.setdefault(method, ml.Tally(shown.impression.rankers))
        positions = [event["position"] for event in shown.events if counts(shown, event)]
        tally.add(ml.infer(shown.impression, positions=positions), unit=shown.user_id)
    return found


def assert_same(tally, expected):
    assert tally.impressions == expected.impressions
    assert tally.units == expected.units
    np.testing.assert_allclose(tally.preferences, expected.preferences, rtol=0, atol=1e-12)
    mine, theirs = tally.verdict(), expected.verdict()
    for name in ("low", "high", "p"):
        np.testing.assert_allclose(
            [getattr(pair, name) for pair in mine.pairs], [getattr(pair, name) for pair in theirs.pairs], atol=1e-9
        )
    assert [pair.significant for pair in mine.pairs] == [pair.significant for pair in theirs.pairs]
    assert (mine.rates is None) == (theirs.rates is None)
    ours, others = tally.rate_sums(), expected.rate_sums()
    assert ours.valued == others.valued
    names = ["totals", "products", "powers", "units"]
    if ours.seen == others.seen:  # units over the cap are in sums that are not kept by unit
        names += ["pages", "squares"]
    for name in names:
        np.testing.assert_allclose(getattr(ours, name), getattr(others, name), rtol=1e-9, atol=1e-9)


def assert_close(found, expected):
    """Compare plain values, and numbers to 1e-9."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    else:
        assert found == expected
