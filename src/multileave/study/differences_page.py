"""The page of differences: the figures for each pair of rankers, and the queries that differ most side by side."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from multileave.study.differences import PairDifference, Ranking
from multileave.version import __version__

COLUMNS = ("pair", "queries", "overlap", "RBO", "pages differ", "first result differs", "users for a verdict")
EXPLANATION = (
    "Overlap: share of the first {k} documents that both return. RBO: rank-biased overlap, 1 if the rankings are "
    "equal. Pages differ: share of queries on which users could see a difference. Users: a rough number for these two "
    "rankers and one page per user; the first if users are 20 % likelier to click what the better ranker puts higher, "
    "the second if they are 5 % likelier."
)


def cells(pair: PairDifference) -> tuple[str, ...]:
    """Return a pair's row of the table, in the order of `COLUMNS`."""
    users = "no number decides" if pair.users is None else "{:,} to {:,}".format(*pair.users)
    return (
        f"{pair.rankers[0]}, {pair.rankers[1]}", f"{pair.queries:,}", f"{pair.overlap:.0%}", f"{pair.rbo:.2f}",
        f"{pair.different_pages:.0%}", f"{pair.different_tops:.0%}", users,
    )  # fmt: skip


def differences_page(
    pairs: Sequence[PairDifference], rankings: Mapping[str, Mapping[str, Ranking]], k: int = 10
) -> str:
    """Return the page as HTML, in one file that loads nothing; all text from outside is escaped."""
    names = list(rankings)
    title = f"{', '.join(names[:-1])} and {names[-1]}: where they differ"
    page = Template(files("multileave.study").joinpath("differences.html").read_text(encoding="utf-8"))
    return page.substitute(
        version=__version__,
        title=escape(title),
        summary=f"{len(set().union(*rankings.values())):,} queries, the first {k} documents of each.",
        table=_table(pairs),
        explanation=EXPLANATION.format(k=k),
        pairs="\n".join(_side_by_side(pair, rankings, k) for pair in pairs),
    )


def _table(pairs: Sequence[PairDifference]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(pair))}</tr>" for pair in pairs)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _side_by_side(pair: PairDifference, rankings: Mapping[str, Mapping[str, Ranking]], k: int) -> str:
    first, second = pair.rankers
    parts = [f"<h2>{escape(first)} and {escape(second)}: the queries that differ most</h2>"]
    for query in pair.largest:
        one, other = rankings[first][query.query][:k], rankings[second][query.query][:k]
        figures = f"overlap {query.overlap:.0%}, RBO {query.rbo:.2f}"
        parts.append(f'<h3>{escape(query.query)} <span class="soft">{figures}</span></h3>')
        parts.append(f'<div class="sides">{_listed(first, one, other)}{_listed(second, other, one)}</div>')
    return "\n".join(parts)


def _listed(name: str, page: Ranking, other: Ranking) -> str:
    """Return a ranking as a list, in which documents that the other page lacks are marked."""
    items = "".join(
        f"<li{'' if document in other else ' class=only'}>{escape(str(document))}</li>" for document in page
    )  # fmt: skip
    return f"<figure style='margin:0'><figcaption>{escape(name)}</figcaption><ol>{items}</ol></figure>"
