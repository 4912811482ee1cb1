"""Settings of the service, from the command line or the environment.

pydantic parses and checks them. pydantic-settings would read the environment in every constructor, so that a service
in a notebook or a test would pick up settings meant for another one.
"""

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from dataclasses import field, fields
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError
from pydantic.dataclasses import dataclass

from multileave.live.errors import Invalid, sentence_of

PREFIX = "MULTILEAVE_"
SHORTEST_SECRET = 16
MOST_SECRETS = 20


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _split_secrets(value: Any) -> Any:
    """Return secrets that are separated by commas or whitespace, or given as a JSON list if they contain these."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value) if value.lstrip().startswith("[") else None
    except ValueError:
        found = None
    return [str(one) for one in found] if isinstance(found, list) else re.findall(r"[^\s,]+", value)


@dataclass(frozen=True, config=ConfigDict(allow_inf_nan=False))
class Settings:
    """How the service runs; each setting can be given as MULTILEAVE_NAME in the environment.

    database: an SQLAlchemy address, SQLite or Postgres (MULTILEAVE_DB).
    host, port, workers: where it listens, and with how many processes.
    secret: signs impression ids; without one, it is created once and kept in a file beside the database (SQLite) or in
        the database (Postgres). old_secrets: earlier ones; impression ids that they signed stay valid.
    open: require no keys; only on a loopback address. open_metrics: require no key for /metrics.
    most_body: bytes of a request body. most_events: events of a batch. longest_ranking: documents of a ranking.
        longest_id: characters of a document id, a unit, an event id or a query.
    events_per_minute: events that an address may post in a minute without a key, in each worker; 0: any number.
        limit_loopback: count this machine's addresses, too. events_per_impression: events of one impression in a
        minute, in each worker, with or without a key; 0: any number.
    session_hours: until people have to log in again. secure_cookies: send cookies over HTTPS only.
    origins: web origins whose pages may post events.
    fold_seconds: how often new impressions are added to the verdicts.
    sweep_seconds: how often data past their retention are deleted.
    durable: make acknowledged rows survive a power loss as well, where the database leaves the choice (SQLite).
    database_seconds: how long a request waits for the database before it is refused with 503.
    most_waiting: requests of a worker that may wait for the database at a time.
    most_connections: of a worker; if there are more, those that have been idle for longest are closed.
    most_header: bytes of a request's headers. header_seconds, body_seconds: within which a client must have sent them.
    trusted_proxies: addresses of proxies whose X-Forwarded-For is believed.
    """

    database: str = field(default="sqlite:///multileave.db", repr=False)  # may hold a password
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0)] = 8421
    workers: PositiveInt = 1
    secret: str | None = field(default=None, repr=False)
    old_secrets: Annotated[tuple[str, ...], BeforeValidator(_split_secrets)] = field(default=(), repr=False)
    open: bool = False
    open_metrics: bool = False
    most_body: PositiveInt = 2_000_000
    most_events: PositiveInt = 1000
    longest_ranking: PositiveInt = 1000
    longest_id: PositiveInt = 512
    events_per_minute: NonNegativeInt = 6000
    limit_loopback: bool = False
    events_per_impression: NonNegativeInt = 1000
    session_hours: PositiveFloat = 12.0
    secure_cookies: bool = False
    origins: Annotated[tuple[str, ...], BeforeValidator(_split)] = ()
    fold_seconds: PositiveFloat = 2.0
    sweep_seconds: PositiveFloat = 3600.0
    durable: bool = True
    database_seconds: PositiveFloat = 4.0
    most_waiting: PositiveInt = 1000
    most_connections: PositiveInt = 2000
    most_header: PositiveInt = 32_768
    header_seconds: PositiveFloat = 10.0
    body_seconds: PositiveFloat = 30.0
    trusted_proxies: Annotated[tuple[str, ...], BeforeValidator(_split)] = ("127.0.0.1",)

    def __post_init__(self) -> None:
        if self.open and not is_loopback(self.host):
            raise Invalid(
                f"The service would listen on {self.host} without requiring keys; that is allowed on 127.0.0.1 only. "
                "Leave out 'open' and create a key."
            )
        if self.secret is not None and len(self.secret) < SHORTEST_SECRET:
            raise Invalid(
                f"The secret has {len(self.secret)} characters; expected at least {SHORTEST_SECRET} random ones."
            )
        if any(len(old) < SHORTEST_SECRET for old in self.old_secrets):
            raise Invalid(
                f"An old secret is shorter than {SHORTEST_SECRET} characters. Separate them by commas; write secrets "
                "that contain commas or spaces as a JSON list."
            )
        if len(self.old_secrets) >= MOST_SECRETS:
            raise Invalid(
                f"There are {len(self.old_secrets)} old secrets; expected fewer than {MOST_SECRETS}. Drop those whose "
                "impression ids have expired."
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: Any) -> "Settings":
        """Return the settings of the environment; those that are given take precedence."""
        found = os.environ if environment is None else environment
        variables = {one.name: variable_of(one.name) for one in fields(cls)}
        read = {name: found[variable] for name, variable in variables.items() if variable in found}
        given = {name: value for name, value in given.items() if value is not None}
        try:
            return cls(**{**read, **given})
        except ValidationError as error:
            sentence = sentence_of(error)
            name = sentence.partition(" ")[0]
            raise Invalid(sentence if name in given else sentence.replace(name, variables[name], 1)) from None

    @property
    def base_url(self) -> str:
        """Where the service is reached."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    def to_environment(self) -> dict[str, str]:
        """Return the variables from which `from_environment` reads the same settings, for other processes."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["old_secrets"] = json.dumps(self.old_secrets)
        return {
            variable_of(name): ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in values.items()
            if value is not None
        }


@lru_cache(maxsize=1000)
def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + ("DB" if setting == "database" else setting.upper())
