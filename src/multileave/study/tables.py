"""Tables: errors in the paper's layout, as Markdown, LaTeX and CSV.

A table has a row per data set under a heading per user, and a column per method: the mean error over
runs, its standard deviation in brackets, the best of the row in bold. Marks show the two-tailed t-test
of one method, the reference, against each other one, as the paper's triangles do. Beside every row
stands the floor: the error against held-out NDCG@10 of one who knows NDCG@10 on the users' queries
exactly; there is none where no queries are held out. Where there is a single data set the rows are the
users, as in the paper's table of 40 rankers.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from multileave.study.results import (
    RANDOM_USERS,
    RunResult,
    Summary,
    at_end,
    bias_of,
    gather,
    main_truth,
    mean,
    mean_floor,
    p_value,
    row_names,
    spread,
    z_bound,
)

__all__ = [
    "FLOOR",
    "MARKS",
    "TRUTHS",
    "Cell",
    "Row",
    "Section",
    "Table",
    "escape_latex",
    "escape_markdown",
    "make_tables",
    "reference_method",
    "to_csv",
    "to_latex",
    "to_markdown",
]

MARKS = {
    "▼": "better, p < .01",
    "▽": "better, p < .05",
    "▲": "worse, p < .01",
    "△": "worse, p < .05",
    "∘": "no significant difference",
}

TRUTHS = {
    "heldout": "NDCG@10 on held-out queries",
    "same_queries": "NDCG@10 on the queries the users issued",
}

NONE = "–"  # in a cell without runs
FLOOR = "floor"


@dataclass(frozen=True)
class Cell:
    """A number as it is printed, what stands in brackets behind it, whether it is bold, and its mark."""

    text: str
    aside: str = ""
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """One row: its name, and a cell for every column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Section:
    """The rows under one heading; the heading may be empty."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table that can be printed in any format.

    name: short, of letters, digits and hyphens. caption: what it shows; notes: how to read it, the same
    for all tables of a kind. columns: their headings. reference: the method of the marks, or "".
    """

    name: str
    rankers: int
    caption: str
    notes: str
    columns: tuple[str, ...]
    sections: tuple[Section, ...]
    reference: str = ""

    @property
    def compared(self) -> tuple[int, ...]:
        """The columns that have marks: all but the reference and, at the end, the floor."""
        marked = self.columns[: len(self.columns) - self.closing]
        return tuple(i for i, name in enumerate(marked) if self.reference and name != self.reference)

    @property
    def closing(self) -> int:
        """How many columns stand behind the marks: 1, or 0 for errors without a floor."""
        return int(not self.reference or self.columns[-1] == FLOOR)


def make_tables(
    results: Iterable[RunResult], *, against: str = "ppm", paired: bool = False, digits: int = 2
) -> list[Table]:
    """Return all tables of some results, by number of rankers: the errors against each truth, then bias.

    against: the reference of the marks, see `reference_method`.
    paired: test the differences of runs of the same data set, fold and number, rather than Welch's test.
    digits: decimals, by which the best of a row may also tie.

    Users who click at random appear only in the table of bias, for to them no ranker is better.
    """
    tables = []
    by_rankers = gather(results, lambda result: result.rankers)
    for rankers in sorted(by_rankers):
        of_rankers = by_rankers[rankers]
        scored = [result for result in of_rankers if result.user != "random"]
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
    """Return the method that others are tested against: the one of that spelling, else the last of that name.

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
    """Return the sign of the test of our runs against theirs."""
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
    notes = "Mean over runs, standard deviation in brackets, best of a row in bold."
    if reference:
        test = "t-test over runs matched by fold and number" if paired else "Welch t-test"
        marks = ", ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items())
        notes += f" Two-tailed {test} of {reference} against each other method; {reference} is {marks}."
    else:
        notes += f" No tests of significance: {against} is not among the methods."
    if floor:
        notes += " Floor: the held-out error of one who knows NDCG@10 exactly on the queries the users issued."
    return notes


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
        f"What users who click at random seem to prefer, {_extent(results, names)}",
        "Preference: mean over pairs of rankers and over runs, in bold where its 95 % interval excludes 0. Largest "
        "|z|: mean preference by standard error of the clearest pair, mean over runs. Beyond: the share of runs where "
        f"that is more than {z_bound(rankers):.2f}; without bias 5 % at most, in bold from 10 % on. Users who click "
        "almost at random have some preference of their own.",
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
    """Put rows of data sets under users, or rows of users if there is a single data set."""
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
    """Name the data set in the caption if the rows do not."""
    return "" if len(set(names.values())) > 1 else f", {next(iter(names.values()))}"


def _plain(user: str) -> str:
    return user.replace("_", " ")


def _extent(results: list[RunResult], names: dict[str, str]) -> str:
    """Return how much a table rests on."""
    cells = gather(results, lambda result: (names[result.dataset], result.user, result.method))
    counts = sorted({len(runs) for runs in cells.values()})
    runs = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return (
        f"{results[0].rankers} rankers, {results[0].impressions[-1]:,} impressions, "
        f"{runs} run{'' if counts == [1] else 's'} per cell."
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def to_markdown(tables: Iterable[Table]) -> str:
    """Return the tables as Markdown with pipe tables, as GitHub and Pandoc read them, notes once for a kind."""
    parts: list[str] = []
    notes: list[str] = []
    for table in tables:
        parts.append(_markdown(table))
        if table.notes not in notes:
            notes.append(table.notes)
            parts.append(escape_markdown(table.notes) + "\n")
    return "\n".join(parts)


def _markdown(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    lines = [
        f"## {escape_markdown(table.caption)}",
        "",
        line(["", *(escape_markdown(column) for column in table.columns)]),
        line([":--", *(":--" for _ in table.columns)]),
    ]
    for section in table.sections:
        if section.heading:
            lines.append(line([f"*{escape_markdown(section.heading)}*", *("" for _ in table.columns)]))
        for row in section.rows:
            cells = [
                (f"**{cell.text}**" if cell.bold else cell.text)
                + (f" ({cell.aside})" if cell.aside else "")
                + (f" {cell.mark}" if cell.mark else "")
                for cell in row.cells
            ]
            lines.append(line([escape_markdown(row.name), *cells]))
    return "\n".join([*lines, ""])


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows as it is.

    >>> print(escape_markdown("a|b *c* <d>"))
    a\\|b \\*c\\* &lt;d>
    """
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", text)


