"""Plots of verdicts and plans: forest, matrix, preference over time, power.

Matplotlib's objects are used, never pyplot, so there is no global state; each function returns a Figure, which a
notebook shows and `save` writes.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import MissingExtra, TallyError
from multileave.stats.planning import Plan
from multileave.stats.verdict.verdict import Verdict
from multileave.stats.verdict.wording import evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIGNIFICANT, OPEN, BAND, GREY = "#0072B2", "#8C8C8C", "#56B4E9", "#666666"
MOST_PAIRS = 120  # in a readable forest plot

STYLE: Any = {
    "text.parse_math": False,  # so that a name with a dollar sign is shown as is
    "font.size": 9.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


def forest(verdict: Verdict) -> "Figure":
    """Return every pair's preference with its interval, largest first; significant ones in colour."""
    pairs = [pair if pair.preference >= 0 else pair.reversed for pair in verdict.pairs]
    if len(pairs) > MOST_PAIRS:
        raise TallyError(
            f"There are {len(pairs)} pairs; a forest plot holds at most {MOST_PAIRS}. Use `matrix`, or fewer rankers."
        )
    pairs.sort(key=lambda pair: pair.preference)
    with _drawing(6.6, 0.95 + 0.26 * len(pairs)) as (figure, axes):
        for y, pair in enumerate(pairs):
            colour = SIGNIFICANT if pair.significant else OPEN
            axes.plot([pair.low, pair.high], [y, y], color=colour, lw=1.6, solid_capstyle="butt")
            axes.plot([pair.preference], [y], "o", color=colour, ms=4.5,
                      mfc=colour if pair.significant else "white")  # fmt: skip
        axes.axvline(0.0, color=GREY, lw=0.8)
        axes.set_yticks(range(len(pairs)), [f"{upper} over {lower}" for upper, lower in (p.rankers for p in pairs)])
        axes.set_ylim(-0.7, len(pairs) - 0.3)
        axes.set_xlabel(f"mean preference per impression, {100 * verdict.confidence:g} % intervals")
        axes.set_title(_title(verdict, "filled: significant"), loc="left", fontsize=9.0)
        _bare(axes)
        axes.tick_params(axis="y", length=0)
    return figure


