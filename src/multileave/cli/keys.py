"""multileave keys: the API keys of a service."""

from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from multileave.cli.printing import print_json, table_console
from multileave.cli.serve import Database, open_service

if TYPE_CHECKING:
    from multileave.live.records import Key
    from multileave.live.service import Service

keys = typer.Typer(help="Create, list and revoke the API keys of a service.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@keys.command()
def create(
    name: Annotated[str, typer.Option(help="Who or what uses the key.")],
    role: Annotated[
        Literal["ingest", "read", "admin"],
        typer.Option(help="ingest: send traffic; read: view experiments and verdicts; admin: everything."),
    ],
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Create a key; its text is printed only once."""
    with _service(db) as service:
        key, text = service.access.create_key(name, role)
    if as_json:
        print_json({**_described(key), "key": text})
    else:
        typer.echo(f"Key {key.number} created for {key.name} with the role {key.role}. It is not shown again:\n{text}")


@keys.command("list")
def list_keys(db: Database = None, as_json: Json = False) -> None:
    """List the keys, without their texts."""
    with _service(db) as service:
        found = service.access.keys()
    if as_json:
        print_json([_described(key) for key in found])
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("number", "name", "role", "created", "revoked")
    for key in found:
        revoked = "" if key.revoked is None else f"{key.revoked:%Y-%m-%d %H:%M}"
        table.add_row(str(key.number), escape(key.name), key.role, f"{key.created:%Y-%m-%d %H:%M}", revoked)
    table_console().print(table)


@keys.command()
def revoke(
    number: Annotated[int, typer.Argument(help="Number of the key, as in `multileave keys list`.")],
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Revoke a key."""
    with _service(db) as service:
        service.access.revoke_key(number)
    if as_json:
        print_json({"revoked": number})
    else:
        typer.echo(f"Key {number} revoked.")


def _service(db: str | None) -> "AbstractContextManager[Service]":
    from multileave.live.settings import Settings

    return open_service(Settings.from_environment(database=db))


def _described(key: "Key") -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(key).items()}