LATEX_START = r"""% Made by multileave. \input this file (packages amssymb, booktabs and graphicx), or compile it alone.
\expandafter\ifx\csname @nodocument\endcsname\relax
  \let\multileaveend\relax
\else
  \documentclass[10pt]{article}
  \usepackage[margin=15mm]{geometry}
  \usepackage{amssymb,booktabs,graphicx}
  \def\multileaveend{\end{document}}
  \begin{document}
\fi
\providecommand{\enkelop}{\ensuremath{^{\vartriangle}}}
\providecommand{\dubbelop}{\ensuremath{^{\blacktriangle}}}
\providecommand{\enkelneer}{\ensuremath{^{\triangledown}}}
\providecommand{\dubbelneer}{\ensuremath{^{\blacktriangledown}}}
"""

LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
    "|": r"\ensuremath{|}",
    '"': "''",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "–": "--",
    "−": r"\ensuremath{-}",
    "▼": r"\dubbelneer{}",
    "▽": r"\enkelneer{}",
    "▲": r"\dubbelop{}",
    "△": r"\enkelop{}",
    "∘": r"\ensuremath{\circ}",
}


def to_latex(tables: Iterable[Table]) -> str:
    """Return the tables as LaTeX, to be compiled alone or within a paper; one too wide for it is shrunk.

    As in the paper the marks stand together behind the methods, in their order, without the reference,
    and later captions refer to the first for the notation.
    """
    parts: list[str] = []
    first: dict[str, str] = {}
    for table in tables:
        known = first.setdefault(table.notes, table.name)
        notes = escape_latex(table.notes) if known == table.name else rf"Notation as in Table~\ref{{tab:{known}}}."
        parts.append(_latex(table, notes))
    return "\n".join([LATEX_START, *parts, "\\multileaveend\n"])


def _latex(table: Table, notes: str) -> str:
    methods, marks = len(table.columns) - table.closing, len(table.compared)
    head = [rf"\textbf{{{escape_latex(column)}}}" for column in table.columns[:methods]]
    lines = [
        r"\begin{table*}[tb]",
        r"\centering",
        rf"\caption{{{escape_latex(table.caption)} {notes}}}",
        rf"\label{{tab:{table.name}}}",
        r"\medskip\small\setlength{\tabcolsep}{4pt}",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{@{{}}l{'l' * methods}{'@{~}c' + '@{}c' * (marks - 1) if marks else ''}"
        rf"{'r' * table.closing}@{{}}}}",
        r"\toprule",
        " & ".join(["", *head, *("" for _ in table.compared), *map(escape_latex, table.columns[methods:])]).strip()
        + r" \\",
    ]
    for section in table.sections:
        lines.append(r"\midrule")
        if section.heading:
            lines.append(rf"& \multicolumn{{{methods}}}{{c}}{{\textit{{{escape_latex(section.heading)}}}}} \\")
            lines.append(r"\midrule")
        for row in section.rows:
            cells = [
                (rf"\textbf{{{escape_latex(cell.text)}}}" if cell.bold else escape_latex(cell.text))
                + (rf" {{\tiny({escape_latex(cell.aside)})}}" if cell.aside else "")
                for cell in row.cells
            ]
            signs = [_latex_mark(row.cells[i].mark) for i in table.compared]
            lines.append(" & ".join([escape_latex(row.name), *cells[:methods], *signs, *cells[methods:]]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table*}", ""])


def _latex_mark(mark: str) -> str:
    return escape_latex(mark) if mark in ("", "∘") else rf"{{\tiny {escape_latex(mark)}}}"


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX shows as it is, the marks as the paper's own commands.

    >>> print(escape_latex("50 % of a_b"))
    50 \% of a\_b
    """
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))


def to_csv(summaries: Sequence[Summary]) -> str:
    """Return one line per summary, under a header; errors against further truths are columns of their own."""
    truths = list(dict.fromkeys(truth for summary in summaries for truth in summary.other))
    lines = []
    for summary in summaries:
        values = summary.to_dict()
        other = values.pop("other")
        lines.append(values | {f"error_{truth}": other.get(truth) for truth in truths})
    out = io.StringIO()
    writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()
