"""Condition: the health of an experiment's data as figures in words."""

from dataclasses import dataclass
from typing import Any

from multileave.stats import Health

__all__ = ["BalanceTable", "Figure", "balances_of", "figures_of"]


@dataclass(frozen=True)
class Figure:
    """A figure and what it says."""

    value: str
    words: str


@dataclass(frozen=True)
class BalanceTable:
    """How often documents of each ranker were seen, and how often the method expects it."""

    title: str
    p: str
    rows: tuple[tuple[str, str, str], ...]


def figures_of(health: Health, unit: str) -> list[Figure]:
    """Return the figures that are known."""
    clicks = "impressions" if health.without_clicks is None else "clicks"
    found = [
        Figure(f"{health.effective_units:,.0f}", f"equally active {unit}s would know as much"),
        Figure(_percent(health.top_share), f"of the {clicks} come from the most active 1 % of {unit}s"),
    ]
    for share, words in (
        (health.without_clicks, "of the impressions have no clicks"),
        (health.no_preference, "of the impressions could prefer nobody: all rankers agreed"),
        (health.fallbacks, "of the impressions miss a ranker that failed"),
        (health.different_documents, "of the impressions showed what some ranker had not returned"),
        (health.short_lists, "of the impressions have a ranker with fewer than k + 1 results"),
    ):
        if share is not None:
            found.append(Figure(_percent(share), words))
    for name, share in (health.missing or {}).items():
        if share > 0.0:
            found.append(Figure(_percent(share), f"of the impressions miss {name}"))
    return found


def balances_of(health: Health) -> list[BalanceTable]:
    """Return the balance of first places and of exposure, where they were counted."""
    both = ((health.first, "Documents that stand first"), (health.exposure, "Documents that are shown"))
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
