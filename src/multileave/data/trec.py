"""TREC runs: how systems rank documents for topics, graded by qrels, as a query set.

Files are read by ir-measures, the field's own reader of both formats:

    run     topic Q0 document rank score tag          qrels     topic iteration document grade

Like trec_eval, we order a run's documents by score, highest first, and equal scores by document id from Z to A; the
rank column is ignored. A document that is not in a run was not returned.
"""

import gzip
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multileave.data.queries import QuerySet
from multileave.errors import DataError, MissingExtra


@dataclass(frozen=True)
class GradedTopics:
    """The topics that all systems answered and the qrels judge, and what was left out.

    queries: one per topic; its documents are those that a system returned or the qrels judge.
    topics: their ids, in the order of the queries.
    unjudged: the grade of documents without a judgement, and unjudged_documents: how many there are.
    below_zero: the number of judgements below 0, which count as 0.
    without_qrels: the number of topics in some run but not in the qrels.
    missing: for every system, the number of judged topics without documents.
    """

    queries: QuerySet
    topics: tuple[str, ...]
    unjudged: int
    unjudged_documents: int
    below_zero: int
    without_qrels: int
    missing: Mapping[str, int]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know, in sentences."""
        documents = len(self.queries.labels)
        notes = [
            f"{_count(len(self.topics), 'topic')} {'are' if len(self.topics) > 1 else 'is'} compared: those that all "
            "systems answered and the qrels judge."
        ]
        for name, count in self.missing.items():
            if count:
                notes.append(f"{name} has no documents for {_count(count, 'judged topic')}, left out for all systems.")
        if self.without_qrels:
            notes.append(f"{_count(self.without_qrels, 'topic')} of the runs not in the qrels, left out.")
        if self.unjudged_documents:
            notes.append(
                f"{self.unjudged_documents:,} of {_count(documents, 'document')} have no judgement, and get grade "
                f"{self.unjudged}."
            )
        if self.below_zero:
            notes.append(f"{_count(self.below_zero, 'judgement')} below 0, counted as 0.")
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values that JSON can hold."""
        return {
            "compared": len(self.topics),
            "without_qrels": self.without_qrels,
            "missing": dict(self.missing),
            "documents": len(self.queries.labels),
            "unjudged": self.unjudged,
            "unjudged_documents": self.unjudged_documents,
            "below_zero": self.below_zero,
        }


def read_runs(paths: Sequence[str | Path], qrels: str | Path, *, unjudged: int = 0) -> GradedTopics:
    """Read the runs of two or more systems, and the qrels that judge them."""
    judged = read_qrels(qrels)
    runs = dict(zip(system_names(paths), map(read_run, paths), strict=True))
    for path, topics in zip(paths, runs.values(), strict=True):
        if not topics.keys() & judged.keys():
            raise DataError(
                f"No topic of {path} is in {qrels}: the run has topics such as {next(iter(topics))!r}, the qrels such "
                f"as {next(iter(judged))!r}. Use files of the same collection."
            )
    return join_runs(runs, judged, unjudged=unjudged)


def read_run(path: str | Path) -> dict[str, list[str]]:
    """Read a run file, .gz or not: the documents of each topic, best first."""
    scores: dict[str, dict[str, float]] = {}
    for number, found in _parsed(path, "read_trec_run", "topic Q0 document rank score tag"):
        documents = scores.setdefault(found.query_id, {})
        if found.doc_id in documents:
            raise DataError(
                f"{path}, line {number}: document {found.doc_id!r} is listed twice for topic {found.query_id!r}; "
                "expected once. Remove the duplicate."
            )
        if math.isnan(found.score):
            raise DataError(f"{path}, line {number}: the score is not a number.")
        documents[found.doc_id] = found.score
    return {
        topic: sorted(documents, key=lambda document: (documents[document], document), reverse=True)
        for topic, documents in scores.items()
    }


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Read a qrels file, .gz or not: the grades of each topic's documents."""
    grades: dict[str, dict[str, int]] = {}
    for number, found in _parsed(path, "read_trec_qrels", "topic iteration document grade"):
        known = grades.setdefault(found.query_id, {}).setdefault(found.doc_id, found.relevance)
        if known != found.relevance:
            raise DataError(
                f"{path}, line {number}: document {found.doc_id!r} has grade {found.relevance} for topic "
                f"{found.query_id!r} here and {known} before. Keep one."
            )
    return grades


