"""The runner: every run of a study once, on one or many cores or machines.

The work is split into tasks, one per data set, fold, number of rankers and run: the rankers are chosen once and every
method is run with every user on them, so that methods are compared on the same rankers. If run files are compared, the
rankers are given and runs differ only in their users. Seeds are derived from names, not from an order, so one process,
many, or a Dask cluster give identical numbers. Each finished run is its own file, written atomically, so an
interrupted study can be resumed.
"""

import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from multileave.data import (
    METRICS,
    Fold,
    GradedTopics,
    QuerySet,
    fold_numbers,
    load_fold,
    ndcg,
    read_runs,
    synthetic,
    synthetic_fold,
)
from multileave.errors import DataError, MissingExtra, nearest
from multileave.methods.base import get_method
from multileave.outcome import Floats
from multileave.random import below, seed_state
from multileave.study.engine import Packed, Simulation, pack
from multileave.study.power import upper_pairs
from multileave.study.results import RunResult, write_aside
from multileave.study.scoring import binary_error, score_differences
from multileave.study.settings import SYNTHETIC, Settings

BACKENDS = ("loky", "dask", "ray", "spark")
UNCORRELATED = ("random", "almost_random")


@dataclass(frozen=True)
class Task:
    """One choice of rankers, and the (method, user) pairs still to be run with it."""

    dataset: str
    fold: int
    rankers: int
    run: int
    pairs: tuple[tuple[str, str], ...]

    def seed(self, settings: Settings, purpose: str) -> str:
        """Return the seed for one purpose within this task."""
        return f"{settings.seed}/{self.dataset}/{self.fold}/{self.rankers}/{self.run}/{purpose}"


