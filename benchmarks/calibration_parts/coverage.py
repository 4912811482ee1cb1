"""Coverage of the intervals if one ranker is better."""

from calibration_parts.table import report, share
from calibration_parts.world import (
    People,
    World,
    excludes,
    experiments,
    looks,
    moments_of,
    spread_over,
    truth_of,
)
from multileave.methods.base import get_method
from multileave.stats.intervals.clustered import clustered


def coverage(repetitions: int) -> None:
    """Coverage if one ranker is better: tastes Beta(3, 2)."""
    for spec in ("ppm", "tdm"):
        world = World(get_method(spec))
        truth, _ = truth_of(world, (3.0, 2.0), 20_000_000 if repetitions >= 1000 else 2_000_000)
        for users in (200, 1000, 5000):
            held = 0
            for counts, sums, squares, *_ in experiments(
                world, People(users, taste=(3.0, 2.0)), repetitions, f"cover/{spec}/{users}"
            ):
                moments = moments_of(counts, sums, squares.sum(axis=0))
                held += not excludes(clustered(moments, 0.95), truth)[0]
            wanted = ">= 94 %" if users >= 1000 else "stated"
            good = held >= 0.94 * repetitions if users >= 1000 else None
            report("coverage", f"{spec}, {users:,} users: clustered, one look", share(held, repetitions), wanted, good)
            held = 0
            for missed in looks(
                world,
                People(users, taste=(3.0, 2.0)),
                28,
                spread_over(28),
                repetitions,
                f"cover28/{spec}/{users}",
                truth,
            ):
                held += not missed[1].any()
            good = held >= 0.94 * repetitions if users >= 1000 else None
            report(
                "coverage", f"{spec}, {users:,} users: anytime, all of 28 looks", share(held, repetitions), wanted, good
            )


PARTS = {"coverage": coverage}
