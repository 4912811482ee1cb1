"""Demo: simulated users compare rankers of known quality on made-up queries, with every method."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from multileave.clicks import user as preset
from multileave.data import QuerySet, ndcg, synthetic
from multileave.errors import DataError
from multileave.methods.base import Method, get_method, methods
from multileave.outcome import Floats
from multileave.study.engine import Simulation, User
from multileave.study.power import impressions_to_verdict, quartiles, upper_pairs
from multileave.study.scoring import best_first, binary_error, score_differences, winner

QUERIES, DOCUMENTS, GRADES, PAGE = 1000, 50, 5, 10
MOST_RANKERS = 100

Progress = Callable[[int, int, str], None]


def run_demo(
    *,
    rankers: int = 5,
    impressions: int = 10_000,
    runs: int = 20,
    user: str = "navigational",
    seed: int | str = 42,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return as plain values the settings, the truth, and what every method finds.

    progress: called now and then with (impressions done, impressions in all, what is going on).
    """
    if not 2 <= rankers <= MOST_RANKERS:
        raise DataError(f"The number of rankers is {rankers}; the demo compares 2 to {MOST_RANKERS} rankers.")
    if min(impressions, runs) < 1:
        raise DataError(f"Impressions are {impressions} and runs {runs}; both must be at least 1.")
    clicker = preset(user, GRADES)
    able = [get_method(name) for name, cls in methods().items() if rankers <= (cls.most_rankers or rankers)]
    data = synthetic(queries=QUERIES, documents=DOCUMENTS, rankers=rankers, grades=GRADES, seed=seed)
    scores = ndcg(data)
    truth = score_differences(scores)
    total, done = impressions * runs * len(able), 0

    def step(what: str, more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total, what)

    results = [
        _compare(
            data, method, clicker, truth, impressions, [f"demo {seed} {method.name} {n}" for n in range(runs)], step
        )
        for method in able
    ]
    return {
        "settings": {
            "rankers": rankers, "impressions": impressions, "runs": runs, "user": user, "seed": seed,
            "queries": QUERIES, "documents": DOCUMENTS, "k": PAGE,
        },
        "truth": {
            "ndcg@10": dict(zip(data.rankers, scores.tolist(), strict=True)),
            "order": [data.rankers[n] for n in best_first(truth)],
        },
        "methods": results,
    }  # fmt: skip


def _compare(
    data: QuerySet,
    method: Method,
    user: User,
    truth: Floats,
    impressions: int,
    seeds: list[str],
    step: Callable[[str, int], None],
) -> dict[str, Any]:
    """Run one method once per seed; return what the first run found, and the mean error of all runs on the way."""
    step(f"{method.name}: compiling, once per machine", 0)
    simulations = [Simulation(data, method, user, k=PAGE, seed=seed) for seed in seeds]
    simulations[0].compile()
    checkpoints = sorted({max(1, impressions // 100), max(1, impressions // 10), impressions})
    errors = dict.fromkeys(checkpoints, 0.0)
    seconds = 0.0
    for simulation in simulations:
        for checkpoint in checkpoints:
            before = simulation.impressions
            started = time.perf_counter()
            simulation.run(checkpoint - before)
            seconds += time.perf_counter() - started
            errors[checkpoint] += binary_error(simulation.preferences, truth) / len(seeds)
            step(f"{method.name}: simulating users", checkpoint - before)
    preferences = simulations[0].preferences
    best = winner(preferences)
    means = np.mean([s.preferences for s in simulations], axis=0) / impressions
    variances = np.mean([s.variances for s in simulations], axis=0)
    needed, _, _ = quartiles(impressions_to_verdict(upper_pairs(means), upper_pairs(variances)))
    shown = float(np.mean([s.ndcg_shown for s in simulations]))
    return {
        "method": str(method),
        "title": method.title,
        "winner": None if best is None else data.rankers[best],
        "order": [data.rankers[n] for n in best_first(preferences)],
        "preferences": (preferences / impressions).tolist(),
        "error": binary_error(preferences, truth),
        "mean_errors": [{"impressions": count, "error": error} for count, error in errors.items()],
        "impressions_to_verdict": needed if np.isfinite(needed) else None,
        "ndcg_shown": shown,
        "ndcg_to_mean": shown / float(ndcg(data, PAGE).mean()),
        "right_winners": sum(winner(s.preferences) == best_first(truth)[0] for s in simulations),
        "microseconds_per_impression": 1e6 * seconds / (impressions * len(seeds)),
    }
