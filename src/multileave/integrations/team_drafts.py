"""Team drafts made by other software, such as Solr or OpenSearch, as impressions to infer and log here.

A team draft is its page and the team of each result. With the rankers' own lists as well, the impression holds ranks,
and `rpm` infers more from it than clicks by team: `multileave replay --method rpm`.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from multileave.errors import ImpressionError, nearest
from multileave.impression import ABSENT, Impression, Ints
from multileave.methods.team_draft import TeamDraft


def team_draft_impression(
    rankings: Mapping[str, Sequence[Hashable]], shown: Sequence[Hashable], teams: Sequence[str | None]
) -> Impression:
    """Return the impression of a team draft that was drawn elsewhere.

    rankings: each ranker's own list, best first, at least as long as the page. shown: the page. teams: for each result
    the ranker that picked it, None for no ranker, such as for a result that was added by hand.

    >>> lists = {"old": ["d1", "d2", "d3"], "new": ["d3", "d1", "d4"]}
    >>> impression = team_draft_impression(lists, ["d3", "d1", "d2"], ["new", "old", "old"])
    >>> impression.note.tolist(), impression.ranks.tolist()[0]
    ([1, 0, 0], [3, 1])
    """
    names = tuple(rankings)
    if len(names) < 2:
        raise ImpressionError(f"There is {len(names)} ranking; expected two or more to compare.")
    if len(shown) != len(teams) or len(set(shown)) < len(shown):
        raise ImpressionError(
            f"There are {len(shown)} results and {len(teams)} teams; expected different results, with one team each."
        )
    for team in teams:
        if team is not None and team not in rankings:
            raise ImpressionError(f"A team is {team!r}; expected {', '.join(names)} or None.{nearest(team, names)}")
    places = [{document: rank for rank, document in enumerate(ranking, 1)} for ranking in rankings.values()]
    for name, place, ranking in zip(names, places, rankings.values(), strict=True):
        if len(place) < len(ranking):
            raise ImpressionError(f"rankings[{name!r}] lists a document twice; expected each once. Remove the repeat.")
    ranks = np.array([[place.get(document, ABSENT) for place in places] for document in shown], dtype=np.int32)
    lost = [document for document, row in zip(shown, ranks, strict=True) if (row == ABSENT).all()]
    if lost:
        raise ImpressionError(
            f"Document {lost[0]!r} is on the page but in no ranking. Log the rankings that the page was drawn from."
        )
    lengths = np.array([len(ranking) for ranking in rankings.values()], dtype=np.int32)
    return drafted_page(names, shown, teams, lengths, ranks.reshape(len(shown), len(names)))


def drafted_page(
    rankers: Sequence[str], shown: Sequence[Hashable], teams: Iterable[str | None], lengths: Ints, ranks: Ints
) -> Impression:
    """Return the impression of a team draft; lengths and ranks as in `Impression`."""
    note = np.array([-1 if team is None else rankers.index(team) for team in teams], dtype=np.int32)
    method = TeamDraft().spelled
    return Impression(tuple(rankers), method, len(shown), tuple(shown), (), (), lengths, ranks, note, ())
