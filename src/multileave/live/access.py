"""Access: keys of the API, and sessions of people who showed one on the login page."""

import hmac
import time
from typing import Any, get_args

import sqlalchemy as sa

from multileave.live.errors import Invalid, NotFound
from multileave.live.experiment import check_name
from multileave.live.records import Key, Role
from multileave.live.settings import Settings
from multileave.live.store.database import Store
from multileave.live.store.tables import api_keys
from multileave.live.store.times import from_micros, now
from multileave.live.tokens import Signer, hash_key, new_key

__all__ = ["Access"]

FRESH = 1.0  # seconds for which a worker goes on trusting a key that another one may have revoked
HOUR = 3_600_000_000


class Access:
    """Who may do what."""

    def __init__(self, store: Store, signer: Signer, settings: Settings) -> None:
        self._store, self._signer, self._settings = store, signer, settings
        self._keys: dict[bytes, tuple[float, Key]] = {}

    def create_key(self, name: str, role: Role) -> tuple[Key, str]:
        """Return a new key and its text, which is kept nowhere."""
        if role not in get_args(Role):
            raise Invalid(f"role is {role!r}; expected one of {', '.join(get_args(Role))}.")
        check_name("name", name)
        text = new_key()
        with self._store.write() as connection:
            created = now()
            row = {"name": name, "role": role, "hash": hash_key(text), "created": created}
            number = connection.execute(sa.insert(api_keys).returning(api_keys.c.number), [row]).scalar_one()
        return Key(number, name, role, from_micros(created)), text

    def keys(self) -> list[Key]:
        """Return all keys, without their texts."""
        with self._store.read() as connection:
            return [_key(row) for row in connection.execute(sa.select(api_keys).order_by(api_keys.c.number))]

    def has_keys(self) -> bool:
        """Whether there is a key that is not revoked."""
        return any(key.revoked is None for key in self.keys())

    def revoke_key(self, number: int) -> None:
        """Make a key useless, and end its sessions."""
        with self._store.write() as connection:
            changed = connection.execute(
                sa.update(api_keys)
                .where(api_keys.c.number == number, api_keys.c.revoked.is_(None))
                .values(revoked=now())
            ).rowcount
        self._keys.clear()
        if not changed:
            raise NotFound(f"there is no key {number} that could be revoked.")

    def authenticate(self, text: str) -> Key | None:
        """Return the key of a text; None if there is none. A revoked key is known for a second by other workers."""
        wanted = hash_key(text)
        known = self._keys.get(wanted)
        if known is not None and time.monotonic() - known[0] <= FRESH:
            return known[1]
        with self._store.read() as connection:
            row = connection.execute(
                sa.select(api_keys).where(api_keys.c.hash == wanted, api_keys.c.revoked.is_(None))
            ).one_or_none()
        # The index found it; what is compared is a hash of random bits, and in constant time.
        if row is None or not hmac.compare_digest(bytes(row.hash), wanted):
            self._keys.pop(wanted, None)
            return None
        found = _key(row)
        self._keys[wanted] = time.monotonic(), found
        return found

    def open_session(self, key: Key) -> str:
        """Return the cookie of someone who showed a key."""
        return self._signer.session(key.number, now() + round(self._settings.session_hours * HOUR))

    def session(self, cookie: str) -> Key | None:
        """Return the key of a session; None if it is not ours, expired, or its key was revoked."""
        read = self._signer.read_session(cookie)
        if read is None or read[1] < now():
            return None
        with self._store.read() as connection:
            row = connection.execute(
                sa.select(api_keys).where(api_keys.c.number == read[0], api_keys.c.revoked.is_(None))
            ).one_or_none()
        return None if row is None else _key(row)

    def csrf(self, cookie: str) -> str:
        """Return what forms of a session must send back."""
        return self._signer.csrf(cookie)

    def csrf_matches(self, cookie: str, token: str) -> bool:
        """Whether a form comes from a page of this session."""
        return self._signer.csrf_matches(cookie, token)


def _key(row: Any) -> Key:
    revoked = None if row.revoked is None else from_micros(row.revoked)
    return Key(row.number, row.name, row.role, from_micros(row.created), revoked)
