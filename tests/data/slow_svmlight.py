"""The reader's slow, obvious twin."""

import math
import re
from dataclasses import dataclass

LABEL = re.compile(r"\+?[0-9]+(\.0*)?")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Broken(Exception):
    """A line that cannot be read; its argument is the line's number."""


@dataclass
class Document:
    label: int
    qid: str
    features: dict[int, float]


def slow_read(text: str, grades: int = 256) -> list[Document]:
    """Return the documents in the order of the lines."""
    documents = []
    for number, line in enumerate(text.split("\n"), 1):
        tokens = re.split(r"[ \t\r]+", line.partition("#")[0].strip(" \t\r"))
        if tokens == [""]:
            continue
        if not LABEL.fullmatch(tokens[0]) or float(tokens[0]) >= grades:
            raise Broken(number)
        if len(tokens) < 2 or not tokens[1].startswith("qid:") or tokens[1] == "qid:":
            raise Broken(number)
        features: dict[int, float] = {}
        for token in tokens[2:]:
            feature, colon, value = token.partition(":")
            if not colon or not re.fullmatch("[0-9]+", feature) or not NUMBER.fullmatch(value):
                raise Broken(number)
            if not 1 <= int(feature) < 2**31 or int(feature) <= max(features, default=0):
                raise Broken(number)
            features[int(feature)] = float(value)
            if not math.isfinite(features[int(feature)]):
                raise Broken(number)
        documents.append(Document(int(float(tokens[0])), tokens[1][4:], features))
    return documents


def gathered(documents: list[Document]) -> dict[str, list[Document]]:
    """Return the documents by query, in the order of first appearance."""
    queries: dict[str, list[Document]] = {}
    for document in documents:
        queries.setdefault(document.qid, []).append(document)
    return queries
