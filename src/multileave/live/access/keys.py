"""Access: API keys, and the sessions of people who logged in with one."""

import threading
import time
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from multileave.live.access.actor import Actor
from multileave.live.access.tokens import csrf_matches, csrf_token, hash_text, may_be_key, new_key, new_secret
from multileave.live.errors import Invalid, NotFound, sentence_of
from multileave.live.records import Key, KeyRequest, Role
from multileave.live.settings import Settings
from multileave.live.store import audit, keys, sessions
from multileave.live.store.database import Store
from multileave.live.store.times import from_micros, now

FRESH = 1.0  # seconds for which a worker trusts an ingest key that another worker may have revoked
SAVED = 60.0  # seconds between entries about failed logins, and between saving when keys were used
HOUR = 3_600_000_000
_request: TypeAdapter[KeyRequest] = TypeAdapter(KeyRequest)


class Access:
    """Who may do what."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._recent: dict[bytes, tuple[float, Key]] = {}  # ingest keys, and when they were looked up
        self._used: dict[int, int] = {}  # when keys were used, not stored yet
        self._counting = threading.Lock()
        self._failed, self._last_failure = 0, float("-inf")
        self.csrf, self.csrf_matches = csrf_token, csrf_matches

    def create_key(self, name: str, role: Role, **limits: Any) -> tuple[Key, str]:
        """Return a new key and its text, which is not stored. limits: expires and experiments, as in `KeyRequest`."""
        try:
            wanted = _request.validate_python({"name": name, "role": role, **limits}, strict=False)
        except ValidationError as error:
            raise Invalid(sentence_of(error)) from None
        if wanted.expires is not None and wanted.expires <= datetime.now(UTC):
            raise Invalid(f"expires is {wanted.expires.isoformat()}, which has passed; expected a time in the future.")
        text = new_key()
        with self._store.write() as connection:
            made = keys.insert(connection, wanted, hash_text(text))
            shown = ("number", "name", "role", "expires", "experiments")
            audit.record(connection, "key created", details={name: getattr(made, name) for name in shown})
        return made, text

    def keys(self) -> list[Key]:
        """Return all keys, without their texts."""
        self.save()
        with self._store.read() as connection:
            return keys.load_all(connection)

    def has_keys(self) -> bool:
        """Whether there is a valid key."""
        return any(key.revoked is None and not _has_expired(key) for key in self.keys())

    def revoke_key(self, number: int) -> None:
        """Revoke a key and end its sessions."""
        with self._store.write() as connection:
            revoked = keys.revoke(connection, number)
            if revoked is None:
                raise NotFound(f"There is no valid key {number} to revoke.")
            sessions.delete_of_key(connection, number)
            audit.record(connection, "key revoked", details={"number": number, "name": revoked.name})
        self._recent.clear()

    def remembered(self, text: str) -> Key | None:
        """Return an ingest key that was looked up within the last second, without asking the database."""
        found = self._recent.get(hash_text(text))
        if found is None or time.monotonic() - found[0] > FRESH or _has_expired(found[1]):
            return None
        return found[1]

    def authenticate(self, text: str) -> Key | None:
        """Return the valid key with a text, None if there is none; asks the database."""
        if not may_be_key(text):
            return None
        began, wanted = time.monotonic(), hash_text(text)
        with self._store.read() as connection:
            found = keys.find_hash(connection, wanted)
        if found is None:
            self._recent.pop(wanted, None)
            return None
        if found.role == "ingest":
            self._recent[wanted] = began, found
        self._used[found.number] = now()
        return found

    def open_session(self, key: Key) -> str:
        """Return the cookie of a new session, which is not stored."""
        cookie = new_secret()
        expires = now() + round(self._settings.session_hours * HOUR)
        with self._store.write() as connection:
            sessions.insert(connection, hash_text(cookie), key.number, expires)
            audit.record(connection, "login", actor=Actor("session", key.number, key.name))
        return cookie

    def session(self, cookie: str) -> Key | None:
        """Return the key of a session; None if there is none, it has expired, or its key is no longer valid."""
        with self._store.read() as connection:
            found = sessions.find(connection, hash_text(cookie))
        if found is not None:
            self._used[found.number] = now()
        return found

    def close_session(self, cookie: str) -> None:
        """End a session."""
        with self._store.write() as connection:
            if sessions.delete(connection, hash_text(cookie)):
                audit.record(connection, "logout")

    def login_failed(self) -> None:
        """Count a failed login. The audit log gets one entry a minute at most, with the number of failures."""
        with self._counting:
            self._failed += 1
        self._save_failures()

    def save(self) -> None:
        """Store when keys were used, and failed logins that have no entry yet."""
        used, self._used = self._used, {}
        if used:
            with self._store.write() as connection:
                keys.save_use(connection, dict(used))
        self._save_failures()

    def sweep(self) -> None:
        """Delete sessions that have expired."""
        with self._store.write() as connection:
            sessions.delete_expired(connection)

    def _save_failures(self) -> None:
        with self._counting:
            if not self._failed or time.monotonic() - self._last_failure < SAVED:
                return
            number, self._failed, self._last_failure = self._failed, 0, time.monotonic()
        with self._store.write() as connection:
            audit.record(connection, "login failed", actor=Actor("visitor"), details={"times": number})


def _has_expired(key: Key) -> bool:
    return key.expires is not None and key.expires <= from_micros(now())
