"""The result of a replay: a tally and a verdict per comparison and action, and what was wrong with the log."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import IO, Any, Self

from multileave.errors import DataError, TallyError, nearest
from multileave.log.reader import RowError
from multileave.methods.base import get_method
from multileave.replay.arms import ArmComparison, merged_arms
from multileave.stats import Rules, SegmentedTally, SegmentedVerdict, Tally, Verdict
from multileave.stats.arms import Agreement
from multileave.stats.rates.wording import note_on
from multileave.stats.verdict.judging import judge
from multileave.stats.verdict.segments import NO_SEGMENT
from multileave.stats.verdict.verdict import DEFAULT

EXAMPLES = 20
MOST_CONTENT = 1000


@dataclass
class Counts:
    """Rows and events of a log, and what became of them.

    rows == inferred + in_arms + malformed + unknown_versions + filtered + repeated_impressions
    clicks == counted_clicks + unused_clicks + duplicate_clicks + clicks_not_shown + orphan_clicks
              + malformed_clicks + clicks_of_other_rows

    unused_clicks have an action that was not asked for, or are outside the window; late_clicks and undated_clicks are
    those outside the window, or without a time to compare with it. clicks_of_other_rows belong to rows that are
    malformed or filtered out. lost_parts are files and row groups that could not be read to their end.

    repeated_impressions have the id of an earlier row and are left out; in conflicting_impressions, some of them, the
    content differs from that row's. Rows without_id cannot be recognised if they are repeated.

    in_arms are pages of a single ranker, which compare nothing; units_in_two_arms are left out of the A/B verdict.
    """

    rows: int = 0
    inferred: int = 0
    in_arms: int = 0
    filtered: int = 0
    malformed: int = 0
    unknown_versions: int = 0
    lost_parts: int = 0
    without_unit: int = 0
    without_id: int = 0
    repeated_impressions: int = 0
    conflicting_impressions: int = 0
    units_over_cap: int = 0
    units_in_two_arms: int = 0
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
        """The counts above 0 of what is wrong with the log; late and unused clicks are not wrong."""
        names = (
            "malformed", "unknown_versions", "lost_parts", "repeated_impressions",
            "conflicting_impressions", "units_in_two_arms", "duplicate_clicks",
            "clicks_not_shown", "orphan_clicks", "malformed_clicks",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def count_other_clicks(self) -> None:
        """Count all clicks that nothing else accounts for as those of other rows."""
        self.clicks_of_other_rows = self.clicks - (
            self.counted_clicks + self.unused_clicks + self.duplicate_clicks + self.clicks_not_shown
            + self.orphan_clicks + self.malformed_clicks
        )  # fmt: skip

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Comparison:
    """The tally of one action between the same rankers with the same method, and the rules of its verdict.

    segments: the same by segment. rated: whether rates were wanted.
    """

    method: str
    action: str
    tally: Tally
    rules: Rules = DEFAULT
    segments: SegmentedTally | None = None
    rated: bool = True

    @property
    def key(self) -> tuple[str, frozenset[str], str]:
        """What comparisons with the same key have in common; rankers may be in any order."""
        return self.method, frozenset(self.tally.rankers), self.action

    def merge(self, other: "Comparison") -> "Comparison":
        """Return both together; tallies may be merged in place."""
        # Rankers may be in several orders: the least is kept, whichever comes first.
        into, more = sorted((self.tally, other.tally), key=lambda tally: tally.rankers)
        divided = sorted((one.segments for one in (self, other) if one.segments), key=lambda one: one.rankers)
        segments = reduce(SegmentedTally.merge, divided) if divided else None
        return replace(self, tally=into.merge(more), segments=segments)

    @property
    def verdict_by_segment(self) -> SegmentedVerdict | None:
        """The verdict for each segment, None if there are none, or too few units."""
        try:
            return None if self.segments is None else self.segments.judged(self.rules)
        except TallyError:
            return None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, None if there are too few units for one."""
        try:
            return judge(self.tally, self.rules)
        except TallyError:
            return None

    def rates_note(self, verdict: Verdict | None) -> str:
        """Return why the rates of a verdict are missing or imprecise, and what to do; empty if they are fine."""
        return note_on(verdict.rates, get_method(self.method)) if verdict is not None and self.rated else ""


