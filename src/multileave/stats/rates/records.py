"""Rates as records: what each ranker would earn alone, compared with the control."""

from typing import ClassVar

from multileave.errors import TallyError, nearest
from multileave.stats.records import Record, about

ASSUMPTION = (
    "Assumes that a click depends only on the document and its rank. If users stop after a good result, rates are "
    "biased, and so are differences; see the table in docs/rates.md."
)


WIDE = 0.5  # half of an interval, relative to the control's rate; wider ones are too imprecise to act on


class RankerRate(Record):
    """What a ranker would earn alone, per page, and how that compares with the control."""

    ranker: str = about("The ranker.")
    rate: float = about("Estimated clicks, or value, per page of this ranker alone.")
    low: float = about("Lower end of its confidence interval.")
    high: float = about("Upper end of its confidence interval.")
    difference: float | None = about("Rate minus the control's; None for the control.", default=None)
    difference_low: float | None = about("Lower end of the difference's confidence interval.", default=None)
    difference_high: float | None = about("Upper end of the difference's confidence interval.", default=None)
    lift: float | None = about("The difference relative to the control's rate, 0.06 for +6 %.", default=None)
    lift_low: float | None = about(
        "Lower end of the lift's confidence interval; None if the control's rate could be 0.", default=None
    )
    lift_high: float | None = about("Upper end of the lift's confidence interval.", default=None)
    p: float | None = about("Two-sided p-value against no difference.", default=None)
    p_corrected: float | None = about("The p-value corrected for the number of rankers.", default=None)
    significant: bool = about("Whether p_corrected is at most 1 - confidence.", default=False)

    @property
    def precise(self) -> bool:
        """Whether the interval of the lift, or of the control's rate, is narrow enough to act on."""
        if self.difference is None:
            return self.high - self.low <= 2.0 * WIDE * abs(self.rate)
        return None not in (self.lift_low, self.lift_high) and self.lift_high - self.lift_low <= 2.0 * WIDE  # type: ignore[operator]


class Rates(Record):
    """What each ranker would earn alone; `str()` is a line for each ranker.

    >>> bm25, ltr = RankerRate("bm25", 0.4, 0.38, 0.42), RankerRate("ltr", 0.424, 0.4, 0.448, 0.024, 0.008, 0.04, 0.06,
    ...                                                            0.02, 0.1, 0.003, 0.003, True)
    >>> print(Rates("bm25", "doubly robust", 9000, 1000, 0.95, False, (bm25, ltr)))
    bm25 alone: 0.400 clicks per page, 95 % CI 0.380 to 0.420
    ltr alone: 0.424 clicks per page, +6 %, 95 % CI 2 to 10
    """

    control: str = about("The ranker that others are compared with.")
    estimator: str = about("How rates are estimated: doubly robust, normalised or weighted.")
    impressions: int = about("Number of impressions whose propensities are known, as the estimand counts them.")
    units: int = about("Number of units they come from.")
    confidence: float = about("Confidence level of the intervals.")
    anytime: bool = about("Whether the intervals are valid at any time.")
    rankers: tuple[RankerRate, ...] = about("A rate for each ranker.")

    DERIVED: ClassVar = ("assumption", "precise")

    @property
    def precise(self) -> bool:
        """Whether all rankers' rates are precise enough to act on: lifts are known to within 50 points."""
        return all(rate.precise for rate in self.rankers)

    @property
    def assumption(self) -> str:
        """What must hold for the rates to be unbiased."""
        return ASSUMPTION

    def __getitem__(self, ranker: str) -> RankerRate:
        names = [rate.ranker for rate in self.rankers]
        if ranker not in names:
            raise TallyError(
                f"There is no ranker {ranker!r} in these rates; expected one of {', '.join(names)}."
                f"{nearest(ranker, names)}"
            )
        return self.rankers[names.index(ranker)]

    def __str__(self) -> str:
        from multileave.stats.rates.wording import lines

        return "\n".join(lines(self))
