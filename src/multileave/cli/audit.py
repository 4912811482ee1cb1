"""multileave audit: who did what on a service."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from multileave.cli.printing import print_json, table_console
from multileave.cli.serve import Database
from multileave.cli.stores import opened_store

LARGEST = 2**31 - 1


def audit(
    db: Database = None,
    experiment: Annotated[int | None, typer.Option(min=1, max=LARGEST, help="Only this experiment.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many entries.")] = 50,
    before: Annotated[int | None, typer.Option(min=1, max=LARGEST, help="Only entries with smaller numbers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List who did what on a service, newest first."""
    from multileave.live.store.audit import load

    with opened_store(db) as (store, _), store.read() as connection:
        found = load(connection, before=before, experiment=experiment, limit=limit)
    if as_json:
        print_json([{**asdict(entry), "at": entry.at.isoformat()} for entry in found])
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("number", "time (UTC)", "who", "action", "experiment", "details")
    for entry in found:
        who = " ".join(str(part) for part in (entry.name, f"({entry.actor}", entry.key) if part is not None) + ")"
        details = json.dumps(entry.details, ensure_ascii=False) if entry.details else ""
        number = "" if entry.experiment is None else str(entry.experiment)
        at = f"{entry.at:%Y-%m-%d %H:%M:%S}"
        table.add_row(str(entry.number), at, escape(who), entry.action, number, escape(details))
    table_console().print(table)