def join_runs(
    runs: Mapping[str, Mapping[str, Sequence[str]]], qrels: Mapping[str, Mapping[str, int]], *, unjudged: int = 0
) -> GradedTopics:
    """Join systems' rankings with grades.

    runs: for each system the documents of each topic, best first. qrels: grades by topic and document.

    >>> runs = {"a": {"1": ["x", "y"], "2": ["x"]}, "b": {"1": ["z"]}}
    >>> joined = join_runs(runs, {"1": {"x": 1, "w": 2}, "2": {"x": 1}})
    >>> joined.topics, joined.queries.labels, joined.queries.lengths
    (('1',), array([1, 0, 0, 2], dtype=uint8), array([[2, 1]], dtype=int32))
    >>> joined.notes[1]
    'b has no documents for 1 judged topic, left out for all systems.'
    """
    if isinstance(unjudged, bool) or not isinstance(unjudged, int) or not 0 <= unjudged <= 255:
        raise DataError(f"The grade of unjudged documents is {unjudged!r}; expected an integer from 0 to 255.")
    if len(runs) < 2:
        raise DataError(f"There is {_count(len(runs), 'run')}; a comparison needs two or more.")
    topics = [topic for topic in qrels if all(run.get(topic) for run in runs.values())]
    if not topics:
        raise DataError("No topic is in the qrels and in all runs, so nothing can be compared. Check the topics.")
    labels: list[int] = []
    offsets, lengths, rows = [0], [], []
    unknown = below_zero = 0
    for topic in topics:
        grades = qrels[topic]
        returned = [run[topic] for run in runs.values()]
        number = {document: n for n, document in enumerate(dict.fromkeys(d for run in returned for d in run))}
        unknown += sum(document not in grades for document in number)
        for document in grades:
            number.setdefault(document, len(number))
        found = [grades.get(document, unjudged) for document in number]
        below_zero += sum(grade < 0 for grade in found)
        labels += [max(grade, 0) for grade in found]
        offsets.append(len(labels))
        lengths.append([len(run) for run in returned])
        for run in returned:
            first = [number[document] for document in run]
            rest = np.setdiff1d(np.arange(len(number)), first, assume_unique=True)
            rows.append(np.concatenate([first, rest]).astype(np.int32))
    highest = max(labels)
    if highest > 255:
        raise DataError(f"The qrels have a grade {highest}; expected grades up to 255.")
    if highest == min(labels):
        raise DataError(f"All documents of the topics compared have grade {highest}, so no system is better.")
    queries = QuerySet(
        tuple(runs), highest + 1, np.array(offsets), np.array(labels, dtype=np.uint8), np.concatenate(rows),
        np.array(lengths, dtype=np.int32),
    )  # fmt: skip
    return GradedTopics(
        queries,
        tuple(topics),
        unjudged,
        unknown,
        below_zero,
        len(set().union(*runs.values()) - qrels.keys()),
        {name: sum(not run.get(topic) for topic in qrels) for name, run in runs.items()},
    )


def system_names(paths: Sequence[str | Path]) -> list[str]:
    """Return a name for the system of every run file: the file's name without its suffix, if these differ.

    >>> system_names(["runs/bm25.run", "runs/dense.run.gz"])
    ['bm25', 'dense']
    >>> system_names(["bm25/run.txt", "dense/run.txt"])
    ['bm25/run.txt', 'dense/run.txt']
    """
    plain = [Path(path).name.removesuffix(".gz") for path in paths]
    short = [Path(name).stem or name for name in plain]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"The run {name} is given twice; expected every system once. Remove the duplicate.")
    return names


def fingerprint(path: str | Path) -> str:
    """Return a short digest of a file's content."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise _unreadable(path, error) from error


class _NumberedLines:
    """Lines of a file, and the last one read with its number."""

    read = None  # by this attribute, ir-measures tells a file from a path

    def __init__(self, file: Iterable[str]) -> None:
        self.file, self.number, self.line = file, 0, ""

    def __iter__(self) -> Iterator[str]:
        for line in self.file:
            self.number += 1
            self.line = line
            yield line


def _parsed(path: str | Path, reader: str, expected: str) -> Iterator[tuple[int, Any]]:
    """Yield the number of each line and what ir-measures reads in it; an invalid line raises an error."""
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtra("TREC files are read by ir-measures: pip install 'multileave[study]'") from error
    opened = gzip.open if str(path).endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            lines = _NumberedLines(file)
            found = None
            for found in getattr(ir_measures, reader)(lines):
                yield lines.number, found
    except ValueError as error:
        shown = lines.line.strip()
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise DataError(f"{path}, line {lines.number}: found {shown!r}, expected {expected}. {error}.") from error
    except (OSError, EOFError) as error:
        raise _unreadable(path, error) from error
    if found is None:
        raise DataError(f"{path} is empty; expected lines of {expected}.")


def _unreadable(path: str | Path, error: OSError | EOFError) -> DataError:
    return DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