@dataclass(frozen=True, eq=False)
class Replay:
    """The result of a replay; `str()` summarises it in a few lines.

    examples: the first invalid rows, as in the quarantine file. reasons: how many rows by reason.
    arms: the arms of an A/B test, by action, if the log has any.
    """

    comparisons: tuple[Comparison, ...]
    counts: Counts
    files: int
    examples: tuple[dict[str, Any], ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)
    quarantine: str | None = None
    arms: tuple[ArmComparison, ...] = ()

    def check_segments(self, column: str | None) -> "Replay":
        """Return the same, or raise an error if no impression has a value in the column of segments."""
        found = {segment for one in self.comparisons if one.segments for segment in one.segments.tallies}
        if found == {NO_SEGMENT}:
            raise DataError(
                f"No impression of the log has a value in the column {column!r}; expected the segment, such as a "
                "device. Check the column's name."
            )
        return self

    def tally(self, action: str = "click", method: str | None = None) -> Tally:
        """Return the tally of an action; with several methods, name one."""
        found = [c for c in self.comparisons if c.action == action and method in (None, c.method)]
        if len(found) != 1:
            if not self.comparisons:
                raise TallyError("No impression of the log can be inferred, so there is no tally. Check the log.")
            there = ", ".join(f"{c.action} by {c.method}" for c in self.comparisons)
            raise TallyError(
                f"There are {len(found)} tallies of {action!r}{f' by {method}' if method else ''}; expected one. "
                f"Choose one of: {there}."
            )
        return found[0].tally

    def merge(self, other: "Replay") -> "Replay":
        """Return both results together, the same in any order but for rounding; tallies may be merged in place."""
        held = {comparison.key: comparison for comparison in self.comparisons}
        for comparison in other.comparisons:
            there = held.get(comparison.key)
            held[comparison.key] = comparison if there is None else there.merge(comparison)
        examples = sorted((*self.examples, *other.examples), key=lambda entry: json.dumps(entry, sort_keys=True))
        return replace(
            self,
            comparisons=tuple(held.values()),
            counts=self.counts + other.counts,
            files=self.files + other.files,
            examples=tuple(examples[:EXAMPLES]),
            reasons=dict(Counter(self.reasons) + Counter(other.reasons)),
            arms=merged_arms((*self.arms, *other.arms)),
        )

    def judged(self, rules: Rules) -> "Replay":
        """Return the same with verdicts by other rules; raise an error if no impression has their control."""
        control, names = rules.control, [name for one in self.comparisons for name in one.tally.rankers]
        names += [arm for one in self.arms for arm in one.sums]
        if control is not None and names and control not in names:
            raise DataError(
                f"The control is {control!r}; expected one of the rankers in the log, "
                f"{', '.join(dict.fromkeys(names))}.{nearest(control, names)}"
            )
        without = replace(rules, control=None)
        return replace(
            self,
            comparisons=tuple(
                replace(one, rules=rules if control in one.tally.rankers else without) for one in self.comparisons
            ),
            arms=tuple(replace(one, rules=rules) for one in self.arms),
        )

    def agreements(self, arms: ArmComparison) -> tuple[Agreement, ...]:
        """Return whether the comparisons of an action and its arms agree."""
        return arms.agreements(one.verdict for one in self.comparisons if one.action == arms.action)

    def ordered(self, actions: tuple[str, ...]) -> "Replay":
        """Return the same with comparisons ordered by method, rankers and position of their action."""
        order = sorted(self.comparisons, key=lambda c: (c.method, c.tally.rankers, actions.index(c.action)))
        arms = sorted(self.arms, key=lambda one: actions.index(one.action))
        return replace(self, comparisons=tuple(order), arms=tuple(arms))

    def to_dict(self) -> dict[str, Any]:
        """Return all but the tallies as plain values for JSON."""
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
                    "rates_note": comparison.rates_note(verdict),
                    **({} if by_segment is None else {"segments": by_segment.to_dict()}),
                }
                for comparison, verdict, by_segment in ((c, c.verdict, c.verdict_by_segment) for c in self.comparisons)
            ],
            "arms": [
                {
                    "action": one.action,
                    "verdict": None if (verdict := one.verdict) is None else verdict.to_dict(),
                    "agreements": [agreement.to_dict() for agreement in self.agreements(one)],
                }
                for one in self.arms
            ],
        }

    def write(self, folder: Path) -> None:
        """Write report.json and tallies.json into a folder."""
        report = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        (folder / "report.json").write_text(report + "\n", encoding="utf-8")
        tallies = [
            {
                "method": c.method,
                "action": c.action,
                "tally": c.tally.to_dict(),
                **({} if c.segments is None else {"segments": c.segments.to_dict()}),
            }
            for c in self.comparisons
        ]
        with (folder / "tallies.json").open("w", encoding="utf-8") as file:
            json.dump(tallies, file, allow_nan=False)

    def __str__(self) -> str:
        lines = [
            f"{c.method}, {c.action}: {c.verdict or f'too few units for a verdict ({c.tally.units})'}"
            for c in self.comparisons
        ]
        lines += [f"A/B test, {one.action}:\n{one.verdict or 'Too few units for a verdict'}" for one in self.arms]
        return "\n".join(lines or ["No impression of the log can be inferred."])


