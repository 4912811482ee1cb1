"""Differences: where rankers differ, before any user has seen them.

Rankers that return the same pages cannot be told apart by any number of users. This is what a team looks at first: how
much the rankings overlap, which queries differ most, and roughly how many users a verdict would take.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from multileave.errors import DataError, TallyError
from multileave.methods import get_method, infer
from multileave.stats import Design, plan

Ranking: TypeAlias = Sequence[Hashable]
PERSISTENCE = 0.9
CLICKS_PER_PAGE = 0.6
LIFTS = (0.2, 0.05)  # how much likelier people are to click what the better ranker puts higher: much, little
IMPRESSIONS = 20_000
# How likely a rank is to be looked at; the first five as in two public click logs, later ones as often as the last.
EXAMINATION = (1.0, 0.73, 0.5, 0.38, 0.37, 0.32, 0.28, 0.25, 0.22, 0.2)


@dataclass(frozen=True)
class QueryDifference:
    """How much two rankings of one query differ."""

    query: str
    overlap: float
    rbo: float


@dataclass(frozen=True)
class PairDifference:
    """How much two rankers differ.

    queries: how many both answered. only: how many only the first answered, and only the second.
    overlap: mean share of the first k documents that both return.
    rbo: mean rank-biased overlap; 1 if the rankings are equal, 0 if they share nothing.
    different_pages: share of queries whose first k documents differ, or their order; different_tops: whose first does.
    users: roughly how many a verdict takes, see `rough_users`; None if no number of users can decide.
    largest: the queries that differ most, by rank-biased overlap.
    """

    rankers: tuple[str, str]
    queries: int
    only: tuple[int, int]
    overlap: float
    rbo: float
    different_pages: float
    different_tops: float
    users: tuple[int, int] | None
    largest: tuple[QueryDifference, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values that JSON can hold."""
        return asdict(self)


def find_differences(
    rankings: Mapping[str, Mapping[str, Ranking]],
    *,
    k: int = 10,
    persistence: float = PERSISTENCE,
    clicks_per_page: float = CLICKS_PER_PAGE,
    largest: int = 10,
    seed: int = 0,
) -> list[PairDifference]:
    """Compare every pair of rankers.

    rankings: for each ranker, what it returns for each query, best first. k: documents of a page.
    persistence: p of rank-biased overlap, the chance that a reader goes on to the next rank.
    clicks_per_page: mean number of clicks on a page, for the number of users.
    """
    if len(rankings) < 2:
        raise DataError(f"There are rankings of {len(rankings)} ranker; expected those of two or more.")
    if k < 1 or not 0.0 < persistence < 1.0 or not 0.0 < clicks_per_page <= k:
        raise DataError(
            f"k is {k}, persistence {persistence} and clicks_per_page {clicks_per_page}; expected k of at least 1, a "
            "persistence between 0 and 1, and more than 0 and at most k clicks per page."
        )
    return [
        _pair_difference(first, second, rankings, k, persistence, clicks_per_page, largest, seed)
        for first, second in combinations(rankings, 2)
    ]


def _pair_difference(
    first: str,
    second: str,
    rankings: Mapping[str, Mapping[str, Ranking]],
    k: int,
    persistence: float,
    clicks_per_page: float,
    largest: int,
    seed: int,
) -> PairDifference:
    one, other = rankings[first], rankings[second]
    queries = [query for query in one if one[query] and other.get(query)]
    if not queries:
        raise DataError(f"{first} and {second} have no query in common, so nothing can be compared.")
    pages = [(one[query][:k], other[query][:k]) for query in queries]
    found = [
        QueryDifference(query, _overlap(*page), rank_biased_overlap(one[query], other[query], persistence))
        for query, page in zip(queries, pages, strict=True)
    ]
    return PairDifference(
        (first, second),
        len(queries),
        (sum(not other.get(query) for query in one if one[query]), sum(not one.get(q) for q in other if other[q])),
        float(np.mean([query.overlap for query in found])),
        float(np.mean([query.rbo for query in found])),
        float(np.mean([list(a) != list(b) for a, b in pages])),
        float(np.mean([a[0] != b[0] for a, b in pages])),
        rough_users(pages, k, clicks_per_page, seed),
        tuple(sorted(found, key=lambda query: (query.rbo, query.query))[:largest]),
    )


