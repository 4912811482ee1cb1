"""The database of a service, for commands that work beside it."""

import getpass
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from multileave.errors import DataError

if TYPE_CHECKING:
    from multileave.live.settings import Settings
    from multileave.live.store.database import Store


@contextmanager
def opened_store(db: str | None) -> "Iterator[tuple[Store, Settings]]":
    """Open the database without the service's secret; the audit log gets the user of this machine."""
    from multileave.live.settings import Settings
    from multileave.live.store.database import Store

    settings = Settings.from_environment(database=db)
    with usable(settings), commanding(), closing(Store(settings.database)) as store:
        yield store, settings


@contextmanager
def commanding() -> Iterator[None]:
    """Let the audit log name the user of this machine."""
    from multileave.live.access.actor import Actor, acting

    before = acting.set(Actor("command line", name=_user()))
    try:
        yield
    finally:
        acting.reset(before)


@contextmanager
def usable(settings: "Settings") -> Iterator[None]:
    """If the database cannot be used within this context, say why on one line."""
    from multileave.live.errors import Unavailable
    from multileave.live.store.addresses import safe_address

    try:
        yield
    except Unavailable as problem:
        address = safe_address(settings.database)
        raise DataError(f"The database {address} cannot be used: {problem.reason}. Try again once it can.") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
