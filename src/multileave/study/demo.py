"""Demo: simulated users compare rankers of known quality on made-up queries, with every method.

Methods are compiled by two processes at a time, so that the first table on a new machine takes half as long.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multileave.clicks import default_user
from multileave.clicks import user as preset
from multileave.data import QuerySet, ndcg, search_engines
from multileave.errors import DataError
from multileave.methods.base import Method, get_method, methods
from multileave.outcome import Floats
from multileave.study.engine import Simulation, User
from multileave.study.power import impressions_to_verdict, quartiles, upper_pairs
from multileave.study.scoring import best_first, binary_error, score_differences, winner
from multileave.study.users import user_for

QUERIES, DOCUMENTS, PAGE = 1000, 50, 10
CRITICAL = 1.96  # of |z|, beyond which a preference is significant at the level of 5 %
MOST_RANKERS = 100

Progress = Callable[[int, int, str], None]


def run_demo(
    *,
    rankers: int = 5,
    impressions: int = 10_000,
    runs: int = 20,
    user: str | None = None,
    users_from: Sequence[str | Path] = (),
    attractiveness: str = "auto",
    seed: int | str = 42,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return as plain values the settings, the truth, and what every method finds.

    user, users_from, attractiveness: who clicks, see `multileave.clicks.find_user`; the best model of the first file
        by default, and navigational users without files.
    progress: called now and then with (impressions done, impressions in all, what is going on).
    """
    if not 2 <= rankers <= MOST_RANKERS:
        raise DataError(f"The number of rankers is {rankers}; the demo compares 2 to {MOST_RANKERS} rankers.")
    if min(impressions, runs) < 1:
        raise DataError(f"Impressions are {impressions} and runs {runs}; both must be at least 1.")
    able = [get_method(name) for name, cls in methods().items() if rankers <= (cls.most_rankers or rankers)]
    data = search_engines(queries=QUERIES, documents=DOCUMENTS, rankers=rankers, seed=seed)
    user = default_user(users_from) if user is None else user
    clicker = user_for(data, PAGE, user, users_from, attractiveness)
    guesser = preset("random", data.grades)
    scores = ndcg(data)
    truth = score_differences(scores)
    total, done = 2 * impressions * runs * len(able), 0

    def step(what: str, more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total, what)

    results = []
    with _compiling_beside([method.name for method in able if method.slow_to_compile]) as beside:
        for number, method in enumerate(sorted(able, key=lambda one: one.slow_to_compile), 1):
            step(f"compiling {method.name}, {number} of {len(able)} (once per machine)", 0)
            if method.slow_to_compile:
                beside.wait()
            Simulation(data, method, clicker, k=PAGE, seed=0).compile()
            seeds = [f"demo {seed} {method.name} {n}" for n in range(runs)]
            found = _compare(data, method, clicker, truth, impressions, seeds, step)
            alarms = _false_alarms(data, method, guesser, impressions, seeds, step)
            results.append({**found, "false_alarms": alarms, "guarantees": guarantees_of(method)})
    order = [method.name for method in able]
    results.sort(key=lambda result: order.index(result["name"]))
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
    simulations = [Simulation(data, method, user, k=PAGE, seed=seed) for seed in seeds]
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
        "name": method.name,
        "method": str(method),
        "title": method.title,
        "winner": None if best is None else data.rankers[best],
        "order": [data.rankers[n] for n in best_first(preferences)],
        "preferences": (preferences / impressions).tolist(),
        "error": binary_error(preferences, truth),
        "mean_errors": [{"impressions": count, "error": error} for count, error in errors.items()],
        "long_run_error": binary_error(means, truth),
        "impressions_to_verdict": needed if np.isfinite(needed) else None,
        "ndcg_shown": shown,
        "ndcg_to_mean": shown / float(ndcg(data, PAGE).mean()),
        "right_winners": sum(winner(s.preferences) == best_first(truth)[0] for s in simulations),
        "microseconds_per_impression": 1e6 * seconds / (impressions * len(seeds)),
    }


def _false_alarms(
    data: QuerySet,
    method: Method,
    user: User,
    impressions: int,
    seeds: list[str],
    step: Callable[[str, int], None],
) -> float:
    """Return the share of pairs that differ significantly although users click at random."""
    alarms = []
    for seed in seeds:
        simulation = Simulation(data, method, user, k=PAGE, seed=f"random {seed}")
        simulation.run(impressions)
        sums, variances = upper_pairs(simulation.preferences), upper_pairs(simulation.variances)
        alarms.append(np.abs(sums) > CRITICAL * np.sqrt(impressions * np.array(variances)))
        step(f"{method.name}: simulating random clicks", impressions)
    return float(np.mean(alarms))


def guarantees_of(method: Method) -> list[str]:
    """Return what is proved about a method, in words."""
    found = {
        "considerate": method.considerate,
        "unbiased": bool(method.unbiased_lists),
        "finds a better ranker": bool(method.pareto),
        "clone-proof": method.clone_proof,
    }
    return [name for name, holds in found.items() if holds]


@contextlib.contextmanager
def _compiling_beside(names: list[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """Let another process compile methods into the cache on disk; what it misses is compiled when it is needed."""
    code = f"from multileave.study.demo import compile_loops; compile_loops({names!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def compile_loops(names: list[str]) -> None:
    """Compile the simulations of methods, for processes that come later."""
    data = search_engines(queries=1, rankers=2)
    for name in names:
        Simulation(data, get_method(name), preset("random", data.grades), k=PAGE, seed=0).compile()
