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

__all__ = ["TRUTHS", "Table", "make_tables", "reference_method", "to_csv", "to_latex", "to_markdown"]

TRUTHS = {
    "heldout": "NDCG@10 on held-out queries",
    "same_queries": "NDCG@10 on the queries the users issued",
}

NONE = "–"  # in a cell without runs


def make_tables(
    results: Iterable[RunResult],
    *,
    against: str = "ppm",
    paired: bool = False,
    digits: int = 2,
    base: str = BASE,
    power: float = POWER,
    level: float = LEVEL,
) -> list[Table]:
    """Return all tables of some results, by number of rankers.

    Impressions to a verdict, the same relative to a base method, the quality of the pages shown, errors against each
    truth, then bias.

    against: the reference of the marks, see `reference_method`.
    paired: use a paired test over runs of the same data set, fold and number, rather than Welch's.
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
        told = TRUTHS if main_truth(scored) == "heldout" else ("same_queries",)
        for truth in [*told, *dict.fromkeys(name for result in scored for name in result.other)]:
            chosen = [result for result in scored if truth in TRUTHS or truth in result.other]
            if chosen:
                tables.append(_error_table(chosen, truth, against, paired, digits))
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


def _mark(ours: Sequence[RunResult], theirs: Sequence[RunResult], truth: str, paired: bool) -> str:
    """Return the mark for the test of our runs against theirs."""
    if paired:
        of_key = {run.key: at_end(run, truth) for run in theirs}
        both = [(at_end(run, truth), of_key[run.key]) for run in ours if run.key in of_key]
        a, b = [x for x, _ in both], [y for _, y in both]
    else:
        a, b = [at_end(run, truth) for run in ours], [at_end(run, truth) for run in theirs]
    if min(len(a), len(b)) < 2:
        return ""
    p = p_value(a, b, paired=paired)
    better = mean(a) < mean(b)
    if p < 0.01:
        return "▼" if better else "▲"
    if p < 0.05:
        return "▽" if better else "△"
    return "∘"


def _error_table(results: list[RunResult], truth: str, against: str, paired: bool, digits: int) -> Table:
    methods = list(dict.fromkeys(result.method for result in results))
    reference = reference_method(methods, against)
    names = row_names(result.dataset for result in results)

    def rows(name: str, runs: list[RunResult]) -> list[Row]:
        of_method = gather(runs, lambda result: result.method)
        errors = {method: [at_end(run, truth) for run in of_method[method]] for method in of_method}
        means = {method: f"{mean(values):.{digits}f}" for method, values in errors.items()}
        best = min(means.values(), key=float)
        cells = []
        for method in methods:
            if method not in means:
                cells.append(Cell(NONE))
                continue
            values = errors[method]
            tested = reference in of_method and method != reference
            cells.append(
                Cell(
                    means[method],
                    f"{spread(values):.{digits}f}" if len(values) > 1 else "",
                    means[method] == best,
                    _mark(of_method[reference], of_method[method], truth, paired) if tested else "",
                )
            )
        floor = mean_floor(runs)
        return [Row(name, (*cells, *([] if floor is None else [Cell(f"{floor:.{digits}f}")])))]

    rankers = results[0].rankers
    has_floor = mean_floor(results) is not None
    return Table(
        f"error-{_slug(truth)}-{rankers}-rankers",
        rankers,
        f"Binary error against {TRUTHS.get(truth, truth)}{_where(names)}, {_extent(results, names)}",
        _error_notes(reference, against, paired, floor=has_floor),
        (*methods, *([FLOOR] if has_floor else [])),
        _sections(results, names, rows),
        reference,
    )


def _error_notes(reference: str, against: str, paired: bool, *, floor: bool) -> str:
    notes = "Mean over runs, standard deviation in brackets, best in each row in bold."
    if reference:
        test = "t-test over runs matched by fold and number" if paired else "Welch t-test"
        marks = ", ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items())
        notes += f" Two-tailed {test} of {reference} against each other method; {reference} is {marks}."
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
    rankers = measured[0].rankers
    names = row_names(result.dataset for result in measured)
    extent = f"{_where(names)}, {_extent(measured, names)}"
    test = f"{100 * power:g} % power at the {100 * level:g} % level"
    tables = [
        _by_method(
            measured, f"verdict-{rankers}-rankers", f"Impressions to a verdict{extent}",
            f"Impressions until a pair of rankers differs significantly with {test}: median over pairs, quartiles in "
            "brackets, fewest in bold.",
            lambda runs, of_base: _quartile_cell([n for run in runs for n in verdicts_of(run, power, level)], _count),
            base, min,
        )
    ]  # fmt: skip
    if any(result.method == base for result in measured):
        tables.append(
            _by_method(
                measured, f"ratio-{rankers}-rankers", f"Impressions to a verdict relative to {base}{extent}",
                f"Ratio to {base} for the same pair of rankers: median over pairs, quartiles in brackets.",
                lambda runs, of_base: _quartile_cell(paired_ratios(runs, of_base), "{:.2f}".format),
                base, min,
            )
        )  # fmt: skip
    tables.append(
        _by_method(
            measured, f"pages-{rankers}-rankers", f"Quality of the pages shown{extent}",
            "NDCG of the pages that users saw, mean over impressions and runs, best in bold; in brackets relative to "
            "the mean and to the best of the rankers' own pages.",
            _pages_cell, base, max,
        )
    )  # fmt: skip
    return tables


def _by_method(
    results: list[RunResult],
    name: str,
    caption: str,
    notes: str,
    cell: Callable[[list[RunResult], list[RunResult]], tuple[float, Cell]],
    base: str,
    best_of: Callable[[Iterable[float]], float],
) -> Table:
    """Return a table of one number per method, the best of a row in bold; cell: its value, and how it is printed."""
    methods = list(dict.fromkeys(result.method for result in results))
    names = row_names(result.dataset for result in results)

    def rows(row: str, runs: list[RunResult]) -> list[Row]:
        of_method = gather(runs, lambda result: result.method)
        found = {m: cell(of_method[m], of_method.get(base, [])) for m in methods if m in of_method}
        known = [value for value, _ in found.values() if not math.isnan(value)]
        best = best_of(known) if known else math.nan
        cells = (
            replace(found[m][1], bold=found[m][0] == best) if m in found else Cell(NONE) for m in methods
        )  # fmt: skip
        return [Row(row, tuple(cells))]

    return Table(name, results[0].rankers, caption, notes, tuple(methods), _sections(results, names, rows))


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
    results: list[RunResult], names: dict[str, str], rows: Callable[[str, list[RunResult]], list[Row]]
) -> tuple[Section, ...]:
    """Return rows of data sets under users, or rows of users if there is a single data set."""
    of_user = gather(results, lambda result: result.user)
    if len(set(names.values())) == 1:
        return (Section("", tuple(row for user, runs in of_user.items() for row in rows(_plain(user), runs))),)
    sections = []
    for user, runs in of_user.items():
        of_name = gather(runs, lambda result: names[result.dataset])
        ordered = [name for name in dict.fromkeys(names.values()) if name in of_name]
        sections.append(Section(_plain(user), tuple(row for name in ordered for row in rows(name, of_name[name]))))
    return tuple(sections)


def _where(names: dict[str, str]) -> str:
    """Return the data set for the caption if the rows do not name it."""
    return "" if len(set(names.values())) > 1 else f", {next(iter(names.values()))}"


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


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
