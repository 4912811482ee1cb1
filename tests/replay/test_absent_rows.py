"""Logged impressions that lack a ranker say what `infer` says of them, and nothing about that ranker."""

import random

import pytest

import multileave as ml
from multileave.replay import JOINED, replay, to_row, write_parquet

NAMES = ("a", "b", "c", "d")


def rows(method, count=120):
    rng = random.Random(7)
    for n in range(count):
        rankings = {name: rng.sample([f"d{x}" for x in range(9)], 9 - x) for x, name in enumerate(NAMES)}
        for name in rng.sample(NAMES, rng.choice((0, 0, 1, 1, 2))):
            rankings[name] = None
        impression = ml.get_method(method).combine(rankings, 4, seed=n, pinned={1: "ad"} if n % 5 == 0 else None)
        clicks = [x for x in range(len(impression.shown)) if rng.random() < 0.4]
        yield impression, clicks, f"u{n % 40}" if n % 3 else None


@pytest.mark.parametrize("method", ["rpm", "dpm", "opm", "ppm", "pm", "pm(credit='sign')", "tdm", "sosm", "om"])
def test_rows_are_inferred_among_the_rankers_that_answered(tmp_path, method):
    tally = ml.Tally(NAMES)
    written = []
    for impression, clicks, unit in rows(method):
        fixed = {position for position, _ in impression.pinned}
        tally.add(
            ml.infer(impression, positions=clicks), unit, clicks=len(set(clicks) - fixed), impression=impression
        )  # fmt: skip
        written.append(to_row(impression, user_id=unit, clicks=[{"position": x} for x in clicks]))
    write_parquet(tmp_path / "log.parquet", written, JOINED)
    found = replay(tmp_path / "log.parquet")
    assert not found.counts.wrong
    (comparison,) = found.comparisons
    assert comparison.tally.impressions == 120
    expected, verdict = tally.verdict(), comparison.tally.verdict()
    for mine, theirs in zip(verdict.pairs, expected.pairs, strict=True):
        for name in ("preference", "low", "high", "p", "share", "sign_p"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-9), name
    assert verdict.health.missing == pytest.approx(expected.health.missing)
    assert verdict.health.fallbacks == pytest.approx(expected.health.fallbacks)
    assert verdict.health.without_clicks == pytest.approx(expected.health.without_clicks)