def _overlap(first: Ranking, second: Ranking) -> float:
    """Return the share of the documents of the longer page that both have."""
    return len(set(first) & set(second)) / max(len(first), len(second))


def rank_biased_overlap(first: Ranking, second: Ranking, persistence: float = PERSISTENCE) -> float:
    """Return the extrapolated rank-biased overlap of two rankings, which may differ in length [webber2010].

    With X_d the number of documents that the first d of both share, s and l the lengths, s <= l:

        RBO = (1 - p) / p (sum_{d=1..l} X_d / d p^d  +  sum_{d=s+1..l} X_s (d - s) / (s d) p^d)
              + ((X_l - X_s) / l + X_s / s) p^l

    >>> rank_biased_overlap("abc", "abc"), rank_biased_overlap("abc", "xyz")
    (1.0, 0.0)
    """
    shorter, longer = sorted((list(first), list(second)), key=len)
    short, long, p = len(shorter), len(longer), persistence
    shared = [len(set(shorter[:d]) & set(longer[:d])) for d in range(1, long + 1)]
    common = shared[short - 1]
    total = sum(x / d * p**d for d, x in enumerate(shared, 1))
    total += sum(common * (d - short) / (short * d) * p**d for d in range(short + 1, long + 1))
    found = (1 - p) / p * total + ((shared[-1] - common) / long + common / short) * p**long
    return min(max(found, 0.0), 1.0)


def rough_users(
    pages: Sequence[tuple[Ranking, Ranking]], k: int, clicks_per_page: float, seed: int
) -> tuple[int, int] | None:
    """Return roughly how many users a verdict on two rankers takes, for a large and a small difference.

    Users are simulated: they look at positions as people in public logs do, and click what they look at with one
    probability, which gives `clicks_per_page`. Suppose that what one ranker puts higher is clicked (1 + lift / 2) times
    as often, and what the other puts higher (1 - lift / 2) times. Then the mean preference is lift times its
    derivative, which the score function estimates. One page per user, one look, 80 % power at 95 % confidence. None if
    no page differs: no number of users decides then.
    """
    method = get_method("recommended")
    rng = np.random.default_rng(seed)
    look = np.array([EXAMINATION[min(rank, len(EXAMINATION) - 1)] for rank in range(k)])
    preferences, scores = np.zeros(IMPRESSIONS), np.zeros(IMPRESSIONS)
    for n in range(IMPRESSIONS):
        one, other = pages[int(rng.integers(len(pages)))]
        if list(one) == list(other):
            continue
        impression = method.combine({"one": one, "other": other}, k, seed=f"{seed} {n}")
        shown = impression.shown
        chances = np.minimum(look[: len(shown)] * clicks_per_page / look[: len(shown)].sum(), 0.95)
        clicked = rng.random(len(shown)) < chances
        favour = np.array([_favours(document, one, other) for document in shown])
        outcome = infer(impression, positions=np.flatnonzero(clicked).tolist())
        preferences[n] = outcome.preferences[0, 1]
        scores[n] = (favour / 2.0 * (clicked - chances) / (1.0 - chances)).sum()
    deviation, slope = float(preferences.std()), float((preferences * scores).mean())
    if deviation == 0.0 or slope <= 0.0:
        return None
    try:
        much, little = (plan(Design(deviation), lift * slope).units for lift in LIFTS)
    except TallyError:
        return None
    return _rounded(much), _rounded(little)


def _favours(document: Hashable, one: Ranking, other: Ranking) -> int:
    """Return 1 if the first ranking puts a document higher, -1 if the second does, else 0."""
    ranks = [list(page).index(document) if document in page else math.inf for page in (one, other)]
    return int(np.sign(ranks[1] - ranks[0])) if ranks[0] != ranks[1] else 0


def _rounded(users: int) -> int:
    """Return a number with two significant digits."""
    digits = max(len(str(users)) - 2, 0)
    return round(users, -digits)
