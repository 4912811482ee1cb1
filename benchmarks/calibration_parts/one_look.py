"""A/A comparisons with one look: the default interval, and tests that ignore who clicked."""

import math

from calibration_parts.table import report, share
from calibration_parts.world import People, World, excludes, experiments, moments_of
from multileave.methods.base import get_method
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime


def false_alarms(repetitions: int) -> None:
    """A/A, one look at the end: the default interval, and tests that ignore who clicked."""
    for tail in (1.0, 1.5):
        for spec in ("ppm", "tdm"):
            alarms = dict.fromkeys(("clustered", "anytime", "impressions", "clicks"), 0)
            world = World(get_method(spec))
            for counts, sums, squares, clicks, click_sums in experiments(
                world, People(1000, tail), repetitions, f"aa/{spec}/{tail}"
            ):
                total = squares.sum(axis=0)
                moments = moments_of(counts, sums, total)
                alarms["clustered"] += bool(excludes(clustered(moments, 0.95))[0])
                alarms["anytime"] += bool(excludes(anytime(moments, 0.95))[0])
                n = counts.sum()
                mean = sums.sum() / n
                alarms["impressions"] += abs(mean) > 1.96 * math.sqrt((total[0] / n - mean**2) / n)
                alarms["clicks"] += abs(click_sums.sum()) > 1.96 * math.sqrt(clicks.sum())
            where = f"A/A {spec}, 1,000 users, lognormal(1, {tail:g})"
            rate = alarms["clustered"] / repetitions
            wanted, held = ("4 to 6 %", 0.04 <= rate <= 0.06) if tail == 1.0 else ("", None)
            report("one look", f"{where}: clustered (default)", share(alarms["clustered"], repetitions), wanted, held)
            report("one look", f"{where}: anytime", share(alarms["anytime"], repetitions), "", None)
            report("one look", f"{where}: naive, per impression", share(alarms["impressions"], repetitions), "", None)
            report("one look", f"{where}: naive, per click", share(alarms["clicks"], repetitions), "", None)


PARTS = {"one-look": false_alarms}
