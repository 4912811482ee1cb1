"""Results: what one run found, as a file of its own.

The order of data sets, users and methods in everything made from results is the order in which they
first appear.
"""

import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from multileave.errors import DataError

__all__ = [
    "RunResult",
    "at_end",
    "errors_of",
    "gather",
    "group_of",
    "main_truth",
    "row_names",
    "write_aside",
]

# Fields that files of earlier versions lack.
LATER = frozenset({"preferences", "variances", "dcg_shown", "ndcg_shown", "ndcg_rankers"})
LETOR_3 = "LETOR 3.0"
LETOR_3_SETS = 6

Key = TypeVar("Key")


@dataclass(frozen=True)
class RunResult:
    """One run of one method.

    fold: from 1. run: from 0, within the fold.
    impressions: the checkpoints, rising; the last is the length of the run.
    error_heldout: binary error at each checkpoint against NDCG@10 on held-out queries; None, as is floor, where
        no queries were held out.
    error_same_queries: the same against NDCG@10 on the queries that the users issued.
    floor: binary error of that second truth against the first.
    bias: mean preference, which is 0 in expectation for users who click at random; bias_z: the largest
        |mean / standard error| over pairs of rankers. Not a number where there is none.
    seconds: how long the simulation took.
    other: errors at each checkpoint against further truths, by name.
    preferences, variances: of each pair of rankers, n before m in the order of the rankers, the mean preference of
        one impression and its variance; empty in results of earlier versions.
    dcg_shown, ndcg_shown: of the pages that users saw. ndcg_rankers: NDCG of each ranker's own pages, at the same
        cutoff, on the same queries. Not a number, or empty, in results of earlier versions.
    """

    dataset: str
    method: str
    user: str
    rankers: int
    fold: int
    run: int
    impressions: tuple[int, ...]
    error_heldout: tuple[float, ...] | None
    error_same_queries: tuple[float, ...]
    floor: float | None
    bias: float
    bias_z: float
    seconds: float
    other: dict[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    preferences: tuple[float, ...] = ()
    variances: tuple[float, ...] = ()
    dcg_shown: float = math.nan
    ndcg_shown: float = math.nan
    ndcg_rankers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        steps = self.impressions
        if not steps or steps[0] < 0 or any(a >= b for a, b in pairwise(steps)):
            raise DataError(f"impressions are {list(steps)}; expected one or more rising numbers from 0.")
        named: dict[str, tuple[float, ...]] = {"error_same_queries": self.error_same_queries, **self.other}
        if (self.error_heldout is None) != (self.floor is None):
            raise DataError("error_heldout and floor belong together; one is None and the other is not.")
        if self.error_heldout is not None and self.floor is not None:
            named = {"error_heldout": self.error_heldout, "floor": (self.floor,), **named}
        for name, errors in named.items():
            if name != "floor" and len(errors) != len(steps):
                raise DataError(f"{name} has {len(errors)} values; expected {len(steps)}, one per checkpoint.")
            wrong = [x for x in errors if not 0.0 <= x <= 1.0]
            if wrong:
                raise DataError(f"{name} holds {wrong[0]}; an error is a share of pairs, from 0 to 1.")
        pairs = math.comb(self.rankers, 2)
        for name in ("preferences", "variances"):
            values = getattr(self, name)
            if len(values) not in (0, pairs) or not all(map(math.isfinite, values)):
                raise DataError(
                    f"{name} has {len(values)} values; expected {pairs} numbers, one for each pair, or none."
                )
        if not 0.0 <= self.seconds < math.inf:
            raise DataError(f"seconds is {self.seconds}; expected a number from 0.")

    @property
    def key(self) -> tuple[str, int, int]:
        """What runs of different methods have in common when they are one experiment: data set, fold and run."""
        return self.dataset, self.fold, self.run

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that is safe for JSON; a bias that is not a number becomes None."""
        document = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("rankers", "fold", "run"):
            document[name] = int(document[name])
        document["impressions"] = [int(x) for x in self.impressions]
        for name in ("error_heldout", "error_same_queries", "preferences", "variances", "ndcg_rankers"):
            document[name] = None if document[name] is None else [float(x) for x in document[name]]
        for name in ("floor", "bias", "bias_z", "seconds", "dcg_shown", "ndcg_shown"):
            value = document[name]
            document[name] = float(value) if value is not None and math.isfinite(value) else None
        document["other"] = {name: [float(x) for x in errors] for name, errors in self.other.items()}
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "RunResult":
        """Read what `to_dict` wrote."""
        if not isinstance(document, Mapping):
            raise DataError(f"found {type(document).__name__}; expected an object with the fields of one run.")
        known = {f.name for f in fields(cls)}
        if not known - LATER <= document.keys() <= known:
            odd = sorted(map(str, (document.keys() ^ known) - (LATER - document.keys())))
            raise DataError(f"the fields differ from those of this version in {', '.join(odd)}.")
        values = dict(document)
        try:
            for name in ("dataset", "method", "user"):
                if not isinstance(values[name], str):
                    raise TypeError(f"{name} is no text")
            for name in ("rankers", "fold", "run"):
                values[name] = _integer(values[name])
            values["impressions"] = tuple(_integer(x) for x in values["impressions"])
            if values["error_heldout"] is not None:
                values["error_heldout"] = tuple(float(x) for x in values["error_heldout"])
                values["floor"] = float(values["floor"])
            values["error_same_queries"] = tuple(float(x) for x in values["error_same_queries"])
            for name in ("preferences", "variances", "ndcg_rankers"):
                values[name] = tuple(float(x) for x in values.get(name, ()))
            for name in ("bias", "bias_z", "dcg_shown", "ndcg_shown"):
                values[name] = math.nan if values.get(name) is None else float(values[name])
            values["seconds"] = float(values["seconds"])
            values["other"] = {name: tuple(float(x) for x in errors) for name, errors in values["other"].items()}
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"a field is not what one run has: {error}.") from error
        return cls(**values)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file, aside and then renamed: the file is there in full or not at all."""
        write_aside(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "RunResult":
        """Read what `write` wrote; a file that is damaged is a `DataError` with its name."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, RecursionError) as error:  # DataError, JSON and encoding errors are ValueErrors
            raise DataError(
                f"{os.fspath(path)} is not the result of a run: {error} Delete it and run again."
            ) from error


def gather(results: Iterable[RunResult], key: Callable[[RunResult], Key]) -> dict[Key, list[RunResult]]:
    """Group results by a key, in order of first appearance.

    A run that is there twice is an error, and so are runs of as many rankers with other checkpoints.
    """
    groups: dict[Key, list[RunResult]] = {}
    seen: set[tuple[Any, ...]] = set()
    steps: dict[int, tuple[int, ...]] = {}
    for result in results:
        cell = (result.dataset, result.user, result.rankers, result.method)
        if (cell, result.fold, result.run) in seen:
            raise DataError(
                f"run {result.run} of fold {result.fold} of {result.method} on {result.dataset} ({result.user}, "
                f"{result.rankers} rankers) is there twice; expected every run once."
            )
        seen.add((cell, result.fold, result.run))
        if steps.setdefault(result.rankers, result.impressions) != result.impressions:
            raise DataError(
                f"runs of {result.rankers} rankers have different checkpoints, up to "
                f"{steps[result.rankers][-1]:,} and {result.impressions[-1]:,} impressions; "
                "expected those of one study. Use another folder for other settings."
            )
        groups.setdefault(key(result), []).append(result)
    if not groups:
        raise DataError("there are no results; expected those of one run or more.")
    return groups


def group_of(dataset: str) -> str:
    """Return the row in the paper's tables that a data set belongs to.

    >>> group_of("HP2003"), group_of("td2004"), group_of("MQ2008"), group_of("OHSUMED")
    ('LETOR 3.0', 'LETOR 3.0', 'MQ2008', 'OHSUMED')
    """
    return LETOR_3 if re.fullmatch(r"(HP|NP|TD)200[34]", dataset, re.IGNORECASE) else dataset


def row_names(datasets: Iterable[str]) -> dict[str, str]:
    """Return the row of each data set; a group that is not whole says what it consists of.

    >>> row_names(["HP2003", "NP2004", "MQ2008"])
    {'HP2003': 'LETOR 3.0 (HP2003, NP2004)', 'NP2004': 'LETOR 3.0 (HP2003, NP2004)', 'MQ2008': 'MQ2008'}
    >>> row_names(["HP2003", "MQ2008"])
    {'HP2003': 'HP2003', 'MQ2008': 'MQ2008'}
    """
    distinct = list(dict.fromkeys(datasets))
    members = [dataset for dataset in distinct if group_of(dataset) == LETOR_3]
    name = LETOR_3 if len(members) == LETOR_3_SETS else f"{LETOR_3} ({', '.join(members)})"
    return {dataset: name if len(members) > 1 and dataset in members else dataset for dataset in distinct}


def at_end(result: RunResult, truth: str) -> float:
    """Return the error after the last impression: truth is "heldout", "same_queries" or the name of another."""
    return errors_of(result, truth)[-1]


def errors_of(result: RunResult, truth: str) -> tuple[float, ...]:
    """Return the errors at all checkpoints against a truth, named as in `at_end`."""
    if truth == "same_queries":
        return result.error_same_queries
    if truth != "heldout":
        return result.other[truth]
    if result.error_heldout is None:
        raise DataError(f"no queries of {result.dataset} were held out. Use the truth 'same_queries'.")
    return result.error_heldout


def main_truth(results: Iterable[RunResult]) -> str:
    """Return the truth that a report leads with: "heldout" where queries were held out, else "same_queries"."""
    return "same_queries" if any(result.error_heldout is None for result in results) else "heldout"


def write_aside(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file beside its place and rename it, so that nobody ever sees half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        aside.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no integer")
    return value
