"""The report of a study: tables, figures and one HTML page with all of it and the settings that made it.

The page is a single file: figures are within it, nothing is fetched, and no script runs. Whatever comes
from outside (names of methods, of data sets, settings) is escaped.
"""

import base64
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from multileave.stats import Verdict
from multileave.study.plots import error_figure, power_figure, require_matplotlib, save
from multileave.study.power import LEVEL, POWER
from multileave.study.results import RunResult, main_truth, write_aside
from multileave.study.summaries import BASE, Summary, summarise
from multileave.study.table_formats import FLOOR, MARKS, Cell, Table, to_csv, to_latex, to_markdown
from multileave.study.tables import TRUTHS, make_tables
from multileave.version import __version__

__all__ = ["Picture", "html_page", "write_report"]


@dataclass(frozen=True)
class Picture:
    """A figure of the page: an SVG, its width in inches, its caption, and words for those who cannot see it."""

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
    paired: bool = False,
    command: Sequence[str] | str | None = None,
    first: Sequence[Table] = (),
    verdicts: Mapping[str, Verdict] | None = None,
    base: str = BASE,
    power: float = POWER,
    level: float = LEVEL,
) -> list[Path]:
    """Write all that a study found into a folder, and return the files.

    results: those of one study. settings: what made them, as shown on the page.
    against, paired: the tests of significance, see `multileave.study.tables.make_tables`.
    command: the command line that made them, by default settings["command"].
    first: tables before all others. verdicts: by name, such as that of the user.
    base, power, level: of impressions to a verdict, see `multileave.study.summaries.summarise`.

    Files: tables.md, tables.tex, results.csv (a line per data set, user, number of rankers and method),
    summary.json (the same, with settings and version), for each number of rankers R power-R-rankers.png and .pdf and
    errors-R-rankers.png and .pdf, and index.html. Tables come first: they are there even if Matplotlib, for the
    rest, is not.
    """
    results = list(results)
    out = Path(out)
    test: Any = {"base": base, "power": power, "level": level}
    summaries = summarise(results, **test)
    tables = [*first, *make_tables(results, against=against, paired=paired, **test)]
    judged = verdicts or {}
    document = {
        "version": __version__,
        "settings": _plain(settings),
        "results": [summary.to_dict() for summary in summaries],
        **({"verdicts": {name: verdict.to_dict() for name, verdict in judged.items()}} if judged else {}),
    }
    written: list[Path] = []

    def write(name: str, content: str | bytes) -> None:
        write_aside(out / name, content)
        written.append(out / name)

    write("tables.md", to_markdown(tables))
    write("tables.tex", to_latex(tables))
    write("results.csv", to_csv(summaries))
    write("summary.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")

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
                f"{rankers} rankers. Right and low is best; dashed: the mean of the rankers' own pages.",
                f"Impressions to a verdict against the quality of pages for {rankers} rankers, as in the tables.",
            ),
            "errors": (
                f"Binary error against {TRUTHS[truth]} over impressions, {rankers} rankers. Bands: 95 % interval of "
                f"the mean over runs.{' Dashed: the floor.' if truth == 'heldout' else ''}",
                f"Binary error over impressions for {rankers} rankers; the tables hold the values at the end.",
            ),
        }
        pictures[rankers] = [
            Picture(save(figure, "svg"), float(figure.get_figwidth()), *words[name]) for name, figure in figures.items()
        ]
    if command is None:
        command = settings.get("command")
    write("index.html", html_page(tables, pictures, summaries, settings, command=command, verdicts=judged))
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
    """Return the page as one document of HTML; tables and pictures are put together by number of rankers."""
    title = _text(settings.get("title", "A study of comparison methods"))
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
    return PAGE.format(title=title, style=STYLE, body="\n".join(parts), version=escape(__version__))


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
        "Runs": f"{runs:,}, with {impressions:,} impressions in all",
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{items}</dl>'


def _html_verdicts(verdicts: Mapping[str, Verdict]) -> str:
    said = "".join(
        f"<p><strong>{_text(name)}</strong>: {_text(verdict.sentence)}.</p>\n" for name, verdict in verdicts.items()
    )
    warnings = dict.fromkeys(warning for verdict in verdicts.values() for warning in verdict.warnings)
    noted = "".join(f'<p class="note">Warning: {_text(warning)}.</p>\n' for warning in warnings)
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
        '<section>\n<h2 id="made-by">How this was made</h2>\n'
        f"<p>multileave {escape(__version__)}</p>\n{shown}\n"
        '<div class="scroll" role="region" aria-label="Settings" tabindex="0">\n'
        f'<table class="settings">\n<caption><span>Settings</span></caption>\n<tbody>\n{rows}\n</tbody>\n</table>\n'
        "</div>\n</section>"
    )


def _shown(value: Any) -> str:
    """Return a setting as one reads it; a list by its parts, a dictionary as JSON."""
    if isinstance(value, list | tuple) and not any(isinstance(part, list | tuple | Mapping) for part in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a setting."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _text(text: str) -> str:
    return escape(str(text), quote=True)


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="generator" content="multileave {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
<footer>Made by multileave {version}. This page needs no network.</footer>
</body>
</html>
"""

STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #ffffff; --band: #f3f5f8; --best: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9da7b1; --line: #3a424b; --paper: #14181d; --band: #1d232a; --best: #7cb8ff; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main, footer { max-width: 68rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1.5rem 0 1rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
.facts { display: grid; gap: .35rem; margin: 0; }
.facts div { display: grid; grid-template-columns: 6rem 1fr; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin-top: 1.5rem; }
figure .scroll { margin-top: 0; }
.scroll:focus-visible { outline: 2px solid var(--best); outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0 0 .5rem; }
caption span { display: inline-block; position: sticky; left: 0; max-width: min(60rem, calc(100vw - 2rem)); }
th, td { padding: .3rem .7rem; text-align: left; white-space: nowrap; }
thead th, thead td { border-top: 2px solid var(--ink); border-bottom: 1px solid var(--ink); }
tbody:last-child tr:last-child > * { border-bottom: 2px solid var(--ink); }
tbody th { font-weight: 400; }
tbody th[scope=row], thead td { position: sticky; left: 0; background: var(--paper); }
tbody tr:hover > * { background: var(--band); }
tr.heading th { font-style: italic; color: var(--soft); background: var(--band); }
tr.heading span { position: sticky; left: .7rem; }
.errors td:last-child, .errors thead th:last-child { color: var(--soft); border-left: 1px solid var(--line); }
td strong { color: var(--best); }
td small { color: var(--soft); }
.mark { cursor: help; }
.note, figcaption { color: var(--soft); font-size: .875rem; max-width: 60rem; }
figure { margin: 1.5rem 0; }
figure .scroll { background: #ffffff; border-radius: 6px; padding: .5rem; border: 1px solid var(--line); }
figure img { display: block; margin: 0 auto; width: 100%; height: auto; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .75rem 1rem; background: var(--band);
  border-radius: 6px; font-size: .875rem; }
.settings tr:first-child > * { border-top: 2px solid var(--ink); }
.settings td { white-space: normal; overflow-wrap: anywhere; }
.settings th { color: var(--soft); vertical-align: top; }
footer { margin-top: 3rem; padding-bottom: 2rem; color: var(--soft); font-size: .875rem; }
@media (max-width: 40rem) {
  th, td { padding: .3rem .45rem; font-size: .875rem; }
  tbody th[scope=row] { white-space: normal; min-width: 6.5rem; max-width: 9rem; }
}
@media print { .scroll { overflow: visible; } tbody th[scope=row], thead td { position: static; } }
"""
