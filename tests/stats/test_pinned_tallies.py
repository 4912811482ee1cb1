"""Tallies of the first version are read, judged, merged and written as they were."""

import json
from pathlib import Path

import pytest
from make_pinned_tallies import figures, without_tests

from multileave.stats import Tally

PINNED = json.loads((Path(__file__).parent / "pinned" / "v1.json").read_text())


def same(found, expected):
    """Whether values of JSON are the same but for rounding."""
    if isinstance(expected, dict):
        # Anytime verdicts once stated the sign test, which is for one look.
        kept = expected.keys() - {"sign_p"} if found.get("sign_p", "") is None else expected.keys()
        return found.keys() >= expected.keys() and all(same(found[key], expected[key]) for key in kept)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == pytest.approx(expected, rel=1e-9, abs=1e-12) if isinstance(expected, float) else found == expected


@pytest.mark.parametrize("case", PINNED)
def test_a_tally_of_the_first_version_is_judged_and_written_the_same(case):
    tally = Tally.from_dict(case["tally"])
    expected = {interval: without_tests(verdict) for interval, verdict in case["figures"].items()}
    assert same(figures(tally), expected)
    assert json.loads(json.dumps(tally.to_dict())) == case["tally"]
    assert (tally + tally).preferences == pytest.approx(tally.preferences)
