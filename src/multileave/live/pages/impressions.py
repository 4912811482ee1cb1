"""Impressions: what one impression says, in words."""

from multileave.live.records import ImpressionDetail


def preference_sentence(detail: ImpressionDetail) -> str:
    """Return which rankers an impression prefers."""
    if detail.arm is not None:
        return f"A page of {detail.arm} alone, for the A/B test. It compares nothing."
    if detail.preferences is None:
        return "Nothing can be inferred from this impression."
    totals = [sum(row) for row in detail.preferences]
    order = sorted(range(len(totals)), key=lambda n: -totals[n])
    if not any(value for row in detail.preferences for value in row):
        return "This impression prefers no ranker." if detail.events else "No clicks, so no ranker is preferred."
    means = (f"{detail.rankers[n]} {signed(totals[n] / max(len(totals) - 1, 1))}" for n in order)
    return f"Mean preference over the other rankers: {', '.join(means)}."


def signed(value: float) -> str:
    """Return a number with its sign, for people.

    >>> signed(0.25), signed(-1.5), signed(0.0)
    ('+0.25', '−1.5', '0')
    """
    return f"{value:+.3g}".replace("-", "−") if value else "0"
