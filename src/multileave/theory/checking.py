"""theory.check: decides all instances of a size, or searches when there are too many."""

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from multileave.errors import MethodError
from multileave.methods.base import Method, get_method
from multileave.methods.exact import ExactRankings
from multileave.theory.decide import (
    break_of_clone_proofness,
    break_of_considerateness,
    break_of_pareto,
    break_of_unbiasedness,
)
from multileave.theory.enumeration import has_definition
from multileave.theory.findings import Counterexample, Finding, Report
from multileave.theory.instances import instances, returned_lists
from multileave.theory.proofs import proved
from multileave.theory.property_table import SIMULATED_DRAWS, make_table
from multileave.theory.search import INDEPENDENT, RANK_ONLY, Progress, in_processes, search_report
from multileave.theory.users import PRESETS, User, as_user

ANY_LAW = "users whose click probability at a rank depends only on the rank and relevance there"


def check(
    method: str | Method,
    documents: int = 3,
    rankers: int = 3,
    k: int | None = None,
    user: str | User | None = None,
    search: int | None = None,
    seed: int = 0,
    *,
    jobs: int = 1,
    reorder: bool = False,
    progress: Progress | None = None,
    returned: int | str | None = None,
    user_name: str | None = None,
) -> Report:
    """Decide whether a method is considerate, unbiased, faithful to a Pareto dominating ranker, and clone-proof.

    Every set of `rankers` rankings of 2 to `documents` documents is decided exactly, for every k or the given one. With
    `search`, that many random and mutated instances of `documents` documents are tried instead, in floats;
    counterexamples are confirmed in Fractions and made smaller.

    user: None for all users with independent clicks (Pareto), a name ("perfect", "navigational",
        "informational", "random"), or a user of this package, such as theory.Cascade.
    user_name: what the report calls the user, if not by its kind.
    reorder: treat instances that differ only in the order of their rankers as one.
    jobs: processes. progress: called with (done, total).
    returned: how many documents each ranker returns, the top of its ranking, while the whole rankings decide who
        dominates whom, as in production; "any" for all combinations of lengths.

    >>> report = check("tdm", documents=2, rankers=2)
    >>> bool(report.unbiased), report.unbiased.counterexample
    (True, None)
    """
    method = get_method(method)
    person = as_user(user)
    if documents < 2 or rankers < 2 or (k is not None and k < 1):
        raise MethodError(
            f"documents is {documents}, rankers {rankers}, k {k}; expected at least 2 documents, 2 rankers and k=1."
        )
    if returned is not None and returned != "any" and (not isinstance(returned, int) or returned < 1):
        raise MethodError(f"returned is {returned!r}; expected a number of documents, at least 1, or 'any'.")
    rankers = min(rankers, method.most_rankers or rankers)
    if search is not None:
        return search_report(
            method, documents, rankers, k, person, user_name or _user_name(user), search, seed,
            jobs=jobs, progress=progress, returned=returned,
        )  # fmt: skip
    cases = [
        (rankings, cut, lists if returned is not None else ())
        for number in (rankers, *([rankers - 1] if rankers > 2 else []))  # the second are for copies of a ranker
        for size in range(2, documents + 1)
        for rankings in instances(size, number, reorder=reorder)
        for cut in (range(1, size + 1) if k is None else [k])
        for lists in returned_lists(rankings, returned)
    ]
    decide = partial(_decide, method, person, seed, rankers)
    decided = []
    for found in in_processes(decide, cases, jobs):
        decided.append(found)
        if progress:
            progress(len(decided), len(cases))
    return _report(method, documents, rankers, person, user_name or _user_name(user), decided, returned, k)


@dataclass(frozen=True)
class _Decided:
    """One case: its size, the instance, and for each requirement that was decided what breaks it, or None."""

    documents: int
    k: int
    rankings: ExactRankings
    linear: bool
    infeasible: bool
    breaks: dict[str, Counterexample | None]


Case: TypeAlias = tuple[ExactRankings, int, ExactRankings]  # rankings, k, and what was returned of them, () for all


def _decide(method: Method, user: User | None, seed: int, rankers: int, case: Case) -> _Decided:
    full, k, lists = case
    rankings = lists or full
    slack = getattr(method, "exact_slack", None)
    infeasible = slack is not None and slack(rankings, k) > 0
    make = partial(make_table, method, k=k, seed=seed, full=full if lists else ())
    table = make(rankings)
    breaks: dict[str, Counterexample | None] = {}
    if len(full) == rankers:
        breaks["considerate"] = break_of_considerateness(table)
    if len(full) == rankers and not infeasible:
        breaks["unbiased"] = break_of_unbiasedness(table)
        breaks["pareto"] = break_of_pareto(table, user) if _expects_a_winner(user) else None
    if len(full) < rankers and not infeasible:
        found = (
            break_of_clone_proofness(table, make((*rankings, ranking)), copied)
            for copied, ranking in enumerate(rankings)
        )
        breaks["clone_proof"] = next(filter(None, found), None)
    return _Decided(len(full[0]), k, rankings, table.linear, infeasible, breaks)


def _expects_a_winner(user: User | None) -> bool:
    """Return whether a user's clicks are correlated with relevance, so that the Pareto requirement applies."""
    return user is None or bool(getattr(user, "correlated", True))


def _report(
    method: Method,
    documents: int,
    rankers: int,
    user: User | None,
    name: str,
    decided: list[_Decided],
    returned: int | str | None,
    k: int | None,
) -> Report:
    proofs = proved(method, user, returned=returned, documents=documents, k=k or documents)
    linear = all(one.linear for one in decided)
    independent = ANY_LAW if linear else INDEPENDENT
    covers = {
        "considerate": "everyone",
        "unbiased": ANY_LAW.replace(" and relevance there", "") if linear else RANK_ONLY,
        "pareto": independent if user is None else f"the {name} user",
    }
    covers["clone_proof"] = "everyone" if rankers > 2 else "nobody: with two rankers there is no third to copy"
    if not _expects_a_winner(user):
        covers["pareto"] = f"nobody: the {name} user's clicks do not depend on relevance"

    def finding(requirement: str) -> Finding:
        sizes: dict[tuple[int, int], tuple[int, int]] = {}
        first: Counterexample | None = None
        for one in decided:
            if requirement in one.breaks:
                found = one.breaks[requirement]
                broken, total = sizes.get((one.documents, one.k), (0, 0))
                sizes[one.documents, one.k] = broken + (found is not None), total + 1
                first = first or found
        return Finding(requirement, first, sizes, covers[requirement], requirement in proofs)

    exact = has_definition(method)
    return Report(
        str(method), documents, rankers, name, finding("considerate"), finding("unbiased"), finding("pareto"),
        finding("clone_proof"),
        exact=exact, draws=0 if exact else SIMULATED_DRAWS, returned=returned,
        infeasible=tuple((one.rankings, one.k) for one in decided if one.infeasible and one.breaks),
    )  # fmt: skip


def _user_name(user: str | User | None) -> str:
    if isinstance(user, str):
        return user
    for name, preset in PRESETS.items():
        if user == preset:
            return name
    return "independent" if user is None else type(user).__name__.lower()
