"""Numbers as text: no more decimals than their intervals warrant."""

import math


def decimals_of(low: float, high: float) -> int:
    """Return the decimals that show two digits of an interval's half width."""
    half = (high - low) / 2
    if half <= 0.0:
        return 3
    return min(max(1 - math.floor(math.log10(half)), 0), 12)


def fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals; zero has no sign."""
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def percent(share: float) -> str:
    """Return a share such as a confidence level in percent."""
    return f"{100 * share:.6g} %"
