"""Signing: where the service's secrets and keys come from when it starts.

The secret that signs impression ids is outside the database, so that who reads the database cannot report clicks:
MULTILEAVE_SECRET, or a file beside an SQLite database. It can be replaced. The keys that hash units, assign traffic and
name impressions are in the database and never change: another key would give users another group, and a unit's data
would not be found.
"""

from pathlib import Path

from multileave.live.access.secret_file import SecretFile
from multileave.live.access.tokens import Signer, derived_hashing_keys, new_hashing_keys, new_secret
from multileave.live.errors import Invalid
from multileave.live.settings import Settings
from multileave.live.store import audit
from multileave.live.store import secrets as stored
from multileave.live.store.database import Connection, Store
from multileave.live.store.sqlite_files import readable_by_others

IN_DATABASE = (
    "The secret that signs impression ids is kept in the database: whoever reads the database can report clicks. To "
    "prevent that, set MULTILEAVE_SECRET to at least 16 random characters."
)
IN_JOURNAL = (
    "The database's secret was moved to a file, but another process is using the database, so its journal still holds "
    "a copy. Stop all processes that use the database and start the service again."
)
MISSING = (
    "This database was used with a MULTILEAVE_SECRET, which is not set now; users would be assigned to other groups. "
    "Set MULTILEAVE_SECRET as before for the first start with this version; after that you can change it."
)


def open_signer(store: Store, settings: Settings) -> tuple[Signer, tuple[str, ...]]:
    """Return the signer of a service, and warnings for those who run it."""
    warnings = [] if store.file is None else _loose_files(store.file)
    with store.write() as connection:
        store.lock(connection, "secrets")  # workers may start at the same time
        inside = stored.load_signing_secret(connection)
        keys = stored.load_hashing_keys(connection)
        is_new = stored.is_new(connection)
        file = None if store.file is None else SecretFile.of_database(store.file)
        lines = () if file is None or (settings.secret and not inside) else file.read()
        if not (keys or is_new or settings.secret or inside or lines):
            raise Invalid(MISSING)
        if file is not None and inside is not None:
            lines = _move(connection, file, lines, inside)
        secrets = _secrets(connection, settings, file, lines, inside)
        if not keys:
            keys = new_hashing_keys() if is_new else derived_hashing_keys(settings.secret or inside or secrets[0])
            stored.insert_hashing_keys(connection, keys)
    if file is not None and inside is not None and not stored.empty_journal(store):
        warnings.append(IN_JOURNAL)
    if file is None and settings.secret is None:
        warnings.append(IN_DATABASE)
    return Signer((*secrets, *settings.old_secrets), keys), tuple(warnings)


def rotate_file(store: Store, settings: Settings, keep: int | None) -> int:
    """Put a new secret into the file of an SQLite database; return how many earlier ones are kept."""
    if settings.secret is not None or store.file is None:
        raise Invalid(
            f"{'MULTILEAVE_SECRET is set' if settings.secret else 'This database has no secret file'}. To replace the "
            "secret, set MULTILEAVE_SECRET to another one, and MULTILEAVE_OLD_SECRETS to the earlier one if impression "
            "ids that it signed should stay valid."
        )
    file = SecretFile.of_database(store.file)
    with store.write() as connection:
        if not file.read():
            raise Invalid(f"There is no secret file {file.path} yet. The service creates it when it first starts.")
        audit.record(connection, "secret rotated")
        return file.rotate(keep=keep)


def _secrets(
    connection: Connection, settings: Settings, file: SecretFile | None, lines: tuple[str, ...], inside: str | None
) -> tuple[str, ...]:
    """Return the secrets in use, the one that signs first; make one if there is none."""
    if settings.secret is not None:
        return (settings.secret,)
    if lines or (file is None and inside is not None):
        return lines or (str(inside),)
    made = new_secret()
    if file is None:
        stored.insert_signing_secret(connection, made)
    else:
        file.write((made,))
    return (made,)


def _move(connection: Connection, file: SecretFile, lines: tuple[str, ...], inside: str) -> tuple[str, ...]:
    """Move the secret of an older version out of the database; return the file's lines."""
    if inside not in lines:
        lines = (*lines, inside)
        file.write(lines)
    stored.delete_signing_secret(connection)
    return lines


def _loose_files(database: Path) -> list[str]:
    found = readable_by_others(database)
    if not found:
        return []
    paths = " ".join(f"'{path}'" for path in found)
    return [
        f"The database {database} can be read by other users: they see everything that is stored. Expected mode 600. "
        f"Run: chmod 600 {paths}."
    ]
