"""The contract that every method must pass, ours or a user's own.

    from multileave.testing import check_method
    check_method("ppm")          # or an instance; raises ContractError with the case that fails

Checked on many random rankings of equal and unequal lengths:

    value          str(method) and its full spelling parse back to an equal method
    list           k documents, or all if there are fewer; none twice, and none that no ranker returned
    considerate    if the method claims it: no document above the best rank that any ranker gives it
    deterministic  the same seed draws the same list; lists and arrays of ids draw the same
    names          renaming documents or rankers changes nothing else
    antisymmetric  P[n, m] = -P[m, n]
    no clicks      no preference
    serialisable   an impression read back from JSON is equal and infers the same
    pinned         pinned documents stay in place and count for nothing
    reads below    if the method says how many documents below the last click count: no others do
    definition     if the method has one: drawn lists have a probability, scores are equal
"""

import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from multileave.errors import ContractError
from multileave.impression import Impression
from multileave.methods.base import Method, get_method, infer
from multileave.methods.exact import exact_preferences

__all__ = ["check_method", "random_rankings"]

Case = tuple[dict[str, list[Hashable]], int, int]


def check_method(method: str | Method, *, cases: int = 60, seed: int = 0) -> tuple[str, ...]:
    """Check the contract on random cases; return the names of the checks, or raise ContractError.

    >>> "considerate" in check_method("tdm", cases=5)
    True
    """
    method = get_method(method)
    _require(get_method(str(method)) == method, "value", method, f"str(method) is {str(method)!r}, another method")
    _require(get_method(method.spelled) == method, "value", method, f"{method.spelled!r} is another method")
    names = [name for name, _ in _CHECKS]
    if not method.considerate:
        names.remove("considerate")
    if not hasattr(method, "lists"):
        names.remove("definition")
    if method.reads_below is None:
        names.remove("reads below")
    for case in random_rankings(cases, seed=seed, most_rankers=method.most_rankers):
        for name, check in _CHECKS:
            if name in names:
                problem = check(method, case)
                _require(problem is None, name, method, f"{problem}; rankings {case[0]}, k={case[1]}, seed={case[2]}")
    return ("value", *names)


def random_rankings(cases: int, *, seed: int, most_rankers: int | None = None) -> Iterator[Case]:
    """Yield (rankings, k, seed): small and large, of equal and unequal lengths, similar and different."""
    rng = np.random.default_rng(seed)
    for case in range(cases):
        rankers = int(rng.integers(2, min(most_rankers or 6, 6) + 1))
        pool = int(rng.integers(1, 6 if case % 2 else 25))
        equal = case % 3 > 0
        rankings: dict[str, list[Hashable]] = {}
        order = rng.permutation(pool)
        for n in range(rankers):
            noise = rng.uniform(0, pool, size=pool) * (case % 5) / 4
            ranking = order[np.argsort(np.arange(pool) + noise, kind="stable")]
            length = pool if equal else int(rng.integers(1, pool + 1))
            rankings[f"ranker {n}"] = ranking[:length].tolist()
        yield rankings, int(rng.integers(1, pool + 3)), int(rng.integers(2**32))


def _require(holds: bool, check: str, method: Method, problem: str) -> None:
    if not holds:
        raise ContractError(f"{method} breaks the contract ({check}): {problem}.")


