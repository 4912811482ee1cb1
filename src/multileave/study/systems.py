"""Systems: what a study of run files says beside its errors: how good they are, and whom users prefer."""

from collections.abc import Callable
from typing import Any

import numpy as np

from multileave.data import METRICS, GradedTopics, QuerySet
from multileave.methods.base import Method, get_method
from multileave.random import Seed, below, seed_state
from multileave.stats import Tally, Verdict
from multileave.study.engine import User
from multileave.study.table_formats import Cell, Row, Section, Table

__all__ = ["simulated_verdict", "system_scores", "systems_table"]

STEP = 1000  # impressions between two calls of progress


def simulated_verdict(
    data: QuerySet,
    method: Method | str,
    user: User,
    *,
    impressions: int = 10_000,
    k: int = 10,
    seed: Seed = 0,
    progress: Callable[[int], None] | None = None,
) -> Verdict:
    """Return the verdict of users who each see one page, for a query chosen uniformly.

    It goes through the library's own flow, impression by impression, so its intervals and its warnings are
    those of a live comparison. They speak of these queries, and of other users like these.
    progress: called now and then with the number of impressions since the last time.

    >>> from multileave.clicks import user
    >>> from multileave.data import synthetic
    >>> data = synthetic(queries=50, rankers=(0.9, 0.1), seed=1)
    >>> simulated_verdict(data, "rpm", user("perfect"), impressions=200).winner
    'r1'
    """
    drawing = get_method(method)
    tally = Tally(data.rankers)
    rng = seed_state(seed)
    queries = [_query(data, q) for q in range(len(data))]
    for number in range(impressions):
        if progress is not None and number % STEP == 0:
            progress(min(STEP, impressions - number))
        labels, rankings = queries[int(below(rng, len(queries)))]
        impression = drawing.combine(rankings, k, seed=int(below(rng, 2**31)))
        drawn = np.array(impression.drawn, dtype=np.int64)
        clicked = np.zeros(len(drawn), dtype=np.uint8)
        user.kernel(labels[drawn], len(impression.shown), user.parameters, rng, clicked)
        tally.add(drawing.infer(impression, clicked), clicks=int(clicked.sum()), impression=impression)
    return tally.verdict()


def _query(data: QuerySet, q: int) -> tuple[Any, dict[str, list[int]]]:
    labels, rankings = data.query(q)
    lists = zip(data.rankers, rankings, data.lengths[q], strict=True)
    return labels, {name: ranking[:length].tolist() for name, ranking, length in lists}


def system_scores(data: QuerySet) -> dict[str, dict[str, float]]:
    """Return for every metric what each system scores on all queries."""
    return {name: dict(zip(data.rankers, metric(data).tolist(), strict=True)) for name, metric in METRICS.items()}


def systems_table(graded: GradedTopics) -> Table:
    """Return how good the systems are by the qrels, best NDCG@10 first, as a table of the report."""
    scores = system_scores(graded.queries)
    best = {metric: max(values.values()) for metric, values in scores.items()}
    returned = dict(zip(graded.queries.rankers, graded.queries.lengths.mean(axis=0).tolist(), strict=True))
    order = sorted(returned, key=lambda system: -scores["ndcg@10"][system])
    rows = (
        Row(
            system,
            (
                *(Cell(f"{v[system]:.3f}", bold=v[system] == best[metric]) for metric, v in scores.items()),
                Cell(f"{returned[system]:,.1f}"),
            ),
        )
        for system in order
    )
    return Table(
        "systems",
        len(order),
        f"The systems by the qrels, {len(graded.topics):,} topics.",
        f"Means over topics, the best of a column in bold. Gains are 2^grade − 1. {'; '.join(graded.notes)}.",
        (*scores, "documents per topic"),
        (Section("", tuple(rows)),),
    )
