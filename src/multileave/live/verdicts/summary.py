"""Summary: an experiment's result in a few values, for lists of experiments, and what such a list is searched for.

A summary is stored whenever the tallies change, in the same transaction, so that a list reads one row per experiment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from multileave.live.experiment import Experiment, Status
from multileave.live.records import Finite
from multileave.stats import PairVerdict, Verdict
from multileave.stats.verdict.wording import range_needed

Standing = Literal["winner", "leader", "open", "none"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)
MOST_PAIRS = 4


@dataclass(frozen=True)
class SummaryPair:
    """A ranker against the control."""

    ranker: str
    preference: Finite
    low: Finite
    high: Finite
    significant: bool


@dataclass(frozen=True)
class Summary:
    """What an experiment says about its primary action, in short."""

    impressions: int
    units: int
    standing: Annotated[
        Standing,
        Field(
            description="winner: the leader is significantly preferred to all others; leader: to some of them; open: "
            "no significant difference yet, or the preferences form a cycle; none: no preference is known."
        ),
    ] = "none"
    leader: Annotated[
        str | None, Field(description="The ranker that leads, significantly or not; null if none does.")
    ] = None
    beats: Annotated[int, Field(description="How many others the leader is significantly preferred to.")] = 0
    versus: Annotated[
        str | None,
        Field(
            description="The ranker that `p` and `more_units` compare the leader with: the control until that is "
            "significant, then the closest one that is still open, if any."
        ),
    ] = None
    p: Annotated[float | None, Field(description="Corrected p-value of the leader against `versus`.")] = None
    more_units: Annotated[
        tuple[int, int | None] | None,
        Field(
            description="Estimated range of further units until the leader is significantly preferred to `versus`; its "
            "end is null if it has none. Null if that is significant, or may take over 100 times the units."
        ),
    ] = None
    pairs: Annotated[
        tuple[SummaryPair, ...], Field(description=f"The best rankers against the control, at most {MOST_PAIRS}.")
    ] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Summary":
        """Return the summary that `to_dict` wrote."""
        pairs = tuple(SummaryPair(**pair) for pair in data["pairs"])
        more = None if data["more_units"] is None else tuple(data["more_units"])
        return cls(**{**data, "pairs": pairs, "more_units": more})


@dataclass(frozen=True)
class Search:
    """The experiments that are wanted: with all words of a text in their number, name, group or rankers."""

    text: str = ""
    status: Status | None = None
    standing: Standing | None = None

    def matches(self, number: int, definition: Mapping[str, Any]) -> bool:
        """Whether all words of the text are in an experiment, in any case."""
        texts = [str(number), definition["name"], definition.get("group") or "", *definition["rankers"]]
        known = "\n".join(texts).casefold()
        return all(word in known for word in self.text.casefold().split())


@dataclass(frozen=True)
class Listed:
    """An experiment in a list; it has no summary before its first impression."""

    experiment: Experiment
    summary: Summary | None


@dataclass(frozen=True)
class Listing:
    """A part of a list, and how many experiments it has in all; the summaries count everything before `as_of`."""

    found: list[Listed]
    total: int
    as_of: datetime
    stale: bool


def summary_of(verdict: Verdict, control: str) -> Summary:
    """Return a verdict in short."""
    known = Summary(verdict.impressions, verdict.units)
    if all(pair.preference == pair.low == pair.high == 0.0 for pair in verdict.pairs):
        return known
    best = [verdict.pair(name, control) for name in verdict.copeland if name != control][:MOST_PAIRS]
    pairs = tuple(
        SummaryPair(pair.rankers[0], pair.preference, pair.low, pair.high, pair.significant) for pair in best
    )  # fmt: skip
    wins, leaders = verdict.wins, verdict.leaders
    if not leaders or (any(wins.values()) and not wins[leaders[0]]):  # a cycle
        return replace(known, standing="open", pairs=pairs)
    leader = leaders[0]
    standing: Standing = "winner" if verdict.winner else "leader" if wins[leader] else "open"
    following = _following([verdict.pair(leader, name) for name in verdict.rankers if name != leader], control)
    return replace(
        known,
        standing=standing,
        leader=leader,
        beats=len(wins[leader]),
        versus=following.rankers[1],
        p=following.p_corrected,
        more_units=range_needed([following]),
        pairs=pairs,
    )


def _following(pairs: Sequence[PairVerdict], control: str) -> PairVerdict:
    """Return the pair to be decided next, of those with the leader."""
    still_open = [pair for pair in pairs if not pair.significant] or pairs
    closest = min(still_open, key=lambda pair: pair.preference)
    return next((pair for pair in still_open if pair.rankers[1] == control), closest)
