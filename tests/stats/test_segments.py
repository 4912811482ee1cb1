"""Segments: one tally for each, corrected over all of them."""

import json

import numpy as np
import pytest

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import SegmentedTally
from multileave.stats.intervals.corrections import holm

ABC = ("a", "b", "c")


def filled(users=300, seed=0, segments=("phone", "desktop", "tablet"), lift=0.0):
    tally = SegmentedTally(ABC, by="device")
    rng = np.random.default_rng(seed)
    for user in range(users):
        segment = segments[user % len(segments)]
        credits = rng.normal([0.0, 0.0, lift if segment == segments[0] else 0.0], 1.0)
        tally.add(Outcome(ABC, "difference", credits), user // 2, segment=segment)
    return tally


def test_p_values_are_corrected_over_segments_times_pairs():
    verdict = filled().verdict()
    p = np.array([pair.p for one in verdict.segments.values() for pair in one.pairs])
    together = [pair.p_corrected for one in verdict.segments.values() for pair in one.pairs]
    assert len(p) == 9
    np.testing.assert_allclose(together, holm(p))
    alone = filled().tallies["phone"].verdict()
    assert alone.pairs[0].p == verdict.segments["phone"].pairs[0].p
    assert alone.pairs[0].p_corrected <= verdict.segments["phone"].pairs[0].p_corrected


def test_simultaneous_intervals_share_the_level_over_segments_too():
    alone, together = filled().tallies["phone"].verdict(simultaneous=True), filled().verdict(simultaneous=True)
    assert together.segments["phone"].pairs[0].low < alone.pairs[0].low


def test_false_alarms_over_all_segments_stay_at_the_level():
    alarms = sum(
        any(pair.significant for one in filled(seed=seed).verdict().segments.values() for pair in one.pairs)
        for seed in range(80)
    )
    # At 5 % the chance of more than 10 in 80 is 0.3 %.
    assert alarms <= 10


def test_a_difference_in_one_segment_is_found_there():
    verdict = filled(1500, lift=0.8).verdict(interval="anytime")
    assert {segment: one.winner for segment, one in verdict.segments.items()} == {
        "phone": "c", "desktop": None, "tablet": None,
    }  # fmt: skip
    lines = str(verdict).splitlines()
    assert lines[1].startswith("device phone: c is preferred to a and b")
    assert "valid at any time" in lines[1]
    assert json.loads(json.dumps(verdict.to_dict()))["segments"]["phone"]["winner"] == "c"


def test_segments_merge_and_go_through_json():
    one, other = filled(seed=1), filled(seed=2, segments=("phone", "watch"))
    total = SegmentedTally(ABC, by="device").merge(one).merge(other)
    assert set(total.tallies) == {"phone", "desktop", "tablet", "watch"}
    assert total.total.impressions == 600
    assert total.tallies["phone"].impressions == 250
    assert one.tallies["phone"].impressions == 100
    again = SegmentedTally.from_dict(json.loads(json.dumps(total.to_dict())))
    assert again.tallies == total.tallies
    assert again.by == "device"


def test_late_clicks_are_replaced_in_their_segment():
    tally = SegmentedTally(ABC, by="device")
    none, some = Outcome(ABC, "difference", np.zeros(3)), Outcome(ABC, "difference", np.array([1.0, 0.0, 0.0]))
    tally.add(none, "u", segment="phone", clicks=0)
    tally.replace(none, some, "u", segment="phone", clicks=(0, 1))
    assert tally.total.preferences[0, 1] == 1.0
    with pytest.raises(TallyError, match="no device 'watch' in the tally; expected one of phone"):
        tally.replace(none, some, "u", segment="watch")


def test_a_segment_of_one_user_is_named_and_left_out():
    tally = filled()
    tally.add(Outcome(ABC, "difference", np.ones(3)), "u", segment="watch")
    verdict = tally.verdict()
    assert verdict.left_out == ("watch",)
    assert str(verdict).endswith("device watch: too few users")


def test_what_makes_no_sense_is_refused():
    with pytest.raises(TallyError, match="segmented by ''"):
        SegmentedTally(ABC, by="")
    with pytest.raises(TallyError, match="Rankers"):
        SegmentedTally(["a"], by="device")
    tally = SegmentedTally(ABC, by="device")
    with pytest.raises(TallyError, match="expected a device as a string"):
        tally.add(Outcome(ABC, "difference", np.ones(3)), "u", segment=None)
    with pytest.raises(TallyError, match="No device holds impressions of at least two units"):
        tally.verdict()
    with pytest.raises(TallyError, match="A tally by device merges with another by device"):
        tally.merge(SegmentedTally(ABC, by="country"))
    data = filled().to_dict()
    data["segments"]["phone"]["rankers"] = ["x", "y", "z"]
    with pytest.raises(TallyError, match="those of all segments"):
        SegmentedTally.from_dict(data)


@pytest.mark.parametrize("options", [{"estimand": "users"}, {"cap": 50}, {"winsorise": 5}])
def test_there_are_no_interactions_if_impressions_do_not_all_count_alike(options):
    tally = filled(300, lift=0.8)
    assert tally.verdict().interactions
    assert tally.verdict(**options).interactions == ()
