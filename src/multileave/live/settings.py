"""Settings of the service, from the command line or the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from multileave.live.errors import Invalid

__all__ = ["Settings"]

PREFIX = "MULTILEAVE_"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """How the service runs; each setting can be given as MULTILEAVE_NAME in the environment.

    database: an SQLAlchemy address, SQLite or Postgres.
    host, port, workers: where it listens, and with how many processes.
    secret: what ids, cookies and units are signed and hashed with; without one it is made once and kept in
        the database.
    open: ask for no keys; on a loopback address only.
    most_body: bytes of a request. most_events: of a batch. longest_ranking: documents of a ranking.
        longest_id: characters of an id of a document, a unit or an event, and of a query.
    session_hours: until one logs in again. secure_cookies: send cookies over HTTPS only.
    origins: web origins whose pages may post events.
    fold_seconds: how often what is new is added to the verdicts. sweep_seconds: how often what is past its
        retention is deleted.
    durable: let an acknowledged row survive a loss of power too, where the database leaves the choice (SQLite).
    """

    database: str = "sqlite:///multileave.db"
    host: str = "127.0.0.1"
    port: int = 8421
    workers: int = 1
    secret: str | None = None
    open: bool = False
    most_body: int = 2_000_000
    most_events: int = 1000
    longest_ranking: int = 1000
    longest_id: int = 512
    session_hours: float = 12.0
    secure_cookies: bool = False
    origins: tuple[str, ...] = ()
    fold_seconds: float = 2.0
    sweep_seconds: float = 3600.0
    durable: bool = False

    def __post_init__(self) -> None:
        if self.open and self.host not in LOOPBACK:
            raise Invalid(
                f"the service would listen on {self.host} without asking for keys; that is done on 127.0.0.1 only. "
                "Leave 'open' out, and create a key."
            )
        for name in ("port", "workers", "most_body", "most_events", "longest_ranking", "longest_id"):
            if getattr(self, name) < (0 if name == "port" else 1):
                raise Invalid(f"{name} is {getattr(self, name)}; expected a number from 1.")
        for name in ("session_hours", "fold_seconds", "sweep_seconds"):
            if not getattr(self, name) > 0.0:
                raise Invalid(f"{name} is {getattr(self, name)}; expected a number above 0.")
        if self.secret is not None and len(self.secret) < 16:
            raise Invalid(f"the secret has {len(self.secret)} characters; expected 16 or more, at random.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: Any) -> "Settings":
        """Return the settings of the environment, with those that are given in their place."""
        found = os.environ if environment is None else environment
        hints = get_type_hints(cls)
        read = {
            field.name: _read(field.name, hints[field.name], found[_name(field.name)])
            for field in fields(cls)
            if _name(field.name) in found
        }
        return cls(**{**read, **{name: value for name, value in given.items() if value is not None}})

    def to_environment(self) -> dict[str, str]:
        """Return what `from_environment` reads the same settings from, for other processes."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                found[_name(field.name)] = ",".join(value) if isinstance(value, tuple) else str(value)
        return found


def _name(setting: str) -> str:
    return PREFIX + ("DB" if setting == "database" else setting.upper())


def _read(setting: str, kind: Any, text: str) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise Invalid(f"{_name(setting)} is {text!r}; expected true or false.")
        return text.lower() in ("true", "1", "yes")
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise Invalid(f"{_name(setting)} is {text!r}; expected a number.") from None
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text
