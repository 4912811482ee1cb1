"""The report of a study: tables, figures, and one HTML page with all of it and the settings.

The page is a single file with embedded figures; it loads nothing and runs no script. All text from outside (names of
methods, data sets, settings) is escaped. It is built without a template engine, which studies otherwise do not need.
"""

import base64
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from multileave.stats import Verdict
from multileave.study.plots import error_figure, power_figure, require_matplotlib, save
from multileave.study.power import LEVEL, POWER
from multileave.study.results import RunResult, main_truth, write_aside
from multileave.study.summaries import BASE, Summary, summarise
from multileave.study.systems import RunComparison
from multileave.study.table_formats import FLOOR, MARKS, Cell, Table, to_csv, to_latex, to_markdown
from multileave.study.tables import TRUTHS, make_tables
from multileave.version import __version__


@dataclass(frozen=True)
class Picture:
    """A figure of the page: an SVG, its width in inches, its caption and its alternative text."""

    svg: bytes
    width: float
    caption: str
    alternative: str


def write_report(
    results: Iterable[RunResult],
    settings: Mapping[str, Any],
    out: Path | str,
    *,
    against: str = "ppm",
    command: Sequence[str] | str | None = None,
    compared: RunComparison | None = None,
    base: str = BASE,
    power: float = POWER,
    level: float = LEVEL,
) -> list[Path]:
    """Write the report of a study into a folder, and return the files.

    results: those of one study. settings: shown on the page.
    against: of the significance tests, see `multileave.study.tables.make_tables`.
    command: the command line of the study, by default settings["command"].
    compared: the comparison of run files, whose table and verdicts come first.
    base, power, level: of impressions to a verdict, see `multileave.study.summaries.summarise`.

    Files: tables.md, tables.tex, results.csv (a line per data set, user, number of rankers and method), summary.json
    (the same, with settings and version), power-R-rankers.png and .pdf and errors-R-rankers.png and .pdf for each
    number of rankers R, and index.html. Tables are written first, so they exist even if Matplotlib is missing.
    """
    results = list(results)
    out = Path(out)
    test: Any = {"base": base, "power": power, "level": level}
    summaries = summarise(results, **test)
    tables = make_tables(results, against=against, **test)
    verdicts = {}
    if compared is not None:
        tables = [compared.table, *tables]
        verdicts = {f"{user} users, by {compared.method}": verdict for user, verdict in compared.verdicts.items()}
    document = {
        "version": __version__,
        "settings": dict(settings),
        "results": [summary.to_dict() for summary in summaries],
        **({"verdicts": {name: verdict.to_dict() for name, verdict in verdicts.items()}} if verdicts else {}),
    }
    written: list[Path] = []

    def write(name: str, content: str | bytes) -> None:
        write_aside(out / name, content)
        written.append(out / name)

    write("tables.md", to_markdown(tables))
    write("tables.tex", to_latex(tables))
    write("results.csv", to_csv(summaries))
    write("summary.json", json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")

    require_matplotlib()
    truth = main_truth(results)
    pictures: dict[int, list[Picture]] = {}
    for rankers in sorted({result.rankers for result in results if result.user != "random"}):
        figures = {}
        if any(result.preferences and result.ndcg_rankers for result in results if result.rankers == rankers):
            figures["power"] = power_figure(results, rankers, power=power, level=level)
        figures["errors"] = error_figure(results, rankers)
        for name, figure in figures.items():
            for form in ("png", "pdf"):
                write(f"{name}-{rankers}-rankers.{form}", save(figure, form))
        words = {
            "power": (
                "Impressions to a verdict (median over pairs, with quartiles) against NDCG of the pages shown, "
                f"{rankers} rankers. Bottom right is best; dashed: the mean of the rankers' own pages.",
                f"Impressions to a verdict against page quality for {rankers} rankers, as in the tables.",
            ),
            "errors": (
                f"Binary error against {TRUTHS[truth]} over impressions, {rankers} rankers. Bands: 95 % interval of "
                f"the mean over runs.{' Dashed: the floor.' if truth == 'heldout' else ''}",
                f"Binary error over impressions for {rankers} rankers; the tables hold the final values.",
            ),
        }
        pictures[rankers] = [
            Picture(save(figure, "svg"), float(figure.get_figwidth()), *words[name]) for name, figure in figures.items()
        ]
    if command is None:
        command = settings.get("command")
    write("index.html", html_page(tables, pictures, summaries, settings, command=command, verdicts=verdicts))
    return written


def html_page(
    tables: Sequence[Table],
    pictures: Mapping[int, Sequence[Picture]],
    summaries: Sequence[Summary],
    settings: Mapping[str, Any],
    *,
    command: Sequence[str] | str | None = None,
    verdicts: Mapping[str, Verdict] | None = None,
) -> str:
    """Return the page as one HTML document, with tables and pictures grouped by number of rankers."""
    title = _text(settings.get("title", "Study of comparison methods"))
    parts = [_introduction(summaries), *([_html_verdicts(verdicts)] if verdicts else [])]
    numbers = sorted({summary.rankers for summary in summaries})
    for rankers in numbers:
        parts.append(f'<section>\n<h2 id="rankers-{rankers}">{rankers} rankers</h2>')
        noted: set[str] = set()
        for number, table in enumerate(table for table in tables if table.rankers == rankers):
            parts.append(_html_table(table))
            if table.notes not in noted:
                noted.add(table.notes)
                parts.append(f'<p class="note">{_text(table.notes)}</p>')
            if number == 0:
                parts += map(_html_picture, pictures.get(rankers, ()))
        parts.append("</section>")
    parts.append(_made_by({key: value for key, value in settings.items() if key not in ("title", "command")}, command))
    page = Template((files("multileave.study") / "report.html").read_text(encoding="utf-8"))
    return page.substitute(title=title, body="\n".join(parts), version=escape(__version__))


def _introduction(summaries: Sequence[Summary]) -> str:
    impressions = sum(summary.runs * summary.impressions for summary in summaries)
    methods = list(dict.fromkeys(summary.method for summary in summaries))
    users = list(dict.fromkeys(summary.user.replace("_", " ") for summary in summaries))
    datasets = list(dict.fromkeys(summary.dataset for summary in summaries))
    runs = sum(summary.runs for summary in summaries)
    facts = {
        "Data": ", ".join(datasets),
        "Methods": ", ".join(methods),
        "Users": ", ".join(users),
        "Runs": f"{runs:,}, with {impressions:,} impressions in total",
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{items}</dl>'


def _html_verdicts(verdicts: Mapping[str, Verdict]) -> str:
    said = "".join(
        f"<p><strong>{_text(name)}</strong>: {_text(verdict.sentence)}.</p>\n" for name, verdict in verdicts.items()
    )
    warnings = dict.fromkeys(warning for verdict in verdicts.values() for warning in verdict.warnings)
    noted = "".join(f'<p class="note">Warning: {_text(warning)}</p>\n' for warning in warnings)
    return f'<section>\n<h2 id="verdict">Verdict</h2>\n{said}{noted}</section>'


def _html_table(table: Table) -> str:
    name = _text(table.name)
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in table.columns)
    bodies = []
    for section in table.sections:
        lines = []
        if section.heading:
            heading = (
                f'<th scope="rowgroup" colspan="{len(table.columns) + 1}"><span>{_text(section.heading)}</span></th>'
            )
            lines.append(f'<tr class="heading">{heading}</tr>')
        for row in section.rows:
            cells = "".join(f"<td>{_html_cell(cell, table.reference)}</td>" for cell in row.cells)
            lines.append(f'<tr><th scope="row">{_text(row.name)}</th>{cells}</tr>')
        bodies.append("<tbody>\n" + "\n".join(lines) + "\n</tbody>")
    kind = "errors" if table.columns[-1] == FLOOR else "plain"
    return (
        f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0">\n'
        f'<table class="{kind}">\n<caption id="{name}"><span>{_text(table.caption)}</span></caption>\n'
        f"<thead><tr><td></td>{head}</tr></thead>\n{''.join(bodies)}\n</table>\n</div>"
    )


def _html_cell(cell: Cell, reference: str) -> str:
    text = f"<strong>{_text(cell.text)}</strong>" if cell.bold else _text(cell.text)
    if cell.aside:
        text += f" <small>({_text(cell.aside)})</small>"
    if cell.mark:
        meaning = escape(f"{reference} {MARKS[cell.mark]}", quote=True)
        text += f' <span class="mark" role="img" aria-label="{meaning}" title="{meaning}">{_text(cell.mark)}</span>'
    return text


def _html_picture(picture: Picture) -> str:
    data = base64.b64encode(picture.svg).decode("ascii")
    size = f"min-width: {0.7 * picture.width:.2f}in; max-width: {1.5 * picture.width:.2f}in"
    return (
        '<figure>\n<div class="scroll" role="region" aria-label="Figure" tabindex="0">'
        f'<img src="data:image/svg+xml;base64,{data}" style="{size}" alt="{_text(picture.alternative)}"></div>\n'
        f"<figcaption>{_text(picture.caption)}</figcaption>\n</figure>"
    )


def _made_by(settings: Mapping[str, Any], command: Sequence[str] | str | None) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{_text(str(key))}</th><td>{_text(_shown(value))}</td></tr>'
        for key, value in settings.items()
    )
    line = command if isinstance(command, str) else shlex.join(map(str, command)) if command else ""
    shown = f"<pre><code>{_text(line)}</code></pre>" if line else ""
    return (
        '<section>\n<h2 id="made-by">Settings</h2>\n'
        f"<p>multileave {escape(__version__)}</p>\n{shown}\n"
        '<div class="scroll" role="region" aria-label="Settings" tabindex="0">\n'
        f'<table class="settings">\n<caption><span>All settings</span></caption>\n<tbody>\n{rows}\n</tbody>\n</table>\n'
        "</div>\n</section>"
    )


def _shown(value: Any) -> str:
    """Return a setting as text; a list by its parts, a dictionary as JSON."""
    if isinstance(value, list | tuple) and not any(isinstance(part, list | tuple | Mapping) for part in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _text(text: str) -> str:
    return escape(str(text), quote=True)
