"""Plots with a panel per user and data set: error over impressions, and impressions to a verdict over page quality.

Lines differ in colour (Okabe and Ito's, for the colour-blind), in marker and, after the seventh method, in dashes, so
they can be printed without colours. Matplotlib's objects are used, never pyplot, and files hold no date: the same
results give the same bytes.
"""

import io
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import DataError, MissingExtra
from multileave.outcome import Floats
from multileave.stats.intervals.clustered import t_quantile
from multileave.study.power import LEVEL, POWER, quartiles
from multileave.study.results import RunResult, errors_of, gather, main_truth, row_names
from multileave.study.summaries import mean_floor, pages_of, verdicts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.5, 1.5)))
FLOOR = "#666666"

MARKERS_PER_LINE = 6
# Inches. Three panels fill the width of a page, one the width of a column.
PANEL = 2.25, 1.75
LEAST_WIDTH = 3.6
LEFT, BELOW = 0.75, 0.7  # for the labels of the axes and the users' names
LEGEND_LINE = 0.17

# No mathematics in text, so that a name with a dollar sign is shown as is; fonts that journals accept; identifiers in
# SVG that do not change from run to run.
STYLE: dict[Any, Any] = {
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 8.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "multileave",
}


def require_matplotlib() -> None:
    """Raise `MissingExtra` if Matplotlib is not installed; a long study checks before it starts."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Figures need Matplotlib, which is missing: pip install 'multileave[study]'") from error


def curve(runs: Sequence[RunResult], truth: str = "heldout") -> tuple[Floats, Floats]:
    """Return the mean error at each checkpoint and half the width of its 95 % interval, 0 for a single run."""
    errors = np.array([errors_of(run, truth) for run in runs])
    centre = errors.mean(axis=0)
    if len(runs) < 2:
        return centre, np.zeros_like(centre)
    return centre, t_quantile(0.025, len(runs) - 1) * errors.std(axis=0, ddof=1) / math.sqrt(len(runs))


def error_figure(results: Iterable[RunResult], rankers: int, *, truth: str | None = None) -> "Figure":
    """Return error over impressions for one number of rankers.

    truth: "heldout", with the floor as a dashed line, or "same_queries"; by default the first if queries were held
    out. Users who click at random are left out, as they prefer no ranker. Bands are 95 % intervals of the mean over
    runs.
    """
    chosen = _chosen(results, rankers)
    known = truth or main_truth(chosen)

    def panel(axes: "Axes", runs: list[RunResult], methods: list[str]) -> tuple[dict[str | None, Any], float]:
        drawn = _panel(axes, runs, methods, known)
        _dress(axes, chosen[0].impressions)
        return drawn

    return _figure(chosen, panel, "impressions", "binary error", floor=known == "heldout")


def power_figure(results: Iterable[RunResult], rankers: int, *, power: float = POWER, level: float = LEVEL) -> "Figure":
    """Return impressions to a verdict over the quality of the pages shown, for one number of rankers.

    A marker for every method: x, NDCG of the pages shown relative to the mean of the rankers' own pages; y, the median
    over pairs of the impressions to a verdict, with quartiles. Bottom right is best.
    """
    require_matplotlib()
    chosen = [result for result in _chosen(results, rankers) if result.preferences and result.ndcg_rankers]
    if not chosen:
        raise DataError(f"Results of {rankers} rankers lack impressions to a verdict. Run the study again.")

    from matplotlib.ticker import FuncFormatter, NullFormatter

    def panel(axes: "Axes", runs: list[RunResult], methods: list[str]) -> tuple[dict[str | None, Any], float]:
        handles: dict[str | None, Any] = {}
        of_method = gather(runs, lambda result: result.method)
        for number, method in enumerate(methods):
            if method not in of_method:
                continue
            quality = 100.0 * pages_of(of_method[method]).get("ndcg_to_mean", math.nan)
            needed = [n for run in of_method[method] for n in verdicts_of(run, power, level)]
            middle, low, high = quartiles([min(n, 1e12) for n in needed])
            handles[method] = axes.errorbar(
                [quality], [middle], yerr=[[middle - low], [high - middle]],
                color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)], markersize=5.5,
                elinewidth=0.7, capsize=1.5, linestyle="none", markeredgecolor="white", markeredgewidth=0.4,
            )  # fmt: skip
        axes.axvline(100.0, color=FLOOR, linestyle=(0, (3, 2)), linewidth=0.7, zorder=0.5)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        _plain_axes(axes)
        return handles, math.nan

    across = "NDCG of the pages shown, % of the mean of the rankers' own"
    return _figure(chosen, panel, across, "impressions to a verdict", floor=False)


def _chosen(results: Iterable[RunResult], rankers: int) -> list[RunResult]:
    chosen = [result for result in results if result.rankers == rankers and result.user != "random"]
    if not chosen:
        raise DataError(f"There are no results of {rankers} rankers with users who do not click at random.")
    return chosen


def _figure(
    chosen: list[RunResult],
    panel: "Callable[[Axes, list[RunResult], list[str]], tuple[dict[str | None, Any], float]]",
    across: str,
    up: str,
    *,
    floor: bool,
) -> "Figure":
    """Return panels below a legend; panel draws one and returns its handles and its upper limit."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    names = row_names(result.dataset for result in chosen)
    cells = gather(chosen, lambda result: (names[result.dataset], result.user))
    rows = list(dict.fromkeys(names.values()))
    users = list(dict.fromkeys(result.user for result in chosen))
    methods = list(dict.fromkeys(result.method for result in chosen))

    with matplotlib.rc_context(STYLE):
        width = max(LEFT + PANEL[0] * len(users), LEAST_WIDTH)
        labels = [_line(method) for method in methods] + (["floor"] if floor else [])
        columns = _columns(labels, width)
        legend = LEGEND_LINE * math.ceil(len(labels) / columns)
        figure = Figure(figsize=(width, BELOW + PANEL[1] * len(rows) + legend), layout="constrained")
        grid = figure.subplots(len(rows), len(users), sharex=True, sharey="row", squeeze=False)
        handles: dict[str | None, Any] = {}
        for i, name in enumerate(rows):
            tops = []
            for j, user in enumerate(users):
                axes: Axes = grid[i, j]
                if (name, user) in cells:
                    drawn, top = panel(axes, cells[name, user], methods)
                    handles |= drawn
                    tops.append(top)
                else:
                    axes.text(0.5, 0.5, "no runs", ha="center", va="center", color=FLOOR, transform=axes.transAxes)
                if i == 0:
                    axes.set_title(_line(user.replace("_", " ")), fontstyle="italic")
            if not math.isnan(max(tops, default=math.nan)):
                grid[i, 0].set_ylim(0.0, max(tops))
            grid[i, 0].set_ylabel("\n".join([*textwrap.wrap(name, 26), up]))
        figure.supxlabel(across, fontsize=8.0)
        figure.legend(
            [*(handles[method] for method in methods), *([handles[None]] if floor else [])],
            labels,
            loc="outside upper center",
            ncols=columns,
            frameon=False,
            handlelength=2.6,
            columnspacing=1.4,
        )
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # so that the layout is the same in each format
    return figure


