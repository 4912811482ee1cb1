"""Assignment: whatever happens to shares, a unit has one arm, stays in it, and no arm moves the units of another."""

import random

import pytest

from multileave.assignment import Arms, Slice, free_slices, grown, position_of
from multileave.errors import DataError

UNITS = [n / 4000 for n in range(4000)] + [position_of(random.Random(n).randbytes(16)) for n in range(4000)]


def owners(owned):
    return [Arms(owned, {}).find(unit)[0] for unit in UNITS]


def members(owned, shares):
    arms = Arms(owned, shares)
    return [arm if is_open else None for arm, is_open in map(arms.find, UNITS)]


def changed(rng, shares):
    """Return shares with one of them raised or lowered, or an arm added or removed, all within 1."""
    name = rng.choice("abcde")
    others = sum(share for arm, share in shares.items() if arm != name)
    found = {**shares, name: rng.choice([0.0, 1.0, rng.random(), rng.random()]) * min(1.0 - others, 0.999)}
    return {arm: share for arm, share in found.items() if share > 1e-6}, name


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.acceptance) for seed in range(3, 12))]
)
def test_units_stay_in_place_through_any_changes_of_shares(seed):
    rng = random.Random(seed)
    shares = {name: rng.random() / 6 for name in rng.sample("abcde", rng.randint(1, 5))}
    owned = grown((), shares)
    for _ in range(25):
        after, name = changed(rng, shares)
        try:
            more = grown(owned, after)
        except DataError:  # nothing is free: all belongs to arms, some of which were larger
            assert sum(one.share for one in owned) + after[name] > 1.0
            continue
        assert more[: len(owned)] == owned
        for was, now in zip(owners(owned), owners(more), strict=True):
            assert was is None or was == now  # once in an arm, in no other arm ever, and in no comparison
        before, then = members(owned, shares), members(more, after)
        grows = after.get(name, 0.0) >= shares.get(name, 0.0)
        for was, now in zip(before, then, strict=True):
            if was not in (None, name) or now not in (None, name):
                assert was == now  # units of other arms
            elif grows:
                assert was in (None, now)
            else:
                assert now in (None, was)
        for arm, share in after.items():
            assert then.count(arm) / len(UNITS) == pytest.approx(share, abs=0.02)
        assert free_slices(more) == [] or sum(one.share for one in (*more, *free_slices(more))) == pytest.approx(1.0)
        owned, shares = more, after


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_without_memory_units_stay_up_to_an_equal_share_of_each_arm(number):
    names = "abcdefg"[:number]
    small, large = (dict.fromkeys(names, min(share / number, 0.99)) for share in (0.1, 1.0))
    for was, now in zip(members(grown((), small), small), members(grown((), large), large), strict=True):
        assert was in (None, now)


def test_all_units_can_be_in_arms_and_no_more():
    shares = {"a": 0.7, "b": 0.1, "c": 0.2}
    owned = grown((), shares)
    assert None not in members(owned, shares)
    with pytest.raises(DataError, match=r"The arm 'd' needs 0\.25 more of the units"):
        grown(owned, {"a": 0.1, "d": 0.25})
    assert grown(owned, {"a": 0.1}) == owned


def test_a_slice_may_wrap_around():
    assert [Slice(0.9, 0.2).holds(position) for position in (0.89, 0.95, 0.05, 0.15)] == [False, True, True, False]
