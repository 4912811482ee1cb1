"""Table formats: a table as a value, and as Markdown, LaTeX and CSV; `tables` makes those of a study."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from multileave.study.summaries import Summary

MARKS = {
    "▼": "better, p < .01",
    "▽": "better, p < .05",
    "▲": "worse, p < .01",
    "△": "worse, p < .05",
    "∘": "no significant difference",
}

FLOOR = "floor"


@dataclass(frozen=True)
class Cell:
    """A number as text, what follows it in brackets, whether it is bold, and its mark."""

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

    name: letters, digits and hyphens. caption: what it shows; notes: how to read it, the same for all tables of a kind.
    columns: their headings. reference: the method that marks refer to, or "".
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
        """How many columns come after the methods: 1 for the floor, or 0."""
        return int(self.columns[-1] == FLOOR)


def to_markdown(tables: Iterable[Table]) -> str:
    """Return the tables as Markdown pipe tables, with the notes once per kind of table."""
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
    """Return text that Markdown shows as is.

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
    """Return the tables as LaTeX, to be compiled alone or within a paper; wide ones are shrunk to fit.

    As in the paper, the marks follow the methods, in their order, without the reference, and later captions refer to
    the first for the notation.
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
    r"""Return text that LaTeX shows as is, with the marks as the paper's own commands.

    >>> print(escape_latex("50 % of a_b"))
    50 \% of a\_b
    """
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))


def to_csv(summaries: Sequence[Summary]) -> str:
    """Return one line per summary, below a header; errors against further truths are additional columns."""
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