class Quarantine:
    """Keeps invalid rows: all of them in a file, if there is one, and the first in memory."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.examples: list[dict[str, Any]] = []
        self.reasons: Counter[str] = Counter()
        self._file: IO[str] | None = None

    def add(self, entries: Iterable[dict[str, Any]]) -> int:
        """Count and keep entries; return how many rows they are."""
        rows = 0
        for entry in entries:
            rows += entry.get("rows", 1)
            self.reasons[entry["kind"]] += entry.get("rows", 1)
            if len(self.examples) < EXAMPLES:
                self.examples.append(entry)
            self.write(entry)
        return rows

    def write(self, entry: dict[str, Any]) -> None:
        """Write an entry to the file, if there is one; tasks of Spark return it instead."""
        if self.path is not None:
            self._file = self._file or self.path.open("w", encoding="utf-8")
            self._file.write(json.dumps(entry) + "\n")

    def mark(self) -> tuple[int, Counter[str], int]:
        """Return where the quarantine is now, for `rewind`."""
        return len(self.examples), self.reasons.copy(), 0 if self._file is None else self._file.tell()

    def rewind(self, mark: tuple[int, Counter[str], int]) -> None:
        """Forget all entries since a mark."""
        del self.examples[mark[0] :]
        self.reasons = mark[1].copy()
        if self._file is not None:
            self._file.seek(mark[2])
            self._file.truncate()

    def results(self) -> dict[str, Any]:
        """Return the fields of a `Replay` that are known here."""
        path = None if self.path is None or not self.reasons else str(self.path)
        return {"examples": tuple(self.examples), "reasons": dict(self.reasons), "quarantine": path}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()


def quarantine_entry(
    file: str, place: dict[str, Any], error: RowError, raw: Any = None, rows: int = 1
) -> dict[str, Any]:
    """Return an entry for a row, or for a number of rows that could not be read; place: such as its line."""
    entry: dict[str, Any] = {"file": file, "kind": error.kind, "reason": error.reason, **place}
    if rows != 1:
        entry["rows"] = rows
    if raw is not None and not isinstance(raw, RowError):
        entry["content"] = (raw if isinstance(raw, str) else _content(raw))[:MOST_CONTENT]
    return entry


def _content(raw: Any) -> str:
    try:
        return json.dumps(raw, default=str)
    except (ValueError, RecursionError):
        return ascii(type(raw))
