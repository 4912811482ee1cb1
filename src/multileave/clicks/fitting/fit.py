"""Fitting all user models to a log of result pages."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from multileave.clicks.fitting.estimation import Estimate, Estimator
from multileave.clicks.fitting.held_out import (
    FOLDS,
    HeldOut,
    choose,
    compare,
    deal,
    held_out_baseline,
    held_out_model,
)
from multileave.clicks.fitting.identification import require_identified
from multileave.clicks.fitting.models import MODELS, UserModel
from multileave.clicks.fitting.pages import Pages
from multileave.clicks.fitting.posterior import exposure_classes
from multileave.clicks.fitting.resampling import intervals
from multileave.clicks.fitting.result import ModelFit, UserFit
from multileave.errors import DataError, nearest
from multileave.outcome import Floats

DRAWS = 50_000
SAMPLES = 200

NO_ORDER = (
    "Every page was clicked strictly downwards: users of this log never go back up, or it does not record the order of "
    "clicks."
)


def fit(
    pages: Pages,
    *,
    models: Sequence[str] = tuple(MODELS),
    samples: int = SAMPLES,
    seed: int = 0,
    threads: int | None = None,
    quarantined: int = 0,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> UserFit:
    """Fit user models to pages, predict held-out sessions, and return the models with intervals.

    models: names from `MODELS`. samples: of the bootstrap over sessions, at least 2. seed: of folds and samples.
    threads: by default the number of cores. quarantined: rows of the log that were invalid, for the report.
    progress: called with (done, total, what is going on).

    >>> from multileave.clicks.fitting import PageCollector
    >>> rng = np.random.default_rng(1)
    >>> collector = PageCollector(k=2)
    >>> for _ in range(2000):
    ...     shown = rng.permutation(2)
    ...     clicks = [x for x in range(2) if rng.random() < (0.6, 0.3)[shown[x]] * (1.0, 0.5)[x]]
    ...     collector.add("q", shown.tolist(), clicks)
    >>> users = fit(collector.pages(), models=["position"], samples=50)
    >>> [low, high] = users.models["position"].intervals["examine"][1]
    >>> low < 0.5 < high
    True
    """
    unknown = [name for name in models if name not in MODELS]
    if unknown or not models:
        raise DataError(
            f"There is no model {unknown[0] if unknown else ''!r}; expected one or more of {', '.join(MODELS)}."
            f"{nearest(unknown[0], MODELS) if unknown else ''}"
        )
    if samples < 2:
        raise DataError(f"samples is {samples}; expected at least 2 samples for the bootstrap, such as {SAMPLES}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DataError(f"seed is {seed!r}; expected an integer from 0.")
    if pages.sessions < 4 * FOLDS:
        raise DataError(
            f"Too few sessions: the log has {pages.sessions}; expected at least {4 * FOLDS}, as models are compared on "
            "held-out sessions. Pass a longer log."
        )
    ranks = require_identified(pages)
    notes = []
    if ranks < pages.k:
        notes.append(
            f"Ranks from {ranks + 1} are left out: no clicked document was shown both there and at ranks 1 to {ranks} "
            "for the same query."
        )
        pages = pages.cut(ranks)
    if pages.clicks_below:
        notes.append(f"{pages.clicks_below:,} clicks below rank {pages.k} are left out.")
    if pages.doubled:
        notes.append(f"{pages.doubled:,} pages show a document twice; each place counts.")
    if pages.sessions == len(pages.page_row):
        notes.append("Every page is its own session: the log names no sessions with several pages.")
    unidentified = {}
    if not pages.ordered:
        unidentified = {name: NO_ORDER for name in models if MODELS[name].ordered}
        if len(unidentified) == len(models):
            raise DataError(f"The log cannot identify {', '.join(unidentified)}: {NO_ORDER}")
    chosen = [MODELS[name] for name in MODELS if name in models and name not in unidentified]
    classes = exposure_classes(pages)
    weights = pages.row_weights()
    fold = deal(pages, FOLDS, seed)
    workers = threads or os.cpu_count() or 1
    total = (samples + 60) * len(chosen)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total, what)

    estimators, results, spans = {}, {}, {}
    for model in chosen:
        what = f"{model.title}: fitting"
        tell(0)
        estimator = Estimator(model, pages, classes)
        estimator.fit(weights)
        tell(20)
        what = f"{model.title}: held-out sessions"
        results[model.name] = held_out_model(estimator, pages, fold, workers)
        tell(40)
        what = f"{model.title}: bootstrap"
        spans[model.name] = intervals(estimator, samples=samples, seed=seed, threads=workers, done=tell)
        estimators[model.name] = estimator.estimate()
    best = choose(results, [len(model.free(pages.k)) for model in chosen])
    baseline = held_out_baseline(pages, fold)
    return UserFit(
        best=best,
        log={
            "pages": len(pages.page_row), "sessions": pages.sessions, "queries": pages.queries,
            "documents": pages.documents, "lists": len(pages.lists), "clicks": pages.clicks, "repeated_clicks":
            pages.repeats, "quarantined": quarantined, "k": pages.k,
        },
        baseline={
            "log_likelihood": baseline.per_page,
            "perplexity": baseline.perplexity,
            "perplexity_by_rank": baseline.perplexity_by_rank,
        },
        models={
            model.name: _described(
                model, pages, estimators[model.name], spans[model.name], results[model.name], results[best], seed
            )
            for model in chosen
        },
        unidentified=unidentified,
        notes=tuple(notes),
    )  # fmt: skip


def _described(
    model: UserModel, pages: Pages, estimate: Estimate, span: Floats, result: HeldOut, best: HeldOut, seed: int
) -> ModelFit:
    difference = compare(result, best)
    shown = pages.lists[pages.row_list]
    counted = np.broadcast_to(pages.row_weights()[:, None], shown.shape)[shown >= 0]
    impressions = np.bincount(shown[shown >= 0], counted, minlength=pages.documents).astype(np.float64)
    documents = slice(0, pages.documents)
    satisfied: tuple[float, ...] = ()
    satisfied_by_grade: tuple[float, ...] = ()
    if model.halves == 2:
        clicks = estimate.hits[documents]
        opposite = slice(pages.documents, None)
        satisfied = tuple(1.0 - x for x in reversed(_quantiles(estimate, opposite, clicks, seed)))
        satisfied_by_grade = tuple(1.0 - x for x in _by_grade(pages, estimate.mean[opposite], clicks))
    named = model.named
    return ModelFit(
        name=model.name,
        title=model.title,
        size=len(model.free(pages.k)),
        parameters=named(estimate.theta.tolist(), pages.k),
        intervals=named(span.tolist(), pages.k),
        attractiveness=tuple(_quantiles(estimate, documents, impressions, seed)),
        attractiveness_mean=float(np.average(estimate.mean[documents], weights=impressions)),
        log_likelihood=result.per_page,
        perplexity=result.perplexity,
        conditional_perplexity=result.conditional_perplexity,
        perplexity_by_rank=tuple(result.perplexity_by_rank),
        difference=difference.difference,
        error=difference.error,
        by_grade=_by_grade(pages, estimate.mean[documents], impressions),
        satisfied=satisfied,
        satisfied_by_grade=satisfied_by_grade,
    )


def _quantiles(estimate: Estimate, which: slice, weights: Floats, seed: int) -> list[float]:
    """Return 101 quantiles of the distribution over documents: of draws from the posteriors, not of their means.

    Posterior means are less spread than attractiveness is, as documents with few data are all near the mean.
    """
    rng = np.random.default_rng([seed, 3])
    mean, spread = estimate.mean[which], estimate.spread[which]
    drawn = rng.choice(len(mean), size=DRAWS, p=weights / weights.sum())
    m = np.clip(mean[drawn], 1e-6, 1.0 - 1e-6)
    size = np.maximum(m * (1.0 - m) / np.maximum(spread[drawn], 1e-9) - 1.0, 1e-3)
    values: Any = np.quantile(rng.beta(m * size, (1.0 - m) * size), np.linspace(0.0, 1.0, 101))
    return [float(value) for value in values]


def _by_grade(pages: Pages, values: Floats, weights: Floats) -> tuple[float, ...]:
    """Return the weighted mean of values by grade from 0, empty if the log has no grades or lacks one of them."""
    if pages.grades is None:
        return ()
    known = pages.grades >= 0
    sums = np.bincount(pages.grades[known], weights[known])
    if (sums <= 0).any():
        return ()
    return tuple(float(x) for x in np.bincount(pages.grades[known], (weights * values)[known]) / sums)
