"""Search for counterexamples when there are too many instances to try them all.

Instances are drawn at random and mutated towards a smaller expected preference of the dominating ranker, in floats,
through the method's compiled credit. A suspected counterexample is made smaller (fewer documents, rankers and relevant
documents, smaller k) and confirmed in Fractions from the definition; only confirmed ones are reported.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from typing import Any, TypeAlias

import numpy as np

from multileave.errors import MethodError
from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods.base import Method
from multileave.methods.exact import ExactRankings
from multileave.theory.decide import (
    ROUNDING,
    break_of_considerateness,
    break_of_pareto,
    break_of_unbiasedness,
    corner_expectations,
)
from multileave.theory.enumeration import has_definition
from multileave.theory.findings import Counterexample, Finding, Report
from multileave.theory.instances import document_names
from multileave.theory.property_table import Array, PropertyTable, make_table
from multileave.theory.users import User

Numbers: TypeAlias = tuple[tuple[int, ...], ...]  # rankings of documents 0, 1, ...
Progress: TypeAlias = Callable[[int, int], None]
Lengths: TypeAlias = tuple[int, ...]  # how many documents each ranker returned

PATIENCE = 40  # mutations without gain before a new start
CHAIN = 200  # instances per task, so that seeds do not depend on the number of processes


INDEPENDENT = "users with independent clicks"
RANK_ONLY = "users whose clicks do not depend on the documents"
BREAKS = {"considerate": break_of_considerateness, "unbiased": break_of_unbiasedness}


def credit(*arguments: object) -> None:
    """Stand for the credit kernel that is bound in its place."""


@kernel
def score_lists(ranks, lengths, drawn, note, visible, k, params, out, values, work_i, work_f):  # type: ignore[no-untyped-def]
    """Fill out[l, c] with the credits for list l and click vector c."""
    lists, m = drawn.shape
    rankers = len(lengths)
    shown = np.empty((m, rankers), dtype=np.int32)
    clicks = np.zeros(m, dtype=np.uint8)
    for row in range(lists):
        for x in range(m):
            for n in range(rankers):
                shown[x, n] = ranks[drawn[row, x], n]
        for mask in range(1, 1 << visible):
            for x in range(visible):
                clicks[x] = mask >> x & 1
            values[:] = 0.0
            credit(shown, lengths, note[row], clicks, k, params, values, work_i, work_f)
            out[row, mask] = values


def float_table(method: Any, full: Numbers, k: int, lengths: Lengths = ()) -> PropertyTable:
    """Compute the table of one instance: lists by definition, preferences by the kernel.

    lengths: what was returned of the rankings; all by default.
    """
    rankings = tops(full, lengths)
    rows = list(method.lists(rankings, k))
    drawn = np.array([row[0] for row in rows], dtype=np.int32)
    note = np.array([row[1] for row in rows], dtype=np.int32)
    chances = np.array([float(row[2]) for row in rows])
    rankers, documents = len(full), len(full[0])
    ranks = np.full((documents, rankers), ABSENT, dtype=np.int32)
    for n, ranking in enumerate(rankings):
        ranks[list(ranking), n] = np.arange(1, len(ranking) + 1)
    shape = (rankers, rankers) if method.outcome == "matrix" else (rankers,)
    visible = min(k, drawn.shape[1])
    out = np.zeros((len(rows), 2**visible, *shape))
    integers, floats = method.workspace(rankers, documents, k)
    score_lists.bind(credit=method.credit_kernel)(
        ranks, np.array([len(r) for r in rankings], dtype=np.int32), drawn, note, visible, k, method.parameters, out,
        np.zeros(shape), np.empty(integers, dtype=np.int32), np.empty(floats),
    )  # fmt: skip
    if method.outcome != "matrix":
        out = out[..., :, None] - out[..., None, :]
        if method.outcome == "sign":
            out = np.where(np.abs(out) < 1e-12, 0.0, np.sign(out))
    lists = tuple(row[0][:visible] for row in rows)
    values = out * chances[:, None, None, None]
    return PropertyTable(rankings, k, visible, lists, values, chances, 1, 0, full)


def tops(rankings: Any, lengths: Lengths) -> Any:
    """Return the tops of the rankings; everything if there are no lengths."""
    return tuple(r[:n] for r, n in zip(rankings, lengths, strict=True)) if lengths else rankings


def click_law(user: User | None, k: int) -> Array | None:
    """Return P(click vector | mask of relevant positions) for every pair of masks; None without a user."""
    if user is None:
        return None
    law = np.zeros((2**k, 2**k))
    for mask in range(2**k):
        for clicks, chance in user.law([mask >> x & 1 for x in range(k)]):
            law[mask, sum(1 << x for x in clicks)] += float(chance)
    return law


def is_suspect(requirement: str, table: PropertyTable, law: Array | None) -> bool:
    """Return whether floats say that a requirement is violated."""
    if requirement == "pareto":
        return least_preference(table, law) < -ROUNDING
    return BREAKS[requirement](table) is not None


def least_preference(table: PropertyTable, law: Array | None) -> float:
    """Return the least E[P_nm] of a dominating ranker n over all relevant sets.

    law: see `click_law`; None for the least over all corners of users with independent clicks.
    """
    least = np.inf
    for relevant, n in table.dominations():
        if law is not None:
            expected = np.einsum("lc,lcm->m", law[table.relevance(relevant)], table.values[:, :, n])
        else:
            expected = corner_expectations(table, relevant, n).min(axis=0)
        least = min(least, float(np.delete(expected, n).min()))
    return least


def hunt(
    method: Method,
    documents: int,
    rankers: int,
    k: int | None,
    user: User | None,
    returned: int | str | None,
    task: tuple[int, int],
) -> tuple[int, list[Counterexample]]:
    """Try instances, starting again when mutations no longer help; stop when Pareto is violated.

    task: how many instances to try, and the seed.
    Return how many were tried, and the confirmed counterexamples, at most one for each requirement.
    """
    tries, seed = task
    rng = np.random.default_rng(seed)
    law = cache(partial(click_law, user))
    found: dict[str, Counterexample] = {}
    current: Numbers = ()
    lengths: Lengths = ()
    cut, best, stale = 1, np.inf, PATIENCE
    for tried in range(1, tries + 1):
        if stale >= PATIENCE:
            candidate = tuple(tuple(rng.permutation(documents).tolist()) for _ in range(rankers))
            cut = k or int(rng.integers(1, documents + 1))
            if returned == "any":
                lengths = tuple(rng.integers(1, documents + 1, rankers).tolist())
            elif returned is not None:
                lengths = (int(returned),) * rankers
            best, stale = np.inf, 0
        else:
            candidate = mutated(current, rng)
        table = float_table(method, candidate, cut, lengths)
        value = least_preference(table, law(table.k))
        for requirement in ("considerate", "unbiased", "pareto"):
            suspect = value < -ROUNDING if requirement == "pareto" else is_suspect(requirement, table, None)
            if suspect and requirement not in found:
                one = confirmed(method, requirement, candidate, cut, user, lengths)
                if one is not None:
                    found[requirement] = one
        if "pareto" in found:
            return tried, list(found.values())
        if value < best:
            current, best, stale = candidate, value, 0
        else:
            stale += 1
    return tries, list(found.values())


def mutated(rankings: Numbers, rng: np.random.Generator) -> Numbers:
    """Return the rankings with one or two documents of one ranking moved."""
    changed = [list(ranking) for ranking in rankings]
    ranking = changed[int(rng.integers(len(changed)))]
    for _ in range(int(rng.integers(1, 3))):
        ranking.insert(int(rng.integers(len(ranking))), ranking.pop(int(rng.integers(len(ranking)))))
    return tuple(map(tuple, changed))


def confirmed(
    method: Method, requirement: str, rankings: Numbers, k: int, user: User | None, lengths: Lengths = ()
) -> Counterexample | None:
    """Return the counterexample, made small and in Fractions, or None if the floats were wrong."""
    small, cut, shorter = _smaller(method, requirement, rankings, k, user, lengths)
    for candidate, size, returned in ((small, cut, shorter), (rankings, k, lengths)):
        names = document_names(len(candidate[0]))
        order = {document: names[i] for i, document in enumerate(candidate[0])}
        named: ExactRankings = tuple(tuple(order[d] for d in ranking) for ranking in candidate)
        table = make_table(method, tops(named, returned), size, full=named if returned else ())
        found = break_of_pareto(table, user) if requirement == "pareto" else BREAKS[requirement](table)
        if found is not None:
            return found
    return None


def _smaller(
    method: Method, requirement: str, rankings: Numbers, k: int, user: User | None, lengths: Lengths
) -> tuple[Numbers, int, Lengths]:
    """Take away documents, rankers and ranks while the instance stays suspect, in floats."""

    def simpler() -> Iterator[tuple[Numbers, int, Lengths]]:
        size = len(rankings[0])
        for document in range(size):
            if size > 2:
                rest = [[d - (d > document) for d in ranking if d != document] for ranking in rankings]
                left = tuple(n - (document in r[:n]) for r, n in zip(rankings, lengths, strict=False))
                if all(n > 0 for n in left):
                    yield tuple(map(tuple, rest)), min(k, size - 1), left
        for n in range(len(rankings)):
            if len(rankings) > 2:
                yield rankings[:n] + rankings[n + 1 :], k, lengths[:n] + lengths[n + 1 :]
        if k > 1:
            yield rankings, k - 1, lengths

    while True:
        for candidate, cut, returned in simpler():
            table = float_table(method, candidate, cut, returned)
            if is_suspect(requirement, table, click_law(user, table.k)):
                rankings, k, lengths = candidate, cut, returned
                break
        else:
            return rankings, k, lengths


def in_processes(function: Callable[[Any], Any], cases: Sequence[Any], jobs: int) -> Iterator[Any]:
    """Yield function(case) for every case, in order; computed in so many processes if there are enough cases."""
    if jobs == 1 or len(cases) <= jobs:
        yield from map(function, cases)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("fork"))
    try:
        yield from pool.map(function, cases, chunksize=max(1, len(cases) // (jobs * 16)))
    finally:
        pool.shutdown(cancel_futures=True)


def search_report(
    method: Method,
    documents: int,
    rankers: int,
    k: int | None,
    user: User | None,
    user_name: str,
    tries: int,
    seed: int,
    *,
    jobs: int,
    progress: Progress | None,
    returned: int | str | None = None,
) -> Report:
    """Search with several processes and report what was confirmed."""
    if not has_definition(method):
        raise MethodError(
            f"{method} has no definition (lists and score), so a search cannot confirm anything. Use no search."
        )
    if tries < 1:
        raise MethodError(f"search is {tries}; expected the number of instances to try, at least 1.")
    found: dict[str, Counterexample] = {}
    done = 0
    shares = [min(CHAIN, tries - start) for start in range(0, tries, CHAIN)]
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(len(shares))]
    tasks = list(zip(shares, seeds, strict=True))
    for tried, confirmed_now in in_processes(partial(hunt, method, documents, rankers, k, user, returned), tasks, jobs):
        done += tried
        for one in confirmed_now:
            found.setdefault(one.requirement, one)
        if progress:
            progress(done, tries)
        if "pareto" in found:
            break
    size = (documents, k or documents)

    def finding(requirement: str, covers: str) -> Finding:
        one = found.get(requirement)
        return Finding(requirement, one, {size: (int(one is not None), done)}, covers)

    return Report(
        str(method), documents, rankers, user_name,
        finding("considerate", "everyone"),
        finding("unbiased", RANK_ONLY),
        finding("pareto", INDEPENDENT if user is None else f"the {user_name} user"),
        Finding("clone_proof", None, {}, "nobody: a search does not check it"),
        searched=done, returned=returned,
    )  # fmt: skip
