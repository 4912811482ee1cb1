"""Power of planned experiments."""

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import People, World, excludes, experiments, moments_of, truth_of
from multileave.methods.base import get_method
from multileave.stats import Design, Tally, plan
from multileave.stats.intervals.clustered import clustered


def planned_power(repetitions: int) -> None:
    """Plan from a pilot of 500 users in which no ranker is better, then run the plan."""
    taste = (2.2, 2.0)
    for spec in ("ppm", "tdm"):
        world = World(get_method(spec))
        truth, deviation = truth_of(world, taste, 20_000_000 if repetitions >= 1000 else 4_000_000)
        counts, sums, squares, *_ = next(experiments(world, People(500), 1, f"pilot/{spec}"))
        first = pilot_design(counts, sums, squares)
        activity = np.ceil(np.random.default_rng(5).lognormal(1.0, 1.0, 1_000_000))
        within = correlation_of(world, f"icc/{spec}")
        assumed = Design.assumed(
            deviation, float(activity.mean()), correlation=within, spread=float(activity.std() / activity.mean())
        )
        cases = (
            ("pilot of 500 users", first, "clustered", 0.8),
            ("pilot of 500 users", first, "clustered", 0.9),
            ("assumptions", assumed, "clustered", 0.8),
        )
        for source, design, interval, wanted in cases:
            made = plan(design, truth, power=wanted, interval=interval)
            seen = 0
            for counts, sums, squares, *_ in experiments(
                world, People(made.units, taste=taste), repetitions, f"power/{spec}/{source}/{interval}/{wanted}"
            ):
                moments = moments_of(counts, sums, squares.sum(axis=0))
                seen += bool(excludes(clustered(moments, 0.95))[0])
            good = abs(seen / repetitions - wanted) <= 0.05
            what = f"{spec}, {made.units:,} users planned from {source}: {interval}"
            report("power", what, share(seen, repetitions), f"{100 * wanted:.0f} % ± 5", good)


def pilot_design(counts, sums, squares) -> Design:
    """Return the design from a saved tally of the pilot."""
    tally = Tally.from_sums(
        ["a", "b"], list(range(len(counts))), counts, sums, squares.sum(axis=0), sums_of="pairs"
    )  # fmt: skip
    (design,) = Design.of_moments(tally.moments())
    assert design is not None
    return design


def correlation_of(world: World, name: str) -> float:
    """Return the correlation of two impressions of one user, from users with two impressions each."""
    users = 400_000
    weights = np.random.default_rng(3).dirichlet((2.0, 2.0), users)
    rows = np.repeat(np.arange(users), 2)
    sums, squares, _, _ = world.visit(rows, weights[rows], users, name)
    single = squares.sum() / (2 * users)
    return float(((sums**2).sum() / (2 * users) - single) / single)


PARTS = {"power": planned_power}
