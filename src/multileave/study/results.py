"""Results: what one run found, as its own file.

In everything made from results, data sets, users and methods are in the order in which they first appear.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from multileave.data import CATALOGUE
from multileave.errors import DataError

Key = TypeVar("Key")


@dataclass(frozen=True)
class RunResult:
    """One run of one method.

    fold: from 1. run: from 0, within the fold.
    impressions: the checkpoints, increasing; the last is the length of the run.
    error_heldout: binary error at each checkpoint against NDCG@10 on held-out queries; like floor, None if no queries
        were held out.
    error_same_queries: the same against NDCG@10 on the queries that the users issued.
    floor: binary error of the second truth against the first.
    bias: mean preference, whose expectation is 0 for users who click at random; bias_z: the largest
        |mean / standard error| over pairs of rankers. NaN if unknown.
    seconds: how long the simulation took.
    other: errors at each checkpoint against further truths, by name.
    preferences, variances: the mean and variance of an impression's preference for each pair of rankers, n before m;
        empty if unknown.
    dcg_shown, ndcg_shown: of the pages that users saw. ndcg_rankers: NDCG of each ranker's own pages at the same
        cutoff, on the same queries. NaN or empty if unknown.
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
            raise DataError(f"Impressions are {list(steps)}; expected one or more increasing numbers, from 0.")
        named: dict[str, tuple[float, ...]] = {"error_same_queries": self.error_same_queries, **self.other}
        if (self.error_heldout is None) != (self.floor is None):
            raise DataError("Only one of error_heldout and floor is None; expected both or neither.")
        if self.error_heldout is not None and self.floor is not None:
            named = {"error_heldout": self.error_heldout, "floor": (self.floor,), **named}
        for name, errors in named.items():
            if name != "floor" and len(errors) != len(steps):
                raise DataError(
                    f"The field {name} has {len(errors)} values; expected {len(steps)}, one per checkpoint."
                )
            wrong = [x for x in errors if not 0.0 <= x <= 1.0]
            if wrong:
                raise DataError(f"The field {name} holds {wrong[0]}; expected a share of pairs, from 0 to 1.")
        pairs = math.comb(self.rankers, 2)
        for name in ("preferences", "variances"):
            values = getattr(self, name)
            if len(values) not in (0, pairs) or not all(map(math.isfinite, values)):
                raise DataError(
                    f"The field {name} has {len(values)} values; expected {pairs} finite numbers, one per pair, or "
                    "none."
                )
        if not 0.0 <= self.seconds < math.inf:
            raise DataError(f"The seconds are {self.seconds}; expected a non-negative number.")

    @property
    def key(self) -> tuple[str, int, int]:
        """What runs of different methods on the same rankers share: data set, fold and run."""
        return self.dataset, self.fold, self.run

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that is safe for JSON; numbers that are not finite become None."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "RunResult":
        """Read what `to_dict` wrote."""
        if not isinstance(document, Mapping):
            raise DataError(f"Found {type(document).__name__}; expected an object with the fields of one run.")
        known = {f.name for f in fields(cls)}
        if document.keys() != known:
            odd = sorted(map(str, document.keys() ^ known))
            raise DataError(f"The fields differ from those of this version in {', '.join(odd)}.")
        values = dict(document)
        try:
            for name in ("dataset", "method", "user"):
                if not isinstance(values[name], str):
                    raise TypeError(f"{name} is not text")
            for name in ("rankers", "fold", "run"):
                values[name] = _integer(values[name])
            values["impressions"] = tuple(_integer(x) for x in values["impressions"])
            values["seconds"] = float(values["seconds"])
            if values["error_heldout"] is not None:
                values["error_heldout"] = tuple(map(float, values["error_heldout"]))
                values["floor"] = float(values["floor"])
            for name in ("error_same_queries", "preferences", "variances", "ndcg_rankers"):
                values[name] = tuple(map(float, values[name]))
            for name in ("bias", "bias_z", "dcg_shown", "ndcg_shown"):
                values[name] = math.nan if values[name] is None else float(values[name])
            values["other"] = {name: tuple(map(float, errors)) for name, errors in values["other"].items()}
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"A field is not what a run has: {error}.") from error
        return cls(**values)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file, atomically."""
        write_aside(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "RunResult":
        """Read what `write` wrote; a damaged file raises a `DataError` with its name."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, RecursionError) as error:  # DataError, JSON and encoding errors are ValueErrors
            raise DataError(
                f"{os.fspath(path)} is not the result of a run: {error} Delete it and run the study again."
            ) from error


def gather(results: Iterable[RunResult], key: Callable[[RunResult], Key]) -> dict[Key, list[RunResult]]:
    """Group results by a key, in order of first appearance.

    Duplicate runs, and runs of as many rankers with different checkpoints, raise an error.
    """
    groups: dict[Key, list[RunResult]] = {}
    seen: set[tuple[Any, ...]] = set()
    steps: dict[int, tuple[int, ...]] = {}
    for result in results:
        cell = (result.dataset, result.user, result.rankers, result.method)
        if (cell, result.fold, result.run) in seen:
            raise DataError(
                f"Run {result.run} of fold {result.fold} of {result.method} on {result.dataset} ({result.user}, "
                f"{result.rankers} rankers) occurs twice; expected every run once."
            )
        seen.add((cell, result.fold, result.run))
        if steps.setdefault(result.rankers, result.impressions) != result.impressions:
            raise DataError(
                f"Runs of {result.rankers} rankers have different checkpoints, up to {steps[result.rankers][-1]:,} and "
                f"{result.impressions[-1]:,} impressions; expected those of one study. Use a folder per study."
            )
        groups.setdefault(key(result), []).append(result)
    if not groups:
        raise DataError("There are no results; expected those of at least one run.")
    return groups


def row_names(datasets: Iterable[str]) -> dict[str, str]:
    """Return the row of each data set in the paper's tables; an incomplete group lists its members.

    >>> row_names(["HP2003", "NP2004", "MQ2008"])
    {'HP2003': 'LETOR 3.0 (HP2003, NP2004)', 'NP2004': 'LETOR 3.0 (HP2003, NP2004)', 'MQ2008': 'MQ2008'}
    >>> row_names(["HP2003", "MQ2008"])
    {'HP2003': 'HP2003', 'MQ2008': 'MQ2008'}
    """
    distinct = list(dict.fromkeys(datasets))
    group = {known.name: known.group for known in CATALOGUE}
    members: dict[str, list[str]] = {}
    for dataset in distinct:
        members.setdefault(group.get(dataset.upper(), dataset), []).append(dataset)
    names: dict[str, str] = {}
    for name, found in members.items():
        whole = len(found) == list(group.values()).count(name)
        row = found[0] if len(found) == 1 else name if whole else f"{name} ({', '.join(found)})"
        names |= dict.fromkeys(found, row)
    return {dataset: names[dataset] for dataset in distinct}


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
        raise DataError(f"No queries of {result.dataset} were held out. Use the truth 'same_queries'.")
    return result.error_heldout


def main_truth(results: Iterable[RunResult]) -> str:
    """Return the main truth of a report: "heldout" if queries were held out, else "same_queries"."""
    return "same_queries" if any(result.error_heldout is None for result in results) else "heldout"


def write_aside(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file atomically: under another name, then renamed."""
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
        raise TypeError(f"{value!r} is not an integer")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
