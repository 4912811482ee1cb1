"""The search engine: SQLite's full-text index, and four rankers that differ visibly."""

import re
import sqlite3
import threading
from collections.abc import Iterable

from corpus import Document, documents

RANKERS = ("text", "names", "fuzzy", "smart")  # the first, the control, is the site's old ranker
DEPTH = 50

# The modules that programs import most, roughly in order.
POPULAR = (
    "os", "sys", "re", "json", "typing", "collections", "datetime", "logging", "time", "pathlib", "random",
    "subprocess", "math", "functools", "itertools", "copy", "threading", "shutil", "argparse", "asyncio", "io", "csv",
    "tempfile", "urllib", "hashlib", "socket", "string", "dataclasses", "enum", "contextlib", "pickle", "glob",
    "sqlite3", "uuid", "queue", "unittest", "traceback", "abc", "warnings", "inspect", "base64", "decimal", "struct",
    "operator", "concurrent", "multiprocessing", "statistics", "heapq", "bisect", "zipfile", "secrets", "textwrap",
    "smtplib", "email", "http", "configparser", "gzip", "timeit",
)  # fmt: skip
BUILT_IN = ("str", "list", "dict", "set", "int", "float", "bytes", "tuple")

# What people call things, and what the library calls them.
SYNONYMS = {
    "command": "subprocess", "compare": "difflib", "config": "configparser", "connection": "connect", "create": "make",
    "date": "datetime", "delete": "remove unlink", "deviation": "stdev", "directory": "dir", "download": "urlopen",
    "email": "smtp", "environment": "getenv", "expression": "re pattern", "file": "path", "find": "glob",
    "folder": "directory dir", "log": "logging", "open": "connect", "parse": "load", "queue": "deque",
    "read": "reader load", "regex": "re pattern", "replace": "sub", "search": "bisect", "size": "getsize",
    "unique": "uuid", "url": "urllib", "variable": "getenv", "web": "http", "write": "writer dump",
}  # fmt: skip


class Engine:
    """The documentation in two full-text indexes, in memory: of words, and of sequences of three letters."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {document.name: document for document in documents()}
        self._lock = threading.Lock()
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.executescript(
            """CREATE VIRTUAL TABLE words USING fts5(id UNINDEXED, name, text, depth UNINDEXED, tokenize='porter');
            CREATE VIRTUAL TABLE letters USING fts5(id UNINDEXED, name, text, bonus UNINDEXED, tokenize='trigram');"""
        )
        for d in self.documents.values():
            name = " ".join(words_of(d.name))
            self._index.execute("INSERT INTO words VALUES (?, ?, ?, ?)", (d.name, name, d.text, d.depth))
            self._index.execute("INSERT INTO letters VALUES (?, ?, ?, ?)", (d.name, name, d.summary, _bonus(d)))

    def rank(self, query: str) -> dict[str, list[str]]:
        """Return the names of matching documents, best first, by each ranker.

        text: BM25 over docstrings.
        names: BM25 over names and docstrings. Words in the name count ten times as much, and short names come first.
        fuzzy: BM25 over sequences of three letters in the name and the first paragraph, which finds misspelt words.
        smart: like fuzzy, with synonyms, and a bonus for what most programs use.
        """
        words = re.findall(r"\w+", query.lower())[:12]
        if not words:
            return {}
        synonyms = [synonym for word in words for synonym in SYNONYMS.get(word, "").split()]
        return {
            "text": self._search("words", f"text: ({_any(words)})", "bm25(words, 0, 0, 1)"),
            "names": self._search("words", _any(words), "bm25(words, 0, 10, 1) + 2 * depth"),
            "fuzzy": self._search("letters", _any(_threes(words)), "bm25(letters)"),
            "smart": self._search("letters", _any(_threes(words + synonyms)), "bm25(letters, 0, 2, 1) - bonus"),
        }

    def _search(self, table: str, match: str, order: str) -> list[str]:
        query = f"SELECT id FROM {table} WHERE {table} MATCH ? ORDER BY {order}, id LIMIT {DEPTH}"
        with self._lock:
            return [name for (name,) in self._index.execute(query, (match,))] if match else []


def words_of(name: str) -> list[str]:
    """Return the words that a name is made of.

    >>> words_of("collections.OrderedDict.move_to_end")
    ['collections', 'Ordered', 'Dict', 'move', 'to', 'end']
    """
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)


def _any(terms: Iterable[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)


def _threes(words: Iterable[str]) -> list[str]:
    return sorted({word[n : n + 3] for word in words for n in range(len(word) - 2)})


def _bonus(document: Document) -> float:
    """Return how much popularity counts: that of the module, less for what is deep inside it."""
    place = POPULAR.index(document.module) if document.module in POPULAR else len(POPULAR)
    if document.module in BUILT_IN:
        place = 0
    return 6.0 * (1.0 - place / len(POPULAR)) - 1.5 * document.depth
