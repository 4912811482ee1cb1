"""The report of a study: tables, figures, and one HTML page with all of it and the settings.

The page is a single file with embedded figures; it loads nothing and runs no script. All text from outside (names of
methods, data sets, settings) is escaped.
"""

import base64
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multileave.errors import MissingExtra
from multileave.stats import Verdict
from multileave.study.plots import error_figure, power_figure, require_matplotlib, save
from multileave.study.power import LEVEL, POWER
from multileave.study.results import RunResult, main_truth, write_aside
from multileave.study.summaries import BASE, Summary, summarise
from multileave.study.systems import RunComparison
from multileave.study.table_formats import FLOOR, MARKS, Table, to_csv, to_latex, to_markdown
from multileave.study.tables import TRUTHS, make_tables
from multileave.version import __version__

try:
    from jinja2 import Environment, PackageLoader
except ImportError as error:  # at once, not at the end of a long study
    raise MissingExtra("The report needs Jinja, which is missing: pip install 'multileave[study]'") from error


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
    command: Sequence[str] = (),
    compared: RunComparison | None = None,
    base: str = BASE,
    power: float = POWER,
    level: float = LEVEL,
) -> list[Path]:
    """Write the report of a study into a folder, and return the files.

    results: those of one study. settings: shown on the page.
    against: of the significance tests, see `multileave.study.tables.make_tables`.
    command: the command line of the study, in parts.
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
    write("index.html", html_page(tables, pictures, summaries, settings, command=command, verdicts=verdicts))
    return written


def html_page(
    tables: Sequence[Table],
    pictures: Mapping[int, Sequence[Picture]],
    summaries: Sequence[Summary],
    settings: Mapping[str, Any],
    *,
    command: Sequence[str] = (),
    verdicts: Mapping[str, Verdict] | None = None,
) -> str:
    """Return the page as one HTML document, with tables and pictures grouped by number of rankers."""
    page = Environment(loader=PackageLoader("multileave.study", ""), autoescape=True, trim_blocks=True)
    page.filters |= {"shown": _shown, "base64": lambda data: base64.b64encode(data).decode("ascii")}
    runs = sum(summary.runs for summary in summaries)
    impressions = sum(summary.runs * summary.impressions for summary in summaries)
    return page.get_template("report.html").render(
        version=__version__,
        title=settings.get("title", "Study of comparison methods"),
        facts={
            "Data": list(dict.fromkeys(summary.dataset for summary in summaries)),
            "Methods": list(dict.fromkeys(summary.method for summary in summaries)),
            "Users": list(dict.fromkeys(summary.user.replace("_", " ") for summary in summaries)),
            "Runs": f"{runs:,}, with {impressions:,} impressions in total",
        },
        verdicts=verdicts or {},
        warnings=dict.fromkeys(warning for verdict in (verdicts or {}).values() for warning in verdict.warnings),
        tables=tables,
        pictures=pictures,
        marks=MARKS,
        floor=FLOOR,
        command=shlex.join(command),
        settings={key: value for key, value in settings.items() if key != "title"},
    )


def _shown(value: Any) -> str:
    """Return a setting as text; a list by its parts, a dictionary as JSON."""
    if isinstance(value, list | tuple) and not any(isinstance(part, list | tuple | Mapping) for part in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
