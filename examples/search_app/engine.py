"""The search engine: SQLite's full-text index, and three rankers that really differ."""

import re
import sqlite3

from recipes import Recipe, recipes

RANKERS = ("text", "title", "popular")  # the first, the control, is the site's old ranker
DEPTH = 50


class Engine:
    """Recipes in a full-text index, in memory."""

    def __init__(self) -> None:
        self.recipes: dict[str, Recipe] = {recipe.id: recipe for recipe in recipes()}
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute("CREATE VIRTUAL TABLE recipes USING fts5(id UNINDEXED, title, body, cooked UNINDEXED)")
        rows = [(r.id, r.title, r.body, r.cooked) for r in self.recipes.values()]
        self._index.executemany("INSERT INTO recipes VALUES (?, ?, ?, ?)", rows)

    def rank(self, query: str) -> dict[str, list[str]]:
        """Return the ids of matching recipes, best first, by each ranker.

        text: BM25 over the body. title: BM25 over both, with words in the title counting five times as much.
        popular: like title, with a bonus for recipes that many people cooked.
        """
        words = re.findall(r"\w+", query.lower())[:12]
        if not words:
            return {}
        match = " OR ".join(f'"{word}"' for word in words)
        text, title = "bm25(recipes, 0, 0, 1)", "bm25(recipes, 0, 5, 1)"
        orders = {"text": text, "title": title, "popular": f"{title} - 0.3 * ln(1 + cooked)"}
        found = {}
        for name, order in orders.items():
            rows = self._index.execute(
                f"SELECT id FROM recipes WHERE recipes MATCH ? ORDER BY {order}, id LIMIT {DEPTH}", (match,)
            )
            found[name] = [recipe for (recipe,) in rows]
        return found
