"""A/A comparisons with a look every day."""

import math

from calibration_parts.table import report, share
from calibration_parts.world import People, World, every_day, looks, one_day_each, spread_over
from multileave.methods.base import get_method


def peeking(repetitions: int) -> None:
    """A/A with a look every day."""
    inf = math.inf
    cases = [
        ("28 looks, users spread over the days", 28, spread_over, (2.0, 2.0)),
        ("28 looks, new users every day", 28, one_day_each, (2.0, 2.0)),
        ("365 looks, the same users return", 365, every_day, (2.0, 2.0)),
        ("365 looks, the same users return, no tastes", 365, every_day, (inf, inf)),
    ]
    for spec in ("ppm", "tdm"):
        for what, days, visits, taste in cases:
            fixed = ever = 0
            for missed in looks(
                World(get_method(spec)), People(1000, taste=taste), days, visits(days), repetitions,
                f"looks/{spec}/{what}", 0.0,
            ):  # fmt: skip
                fixed += missed[0].any()
                ever += missed[1].any()
            where = f"A/A {spec}, 1,000 users, {what}"
            report("many looks", f"{where}: anytime", share(ever, repetitions), "<= 5 %", ever <= 0.05 * repetitions)
            report("many looks", f"{where}: one-look test", share(fixed, repetitions), "", None)


PARTS = {"many-looks": peeking}
