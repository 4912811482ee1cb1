"""Segments: false alarms and power of the interaction test, and the error of shrunken estimates."""

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import People, World, hash_of
from multileave.methods.base import get_method
from multileave.stats import Rules, Tally
from multileave.stats.verdict.interactions import find_interactions


def by_segment(world: World, people: People, tastes, elsewhere: float, rng, name: str) -> dict[str, Tally]:
    """Return a tally per segment; tastes: of the users of each, (S, 2). elsewhere: share of impressions in others."""
    segments = len(tastes)
    activity, _ = people.draw(rng)
    user = np.repeat(np.arange(people.users), activity)
    home = rng.integers(segments, size=people.users)[user]
    segment = np.where(rng.random(len(user)) < elsewhere, rng.integers(segments, size=len(user)), home)
    weights = np.array([rng.dirichlet(taste, people.users) for taste in tastes])[segment, user]
    rows = user * segments + segment
    sums, squares, _, _ = world.visit(rows, weights, people.users * segments, name)
    counts = np.bincount(rows, minlength=people.users * segments).reshape(people.users, segments)
    sums, squares = sums.reshape(people.users, segments), squares.reshape(people.users, segments)
    found = {}
    for number in range(segments):
        seen = np.flatnonzero(counts[:, number])
        if len(seen) > 1:
            credits = np.column_stack([sums[seen, number], np.zeros(len(seen))])
            total = squares[seen, number].sum(keepdims=True)
            found[str(number)] = Tally.from_sums(("a", "b"), seen.tolist(), counts[seen, number], credits, total)
    return found


def interactions(repetitions: int) -> None:
    """How often preferences seem to differ between segments, if they do not and if they do."""
    for spec in ("ppm", "tdm"):
        world = World(get_method(spec))
        for users in (50, 200, 1000):
            for segments in (2, 5):
                for elsewhere, words in ((0.0, "users in one segment"), (0.5, "half elsewhere")):
                    what = f"A/A {spec}, {users:,} users, {segments} segments, {words}"
                    rng = np.random.default_rng(hash_of(f"segments/{what}"))
                    alarms, raw, shrunken = 0, 0.0, 0.0
                    for repetition in range(repetitions):
                        tallies = by_segment(
                            world, People(users), [(2.0, 2.0)] * segments, elsewhere, rng, f"{what}/{repetition}"
                        )
                        (found,) = find_interactions(tallies, Rules())
                        alarms += found.significant
                        raw += sum(float(tally.moments().means[0]) ** 2 for tally in tallies.values())
                        shrunken += sum(mean**2 for mean in found.shrunken.values())
                    good = alarms <= 0.06 * repetitions
                    report("segments", f"{what}: false alarms", share(alarms, repetitions), "<= 6 %", good)
                    report("segments", f"{what}: error", f"{shrunken / raw:.2f}", "< 1", shrunken < raw)
        what = f"{spec}, 1,000 users, tastes Beta(2.5, 2) and Beta(2, 2.5) in 2 segments"
        rng = np.random.default_rng(hash_of(f"segments/{what}"))
        seen = sum(
            find_interactions(
                by_segment(world, People(1000), [(2.5, 2.0), (2.0, 2.5)], 0.0, rng, f"{what}/{repetition}"), Rules()
            )[0].significant
            for repetition in range(repetitions)
        )
        report("segments", f"{what}: found", share(seen, repetitions))


PARTS = {"segments": interactions}
