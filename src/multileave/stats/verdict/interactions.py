"""Interactions: does the preference between two rankers differ between segments?

A ranker may win among phones and lose among desktops, but of many segments some always look different. Welch's test
asks whether the means differ at all. It needs the covariance of two segments' means: a unit that is in both makes them
dependent. With U_s units, N_s impressions and r_us = sqrt(1 - 1 / U_s) (S_us - mean_s n_us) / (1 - n_us / N_s) the
unit's residual in segment s,

    Cov(mean_s, mean_t) = sum_u r_us r_ut / (N_s N_t),

which for s = t is the jackknife variance of `intervals.clustered`. The test is for one look; anytime verdicts have
none.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.corrections import CORRECTIONS
from multileave.stats.intervals.heterogeneity import random_effects, welch
from multileave.stats.intervals.moments import Ints, Moments, pair_positions
from multileave.stats.records import Record, about
from multileave.stats.tally.tally import Tally
from multileave.stats.tally.weighting import Weighting
from multileave.stats.verdict.rules import Rules


class Interaction(Record):
    """How the preference between two rankers differs between segments."""

    rankers: tuple[str, str] = about("The two rankers.")
    p: float | None = about(
        "P-value of Welch's test that the mean preference is the same in all segments. For one look; None if the "
        "verdict allows several, or fewer than two segments have varying preferences."
    )
    p_corrected: float | None = about("The same corrected for the number of pairs.")
    significant: bool = about("Whether p_corrected is at most 1 - confidence.")
    between: float = about("Standard deviation of the true means between segments, estimated.")
    shrunken: dict[str, float] = about(
        "Mean preference in each segment, shrunk towards the mean of all: the more, the less is known about a segment "
        "and the less segments differ."
    )


def find_interactions(tallies: Mapping[str, Tally], rules: Rules) -> tuple[Interaction, ...]:
    """Return the interaction of each pair of rankers with the segments; none if impressions do not all count alike.

    They are about the mean over all impressions, not over users or under a cap.
    """
    if rules.weighting != Weighting():
        return ()
    segments = list(tallies)
    moments = [tally.moments() for tally in tallies.values()]
    means = np.array([one.means for one in moments])
    variances = np.array([one.errors**2 for one in moments])
    found: list[float | None] = [None] * means.shape[1]
    if rules.one_look:
        found = _tests(list(tallies.values()), moments, means, variances)
    known = np.array([p for p in found if p is not None])
    corrected = iter(CORRECTIONS[rules.correction](known).tolist() if len(known) else [])
    rankers = next(iter(tallies.values())).rankers
    made = []
    for pair, (n, m) in enumerate(zip(*pair_positions(len(rankers)), strict=True)):
        between, shrunken = random_effects(means[:, pair], variances[:, pair])
        p = found[pair]
        p_corrected = None if p is None else next(corrected)
        significant = p_corrected is not None and p_corrected <= 1.0 - rules.confidence
        by_segment = dict(zip(segments, shrunken.tolist(), strict=True))
        made.append(Interaction((rankers[n], rankers[m]), p, p_corrected, significant, between, by_segment))
    return tuple(made)


def _tests(
    tallies: Sequence[Tally], moments: Sequence[Moments], means: Floats, variances: Floats
) -> list[float | None]:
    """Return the p-value of each pair; segments whose preferences do not vary are left out."""
    freedoms = np.array([one.freedom for one in moments])
    covariances = _covariances(tallies, moments)
    found: list[float | None] = []
    for pair in range(means.shape[1]):
        kept = np.flatnonzero(variances[:, pair] > 0.0)
        if len(kept) < 2:
            found.append(None)
            continue
        covariance = covariances[:, :, pair][np.ix_(kept, kept)]
        covariance[np.diag_indices(len(kept))] = variances[kept, pair]
        # Welch adds up the degrees of freedom of several segments. With the same units in all of them there are not as
        # many, and with heavy users the variances are less certain than those of normal variables.
        most = float(freedoms[kept, pair].max())
        found.append(welch(means[kept, pair], covariance, freedoms[kept, pair], most))
    return found


def _covariances(tallies: Sequence[Tally], moments: Sequence[Moments]) -> Floats:
    """Return the covariances of segments' means, (S, S, P), zero on the diagonal."""
    found = np.zeros((len(tallies), len(tallies), len(moments[0].totals)))
    places: dict[Hashable, list[tuple[int, int]]] = {}
    for segment, tally in enumerate(tallies):
        for unit, row in tally.unit_rows.items():
            places.setdefault(unit, []).append((segment, row))
    common: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for where in places.values():
        for (s, row), (t, other) in combinations(where, 2):
            common.setdefault((s, t), []).append((row, other))
    for (s, t), rows in common.items():
        first, second = np.array(rows).T
        products = _residuals(tallies[s], moments[s], first) * _residuals(tallies[t], moments[t], second)
        found[s, t] = found[t, s] = products.sum(axis=0) / (moments[s].impressions * moments[t].impressions)
    return found


def _residuals(tally: Tally, moments: Moments, rows: Ints) -> Floats:
    sums, counts = tally.units_at(rows)
    left: Floats = (sums - moments.means * counts[:, None]) / (1.0 - counts / moments.impressions)[:, None]
    left *= np.sqrt(1.0 - 1.0 / moments.units)
    return left
