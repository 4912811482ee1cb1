"""Simulated people who search the site over HTTP because they need something, and click on what looks right."""

import random
import re
import threading
from collections.abc import Mapping, Sequence
from html import unescape

import httpx
from needs import NEEDS

RESULT = re.compile(r'href="(/doc/([^"?]+)\?[^"]+)"')
READ_ON = 0.85  # how likely a person is to look at the next result


def searcher(site: str, seed: int, stop: threading.Event, most: int | None = None) -> int:
    """Search until `stop` is set, or `most` times, as a new person every few searches; return how many."""
    rng = random.Random(seed)
    done = 0
    while not stop.is_set() and (most is None or done < most):
        # verify=False: reading certificates, which plain HTTP does not need, takes longer than a search
        with httpx.Client(base_url=site, timeout=30.0, verify=False) as person:
            for _ in range(rng.randint(1, 4)):
                query = rng.choice(list(NEEDS))
                found = RESULT.findall(person.get("/", params={"q": query}).text)
                for position in clicks(rng, query, [name for _, name in found]):
                    person.get(unescape(found[position][0]))
                done += 1
                if stop.wait(0.02) or done == most:
                    break
    return done


def clicks(rng: random.Random, query: str, shown: Sequence[str]) -> list[int]:
    """Return the positions that a person clicks.

    People read downwards. They click on what they need nine times out of ten, and are then mostly satisfied; they also
    try one in seven results of the right module, and one in fifty others.
    """
    needed = NEEDS[query]
    modules = {name.partition(".")[0] for name in needed}
    found = []
    for position, name in enumerate(shown):
        attraction = 0.9 if name in needed else 0.15 if name.partition(".")[0] in modules else 0.02
        if rng.random() < attraction:
            found.append(position)
            if name in needed and rng.random() < 0.8:
                break
        if rng.random() > READ_ON:
            break
    return found


def truth(rankings: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, float]:
    """Return how good each ranker is for these people: the mean reciprocal rank of the first result that they need.

    rankings: by query, then by ranker.
    """
    found: dict[str, float] = {}
    for query, by_ranker in rankings.items():
        for ranker, ranking in by_ranker.items():
            first = next((n for n, name in enumerate(ranking[:10], 1) if name in NEEDS[query]), None)
            found[ranker] = found.get(ranker, 0.0) + (1.0 / first if first else 0.0) / len(rankings)
    return found
