"""The database of a service, for commands that work beside it."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multileave.live.settings import Settings
    from multileave.live.store.database import Store


@contextmanager
def opened_store(db: str | None) -> "Iterator[tuple[Store, Settings]]":
    """Open the database without the service's secret; the audit log gets the user of this machine."""
    from multileave.live.actor import Actor, acting
    from multileave.live.settings import Settings
    from multileave.live.store.database import Store

    settings = Settings.from_environment(database=db)
    store = Store(settings.database)
    before = acting.set(Actor("command line", name=_user()))
    try:
        yield store, settings
    finally:
        acting.reset(before)
        store.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