def run_study(
    settings: Settings,
    out: str | Path,
    *,
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[RunResult]:
    """Run what is still missing of a study in the folder `out`, and return all its results.

    backend, scheduler: joblib's, and the address of a Dask scheduler; data folders must have the same path on every
        machine.
    progress: called with (impressions done, impressions in all, what is going on).
    """
    folder = Path(out)
    _open_folder(settings, folder)
    tasks = [task for task in all_tasks(settings) if task.pairs]
    missing = [without_finished(task, folder) for task in tasks]
    total = settings.impressions * sum(len(task.pairs) for task in tasks)
    done = total - settings.impressions * sum(len(task.pairs) for task in missing)
    tell = progress or (lambda done, total, what: None)
    missing = [task for task in missing if task.pairs]
    if missing:
        tell(done, total, "compiling, once per machine")
        with _backend(backend, scheduler):
            for results in _parallel(settings, missing, jobs, backend):
                for result in results:
                    result.write(result_path(folder, result))
                done += settings.impressions * len(results)
                tell(done, total, "simulating users")
    return [RunResult.read(result_path(folder, task, method, user)) for task in tasks for method, user in task.pairs]


def all_tasks(settings: Settings) -> Iterator[Task]:
    """Yield every task of a study, data set by data set, so that a worker reads a fold once."""
    pairs = tuple((method, user) for method in settings.methods for user in settings.users)
    for dataset in settings.datasets:
        for fold in folds(settings, dataset):
            for rankers in settings.rankers:
                for run in range(settings.runs):
                    yield Task(dataset, fold, rankers, run, pairs)


def folds(settings: Settings, dataset: str) -> Sequence[int]:
    """Return the folds of a data set that a study uses."""
    if settings.run_files:
        return settings.folds
    there = (1, 2, 3, 4, 5) if dataset == SYNTHETIC else fold_numbers(str(settings.data), dataset)
    for fold in settings.folds:
        if fold not in there:
            raise DataError(f"{dataset} has no fold {fold}; expected one of {', '.join(map(str, there))}.")
    return settings.folds or there


def without_finished(task: Task, folder: Path) -> Task:
    """Return the task without the pairs that are finished."""
    left = tuple((m, u) for m, u in task.pairs if not result_path(folder, task, m, u).exists())
    return replace(task, pairs=left)


def result_path(folder: Path, of: "Task | RunResult", method: str = "", user: str = "") -> Path:
    """Return the file of one run."""
    if isinstance(of, RunResult):
        method, user = of.method, of.user
    parts = (of.dataset, f"{of.rankers}-rankers", user, method)
    names = [re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts]
    return folder.joinpath("runs", *names, f"fold{of.fold}-run{of.run}.json")


def run_task(settings: Settings, task: Task) -> list[RunResult]:
    """Choose rankers, then run every method with every user on them."""
    users, heldout = rank_fold(settings, task)
    truths = {name: score_differences(metric(users)) for name, metric in METRICS.items()}
    truth_same = truths.pop("ndcg@10")
    truth_held = None if heldout is None else score_differences(ndcg(heldout))
    own_pages = tuple(ndcg(users, settings.k).tolist())
    if settings.returned is not None:
        users = users.cut(settings.returned)
    packs: dict[int, Packed] = {}
    shares = users.grade_shares(settings.k) if settings.users_from else None
    results = []
    for spec, name in task.pairs:
        method = get_method(spec)
        depth = method.read_depth(settings.k, int(users.sizes.max()))
        if depth not in packs:
            packs[depth] = pack(users, method, settings.k)
        simulation = Simulation(
            users, method, settings.user(name, users.grades, shares), k=settings.k,
            seed=task.seed(settings, f"{method.spelled}/{name}"), packed=packs[depth],
        )  # fmt: skip
        points = checkpoints(settings.impressions)
        started = time.perf_counter()
        kept = simulation.run(settings.impressions, points)
        seconds = time.perf_counter() - started
        bias, bias_z = _bias(kept, points, truth_same) if name in UNCORRELATED else (0.0, 0.0)
        results.append(
            RunResult(
                task.dataset, spec, name, task.rankers, task.fold, task.run, points,
                None if truth_held is None else tuple(binary_error(p, truth_held) for p in kept),
                tuple(binary_error(p, truth_same) for p in kept),
                None if truth_held is None else binary_error(truth_same, truth_held), bias, bias_z, seconds,
                {metric: tuple(binary_error(p, truth) for p in kept) for metric, truth in truths.items()},
                upper_pairs(simulation.preferences / settings.impressions), upper_pairs(simulation.variances),
                simulation.dcg_shown, simulation.ndcg_shown, own_pages,
            )
        )  # fmt: skip
    return results


def rank_fold(settings: Settings, task: Task) -> tuple[QuerySet, QuerySet | None]:
    """Return the users' and the held-out queries, ranked by randomly chosen rankers.

    Run files come with their rankings: users issue all topics, and none are held out.
    """
    if settings.run_files:
        return open_runs(settings.run_files, str(settings.qrels), settings.unjudged).queries, None
    fold = open_fold(settings.data, task.dataset, task.fold, settings.seed)
    if task.rankers > len(fold.rankers):
        raise DataError(
            f"{task.dataset} has {len(fold.rankers)} features that serve as rankers, fewer than {task.rankers}. "
            "Compare fewer rankers."
        )
    rng = seed_state(task.seed(settings, "rankers"))
    left = list(fold.rankers)
    chosen = sorted(left.pop(int(below(rng, len(left)))) for _ in range(task.rankers))
    ties = task.seed(settings, "ties")
    return fold.users.rank(chosen, seed=ties), fold.heldout.rank(chosen, seed=f"{ties}/heldout")


@functools.lru_cache(maxsize=2)
def open_fold(data: str | None, dataset: str, fold: int, seed: int) -> Fold:
    """Read or synthesise a fold; a process keeps the last two."""
    if dataset == SYNTHETIC:
        return synthetic_fold(seed=f"{seed}/{fold}")
    return load_fold(str(data), dataset, fold)


@functools.lru_cache(maxsize=2)
def open_runs(run_files: tuple[str, ...], qrels: str, unjudged: int) -> GradedTopics:
    """Read run files and their qrels; a process keeps the last two sets."""
    return read_runs(run_files, qrels, unjudged=unjudged)


def checkpoints(impressions: int) -> tuple[int, ...]:
    """Return numbers of impressions on a log scale, eight per decade, including the last."""
    steps = np.arange(0, 8 * np.log10(impressions) + 1)
    points = np.unique(np.round(10 ** (steps / 8)).astype(int))
    return (*(int(point) for point in points if point < impressions), impressions)


def _bias(kept: Floats, points: Sequence[int], truth: Floats) -> tuple[float, float]:
    """Return the mean preference per impression for the better ranker of a pair, and the largest |z| over pairs.

    It should be 0 for users whose clicks do not depend on relevance. The standard error is that of batches between
    checkpoints, weighted by their impressions.
    """
    better = np.sign(truth)
    pairs = better > 0
    if not pairs.any():
        return 0.0, 0.0
    ends = np.array(points, dtype=float)
    batches = np.diff(kept, axis=0) / np.diff(ends)[:, None, None]
    weights = np.diff(ends) / np.diff(ends).sum()
    mean = kept[-1] / ends[-1]
    spread = np.sqrt(np.einsum("b,bnm->nm", weights**2, (batches - mean) ** 2))
    z = np.abs(mean[pairs]) / np.where(spread[pairs] > 0, spread[pairs], np.inf)
    return float(mean[pairs].mean()), float(z.max())


def warm(settings: Settings, spec: str) -> None:
    """Compile the loops of a method in one worker, so that others find them in the cache."""
    data = synthetic(queries=2, documents=12, rankers=2, grades=3, seed=0)
    users = {user.kernel: user for user in (settings.user(name, None) for name in settings.users)}
    for user in users.values():
        Simulation(data, get_method(spec), user, k=settings.k, seed=0).compile()


def _parallel(settings: Settings, tasks: list[Task], jobs: int, backend: str) -> Iterator[list[RunResult]]:
    """Yield the results of tasks as they finish."""
    if backend == "loky" and jobs == 1:
        yield from (run_task(settings, task) for task in tasks)
        return
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise MissingExtra("Studies on several cores need joblib: pip install 'multileave[study]'") from error

    if backend == "loky":
        Parallel(n_jobs=jobs)(delayed(warm)(settings, spec) for spec in _slowest_first(settings.methods))
    work = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    yield from work(delayed(run_task)(settings, task) for task in tasks)


def _slowest_first(methods: Sequence[str]) -> list[str]:
    """Return the methods with those first that take long to compile."""
    return sorted(methods, key=lambda spec: not get_method(spec).slow_to_compile)


def _backend(name: str, scheduler: str | None) -> AbstractContextManager[Any]:
    """Return a context in which joblib uses this backend."""
    if name not in BACKENDS:
        raise DataError(f"The backend is {name!r}; expected one of {', '.join(BACKENDS)}.{nearest(name, BACKENDS)}")
    if scheduler is not None and name != "dask":
        raise DataError(f"--scheduler is for Dask, but the backend is {name}. Use --backend dask.")
    if name == "loky":
        return nullcontext()
    try:
        from joblib import parallel_config

        if name == "dask":
            from distributed import Client

            client: Any = Client(scheduler) if scheduler else Client(processes=True, dashboard_address=None)
            stack = ExitStack()
            stack.enter_context(client)
            stack.enter_context(parallel_config("dask", client=client))
            return stack
        if name == "ray":
            from ray.util.joblib import register_ray

            register_ray()
        else:
            from joblibspark import register_spark

            register_spark()
    except ImportError as error:
        raise MissingExtra(f"The backend {name} needs {error.name}: pip install 'multileave[{name}]'") from error
    chosen: AbstractContextManager[Any] = parallel_config(name)
    return chosen


def _open_folder(settings: Settings, folder: Path) -> None:
    """Make the folder, or check that a study in it has the same decisive settings."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))["decisive"]
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path} is damaged. Delete it, or choose another folder.") from None
        for key, value in json.loads(json.dumps(settings.decisive)).items():
            if before.get(key) != value:
                raise DataError(
                    f"{folder} holds a study with {key}={before.get(key)!r}, but this one has {key}={value!r}. Choose "
                    "another folder with --out."
                )
    write_aside(path, json.dumps({"decisive": settings.decisive, "settings": settings.to_dict()}, indent=2) + "\n")
