"""PyTerrier: show pipelines as one list, and compare them by simulated clicks.

`Multileave` is a transformer: queries in (qid, query), results out (qid, docno, score, rank), with the impression of
each query in its own column, for later clicks. `Experiment` is called like `pt.Experiment`, and compares systems by
simulated users as well as by metrics.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from multileave.clicks import user as preset
from multileave.data import join_runs
from multileave.errors import MissingExtra, RankingsError
from multileave.integrations.retrievers import combine_answers
from multileave.methods.base import Method, get_method
from multileave.random import Seed
from multileave.stats import Verdict
from multileave.study.engine import User
from multileave.study.systems import simulated_verdict, system_scores

try:
    import pandas as pd
    import pyterrier as pt
except ImportError as error:
    raise MissingExtra(
        f"PyTerrier pipelines need {error.name}, which is not installed: pip install 'multileave[pyterrier]'"
    ) from error

__all__ = ["Comparison", "Experiment", "Multileave"]


class Multileave(pt.Transformer):
    """Pipelines shown as one list.

    systems: transformers that return qid, docno, score and rank, or a mapping of names to them. A data frame of
        results will do as well. method, k: as in `Method.combine`; pipelines should return at least k + 1.
    names: the rankers' names; by default the systems' own, or their numbers if two are the same.
    seed: the list of a query depends only on it and on the qid; None draws a new one each time.

    The result has the columns of the first pipeline that returned a document, ranks from 0, scores that decrease with
    rank, and `impression`, the same in all rows of a query. If fewer than two pipelines return documents for a query
    there is nothing to compare: the list is that of the only one, and impression is None.
    """

    name = "Multileave"

    def __init__(
        self,
        systems: Any,
        method: Method | str = "recommended",
        k: int = 10,
        *,
        names: Sequence[str] | None = None,
        seed: Seed = None,
    ) -> None:
        self.systems = _named(systems, names)
        self.method = get_method(method)
        self.method.check_rankers(len(self.systems))
        self.k = k
        self.seed = seed

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return what to show for each query."""
        found = {name: _results(name, system, inp) for name, system in self.systems.items()}
        first = next(iter(self.systems))
        pages = []
        for qid in dict.fromkeys(inp["qid"]):
            answers = {name: results[results["qid"] == qid] for name, results in found.items()}
            rankings = {name: answer["docno"].tolist() or None for name, answer in answers.items()}
            seed = None if self.seed is None else f"{self.seed}/{qid}"
            impression, shown, _ = combine_answers(self.method, rankings, self.k, control=first, seed=seed)
            if shown:
                known = pd.concat([answer for answer in answers.values() if len(answer)]).drop_duplicates("docno")
                page = known.set_index("docno").loc[list(shown)].reset_index()
                page["rank"] = range(len(page))
                page["score"] = [float(len(page) - rank) for rank in range(len(page))]
                page["impression"] = pd.Series([impression] * len(page), dtype=object)
                pages.append(page)
        columns = ["qid", "docno", "score", "rank", "impression"]
        if not pages:
            return pd.DataFrame(columns=columns)
        result = pd.concat(pages, ignore_index=True)
        return result[[*columns, *(column for column in result.columns if column not in columns)]]


class Comparison(NamedTuple):
    """The result of `Experiment`: a data frame with a row per system, and the verdict of the users."""

    results: pd.DataFrame
    verdict: Verdict


def Experiment(
    retr_systems: Any,
    topics: pd.DataFrame,
    qrels: pd.DataFrame,
    user: str | User = "navigational",
    method: Method | str = "recommended",
    *,
    names: Sequence[str] | None = None,
    impressions: int = 10_000,
    k: int = 10,
    unjudged: int = 0,
    seed: Seed = 42,
) -> Comparison:
    """Compare pipelines by clicks of simulated users on topics with relevance judgements.

    retr_systems, topics, qrels, names: as in `pt.Experiment`; qrels have qid, docno and label.
    user: "perfect", "navigational", "informational", or your own user model. unjudged: the grade of documents
        without a judgement. impressions: result pages that users see.

    The data frame has, for every system, its metrics, the mean preference for it over the others per impression,
    and how many others it is significantly preferred to.
    """
    systems = _named(retr_systems, names)
    runs = {}
    for name, system in systems.items():
        results = _results(name, system, topics)
        runs[name] = {str(qid): found["docno"].tolist() for qid, found in results.groupby("qid", sort=False)}
    wanted = set(topics["qid"].astype(str))
    grades: dict[str, dict[str, int]] = {}
    for qid, docno, label in zip(qrels["qid"].astype(str), qrels["docno"], qrels["label"], strict=True):
        if qid in wanted:
            grades.setdefault(qid, {})[docno] = int(label)
    graded = join_runs(runs, grades, unjudged=unjudged)
    clicker = preset(user, graded.queries.grades) if isinstance(user, str) else user
    verdict = simulated_verdict(graded.queries, method, clicker, impressions=impressions, k=k, seed=seed)
    scores = system_scores(graded.queries)
    others = len(systems) - 1
    frame = pd.DataFrame(
        {
            "name": list(systems),
            **{metric: [values[name] for name in systems] for metric, values in scores.items()},
            "preference": verdict.preferences.sum(axis=1) / others,
            "preferred_to": [len(verdict.wins[name]) for name in systems],
        }
    )
    return Comparison(frame, verdict)


def _named(systems: Any, names: Sequence[str] | None) -> dict[str, Any]:
    if isinstance(systems, Mapping):
        found = {str(name): system for name, system in systems.items()}
    else:
        listed = list(systems)
        own = list(names) if names is not None else [str(system) for system in listed]
        if names is None and (len(set(own)) < len(own) or any(isinstance(s, pd.DataFrame) for s in listed)):
            own = [str(number) for number in range(len(listed))]
        if len(own) != len(listed) or len(set(own)) < len(own):
            raise RankingsError(f"names are {own}; expected a different one for each of {len(listed)} systems.")
        found = dict(zip(own, listed, strict=True))
    if len(found) < 2:
        raise RankingsError(f"There is {len(found)} system; expected two or more to compare.")
    return found


def _results(name: str, system: Any, topics: pd.DataFrame) -> pd.DataFrame:
    """Return the results of a system for topics, by query and rank."""
    results = system if isinstance(system, pd.DataFrame) else system(topics)
    absent = [column for column in ("qid", "docno", "rank") if column not in results.columns]
    if absent:
        raise RankingsError(
            f"System {name!r} returns the columns {', '.join(results.columns)}; expected {', '.join(absent)} as well, "
            "as PyTerrier's retrievers and rerankers return them."
        )
    results = results[results["qid"].isin(topics["qid"])].sort_values(["qid", "rank"])
    repeats = results.duplicated(["qid", "docno"])
    if repeats.any():
        row = results[repeats].iloc[0]
        raise RankingsError(
            f"System {name!r} returns document {row['docno']!r} twice for query {row['qid']!r}; a ranking lists a "
            "document once. Remove the repeat."
        )
    return results
