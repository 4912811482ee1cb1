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
FLOOR_LINE: dict[str, Any] = {"color": "#666666", "linestyle": (0, (3, 2)), "linewidth": 0.9}

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

    def panel(axes: "Axes", runs: list[RunResult], styles: dict[str, dict[str, Any]]) -> float:
        _dress(axes, chosen[0].impressions)
        return _draw_errors(axes, runs, styles, known)

    drawn = {"linewidth": 1.2, "markersize": 3.6}
    return _figure(chosen, panel, "impressions", "binary error", drawn, floor=known == "heldout")


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

    def panel(axes: "Axes", runs: list[RunResult], styles: dict[str, dict[str, Any]]) -> float:
        for method, of_method in gather(runs, lambda result: result.method).items():
            quality = 100.0 * pages_of(of_method).get("ndcg_to_mean", math.nan)
            needed = [n for run in of_method for n in verdicts_of(run, power, level)]
            middle, low, high = quartiles([min(n, 1e12) for n in needed])
            errors = [[middle - low], [high - middle]]
            axes.errorbar([quality], [middle], yerr=errors, elinewidth=0.7, capsize=1.5, **styles[method])
        axes.axvline(100.0, zorder=0.5, **FLOOR_LINE)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        _plain_axes(axes)
        return math.nan

    across = "NDCG of the pages shown, % of the mean of the rankers' own"
    drawn = {"linestyle": "none", "markersize": 5.5, "markevery": None}
    return _figure(chosen, panel, across, "impressions to a verdict", drawn, floor=False)


def _chosen(results: Iterable[RunResult], rankers: int) -> list[RunResult]:
    chosen = [result for result in results if result.rankers == rankers and result.user != "random"]
    if not chosen:
        raise DataError(f"There are no results of {rankers} rankers with users who do not click at random.")
    return chosen


def _figure(
    chosen: list[RunResult],
    panel: "Callable[[Axes, list[RunResult], dict[str, dict[str, Any]]], float]",
    across: str,
    up: str,
    drawn: dict[str, Any],
    *,
    floor: bool,
) -> "Figure":
    """Return panels below a legend.

    panel: draws one in the methods' styles, and returns its upper limit or NaN. drawn: properties of all methods.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    names = row_names(result.dataset for result in chosen)
    cells = gather(chosen, lambda result: (names[result.dataset], result.user))
    rows = list(dict.fromkeys(names.values()))
    users = list(dict.fromkeys(result.user for result in chosen))
    methods = list(dict.fromkeys(result.method for result in chosen))
    styles = {method: _style(number, len(methods)) | drawn for number, method in enumerate(methods)}

    with matplotlib.rc_context(STYLE):
        width = max(LEFT + PANEL[0] * len(users), LEAST_WIDTH)
        labels = [_line(method) for method in methods] + (["floor"] if floor else [])
        columns = _columns(labels, width)
        legend = LEGEND_LINE * math.ceil(len(labels) / columns)
        figure = Figure(figsize=(width, BELOW + PANEL[1] * len(rows) + legend), layout="constrained")
        grid = figure.subplots(len(rows), len(users), sharex=True, sharey="row", squeeze=False)
        for i, name in enumerate(rows):
            tops = []
            for j, user in enumerate(users):
                axes: Axes = grid[i, j]
                if (name, user) in cells:
                    tops.append(panel(axes, cells[name, user], styles))
                else:
                    axes.text(0.5, 0.5, "no runs", ha="center", va="center", color="#666666", transform=axes.transAxes)
                if i == 0:
                    axes.set_title(_line(user.replace("_", " ")), fontstyle="italic")
            if not math.isnan(max(tops, default=math.nan)):
                grid[i, 0].set_ylim(0.0, max(tops))
            grid[i, 0].set_ylabel("\n".join([*textwrap.wrap(name, 26), up]))
        figure.supxlabel(across, fontsize=8.0)
        figure.legend(
            [Line2D([], [], **style) for style in (*styles.values(), FLOOR_LINE)][: len(labels)],
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


def _style(number: int, methods: int) -> dict[str, Any]:
    """Return how one of the methods is drawn, as Matplotlib's properties."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
        "markevery": (number / methods / MARKERS_PER_LINE, 1.0 / MARKERS_PER_LINE),  # lines do not share markers
    }


def save(figure: "Figure", form: str) -> bytes:
    """Return the figure as a file: form is "png", "pdf" or "svg"."""
    import matplotlib

    undated: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(form, {})
    out = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(out, format=form, dpi=200, metadata=undated)
    return out.getvalue()


def _draw_errors(axes: "Axes", runs: list[RunResult], styles: dict[str, dict[str, Any]], truth: str) -> float:
    """Draw one data set and user; return the upper limit."""
    top = 0.0
    for method, of_method in gather(runs, lambda result: result.method).items():
        x = np.array(runs[0].impressions)
        centre, half = curve(of_method, truth)
        shown = x > 0  # a logarithmic axis has no 0
        x, centre, half = x[shown], centre[shown], half[shown]
        style = styles[method]
        axes.fill_between(x, centre - half, centre + half, color=style["color"], alpha=0.15, linewidth=0.0)
        axes.plot(x, centre, **style)
        settled = x >= x[-1] / 100  # errors after the first few impressions would flatten the rest
        top = max(top, float(centre[settled].max(initial=0.0)))
    if truth == "heldout":
        floor = mean_floor(runs) or 0.0
        axes.axhline(floor, zorder=1.5, **FLOOR_LINE)
        top = max(top, floor)
    return min(max(1.25 * top, 0.1), 1.02)


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
