"""The list of experiments: what is asked for, and each row in words with a small chart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from markupsafe import Markup

from multileave.live.experiment import STATUSES, Experiment
from multileave.live.pages.rendering import cut
from multileave.live.pages.svg import small_forest
from multileave.live.verdicts.summary import STANDINGS, Listed, Search, Summary
from multileave.stats.planning import units_in_words

PAGE = 50
LONGEST_TEXT, LONGEST_RANKER = 100, 32
LAST_PAGE = 10**6
RESULTS = {
    "winner": "A winner",
    "leader": "A leader",
    "open": "No significant difference",
    "none": "No preference known",
}
EMPTY = {"draft": "Not started", "running": "No data yet", "stopped": "No data"}


@dataclass(frozen=True)
class Row:
    """A row: who leads, how certain that is, and how many units there are and are still needed."""

    experiment: Experiment
    kind: str
    leader: str | None
    result: str
    certainty: str
    chart: Markup | None
    units: str
    needed: str


@dataclass(frozen=True)
class Filters:
    """What the address of the list asks for; invalid parts are ignored."""

    search: Search
    page: int

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Filters":
        """Return what an address asks for."""
        status, standing, page = query.get("status", ""), query.get("result", ""), query.get("page", "")
        return cls(
            Search(
                text=" ".join(query.get("q", "").split())[:LONGEST_TEXT],
                status=next((one for one in STATUSES if one == status), None),
                standing=next((one for one in STANDINGS if one == standing), None),
            ),
            min(int(page), LAST_PAGE) if page.isascii() and page.isdigit() and len(page) < 10 and int(page) else 1,
        )

    @property
    def offset(self) -> int:
        """How many experiments come before this page."""
        return PAGE * (self.page - 1)

    @property
    def filtered(self) -> bool:
        """Whether only some experiments are wanted."""
        return self.search != Search()

    def address(self, page: int) -> str:
        """Return the address of another page of the same search."""
        wanted = {"q": self.search.text, "status": self.search.status, "result": self.search.standing}
        found = {name: value for name, value in wanted.items() if value} | ({"page": page} if page > 1 else {})
        return f"/?{urlencode(found, errors='replace')}" if found else "/"


def rows_of(listed: Sequence[Listed]) -> list[Row]:
    """Return the rows of the list."""
    return [_row(one.experiment, one.summary) for one in listed]


def _row(experiment: Experiment, summary: Summary | None) -> Row:
    unit = experiment.definition.unit
    if summary is None or not summary.units:
        return Row(experiment, "open", None, EMPTY[experiment.status], "", None, "", "")
    units = f"{summary.units:,} {unit}{'s' if summary.units != 1 else ''}"
    running = experiment.status == "running"
    needed = f"{units_in_words(*summary.more_units)} more needed" if running and summary.more_units else ""
    if summary.leader is None:
        words = ("No leader", "The preferences form a cycle") if summary.pairs else ("No preference yet", "")
        return Row(experiment, "open", None, *words, _chart(summary), units, "")
    if running and summary.standing != "winner" and not needed:
        needed = f"over 100 times as many {unit}s needed"
    kind = "open" if summary.standing == "open" else "up"
    verb = {"winner": "wins", "leader": "leads"}.get(summary.standing, "is ahead")
    return Row(
        experiment, kind, summary.leader, verb, _certainty(summary, experiment), _chart(summary), units, needed
    )  # fmt: skip


def _certainty(summary: Summary, experiment: Experiment) -> str:
    others = len(experiment.definition.rankers) - 1
    if summary.standing == "winner":
        every = {1: cut(summary.versus, LONGEST_RANKER), 2: "both others"}.get(others, f"all {others} others")
        return f"Significantly better than {every}"
    if summary.standing == "leader":
        return f"Significantly better than {summary.beats} of {others} others"
    return f"Not significantly better than {cut(summary.versus, LONGEST_RANKER)} yet, p\u00a0=\u00a0{summary.p:.2g}"


def _chart(summary: Summary) -> Markup | None:
    kinds = ["open" if not one.significant else "up" if one.preference > 0.0 else "down" for one in summary.pairs]
    estimates = [(one.preference, one.low, one.high) for one in summary.pairs]
    return small_forest(estimates, kinds) if estimates else None
