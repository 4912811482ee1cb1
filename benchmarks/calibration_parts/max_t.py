"""Many rankers: family-wise errors and power of max-t and of Holm's rule.

Users have ceil(lognormal(1, 1)) impressions, or (1, 1.5), or 2 % of them are bots with 300. An impression's credits are
normal, independent between rankers, and each user has a taste with deviation 0.3 for every ranker. For power, rankers
differ: their means increase evenly. `clones`: rankers come in groups of five that differ little from each other, as
variants of one ranker do.
"""

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import hash_of
from multileave.stats import Tally


def tally_of(rng, rankers: int, users: int, traffic: str = "", means: float = 0.0) -> Tally:
    """Return the tally of one experiment."""
    counts = np.ceil(rng.lognormal(1.0, 1.5 if traffic == "heavy tails" else 1.0, users)).astype(np.int64)
    if traffic == "bots":
        counts = np.where(rng.random(users) < 0.02, 300, counts)
    shown = np.sqrt(counts)[:, None]
    tastes = rng.normal(0.0, 0.3, (users, rankers)) + np.linspace(0.0, means, rankers)
    credits = counts[:, None] * tastes + shown * rng.normal(size=(users, rankers))
    if traffic == "clones":
        families = np.arange(rankers) // 5
        common = counts[:, None] * rng.normal(0.0, 0.3, (users, rankers)) + shown * rng.normal(size=(users, rankers))
        credits = 0.3 * credits + common[:, families] + 0.7 * counts[:, None] * np.linspace(0.0, means, rankers)
    names = [f"r{n}" for n in range(rankers)]
    squares = np.full(rankers * (rankers - 1) // 2, 2.2 * counts.sum())
    return Tally.from_sums(names, np.arange(users).tolist(), counts, credits, squares)


def significant(tally: Tally, correction: str) -> int:
    return sum(pair.significant for pair in tally.verdict(correction=correction).pairs)


def max_t(repetitions: int) -> None:
    """Family-wise errors if all rankers are equal, and significant pairs if they are not."""
    for rankers, part in ((5, 1.0), (15, 0.25), (40, 0.03)):
        runs = max(int(repetitions * part), 20)
        for users, traffic in ((50, ""), (50, "heavy tails"), (200, "bots"), (200, "clones"), (1000, "")):
            if rankers == 40 and traffic in ("heavy tails", "clones"):
                continue
            rng = np.random.default_rng(hash_of(f"max-t/{rankers}/{users}/{traffic}"))
            wrong = {"max-t": 0, "holm": 0}
            for _ in range(runs):
                tally = tally_of(rng, rankers, users, traffic)
                for correction in wrong:
                    wrong[correction] += significant(tally, correction) > 0
            what = f"{rankers} equal rankers, {users:,} users{', ' + traffic if traffic else ''}"
            most = 0.05 * runs + 2.0 * np.sqrt(0.05 * 0.95 * runs)
            found = wrong["max-t"]
            report("max-t", f"{what}: max-t, any false alarm", share(found, runs), "<= 5 % + 2 SE", found <= most)
            report("max-t", f"{what}: Holm", share(wrong["holm"], runs))
    for rankers in (5, 15, 40):
        for traffic in ("", "clones"):
            runs = max(repetitions // 100, 5)
            rng = np.random.default_rng(hash_of(f"max-t/power/{rankers}/{traffic}"))
            found = {"holm": 0, "max-t": 0}
            for _ in range(runs):
                tally = tally_of(rng, rankers, 1000, traffic, means=0.2)
                for correction in found:
                    found[correction] += significant(tally, correction)
            pairs = runs * rankers * (rankers - 1) // 2
            rates = [100.0 * count / pairs for count in found.values()]
            what = f"{rankers} rankers, 1,000 users{', ' + traffic if traffic else ''}: significant by Holm, by max-t"
            report("max-t", what, "{:.1f} %, {:.1f} %".format(*rates), "more", rates[1] >= rates[0])


PARTS = {"max-t": max_t}
