"""multileave compare: where rankers differ, before any user has seen them."""

from pathlib import Path
from typing import Annotated

import typer

from multileave.cli.printing import print_json, rounded_table, table_console
from multileave.errors import DataError


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(help='A file for each ranker: JSON lines of {"query": ..., "ranking": [...]}, or a TREC run.'),
    ],
    k: Annotated[int, typer.Option("--k", help="Documents of a page.")] = 10,
    persistence: Annotated[float, typer.Option(help="Persistence p of rank-biased overlap.")] = 0.9,
    clicks_per_page: Annotated[float, typer.Option(help="Mean clicks on a page, for the number of users.")] = 0.6,
    largest: Annotated[int, typer.Option(min=0, help="Queries to list, those that differ most.")] = 10,
    html: Annotated[Path | None, typer.Option(help="Write a page with these queries side by side.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated users.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show where rankers differ without any users, and roughly how many users a verdict would take."""
    from multileave.data.ranking_files import read_ranking_file
    from multileave.data.trec import system_names
    from multileave.study.differences import find_differences
    from multileave.study.differences_page import COLUMNS, EXPLANATION, cells, differences_page

    rankings = dict(zip(system_names(files), map(read_ranking_file, files), strict=True))
    pairs = find_differences(
        rankings, k=k, persistence=persistence, clicks_per_page=clicks_per_page, largest=largest, seed=seed
    )
    if html is not None:
        try:
            html.write_text(differences_page(pairs, rankings, k), encoding="utf-8")
        except OSError as error:
            raise DataError(f"{html} cannot be written: {error.strerror}. Choose another file.") from None
    if as_json:
        print_json({"k": k, "pairs": [pair.to_dict() for pair in pairs]})
        return
    console = table_console()
    table = rounded_table(COLUMNS[:1], COLUMNS[1:])
    for pair in pairs:
        table.add_row(*cells(pair))
    console.print(table)
    console.print(EXPLANATION.format(k=k))
    for pair in pairs:
        for name, count in zip(pair.rankers, pair.only, strict=True):
            if count:
                console.print(f"Left out: {count:,} {'query' if count == 1 else 'queries'} that only {name} answered.")
        if pair.different_pages == 0.0:
            console.print(f"{' and '.join(pair.rankers)} return the same pages. No experiment can tell them apart.")
    if html is not None:
        console.print(f"The queries that differ most are side by side in {html}.")
