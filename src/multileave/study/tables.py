"""The tables of a study: impressions to a verdict, page quality, errors in the paper's layout, and bias.

A table has a row per data set under a heading per user, and a column per method. With a single data set the rows are
the users, as in the paper's table of 40 rankers. In tables of errors a cell is the mean over runs with its standard
deviation in brackets, the best of the row in bold. Marks show the two-tailed t-test of one method, the reference,
against each other one, like the paper's triangles. The last column is the floor: the error against held-out NDCG@10 of
someone who knows NDCG@10 on the users' queries exactly; there is none if no queries are held out.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from multileave.study.power import LEVEL, POWER, quartiles
from multileave.study.results import RunResult, at_end, gather, main_truth, row_names
from multileave.study.summaries import (
    BASE,
    RANDOM_USERS,
    bias_of,
    mean,
    mean_floor,
    p_value,
    pages_of,
    paired_ratios,
    spread,
    verdicts_of,
    z_bound,
)
from multileave.study.table_formats import FLOOR, MARKS, Cell, Row, Section, Table, to_csv, to_latex, to_markdown

__all__ = ["Table", "make_tables", "to_csv", "to_latex", "to_markdown"]

TRUTHS = {
    "heldout": "NDCG@10 on held-out queries",
    "same_queries": "NDCG@10 on the queries the users issued",
}

NONE = "–"  # in a cell without runs


def make_tables(
    results: Iterable[RunResult],
    *,
    against: str = "ppm",
    digits: int = 2,
    base: str = BASE,
    power: float = POWER,
    level: float = LEVEL,
) -> list[Table]:
    """Return all tables of some results, by number of rankers.

    Impressions to a verdict, the same relative to a base method, the quality of the pages shown, errors against each
    truth, then bias.

    against: the reference of the marks, see `reference_method`.
    digits: decimals; the best of a row is determined after rounding.
    base: the method with which impressions to a verdict are compared. power, level: of the verdict.

    Users who click at random appear only in the table of bias, as they prefer no ranker.
    """
    tables = []
    by_rankers = gather(results, lambda result: result.rankers)
    for rankers in sorted(by_rankers):
        of_rankers = by_rankers[rankers]
        scored = [result for result in of_rankers if result.user != "random"]
        tables += _power_tables(scored, base, power, level)
        known = TRUTHS if main_truth(scored) == "heldout" else ("same_queries",)
        for truth in [*known, *dict.fromkeys(name for result in scored for name in result.other)]:
            chosen = [result for result in scored if truth in TRUTHS or truth in result.other]
            if chosen:
                tables.append(_error_table(chosen, truth, against, digits))
        clicked_at_random = [result for result in of_rankers if result.user in RANDOM_USERS]
        if any(math.isfinite(result.bias) for result in clicked_at_random):
            tables.append(_bias_table(clicked_at_random))
    return tables


def reference_method(methods: Sequence[str], against: str) -> str:
    """Return the reference of the tests: the method spelled like that, else the last one of that name.

    >>> reference_method(["tdm", "ppm", "ppm(pairs='all')"], "ppm")
    'ppm'
    >>> reference_method(["tdm", "ppm(pairs='local')", "ppm(pairs='all')"], "ppm")
    "ppm(pairs='all')"
    >>> reference_method(["tdm", "pm"], "ppm")
    ''
    """
    if against in methods:
        return against
    return next((method for method in reversed(methods) if method.partition("(")[0] == against), "")


def _mark(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the mark for the test of our errors against theirs."""
    if min(len(ours), len(theirs)) < 2:
        return ""
    p = p_value(ours, theirs)
    better = mean(ours) < mean(theirs)
    if p < 0.01:
        return "▼" if better else "▲"
    if p < 0.05:
        return "▽" if better else "△"
    return "∘"


