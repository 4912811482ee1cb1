"""SVG: strips of a forest plot and curves with bands, drawn inline and styled by classes.

They contain only numbers and our own class names. Lengths are percentages, so a plot fills the available width while
strokes and letters keep their size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

ROW = 11  # pixels of an estimate in a small chart
SIDE = 1000.0  # of the square that curves are drawn in
PLOT, GUTTER = "88%", "90%"  # the labels of a curve are to its right


@dataclass(frozen=True)
class Scale:
    """The range of values that a plot covers."""

    low: float
    high: float

    def part(self, value: float) -> float:
        """Return the position of a value from 0 to 1; values outside are at the edge."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def percent(self, value: float) -> str:
        """Return the position of a value across a plot."""
        return f"{100 * self.part(value):.2f}%"

    def ticks(self, about: int = 4) -> list[float]:
        """Return round values in the range, with zero.

        >>> Scale(-0.12, 0.31).ticks()
        [-0.1, 0.0, 0.1, 0.2, 0.3]
        """
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / about))
        step = next(step * times for times in (1, 2, 5, 10) if (self.high - self.low) / (step * times) <= about + 0.5)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(n * step, 12) + 0.0 for n in range(first, last + 1)]


@dataclass(frozen=True)
class Point:
    """A preference with its interval at a moment, in seconds."""

    at: float
    preference: float
    low: float
    high: float


def scale_of(estimates: Sequence[tuple[float, float, float]]) -> Scale:
    """Return a scale for (preference, low, high) that includes zero; intervals far wider than the rest are cut.

    >>> scale_of([(0.2, 0.1, 0.3), (0.1, -5000.0, 5000.0), (0.1, 0.0, 0.2)])
    Scale(low=-0.4..., high=0.4...)
    """
    reach = max((abs(preference) for preference, _, _ in estimates), default=0.0)
    extents = sorted(max(abs(low), abs(high)) for _, low, high in estimates) or [0.0]
    most = min(extents[-1], max(2 * reach, 1.3 * extents[len(extents) // 2])) or 1.0
    low = max(min([low for _, low, _ in estimates], default=0.0), -most)
    high = min(max([high for _, _, high in estimates], default=0.0), most)
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.06 * (high - low) or 1.0
    return Scale(low - margin, high + margin)


def forest_strip(preference: float, low: float, high: float, scale: Scale, kind: str) -> Markup:
    """Return a preference as a dot on its interval; kind is "up", "down" or "open"."""
    zero, dot = scale.percent(0.0), scale.percent(preference)
    left, right = scale.percent(low), scale.percent(high)
    cuts = ""
    if low < scale.low:
        cuts += '<path class="cut" d="M6 7 0 13 6 19"/>'
    if high > scale.high:
        cuts += '<svg x="100%" overflow="visible"><path class="cut" d="M-6 7 0 13-6 19"/></svg>'
    return Markup(
        f'<svg class="strip {kind}" aria-hidden="true" focusable="false" width="100%" height="26">'
        f'<line class="zero" x1="{zero}" x2="{zero}" y1="-6" y2="32"/>'
        f'<line class="whisker" x1="{left}" x2="{right}" y1="50%" y2="50%"/>{cuts}'
        f'<circle class="dot" cx="{dot}" cy="50%" r="4.5"/></svg>'
    )


def forest_axis(scale: Scale) -> Markup:
    """Return the axis below the strips."""
    zero = scale.percent(0.0)
    marks = "".join(
        f'<line class="tick" x1="{x}" x2="{x}" y1="0" y2="5"/><text x="{x}" y="18">{_label(tick)}</text>'
        for tick in scale.ticks()
        for x in [scale.percent(tick)]
    )
    return Markup(
        '<svg class="axis" aria-hidden="true" focusable="false" width="100%" height="22">'
        f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="5"/>{marks}</svg>'
    )


def curve(points: Sequence[Point], moments: Scale, values: Scale, kind: str) -> Markup:
    """Return a line of preferences over time with the band of their intervals."""
    upper = [(point.at, point.high) for point in points]
    lower = [(point.at, point.low) for point in reversed(points)]
    line = [(point.at, point.preference) for point in points]
    grid = "".join(
        f'<line class="{"zero" if tick == 0.0 else "grid"}" x1="0" x2="{PLOT}" y1="{y}" y2="{y}"/>'
        f'<text x="{GUTTER}" y="{y}" dy="3.5">{_label(tick)}</text>'
        for tick in values.ticks()
        for y in [f"{100 - 100 * values.part(tick):.2f}%"]
    )
    return Markup(
        f'<svg class="curve {kind}" aria-hidden="true" focusable="false" width="100%" height="120">{grid}'
        f'<svg viewBox="0 0 {SIDE:g} {SIDE:g}" preserveAspectRatio="none" width="{PLOT}" height="100%">'
        f'<polygon class="band" points="{_path(upper + lower, moments, values)}"/>'
        f'<polyline class="line" points="{_path(line, moments, values)}"/></svg></svg>'
    )


def _path(corners: Sequence[tuple[float, float]], moments: Scale, values: Scale) -> str:
    return " ".join(f"{SIDE * moments.part(at):.0f},{SIDE * (1 - values.part(value)):.0f}" for at, value in corners)


def _label(tick: float) -> str:
    return f"{tick:g}".replace("-", "−")


def small_forest(estimates: Sequence[tuple[float, float, float]], kinds: Sequence[str]) -> Markup:
    """Return preferences over the control as dots on their intervals, one below the other, with zero in the middle."""
    found = scale_of(estimates)
    reach = max(-found.low, found.high)
    scale = Scale(-reach, reach)
    height = ROW * len(estimates)
    strips = "".join(
        f'<g class="{kind}">'
        f'<line class="whisker" x1="{scale.percent(low)}" x2="{scale.percent(high)}" y1="{y}" y2="{y}"/>'
        f'<circle class="dot" cx="{scale.percent(preference)}" cy="{y}" r="3.5"/></g>'
        for n, ((preference, low, high), kind) in enumerate(zip(estimates, kinds, strict=True))
        for y in [ROW * n + ROW // 2]
    )
    return Markup(
        f'<svg class="small" aria-hidden="true" focusable="false" width="100%" height="{height}">'
        f'<line class="zero" x1="50%" x2="50%" y1="-6" y2="{height + 6}"/>{strips}</svg>'
    )
