"""Tallies of the first version are read, judged, merged and written as they were."""

import json
from pathlib import Path

import pytest
from make_pinned_tallies import figures, without_tests

from multileave.stats import Tally
from pinned_values import same

PINNED = json.loads((Path(__file__).parent / "pinned" / "v1.json").read_text())


@pytest.mark.parametrize("case", PINNED)
def test_a_tally_of_the_first_version_is_judged_and_written_the_same(case):
    tally = Tally.from_dict(case["tally"])
    expected = {interval: without_tests(verdict) for interval, verdict in case["figures"].items()}
    assert same(figures(tally), expected)
    assert json.loads(json.dumps(tally.to_dict())) == case["tally"]
    assert (tally + tally).preferences == pytest.approx(tally.preferences)