def _error_table(results: list[RunResult], truth: str, against: str, digits: int) -> Table:
    reference = reference_method(list(dict.fromkeys(result.method for result in results)), against)

    def cell(runs: list[RunResult], of_reference: list[RunResult]) -> tuple[float, Cell]:
        errors = [at_end(run, truth) for run in runs]
        text = f"{mean(errors):.{digits}f}"
        tested = of_reference and runs[0].method != reference
        mark = _mark([at_end(run, truth) for run in of_reference], errors) if tested else ""
        return float(text), Cell(text, f"{spread(errors):.{digits}f}" if len(errors) > 1 else "", mark=mark)

    floor = mean_floor(results) is not None
    slug = re.sub(r"[^a-z0-9]+", "-", truth.lower()).strip("-")
    return _by_method(
        results, f"error-{slug}", f"Binary error against {TRUTHS.get(truth, truth)}",
        _error_notes(reference, against, floor=floor), cell, reference, min,
        reference=reference, floor_digits=digits if floor else None,
    )  # fmt: skip


def _error_notes(reference: str, against: str, *, floor: bool) -> str:
    notes = "Mean over runs, standard deviation in brackets, best in each row in bold."
    if reference:
        marks = ", ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items())
        notes += f" Two-tailed Welch t-test of {reference} against each other method; {reference} is {marks}."
    else:
        notes += f" No significance tests, as {against} is not among the methods."
    if floor:
        notes += " Floor: the held-out error of someone who knows NDCG@10 on the users' queries exactly."
    return notes


def _power_tables(results: list[RunResult], base: str, power: float, level: float) -> list[Table]:
    """Return impressions to a verdict, the same relative to the base, and the quality of pages."""
    measured = [result for result in results if result.preferences and result.ndcg_rankers]
    if not measured:
        return []
    test = f"{100 * power:g} % power at the {100 * level:g} % level"
    verdicts = _by_method(
        measured, "verdict", "Impressions to a verdict",
        f"Impressions until a pair of rankers differs significantly with {test}: median over pairs, quartiles in "
        "brackets, fewest in bold.",
        lambda runs, _: _quartile_cell([n for run in runs for n in verdicts_of(run, power, level)], _count), base, min,
    )  # fmt: skip
    ratios = _by_method(
        measured, "ratio", f"Impressions to a verdict relative to {base}",
        f"Ratio to {base} for the same pair of rankers: median over pairs, quartiles in brackets.",
        lambda runs, of_base: _quartile_cell(paired_ratios(runs, of_base), "{:.2f}".format), base, min,
    )  # fmt: skip
    pages = _by_method(
        measured, "pages", "Quality of the pages shown",
        "NDCG of the pages that users saw, mean over impressions and runs, best in bold; in brackets relative to the "
        "mean and to the best of the rankers' own pages.",
        _pages_cell, base, max,
    )  # fmt: skip
    has_base = any(result.method == base for result in measured)
    return [verdicts, ratios, pages] if has_base else [verdicts, pages]


def _by_method(
    results: list[RunResult],
    name: str,
    caption: str,
    notes: str,
    cell: Callable[[list[RunResult], list[RunResult]], tuple[float, Cell]],
    base: str,
    best_of: Callable[[Iterable[float]], float],
    *,
    reference: str = "",
    floor_digits: int | None = None,
) -> Table:
    """Return a table of one number per method, the best of a row in bold.

    cell: takes the runs of a method and of the base; returns the number, and how it is printed. floor_digits: of the
    last column, the floor, if there is one.
    """
    methods = tuple(dict.fromkeys(result.method for result in results))
    names = row_names(result.dataset for result in results)
    rankers = results[0].rankers

    def row(title: str, runs: list[RunResult]) -> Row:
        of_method = gather(runs, lambda result: result.method)
        found = {m: cell(of_method[m], of_method.get(base, [])) for m in methods if m in of_method}
        known = [value for value, _ in found.values() if not math.isnan(value)]
        best = best_of(known) if known else math.nan
        cells = [replace(found[m][1], bold=found[m][0] == best) if m in found else Cell(NONE) for m in methods]
        if floor_digits is not None:
            cells.append(Cell(f"{mean_floor(runs):.{floor_digits}f}"))
        return Row(title, tuple(cells))

    if len(set(names.values())) == 1:  # then the rows do not name the data set
        caption += f", {next(iter(names.values()))}"
    return Table(
        f"{name}-{rankers}-rankers",
        rankers,
        f"{caption}, {_extent(results, names)}",
        notes,
        methods if floor_digits is None else (*methods, FLOOR),
        _sections(results, names, row),
        reference,
    )


