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
    applies = {
        "considerate": method.considerate,
        "definition": hasattr(method, "lists"),
        "reads below": method.reads_below is not None,
    }
    checks = {name: check for name, check in _CHECKS.items() if applies.get(name, True)}
    for rankings, k, case_seed in random_rankings(cases, seed=seed, most_rankers=method.most_rankers):
        draw = _Draw(method, rankings, k, case_seed)
        for name, check in checks.items():
            problem = check(draw)
            _require(problem is None, name, method, f"{problem}; rankings {rankings}, k={k}, seed={case_seed}")
    return ("value", *checks)


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


class _Draw:
    """What a method draws from rankings, and random clicks on it."""

    def __init__(self, method: Any, rankings: dict[str, list[Hashable]], k: int, seed: int) -> None:
        self.method, self.rankings, self.k, self.seed = method, rankings, k, seed
        self.impression: Impression = method.combine(rankings, k, seed=seed)
        clicked = np.random.default_rng(seed).random(len(self.impression.shown)) < 0.4
        self.clicks: list[int] = np.flatnonzero(clicked).tolist()
        self.outcome = infer(self.impression, positions=self.clicks)


def _check_list(draw: _Draw) -> str | None:
    shown = draw.impression.shown
    known = {document for ranking in draw.rankings.values() for document in ranking}
    if len(set(shown)) < len(shown) or not set(shown) <= known:
        return f"shown {shown} holds a document twice or one that no ranker returned"
    if len(shown) != min(draw.k, len(known)):
        return f"shown {shown} has {len(shown)} documents, and {min(draw.k, len(known))} could be shown"
    return None


def _check_considerate(draw: _Draw) -> str | None:
    for rank, document in enumerate(draw.impression.drawn, 1):
        best = min(ranking.index(document) + 1 for ranking in draw.rankings.values() if document in ranking)
        if best > rank:
            return f"document {document!r} is shown at rank {rank}, and no ranker places it above {best}"
    return None


def _check_deterministic(draw: _Draw) -> str | None:
    first = draw.impression
    if first != draw.method.combine(draw.rankings, draw.k, seed=draw.seed):
        return "two draws with one seed differ"
    if len({len(ranking) for ranking in draw.rankings.values()}) == 1:
        other = draw.method.combine(np.array(list(draw.rankings.values())), draw.k, seed=draw.seed)
        if other.shown != first.shown or not np.array_equal(other.ranks, first.ranks):
            return "the same rankings as lists and as an array draw different lists"
    return None


def _check_names(draw: _Draw) -> str | None:
    shown = draw.impression.shown
    renamed = {f"other {name}": [f"doc {d}" for d in ranking] for name, ranking in draw.rankings.items()}
    other = draw.method.combine(renamed, draw.k, seed=draw.seed)
    if other.shown != tuple(f"doc {d}" for d in shown):
        return f"with documents renamed {shown} becomes {other.shown}"
    if not np.array_equal(draw.outcome.preferences, infer(other, positions=draw.clicks).preferences):
        return "with rankers and documents renamed the preferences differ"
    return None


def _check_antisymmetric(draw: _Draw) -> str | None:
    matrix = draw.outcome.preferences
    if matrix.shape != (len(draw.rankings), len(draw.rankings)) or not np.isfinite(matrix).all():
        return f"preferences are {matrix}, not finite numbers for each pair of rankers"
    if not np.allclose(matrix, -matrix.T, rtol=0, atol=1e-9 * max(1.0, np.abs(matrix).max())):
        return f"preferences {matrix.tolist()} are not antisymmetric"
    return None


def _check_no_clicks(draw: _Draw) -> str | None:
    matrix = infer(draw.impression).preferences
    return f"without clicks the preferences are {matrix.tolist()}" if matrix.any() else None


def _check_serialisable(draw: _Draw) -> str | None:
    read = Impression.from_dict(json.loads(json.dumps(draw.impression.to_dict())))
    if read != draw.impression:
        return "an impression read back from JSON differs"
    if infer(read, positions=draw.clicks) != draw.outcome:
        return "an impression read back from JSON infers something else"
    return None


def _check_pinned(draw: _Draw) -> str | None:
    pinned = draw.method.combine(draw.rankings, draw.k + 1, seed=draw.seed, pinned={0: "pinned"})
    if pinned.shown[0] != "pinned" or pinned.drawn != draw.impression.drawn:
        return f"with a document pinned at 0, {draw.impression.shown} becomes {pinned.shown}"
    if infer(pinned, positions=[0, *(position + 1 for position in draw.clicks)]) != draw.outcome:
        return "a pinned document changes the preferences"
    return None


def _check_reads_below(draw: _Draw) -> str | None:
    below, impression = draw.method.reads_below, draw.impression
    if not draw.clicks:
        return None
    m = max(draw.clicks) + 1 + below
    shorter = replace(
        impression,
        shown=impression.drawn[: min(m, len(impression.shown))],
        hidden=impression.hidden[: max(0, m - len(impression.shown))],
        ranks=impression.ranks[:m],
        note=impression.note[:m],
    )
    if infer(shorter, positions=draw.clicks) != draw.outcome:
        return f"for clicks at {draw.clicks} a document more than {below} below the last changes the credits"
    return None


def _check_definition(draw: _Draw) -> str | None:
    method, impression = draw.method, draw.impression
    if max(map(len, draw.rankings.values())) > 5 or len(draw.rankings) > 3:
        return None
    exact = tuple(tuple(ranking) for ranking in draw.rankings.values())
    note = tuple(impression.note.tolist())
    lists = [(drawn, noted) for drawn, noted, probability in method.lists(exact, draw.k) if probability > 0]
    if not any(drawn == impression.drawn and (noted == note or not method.keeps_note) for drawn, noted in lists):
        return f"the kernel drew {impression.drawn}, note {note}, which has no probability by definition"
    scores = method.score(exact, impression.drawn, note, draw.clicks, draw.k)
    expected = exact_preferences(method.outcome, scores)
    found = draw.outcome.preferences
    if not np.allclose(found, np.array(expected, dtype=float), rtol=1e-9, atol=1e-9):
        return f"for clicks at {draw.clicks} the kernel says {found.tolist()}, the definition {expected}"
    return None


_CHECKS: dict[str, Callable[[_Draw], str | None]] = {
    "list": _check_list,
    "considerate": _check_considerate,
    "deterministic": _check_deterministic,
    "names": _check_names,
    "antisymmetric": _check_antisymmetric,
    "no clicks": _check_no_clicks,
    "serialisable": _check_serialisable,
    "pinned": _check_pinned,
    "reads below": _check_reads_below,
    "definition": _check_definition,
}
