"""Health figures: the health of an experiment's data, in words."""

from dataclasses import dataclass
from typing import Any

from multileave.stats import Health

# What the page says of a share of the impressions; a figure that is not listed is shown under its name.
SHARES = {
    "without_clicks": "impressions without clicks",
    "no_preference": "impressions in which all rankers agreed",
    "fallbacks": "impressions with a missing ranker",
    "different_documents": "impressions with documents that some ranker did not return",
    "short_lists": "impressions in which a ranker returned fewer than k + 1 results",
}
ELSEWHERE = {"units", "implausible", "missing", "short", "needed", "same_pages", "first", "exposure", "warnings"}


@dataclass(frozen=True)
class BalanceTable:
    """How often documents of each ranker were seen, and how often the method expects it."""

    title: str
    p: str
    rows: tuple[tuple[str, str, str], ...]


def figures_of(health: Health, unit: str) -> list[tuple[str, str]]:
    """Return what is known, as values and what they mean."""
    clicks = "impressions" if health.without_clicks is None else "clicks"
    words = {
        "effective_units": f"effective sample size, {unit}s",
        "evidence_units": f"{unit}s with evidence, for the pair with the fewest",
        "over_limit": f"{unit}s over the cap or winsorised",
        "top_share": f"{clicks} from the most active 1 % of {unit}s",
        **SHARES,
    }
    found = []
    for name, value in health.to_dict().items():
        if value is not None and name not in ELSEWHERE:
            is_share = name in SHARES or name.endswith("_share")
            text = _percent(value) if is_share else f"{value:,.0f}" if isinstance(value, int | float) else str(value)
            found.append((text, words.get(name, name.replace("_", " "))))
    for stored, impressions, clicked in health.implausible:
        found.append((stored, f"no person could be this {unit}: {impressions:,} impressions, {clicked:,} clicks"))
    for name, share in (health.missing or {}).items():
        if share > 0.0:
            found.append((_percent(share), f"impressions without {name}"))
    return found


def balances_of(health: Health) -> list[BalanceTable]:
    """Return the balance of first positions and of exposure, if they were counted."""
    both = ((health.first, "Documents in first position"), (health.exposure, "Documents shown"))
    return [_balance(title, balance) for balance, title in both if balance is not None]


def _balance(title: str, balance: dict[str, Any]) -> BalanceTable:
    p = balance["p"]
    words = "too few to test" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    rows = tuple(
        (name, f"{observed:,.0f}", f"{expected:,.1f}") for name, (observed, expected) in balance["rankers"].items()
    )
    return BalanceTable(title, words, rows)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