def matrix(verdict: Verdict) -> "Figure":
    """Return a heat map of all preferences, best ranker first; significant ones in bold."""
    order = [verdict.rankers.index(name) for name in verdict.copeland]
    names = [verdict.rankers[n] for n in order]
    values = verdict.preferences[np.ix_(order, order)]
    limit = float(np.abs(values).max()) or 1.0
    decimals = max(0, 2 - math.floor(math.log10(limit)) - 1)
    size = len(names)
    with _drawing(1.9 + 0.52 * size, 1.5 + 0.42 * size) as (figure, axes):
        drawn = np.where(np.eye(size, dtype=bool), np.nan, values)
        image = axes.imshow(drawn, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        for n in range(size):
            for m in range(size):
                if n != m and size <= 20:
                    sure = verdict.pair(names[n], names[m]).significant
                    axes.text(
                        m, n, f"{values[n, m] + 0.0:+.{decimals}f}", ha="center", va="center", fontsize=7.0,
                        color="white" if abs(values[n, m]) > 0.65 * limit else "black",
                        fontweight="bold" if sure else "normal",
                    )  # fmt: skip
        axes.set_xticks(range(size), names, rotation=45, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(size), names)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
        bar.set_label("row over column, per impression", fontsize=8.0)
        figure.suptitle(_title(verdict, "bold: significant"), fontsize=9.0, x=0.02, ha="left")
    return figure


def over_time(verdicts: Sequence[Verdict], first: str, second: str) -> "Figure":
    """Return the preference for one ranker over another and its interval over time, look by look.

    verdicts: one per look, in order, all with the same kind of interval.
    """
    if len(verdicts) < 2:
        raise TallyError(f"There are {len(verdicts)} verdicts; a curve over time needs two or more, one per look.")
    pairs = [verdict.pair(first, second) for verdict in verdicts]
    shown = [verdict.impressions for verdict in verdicts]
    with _drawing(6.6, 3.2) as (figure, axes):
        low, high = ([getattr(pair, name) for pair in pairs] for name in ("low", "high"))
        axes.fill_between(shown, low, high, color=BAND, alpha=0.35, lw=0)
        axes.plot(shown, [pair.preference for pair in pairs], color=SIGNIFICANT, lw=1.4)
        axes.axhline(0.0, color=GREY, lw=0.8)
        decided = next((n for n, pair in zip(shown, pairs, strict=True) if pair.significant), None)
        if decided is not None:
            axes.axvline(decided, color="#D55E00", lw=0.9, ls=(0, (4, 2)))
            axes.annotate(
                f"significant at {decided:,}", (decided, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -10),
                textcoords="offset points", color="#D55E00", fontsize=8.0,
            )  # fmt: skip
        # The wide intervals of the first looks would hide everything else.
        settled = [pair for n, pair in zip(shown, pairs, strict=True) if n >= 0.08 * shown[-1]] or pairs
        edge = 1.1 * max(max(abs(pair.low), abs(pair.high)) for pair in settled)
        axes.set_ylim(max(-edge, min(1.2 * min(low), 0.0)), min(edge, max(1.2 * max(high), 0.0)))
        axes.set_xlim(shown[0], shown[-1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlabel("impressions")
        axes.set_ylabel(f"{first} over {second},\nper impression")
        axes.set_title(_title(verdicts[-1]), loc="left", fontsize=9.0)
        _bare(axes)
    return figure


def power_curve(plan: Plan) -> "Figure":
    """Return the power to detect the difference, over the number of users."""
    points = plan.curve()
    with _drawing(5.6, 3.4) as (figure, axes):
        axes.plot([units for units, _ in points], [chance for _, chance in points], color=SIGNIFICANT, lw=1.6)
        axes.plot([plan.units], [plan.power], "o", color="#D55E00", ms=5)
        axes.plot(
            [points[0][0], plan.units, plan.units], [plan.power, plan.power, 0.0], color="#D55E00", lw=0.8, ls="--"
        )
        axes.annotate(
            f"{plan.units:,} users", (plan.units, plan.power), xytext=(8, -12), textcoords="offset points",
            color="#D55E00", fontsize=8.5,
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(points[0][0], points[-1][0])
        axes.set_ylim(0.0, 1.02)
        ticks = _round_ticks(points[0][0], points[-1][0])
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("users")
        axes.set_ylabel("power")
        looks = "last of any number of looks" if plan.interval == "anytime" else "one look"
        pairs = f", {plan.comparisons} pairs" if plan.comparisons > 1 else ""
        axes.set_title(
            f"power to detect {plan.effect:g} per impression, {100 * plan.confidence:g} % confidence, {looks}{pairs}",
            loc="left", fontsize=9.0,
        )  # fmt: skip
        axes.grid(axis="y", color="#dddddd", lw=0.6)
        _bare(axes)
    return figure


def save(figure: "Figure", path: str | Path) -> Path:
    """Write a figure as .png, .pdf or .svg, by the suffix, without a date."""
    import matplotlib

    target = Path(path)
    if target.suffix not in (".png", ".pdf", ".svg"):
        raise TallyError(f"A figure cannot be written to {str(target)!r}. Choose a name ending in .png, .pdf or .svg.")
    metadata: dict[str, Any] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}[target.suffix]
    try:
        with matplotlib.rc_context(STYLE):
            figure.savefig(target, dpi=160, metadata=metadata)
    except OSError as error:
        raise TallyError(f"{target} cannot be written: {error.strerror}. Choose another path.") from error
    return target


@contextmanager
def _drawing(width: float, height: float) -> "Iterator[tuple[Figure, Axes]]":
    """Yield an empty figure and its axes, to be drawn on in our style."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("Figures need Matplotlib, which is missing: pip install 'multileave[stats]'") from error
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def _bare(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _title(verdict: Verdict, *more: str) -> str:
    return "; ".join([evidence(verdict), *(["valid at any time"] if verdict.anytime else []), *more])


def _round_ticks(least: float, most: float) -> list[int]:
    """Return 1, 2 and 5 times powers of ten between two numbers."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    found = [m * 10**e for e in range(low, high + 1) for m in (1, 2, 5)]
    return [tick for tick in found if least <= tick <= most]
