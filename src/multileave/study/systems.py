"""Systems: comparing run files by simulated users, besides the errors of a study."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multileave.data import METRICS, GradedTopics, QuerySet
from multileave.methods.base import Method, get_method
from multileave.random import Seed, below, seed_state
from multileave.stats import Tally, Verdict
from multileave.study.engine import User
from multileave.study.runner import open_runs
from multileave.study.settings import Settings
from multileave.study.table_formats import Cell, Row, Section, Table

STEP = 1000  # impressions between two calls of progress


@dataclass(frozen=True)
class RunComparison:
    """What simulated users say about the systems of run files.

    graded: the topics compared. method: by which users compared the systems. verdicts: by the name of the user.
    """

    graded: GradedTopics
    method: str
    verdicts: dict[str, Verdict]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold."""
        return {
            "topics": self.graded.to_dict(),
            "truth": system_scores(self.graded.queries),
            "method": self.method,
            "verdicts": {name: verdict.to_dict() for name, verdict in self.verdicts.items()},
        }

    @property
    def table(self) -> Table:
        """How good the systems are according to the qrels, best NDCG@10 first."""
        queries = self.graded.queries
        scores = system_scores(queries)
        best = {metric: max(values.values()) for metric, values in scores.items()}
        returned = dict(zip(queries.rankers, queries.lengths.mean(axis=0).tolist(), strict=True))
        rows = []
        for system in sorted(returned, key=lambda system: -scores["ndcg@10"][system]):
            cells = (Cell(f"{v[system]:.3f}", bold=v[system] == best[metric]) for metric, v in scores.items())
            rows.append(Row(system, (*cells, Cell(f"{returned[system]:,.1f}"))))
        return Table(
            "systems",
            len(rows),
            f"The systems according to the qrels, {len(self.graded.topics):,} topics.",
            f"Means over topics, the best in each column in bold. Gains are 2^grade − 1. {' '.join(self.graded.notes)}",
            (*scores, "documents per topic"),
            (Section("", tuple(rows)),),
        )


def compare_runs(settings: Settings, progress: Callable[[int, int, str], None] | None = None) -> RunComparison:
    """Let each kind of user in the settings compare the systems of its run files, by the first method.

    progress: called now and then with (impressions done, impressions in all, what is going on).
    """
    graded = open_runs(settings.run_files, str(settings.qrels), settings.unjudged)
    queries = graded.queries if settings.returned is None else graded.queries.cut(settings.returned)
    total, done = settings.impressions * len(settings.users), 0
    shares = queries.grade_shares(settings.k) if settings.users_from else None

    def advance(impressions: int) -> None:
        nonlocal done
        done += impressions
        if progress is not None:
            progress(done, total, "comparing the systems")

    verdicts = {
        name: simulated_verdict(
            queries,
            settings.methods[0],
            settings.user(name, graded.queries.grades, shares),
            impressions=settings.impressions,
            k=settings.k,
            seed=f"{settings.seed}/verdict/{name}",
            progress=advance,
        )
        for name in settings.users
    }
    return RunComparison(graded, settings.methods[0], verdicts)


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

    It uses the library's public flow impression by impression, not the compiled loop of `study.engine`, because health
    checks and intervals need every impression; so they are those of a live comparison. They apply to these queries, and
    to other users like these. progress: called now and then with the number of impressions since the last call.

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
    """Return the score of each system on all queries, for every metric."""
    return {name: dict(zip(data.rankers, metric(data).tolist(), strict=True)) for name, metric in METRICS.items()}
