"""Access: API keys, and the sessions of people who logged in with one."""

import time
from typing import get_args

from pydantic_core import PydanticCustomError

from multileave.live.definition import check_name
from multileave.live.errors import Invalid, NotFound
from multileave.live.records import Key, Role
from multileave.live.settings import Settings
from multileave.live.store import keys
from multileave.live.store.database import Store
from multileave.live.store.times import now
from multileave.live.tokens import Signer, hash_key, new_key

FRESH = 1.0  # seconds for which a worker trusts a key that another worker may have revoked
HOUR = 3_600_000_000


class Access:
    """Who may do what."""

    def __init__(self, store: Store, signer: Signer, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._signer = signer
        self._keys: dict[bytes, tuple[float, Key]] = {}
        self.csrf, self.csrf_matches = signer.csrf, signer.csrf_matches

    def create_key(self, name: str, role: Role) -> tuple[Key, str]:
        """Return a new key and its text, which is not stored."""
        if role not in get_args(Role):
            raise Invalid(f"role is {role!r}; expected one of {', '.join(get_args(Role))}.")
        try:
            check_name(name)
        except PydanticCustomError:
            raise Invalid(f"name is {name[:40]!r}; expected 1 to 100 printable characters.") from None
        text = new_key()
        with self._store.write() as connection:
            return keys.insert(connection, name, role, hash_key(text)), text

    def keys(self) -> list[Key]:
        """Return all keys, without their texts."""
        with self._store.read() as connection:
            return keys.load_all(connection)

    def has_keys(self) -> bool:
        """Whether there is a valid key."""
        return any(key.revoked is None for key in self.keys())

    def revoke_key(self, number: int) -> None:
        """Revoke a key and end its sessions."""
        with self._store.write() as connection:
            revoked = keys.revoke(connection, number)
        self._keys.clear()
        if not revoked:
            raise NotFound(f"There is no valid key {number} to revoke.")

    def authenticate(self, text: str) -> Key | None:
        """Return the key with a text, None if there is none. Other workers accept a revoked key for one more second."""
        wanted = hash_key(text)
        known = self._keys.get(wanted)
        if known is not None and time.monotonic() - known[0] <= FRESH:
            return known[1]
        with self._store.read() as connection:
            found = keys.find_hash(connection, wanted)
        if found is None:
            self._keys.pop(wanted, None)
        else:
            self._keys[wanted] = time.monotonic(), found
        return found

    def open_session(self, key: Key) -> str:
        """Return the cookie of a new session."""
        return self._signer.session(key.number, now() + round(self._settings.session_hours * HOUR))

    def session(self, cookie: str) -> Key | None:
        """Return the key of a session; None if its cookie is not ours, it has expired, or its key was revoked."""
        read = self._signer.read_session(cookie)
        if read is None or read[1] < now():
            return None
        with self._store.read() as connection:
            return keys.find_number(connection, read[0])
