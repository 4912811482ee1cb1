"""What a replay found: a tally and a verdict for each comparison and action, and what was wrong with the log."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from multileave.errors import TallyError
from multileave.log.reader import RowError
from multileave.stats import Tally, Verdict

__all__ = ["Comparison", "Counts", "Quarantine", "Replay"]

EXAMPLES = 20
MOST_CONTENT = 1000


@dataclass
class Counts:
    """Rows and events of a log, and what became of them.

    rows == inferred + malformed + unknown_versions + filtered
    clicks == counted_clicks + unused_clicks + duplicate_clicks + clicks_not_shown + orphan_clicks
              + malformed_clicks + clicks_of_other_rows

    unused_clicks are of an action that was not asked for, or too late; late_clicks and undated_clicks say
    how many were outside the window, or had no time where there is a window. clicks_of_other_rows
    belong to rows that are malformed or filtered out. lost_parts are files and row groups that could not
    be read on, with rows that nothing is known of.
    """

    rows: int = 0
    inferred: int = 0
    filtered: int = 0
    malformed: int = 0
    unknown_versions: int = 0
    lost_parts: int = 0
    without_unit: int = 0
    repeated_impressions: int = 0
    units_over_cap: int = 0
    clicks: int = 0
    counted_clicks: int = 0
    unused_clicks: int = 0
    duplicate_clicks: int = 0
    clicks_not_shown: int = 0
    orphan_clicks: int = 0
    malformed_clicks: int = 0
    clicks_of_other_rows: int = 0
    late_clicks: int = 0
    undated_clicks: int = 0

    @property
    def wrong(self) -> dict[str, int]:
        """What is wrong with the log, as far as it is anything; late and unused clicks are not."""
        names = (
            "malformed", "unknown_versions", "lost_parts", "repeated_impressions", "duplicate_clicks",
            "clicks_not_shown", "orphan_clicks", "malformed_clicks",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names if getattr(self, name)}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The tally of one action between the same rankers with the same method."""

    method: str
    action: str
    tally: Tally

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, None where there are too few units for one."""
        try:
            return self.tally.verdict()
        except TallyError:
            return None


@dataclass(frozen=True, eq=False)
class Replay:
    """What a replay found; `str()` says it in a few lines.

    examples: the first wrong rows, as they stand in the quarantine file. reasons: how many rows by reason.
    """

    comparisons: tuple[Comparison, ...]
    counts: Counts
    files: int
    examples: tuple[dict[str, Any], ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)
    quarantine: str | None = None

    def tally(self, action: str = "click", method: str | None = None) -> Tally:
        """Return the tally of an action; if there are several comparisons, that of a method."""
        found = [c for c in self.comparisons if c.action == action and method in (None, c.method)]
        if len(found) != 1:
            there = ", ".join(f"{c.action} by {c.method}" for c in self.comparisons) or "none"
            raise TallyError(
                f"there are {len(found)} tallies of {action!r}{f' by {method}' if method else ''}; expected one. "
                f"There are: {there}."
            )
        return found[0].tally

    def to_dict(self) -> dict[str, Any]:
        """Return all but the tallies as plain values that JSON can hold."""
        return {
            "files": self.files,
            "counts": dict(vars(self.counts)),
            "wrong": self.counts.wrong,
            "reasons": self.reasons,
            "examples": list(self.examples),
            "quarantine": self.quarantine,
            "comparisons": [
                {
                    "method": comparison.method,
                    "action": comparison.action,
                    "rankers": list(comparison.tally.rankers),
                    "impressions": comparison.tally.impressions,
                    "units": comparison.tally.units,
                    "verdict": None if verdict is None else verdict.to_dict(),
                }
                for comparison, verdict in ((c, c.verdict) for c in self.comparisons)
            ],
        }

    def __str__(self) -> str:
        lines = [
            f"{c.method}, {c.action}: {c.verdict or f'too few units for a verdict ({c.tally.units})'}"
            for c in self.comparisons
        ]
        return "\n".join(lines or ["the log holds no impression that can be inferred"])


class Quarantine:
    """Keeps wrong rows: all of them in a file, if there is one, and the first in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.examples: list[dict[str, Any]] = []
        self.reasons: Counter[str] = Counter()
        self._file: IO[str] | None = None

    def add(self, file: str, row_group: int, row: int | None, error: RowError, raw: Any = None, rows: int = 1) -> None:
        """Keep a row, or a number of rows of which nothing more is known."""
        place: dict[str, Any] = {"row_group": row_group} if row_group >= 0 else {}
        if row is not None:
            place["row" if row_group >= 0 else "line"] = row
        self.keep(file, place, error, raw, rows)

    def keep(self, file: str, place: dict[str, Any], error: RowError, raw: Any = None, rows: int = 1) -> None:
        """Keep what stands somewhere in a file; place: such as its line."""
        entry: dict[str, Any] = {"file": file, "kind": error.kind, "reason": error.reason, **place}
        if rows != 1:
            entry["rows"] = rows
        if raw is not None and not isinstance(raw, RowError):
            entry["content"] = (raw if isinstance(raw, str) else _spell(raw))[:MOST_CONTENT]
        self.enter(entry)

    def enter(self, entry: dict[str, Any]) -> None:
        """Count and keep an entry."""
        self.reasons[entry["kind"]] += entry.get("rows", 1)
        if len(self.examples) < EXAMPLES:
            self.examples.append(entry)
        if self.path is not None:
            if self._file is None:
                self._file = self.path.open("w", encoding="utf-8")
            self._file.write(json.dumps(entry) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _spell(raw: Any) -> str:
    try:
        return json.dumps(raw, default=str)
    except (ValueError, RecursionError):
        return ascii(type(raw))
