"""Ranking files: what a ranker returned for each query, as JSON lines or a TREC run.

{"query": "red shoes", "ranking": ["d17", "d4", "d8"]}
"""

import gzip
import json
from pathlib import Path
from typing import Any, TextIO

from multileave.data.trec import read_run
from multileave.errors import DataError

EXPECTED = 'expected {"query": "...", "ranking": ["...", ...]} on each line, or a TREC run'


def read_ranking_file(path: str | Path) -> dict[str, list[str]]:
    """Return the documents for each query, best first; .gz files are unpacked."""
    try:
        with _open(path) as lines:
            if not lines.readline().lstrip().startswith("{"):
                return read_run(path)
            lines.seek(0)
            return _read_json(path, lines)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}; {EXPECTED}.") from None


def _open(path: str | Path) -> TextIO:
    return gzip.open(path, "rt", encoding="utf-8") if str(path).endswith(".gz") else open(path, encoding="utf-8")


def _read_json(path: str | Path, lines: TextIO) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        query, ranking = _read_line(line, f"{path}, line {number}")
        if query in found:
            raise DataError(f"{path}, line {number}: query {query!r} is listed twice. Remove one of the lines.")
        found[query] = ranking
    return found


def _read_line(line: str, place: str) -> tuple[str, list[str]]:
    try:
        row: Any = json.loads(line)
        query, ranking = row["query"], row["ranking"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{place}: {line.strip()[:60]!r} is not a ranking; {EXPECTED}.") from None
    if not isinstance(query, str) or not isinstance(ranking, list):
        raise DataError(f"{place}: the query is not a string or the ranking not a list; {EXPECTED}.")
    documents = [document if isinstance(document, str) else json.dumps(document) for document in ranking]
    repeated = next((document for n, document in enumerate(documents) if document in documents[:n]), None)
    if repeated is not None:
        raise DataError(f"{place}: document {repeated!r} is listed twice; expected once. Remove the duplicate.")
    return query, documents
