"""Demo: simulated users compare rankers of known quality on made-up queries, with every method.

As many processes compile methods as there are cores, so that the first table on a new machine takes half as long.
"""

import os
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
from multileave.study.engine import Packed, Simulation, User
from multileave.study.power import impressions_to_verdict, quartiles, upper_pairs
from multileave.study.scoring import best_first, binary_error, score_differences, winner
from multileave.study.users import user_for

QUERIES, DOCUMENTS, PAGE = 1000, 50, 10
CRITICAL = 1.96  # of |z|, beyond which a preference is significant at the level of 5 %
MOST_RANKERS = 100

Progress = Callable[[int, int, str], None]
Report = dict[str, Any]


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
    show: Callable[[Report], None] | None = None,
) -> Report:
    """Return as plain values the settings, the truth, and what every method finds.

    user, users_from, attractiveness: who clicks, see `multileave.clicks.find_user`; the best model of the first file
        by default, and navigational users without files.
    progress: called now and then with (impressions done, impressions in all, what is going on).
    show: called with the report so far whenever a method is done, the recommended one first.
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

    report: Report = {
        "settings": {
            "rankers": rankers, "impressions": impressions, "runs": runs, "user": user, "seed": seed,
            "queries": QUERIES, "documents": DOCUMENTS, "k": PAGE,
        },
        "truth": {
            "ndcg@10": dict(zip(data.rankers, scores.tolist(), strict=True)),
            "order": [data.rankers[n] for n in best_first(truth)],
        },
        "methods": [],
    }  # fmt: skip
    order = [method.name for method in able]
    for number, (method, beside) in enumerate(_compiling(able), 1):
        step(f"compiling {method.name}, {number} of {len(able)} (once per machine)", 0)
        if beside is not None:
            beside.wait()
        Simulation(data, method, clicker, k=PAGE, seed=0).compile()
        seeds = [f"demo {seed} {method.name} {n}" for n in range(runs)]
        found = _compare(data, method, clicker, truth, impressions, seeds, step)
        alarms = _false_alarms(data, method, guesser, impressions, seeds, step)
        report["methods"].append({**found, "false_alarms": alarms, "guarantees": guarantees_of(method)})
        report["methods"].sort(key=lambda result: order.index(result["name"]))
        if show is not None:
            show(report)
    return report


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


def _compiling(able: list[Method]) -> "Iterator[tuple[Method, subprocess.Popen[bytes] | None]]":
    """Yield each method, with the process that compiles it into the cache on disk if it is not for the caller to do.

    Other processes begin with the methods that take longest, then continue from the end of the list. What they fail to
    compile is compiled when it is needed.
    """
    waiting = sorted(able, key=lambda method: method.slow_to_compile)
    others = max((os.cpu_count() or 1) - 1, 1)
    beside: dict[subprocess.Popen[bytes], Method] = {}
    try:
        while waiting:
            while len(waiting) > 1 and sum(process.poll() is None for process in beside) < others:
                method = waiting.pop()
                code = f"from multileave.study.demo import compile_loop; compile_loop({method.name!r})"
                beside[subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)] = method
            yield waiting.pop(0), None
        for process in sorted(beside, key=lambda process: process.poll() is None):  # what is ready first
            yield beside[process], process
    finally:
        for process in beside:
            process.kill()
            process.wait()


def compile_loop(name: str) -> None:
    """Compile the simulation of a method, for processes that come later; there are no queries, as none is simulated."""
    document, row = np.zeros(1, dtype=np.uint8), np.zeros((1, 2), dtype=np.int32)
    data = QuerySet(("a", "b"), 2, np.array([0, 1], dtype=np.int64), document, row[0])
    packed = Packed(row[0], row, row.astype(np.int64), np.zeros(1), 1)
    Simulation(data, get_method(name), preset("random", 2), k=PAGE, seed=0, packed=packed).compile()
