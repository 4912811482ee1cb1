"""A verdict as HTML for notebooks, without scripts or external styles."""

from html import escape
from typing import TYPE_CHECKING

from multileave.stats.rates.wording import lines
from multileave.stats.verdict.wording import HEADERS, cells, heading

if TYPE_CHECKING:
    from multileave.stats.verdict.verdict import Verdict

_CELL = "padding:2px 10px;text-align:{}"


def verdict_html(verdict: "Verdict") -> str:
    """Return the sentence, the warnings, a table of all pairs, significant ones in bold, and rates."""
    parts = [f"<p><b>{escape(verdict.sentence)}</b></p>"]
    if verdict.warnings:
        items = "".join(f"<li>{escape(warning)}</li>" for warning in verdict.warnings)
        parts.append(f"<ul style='color:#a05000'>{items}</ul>")
    parts.append(f"<table><caption style='text-align:left'>{escape(heading(verdict))}</caption>")
    parts.append(_row(HEADERS, "th", bold=True))
    for row, pair in zip(cells(verdict), verdict.pairs, strict=True):
        parts.append(_row(tuple(row.values()), "td", bold=pair.significant))
    parts.append("</table>")
    if verdict.rates is not None:
        items = "".join(f"<li>{escape(line)}</li>" for line in lines(verdict.rates))
        parts.append(f"<ul>{items}</ul><p>{escape(verdict.rates.assumption)}</p>")
    return "\n".join(parts)


def _row(texts: tuple[str, ...], tag: str, *, bold: bool) -> str:
    weight = ";font-weight:bold" if bold else ""
    made = (
        f"<{tag} style='{_CELL.format('right' if 2 <= column < len(texts) - 1 else 'left')}{weight}'>"
        f"{escape(text)}</{tag}>"
        for column, text in enumerate(texts)
    )
    return f"<tr>{''.join(made)}</tr>"