def _some_clicks(impression: Impression, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return [int(x) for x in np.flatnonzero(rng.random(len(impression.shown)) < 0.4)]


def _check_list(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    shown = method.combine(rankings, k, seed=seed).shown
    known = {document for ranking in rankings.values() for document in ranking}
    if len(set(shown)) < len(shown) or not set(shown) <= known:
        return f"shown {shown} holds a document twice or one that no ranker returned"
    if len(shown) != min(k, len(known)):
        return f"shown {shown} has {len(shown)} documents, and {min(k, len(known))} could be shown"
    return None


def _check_considerate(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    for rank, document in enumerate(method.combine(rankings, k, seed=seed).drawn, 1):
        best = min(ranking.index(document) + 1 for ranking in rankings.values() if document in ranking)
        if best > rank:
            return f"document {document!r} is shown at rank {rank}, and no ranker places it above {best}"
    return None


def _check_deterministic(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    first = method.combine(rankings, k, seed=seed)
    if first != method.combine(rankings, k, seed=seed):
        return "two draws with one seed differ"
    if len({len(ranking) for ranking in rankings.values()}) == 1:
        array = np.array(list(rankings.values()))
        other = method.combine(array, k, seed=seed)
        if other.shown != first.shown or not np.array_equal(other.ranks, first.ranks):
            return "the same rankings as lists and as an array draw different lists"
    return None


def _check_names(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    first = method.combine(rankings, k, seed=seed)
    renamed = {f"other {name}": [f"doc {d}" for d in ranking] for name, ranking in rankings.items()}
    other = method.combine(renamed, k, seed=seed)
    if other.shown != tuple(f"doc {d}" for d in first.shown):
        return f"with documents renamed {first.shown} becomes {other.shown}"
    clicks = _some_clicks(first, seed)
    if not np.array_equal(infer(first, positions=clicks).preferences, infer(other, positions=clicks).preferences):
        return "with rankers and documents renamed the preferences differ"
    return None


def _check_antisymmetric(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    impression = method.combine(rankings, k, seed=seed)
    matrix = infer(impression, positions=_some_clicks(impression, seed)).preferences
    if matrix.shape != (len(rankings), len(rankings)) or not np.isfinite(matrix).all():
        return f"preferences are {matrix}, not finite numbers for each pair of rankers"
    if not np.allclose(matrix, -matrix.T, rtol=0, atol=1e-9 * max(1.0, np.abs(matrix).max())):
        return f"preferences {matrix.tolist()} are not antisymmetric"
    return None


def _check_no_clicks(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    impression = method.combine(rankings, k, seed=seed)
    matrix = infer(impression).preferences
    return f"without clicks the preferences are {matrix.tolist()}" if matrix.any() else None


def _check_serialisable(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    impression = method.combine(rankings, k, seed=seed)
    read = Impression.from_dict(json.loads(json.dumps(impression.to_dict())))
    clicks = _some_clicks(impression, seed)
    if read != impression:
        return "an impression read back from JSON differs"
    if infer(read, positions=clicks) != infer(impression, positions=clicks):
        return "an impression read back from JSON infers something else"
    return None


def _check_pinned(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    if k == 1:
        return None
    plain = method.combine(rankings, k - 1, seed=seed)
    pinned = method.combine(rankings, k, seed=seed, pinned={0: "pinned"})
    if pinned.shown[0] != "pinned" or pinned.drawn != plain.drawn:
        return f"with a document pinned at 0, {plain.shown} becomes {pinned.shown}"
    clicks = _some_clicks(plain, seed)
    with_pin = infer(pinned, positions=[0, *(position + 1 for position in clicks)])
    if with_pin != infer(plain, positions=clicks):
        return "a pinned document changes the preferences"
    return None


def _check_reads_below(method: Method, case: Case) -> str | None:
    rankings, k, seed = case
    impression = method.combine(rankings, k, seed=seed)
    clicks = _some_clicks(impression, seed)
    if method.reads_below is None or not clicks:
        return None
    m = max(clicks) + 1 + method.reads_below
    shorter = replace(
        impression,
        shown=impression.drawn[: min(m, len(impression.shown))],
        hidden=impression.hidden[: max(0, m - len(impression.shown))],
        ranks=impression.ranks[:m],
        note=impression.note[:m],
    )
    if infer(shorter, positions=clicks) != infer(impression, positions=clicks):
        return f"for clicks at {clicks} a document more than {method.reads_below} below the last changes the credits"
    return None


def _check_definition(method: Any, case: Case) -> str | None:
    rankings, k, seed = case
    if max(map(len, rankings.values())) > 5 or len(rankings) > 3:
        return None
    impression = method.combine(rankings, k, seed=seed)
    exact = tuple(tuple(ranking) for ranking in rankings.values())
    note = tuple(impression.note.tolist())
    lists = [(drawn, noted) for drawn, noted, probability in method.lists(exact, k) if probability > 0]
    if not any(drawn == impression.drawn and (noted == note or not method.keeps_note) for drawn, noted in lists):
        return f"the kernel drew {impression.drawn}, note {note}, which has no probability by definition"
    clicks = _some_clicks(impression, seed)
    expected = exact_preferences(method.outcome, method.score(exact, impression.drawn, note, clicks, k))
    found = infer(impression, positions=clicks).preferences
    if not np.allclose(found, np.array(expected, dtype=float), rtol=1e-9, atol=1e-9):
        return f"for clicks at {clicks} the kernel says {found.tolist()}, the definition {expected}"
    return None


_CHECKS: tuple[tuple[str, Callable[[Method, Case], str | None]], ...] = (
    ("list", _check_list),
    ("considerate", _check_considerate),
    ("deterministic", _check_deterministic),
    ("names", _check_names),
    ("antisymmetric", _check_antisymmetric),
    ("no clicks", _check_no_clicks),
    ("serialisable", _check_serialisable),
    ("pinned", _check_pinned),
    ("reads below", _check_reads_below),
    ("definition", _check_definition),
)