def _quartile_cell(values: Sequence[float], form: Callable[[float], str]) -> tuple[float, Cell]:
    if not values:
        return math.nan, Cell(NONE)
    middle, low, high = quartiles(values)
    return middle, Cell(form(middle), f"{form(low)} to {form(high)}")


def _count(value: float) -> str:
    """Return a number of impressions with three significant digits.

    >>> _count(12345.6), _count(87.2), _count(math.inf)
    ('12,300', '87', '∞')
    """
    if not math.isfinite(value):
        return "∞"
    digits = max(0, len(str(int(value))) - 3)
    return f"{int(round(value, -digits)):,}"


def _pages_cell(runs: list[RunResult], of_base: list[RunResult]) -> tuple[float, Cell]:
    found = pages_of(runs)
    aside = ", ".join(f"{100 * found[name]:.1f} %" for name in ("ndcg_to_mean", "ndcg_to_best") if name in found)
    return found["ndcg_shown"], Cell(f"{found['ndcg_shown']:.4f}", aside)


def _bias_table(results: list[RunResult]) -> Table:
    names = row_names(result.dataset for result in results)
    rankers = results[0].rankers
    sections = []
    for (user, name), runs in gather(results, lambda result: (result.user, names[result.dataset])).items():
        of_method = gather(runs, lambda result: result.method)
        rows = (Row(method, _bias_cells(bias_of(of_method[method]))) for method in of_method)
        sections.append(Section(f"{_plain(user)}, {name}", tuple(rows)))
    return Table(
        f"bias-{rankers}-rankers",
        rankers,
        f"Bias: preferences inferred from users who click at random, {_extent(results, names)}",
        "Preference: mean over pairs of rankers and runs, in bold if its 95 % interval excludes 0. Largest |z|: mean "
        "preference divided by its standard error, for the clearest pair, mean over runs. Beyond: the share of runs in "
        f"which that exceeds {z_bound(rankers):.2f}; at most 5 % without bias, in bold from 10 %. Users who click "
        "almost at random do have a slight preference.",
        ("preference", "95 % interval", "largest |z|", f"beyond {z_bound(rankers):.2f}"),
        tuple(sections),
    )


def _bias_cells(found: dict[str, float]) -> tuple[Cell, ...]:
    preference = interval = clearest = beyond = Cell(NONE)
    if "bias" in found:
        preference = Cell(_signed(found["bias"]))
    if "bias_low" in found:
        low, high = found["bias_low"], found["bias_high"]
        preference = Cell(_signed(found["bias"]), bold=low > 0.0 or high < 0.0)
        interval = Cell(f"{_signed(low)} to {_signed(high)}")
    if "bias_z" in found:
        clearest = Cell(f"{found['bias_z']:.2f}")
        beyond = Cell(f"{100 * found['bias_found']:.0f} %", bold=found["bias_found"] >= 0.1)
    return preference, interval, clearest, beyond


def _signed(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4f}".replace("-", "−")  # + 0.0: no minus before 0.0000


def _sections(
    results: list[RunResult], names: dict[str, str], row: Callable[[str, list[RunResult]], Row]
) -> tuple[Section, ...]:
    """Return rows of data sets under users, or rows of users if there is a single data set."""
    of_user = gather(results, lambda result: result.user)
    if len(set(names.values())) == 1:
        return (Section("", tuple(row(_plain(user), runs) for user, runs in of_user.items())),)
    sections = []
    for user, runs in of_user.items():
        of_name = gather(runs, lambda result: names[result.dataset])
        ordered = [name for name in dict.fromkeys(names.values()) if name in of_name]
        sections.append(Section(_plain(user), tuple(row(name, of_name[name]) for name in ordered)))
    return tuple(sections)


def _plain(user: str) -> str:
    return user.replace("_", " ")


def _extent(results: list[RunResult], names: dict[str, str]) -> str:
    """Return how many rankers, impressions and runs a table is based on."""
    cells = gather(results, lambda result: (names[result.dataset], result.user, result.method))
    counts = sorted({len(runs) for runs in cells.values()})
    runs = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return (
        f"{results[0].rankers} rankers, {results[0].impressions[-1]:,} impressions, "
        f"{runs} run{'' if counts == [1] else 's'} per cell."
    )
