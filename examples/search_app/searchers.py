"""Simulated people who search the site over HTTP, and click on what they would like to cook."""

import random
import re
import threading

import httpx
from recipes import FORMS, MAINS, SIDES, Recipe, recipes

RESULT = re.compile(r'href="(/recipe/(recipe-\d+)\?[^"]+)"')


def searcher(site: str, seed: int, stop: threading.Event, most: int | None = None) -> int:
    """Search until `stop` is set, or `most` times, as a new person every few searches; return how many."""
    rng = random.Random(seed)
    known = {recipe.id: recipe for recipe in recipes()}
    done = 0
    while not stop.is_set() and (most is None or done < most):
        with httpx.Client(base_url=site, timeout=30.0) as person:
            for _ in range(rng.randint(1, 4)):
                wish = rng.choice(MAINS), rng.choice(list(FORMS)), rng.choice(SIDES)
                page = person.get("/", params={"q": " ".join(wish[: rng.randint(2, 3)])}).text
                for link, name in RESULT.findall(page):
                    likes = _likes(known[name], wish)
                    if rng.random() < likes:
                        person.get(link.replace("&amp;", "&"))
                        if rng.random() < likes:
                            break
                done += 1
                if stop.wait(0.02) or done == most:
                    break
    return done


def _likes(recipe: Recipe, wish: tuple[str, str, str]) -> float:
    """Return how likely a person is to click: on recipes that match the wish, and on those that many have cooked."""
    fits = (recipe.main == wish[0]) + (recipe.form == wish[1]) + (recipe.side == wish[2])
    return min(0.02 + 0.12 * fits + (0.4 if recipe.cooked > 150 and fits > 1 else 0.0), 0.9)
