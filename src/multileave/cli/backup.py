"""multileave backup and restore: the service's database, to and from one file."""

from pathlib import Path
from typing import Annotated

import typer

from multileave.cli.keys import Json
from multileave.cli.printing import print_json
from multileave.cli.serve import Database
from multileave.cli.stores import commanding, usable


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")],
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Copy the service's database to a file, also while the service runs."""
    from multileave.live.settings import Settings
    from multileave.live.store.backup import back_up

    size = back_up(Settings.from_environment(database=db).database, file)
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        typer.echo(f"Wrote {size:,} bytes to {file}. Put it back with: multileave restore {file} --db ADDRESS")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `multileave backup` wrote.")],
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Put a backup into an empty database; nobody stays logged in."""
    from multileave.live.settings import Settings
    from multileave.live.store.addresses import safe_address
    from multileave.live.store.backup import restore as restore_into

    settings = Settings.from_environment(database=db)
    address = settings.database
    with usable(settings), commanding():
        restore_into(file, address)
    if as_json:
        print_json({"file": str(file), "database": safe_address(address)})
    else:
        typer.echo(f"Restored {file} into {safe_address(address)}. Keys revoked since the backup are valid again.")