def save(figure: "Figure", form: str) -> bytes:
    """Return the figure as a file: form is "png", "pdf" or "svg"."""
    import matplotlib

    undated: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(form, {})
    out = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(out, format=form, dpi=200, metadata=undated)
    return out.getvalue()


def _panel(axes: "Axes", runs: list[RunResult], methods: list[str], truth: str) -> tuple[dict[str | None, Any], float]:
    """Draw one data set and user; return the lines by method (the floor by None), and the upper limit."""
    handles: dict[str | None, Any] = {}
    top = 0.0
    of_method = gather(runs, lambda result: result.method)
    for number, method in enumerate(methods):
        if method not in of_method:
            continue
        x = np.array(runs[0].impressions)
        centre, half = curve(of_method[method], truth)
        shown = x > 0  # a logarithmic axis has no 0
        x, centre, half = x[shown], centre[shown], half[shown]
        colour = COLOURS[number % len(COLOURS)]
        axes.fill_between(x, centre - half, centre + half, color=colour, alpha=0.15, linewidth=0.0)
        (handles[method],) = axes.plot(
            x,
            centre,
            color=colour,
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
            linewidth=1.2,
            marker=MARKERS[number % len(MARKERS)],
            markersize=3.6,
            markeredgecolor="white",
            markeredgewidth=0.4,
            markevery=_marked(len(x), number, len(methods)),
        )
        settled = x >= x[-1] / 100  # errors after the first few impressions would flatten the rest
        top = max(top, float(centre[settled].max(initial=0.0)))
    if truth == "heldout":
        floor = mean_floor(runs) or 0.0
        handles[None] = axes.axhline(floor, color=FLOOR, linestyle=(0, (3, 2)), linewidth=0.9, zorder=1.5)
        top = max(top, floor)
    return handles, min(max(1.25 * top, 0.1), 1.02)


def _marked(points: int, number: int, methods: int) -> list[int]:
    """Return the points with a marker, spread over a line and shifted so that lines do not share them."""
    step = max(points / MARKERS_PER_LINE, 1.0)
    places = (step * (i + number / methods) for i in range(MARKERS_PER_LINE))
    return sorted({int(place) for place in places if place < points})


def _dress(axes: "Axes", impressions: tuple[int, ...]) -> None:
    """Set the scale, ticks and grid of a panel."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    first = next((x for x in impressions if x > 0), 1)
    last = max(impressions[-1], first)
    axes.set_xscale("log")
    axes.set_xlim((first, last) if last > first else (first / 2, first * 2))
    axes.xaxis.set_major_locator(LogLocator(10.0))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    _plain_axes(axes)


def _plain_axes(axes: "Axes") -> None:
    """Give a panel a faint grid, and no frame at the top and right."""
    axes.grid(True, color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _columns(names: Sequence[str], width: float) -> int:
    """Return how many names of a legend fit into a line, with lines of about the same length."""
    longest = max(map(len, names))
    fit = max(int(width / (0.6 + 0.065 * longest)), 1)
    return math.ceil(len(names) / math.ceil(len(names) / fit))


def _line(text: str) -> str:
    return " ".join(text.split())
