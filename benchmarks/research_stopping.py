"""How early can anytime verdicts stop? Boundaries on Brownian motion, and what chance in the draw explains.

    python benchmarks/research_stopping.py boundaries   # seconds
    python benchmarks/research_stopping.py draws        # minutes

docs/decisions/0023 draws the conclusion. Time is in plans: after one, a single look has 80 % power at 5 %. There are 28
looks per plan, for 16 plans.
"""

import argparse

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

import multileave as ml
from multileave.clicks import Cascade, PositionBased
from multileave.random import seed_state
from multileave.stats.intervals.confidence_sequence import boundary

LOOKS, PLANS, DRIFT, ALPHA = 28, 16, 2.8016, 0.05
LARGE = 10_000.0  # impressions of the plan
TIMES = np.arange(1, PLANS * LOOKS + 1) / LOOKS


def line(slope: float, horizon: float, alpha: float) -> float:
    """Return a: a Brownian motion crosses a + slope t or its mirror image before the horizon with probability alpha."""

    def excess(a: float) -> float:
        root = np.sqrt(horizon)
        above = norm.cdf(-(a + slope * horizon) / root)
        return above + np.exp(-2.0 * a * slope) * norm.cdf((slope * horizon - a) / root) - alpha / 2.0

    return brentq(excess, 1e-3, 20.0)


def with_an_end(slope: float, horizon: float, kept: float):
    """Return a boundary that spends all but a share of alpha before a horizon: the rest is a planned sequence's."""
    a = line(slope, horizon, ALPHA * (1.0 - kept))
    later = boundary(TIMES * LARGE, ALPHA * kept, tuned_for=1.5 * LARGE)
    return np.where(horizon + 1e-9 >= TIMES, np.minimum((a + slope * TIMES) / np.sqrt(TIMES), later), later)


def boundaries(repetitions: int = 20_000) -> None:
    rng = np.random.default_rng(23)
    noise = (rng.normal(size=(repetitions, len(TIMES))) / np.sqrt(LOOKS)).cumsum(axis=1)
    wald = np.log(2.0 / ALPHA) / (DRIFT * np.sqrt(TIMES)) + DRIFT * np.sqrt(TIMES) / 2.0
    candidates = {
        "without a plan, at its best": boundary(TIMES * LARGE, ALPHA),
        "tuned for the plan": boundary(TIMES * LARGE, ALPHA, tuned_for=LARGE),
        "Wald, knows the difference": wald,
        **{
            f"line to {horizon} plans, slope {slope}, {kept:.0%} kept": with_an_end(slope, horizon, kept)
            for horizon in (1.2, 1.3, 1.5, 2.0) for slope in (0.0, 1.0, 1.4) for kept in (0.1, 0.2)
        },
    }  # fmt: skip
    print("| boundary | median | 80 % power | mean to there | mean | difference .7: 80 % | A/A |")
    print("|---|---|---|---|---|---|---|")
    for name, bound in candidates.items():
        stops = first_stops(noise, bound, 1.0)
        eighty = np.quantile(stops, 0.8, method="higher")
        weaker = np.quantile(first_stops(noise, bound, 0.7), 0.8, method="higher")
        alarms = np.isfinite(first_stops(noise, bound, 0.0)).mean()
        figures = np.median(stops), eighty, np.minimum(stops, eighty).mean(), np.minimum(stops, 6.0).mean(), weaker
        print(f"| {name} | " + " | ".join(f"{figure:.2f}" for figure in figures) + f" | {alarms:.1%} |", flush=True)


def first_stops(noise, bound, effect):
    """Return the time of the first look at which the statistic is beyond the boundary, infinite without one."""
    beyond = np.abs(noise + DRIFT * effect * TIMES) >= bound * np.sqrt(TIMES)
    return np.where(beyond.any(axis=1), TIMES[beyond.argmax(axis=1)], np.inf)


def draws(impressions: int = 3000, k: int = 10) -> None:
    """Print the share of a preference's variance that is due to which ranker's documents were drawn where.

    Users who click by rank alone prefer no ranker on average, so what they would prefer on the drawn page has mean 0,
    and could be subtracted.
    """
    ranks = (1.0, 0.71, 0.59, 0.48, 0.39, 0.33, 0.3, 0.27, 0.25, 0.23)
    users = {
        "by position": PositionBased((0.1, 0.3, 0.6), ranks),
        "navigational": Cascade((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        "informational": Cascade((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
    }
    print("| users | method | rankers | share of the variance |\n|---|---|---|---|")
    for name, user in users.items():
        for method in map(ml.get_method, ("tdm", "dpm", "rpm")):
            for rankers in (2, 5):
                found = explained(user, method, rankers, impressions, k)
                print(f"| {name} | {method.name} | {rankers} | {found:.1%} |", flush=True)


def explained(user, method, rankers, impressions, k):
    rng, state, order = np.random.default_rng(3), seed_state(11), np.zeros(k, dtype=np.uint8)
    clicks, preferences, single = np.zeros(k), [], []
    for seed in range(impressions):
        grades = rng.choice(3, size=40, p=(0.8, 0.12, 0.08)).astype(np.uint8)
        shared = 1.2 * rng.normal(size=40)
        scores = [grades + shared + s * rng.normal(size=40) for s in np.linspace(1.2, 2.0, rankers)]
        page = method.combine([np.argsort(-score)[:20].tolist() for score in scores], k, seed=seed)
        user.kernel(grades[list(page.shown)], k, user.parameters, state, order)
        positions = np.flatnonzero(order).tolist()
        clicks[positions] += 1.0 / impressions
        preferences.append(ml.infer(page, positions=positions).preferences[0, -1])
        single.append([ml.infer(page, positions=[x]).preferences[0, -1] for x in range(k)])
    return np.corrcoef(preferences, np.array(single) @ clicks)[0, 1] ** 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("boundaries", "draws"))
    {"boundaries": boundaries, "draws": draws}[parser.parse_args().part]()
