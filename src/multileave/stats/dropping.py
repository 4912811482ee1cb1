"""Dropping losers: rankers that an experiment need not show any more, so that its traffic goes to what is still open.

A ranker loses if the anytime verdict says that the leader or the control is preferred to it. The decision depends on
the data, so it may only be taken from verdicts that are valid at any time, and the verdict stays one on all pairs that
the experiment began with: Holm's correction over all of them bounds the probability of any false statement, and so of
dropping any ranker that is as good as the one it lost to.

What is estimated: a pair's mean preference over the impressions in which both took part. For two rankers that stay,
these are all impressions, with more rankers at first and fewer later. With some methods the preference between two
rankers depends on which others are drawn with them; the mean is then one over the draws that were shown. It is still
that of preferences which, if neither ranker is better in any draw, have mean zero whatever was dropped before, which is
all that the verdict's validity needs. A dropped ranker's pairs have the impressions up to its drop.
"""

from typing import NamedTuple

from multileave.errors import TallyError
from multileave.stats.verdict.verdict import PairVerdict, Verdict

FEWEST = 2  # rankers that stay


class Loss(NamedTuple):
    """A ranker that lost, and the pair that says so, read as the one it lost to against it."""

    ranker: str
    pair: PairVerdict


def losses(verdict: Verdict, control: str | None = None) -> tuple[Loss, ...]:
    """Return the rankers to drop now, in the order of `verdict.rankers`; never the control, and two rankers stay.

    verdict: one that is valid at any time, with the rankers that were dropped before as its `dropped`.
    """
    if not verdict.anytime:
        raise TallyError(
            f"The verdict's interval is {verdict.interval!r}; rankers can only be dropped by one that is valid at any "
            'time. Use interval="anytime".'
        )
    leader = next(iter(verdict.leaders), None)
    judges = [name for name in (leader, control) if name is not None and name not in verdict.dropped]
    found = []
    for name in verdict.remaining:
        if name in judges:
            continue
        pairs = [verdict.pair(judge, name) for judge in judges]
        lost = [pair for pair in pairs if pair.significant and pair.preference > 0.0]
        if lost:
            found.append(Loss(name, min(lost, key=lambda pair: pair.p)))
    return tuple(found[: max(len(verdict.remaining) - FEWEST, 0)])
