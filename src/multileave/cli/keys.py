"""multileave keys: the API keys of a service, and the secret that signs impression ids."""

import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from multileave.cli.printing import print_json, table_console
from multileave.cli.serve import Database
from multileave.cli.stores import opened_store
from multileave.errors import DataError

if TYPE_CHECKING:
    from multileave.live.records import Key

keys = typer.Typer(help="Create, list and revoke the API keys of a service.")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@keys.command()
def create(
    name: Annotated[str, typer.Option(help="Who or what uses the key.")],
    role: Annotated[
        Literal["ingest", "read", "admin"],
        typer.Option(help="ingest: send traffic; read: view experiments and verdicts; admin: everything."),
    ],
    expires: Annotated[
        str | None,
        typer.Option(help="Valid for so long (90d, 12h) or until a day (2027-01-31). Default: no end."),
    ] = None,
    experiments: Annotated[
        str | None, typer.Option(help="Limit the key to these experiments, such as 3,5. Default: no limit.")
    ] = None,
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Create a key; its text is printed only once."""
    from multileave.live.access.keys import Access
    from multileave.live.access.scope import read_numbers

    limits = {"expires": read_expiry(expires), "experiments": read_numbers(experiments or "")}
    with opened_store(db) as (store, settings):
        key, text = Access(store, settings).create_key(name, role, **limits)
    if as_json:
        print_json({**_described(key), "key": text})
    else:
        typer.echo(f"Key {key.number} created for {key.name} with the role {key.role}. It is not shown again:\n{text}")


@keys.command("list")
def list_keys(db: Database = None, as_json: Json = False) -> None:
    """List the keys, without their texts."""
    from multileave.live.access.keys import Access

    with opened_store(db) as (store, settings):
        found = Access(store, settings).keys()
    if as_json:
        print_json([_described(key) for key in found])
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("number", "name", "role", "experiments", "created", "last use", "expires", "revoked")
    for key in found:
        limits = "all" if key.experiments is None else ", ".join(map(str, key.experiments))
        times = [f"{at:%Y-%m-%d %H:%M}" if at else "" for at in (key.created, key.used, key.expires, key.revoked)]
        table.add_row(str(key.number), escape(key.name), key.role, limits, *times)
    table_console().print(table)


@keys.command()
def revoke(
    number: Annotated[int, typer.Argument(help="Number of the key, as in `multileave keys list`.")],
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Revoke a key."""
    from multileave.live.access.keys import Access

    with opened_store(db) as (store, settings):
        Access(store, settings).revoke_key(number)
    if as_json:
        print_json({"revoked": number})
    else:
        typer.echo(f"Key {number} revoked.")


@keys.command("rotate-secret")
def rotate_secret(
    keep: Annotated[
        int | None,
        typer.Option(min=0, help="How many earlier secrets stay valid; 0 after a leak. Default: all."),
    ] = None,
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Sign impression ids with a new secret, after the next start of the service; for SQLite."""
    from multileave.live.access.signing import rotate_file

    with opened_store(db) as (store, settings):
        kept = rotate_file(store, settings, keep)
    if as_json:
        print_json({"kept": kept})
    else:
        typer.echo(f"New secret written; {kept} earlier kept. Restart the service to use it.")


def read_expiry(text: str | None) -> datetime | None:
    """Return until when a key is valid: for so many minutes, hours, days or weeks, or until a day or time.

    >>> str(read_expiry("2099-01-31")), read_expiry(None)
    ('2099-01-31 00:00:00+00:00', None)
    """
    if text is None:
        return None
    spelled = re.fullmatch(r"([0-9]{1,6})([mhdw])", text.strip())
    units = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    try:
        if spelled:
            return datetime.now(UTC) + timedelta(**{units[spelled[2]]: int(spelled[1])})
        until = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise DataError(f"--expires is {text[:40]!r}; expected 90d, 12h or a day such as 2027-01-31.") from None
    return until.replace(tzinfo=UTC) if until.tzinfo is None else until


def _described(key: "Key") -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(key).items()}
