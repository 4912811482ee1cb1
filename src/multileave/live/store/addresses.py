"""Addresses of databases, and texts about them, without passwords."""

import re
from urllib.parse import unquote, unquote_plus

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

EXPECTED = "expected sqlite:///FILE or postgresql://USER@HOST/NAME, with special characters of a password as %XX."
HIDDEN = "***"
_SCHEME = re.compile(r"^\s*([A-Za-z][\w+.-]*):/*")
_SHORTEST_PART = 3  # characters; shorter parts of a password occur in any text


def read_address(address: str) -> URL:
    """Return the address of a database; raise ArgumentError, which repeats nothing, if it is not one."""
    try:
        url = make_url(re.sub(r"^\s*postgres(?=[:+])", "postgresql", address))
    except (ArgumentError, ValueError):  # ValueError: what follows a colon is not a port
        raise ArgumentError("not an address") from None
    host = url.host or ""
    if "@" in host or (host and url.get_backend_name() == "sqlite"):  # "@": part of a password that is not encoded
        raise ArgumentError("not an address")
    return url


def safe_address(address: str) -> str:
    """Return the address of a database without its passwords.

    >>> safe_address("postgres://me:p%40ss@db/shop?sslmode=require&password=again")
    'postgresql://me:***@db/shop?password=***&sslmode=require'
    """
    try:
        url = read_address(address)
    except ArgumentError:
        scheme = _SCHEME.match(address)
        return f"{scheme[1]}://{HIDDEN}" if scheme else HIDDEN
    hidden = {name: HIDDEN if _is_secret(name) else value for name, value in url.query.items()}
    text = url.set(query={}).render_as_string(hide_password=True)
    if not hidden:
        return without_secrets(text, address)
    query = "&".join(f"{name}={_joined(value)}" for name, value in sorted(hidden.items()))
    return without_secrets(f"{text}?{query}", address)


def without_secrets(text: str, address: str) -> str:
    """Return a text, such as a driver's error, with the passwords of an address replaced."""
    for secret in sorted(_secrets_of(address), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def reason_of(error: BaseException, address: str) -> str:
    """Return what a driver says is wrong, on one line and without passwords."""
    found = getattr(error, "orig", None) or error
    lines = without_secrets(str(found), address).split("\n")
    return " ".join(lines[0].split()).rstrip(".") or type(found).__name__


def _is_secret(name: str) -> bool:
    return "pass" in name.lower() or "secret" in name.lower()


def _joined(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def _secrets_of(address: str) -> set[str]:
    """Return all texts that are a password in an address, or part of one, read in any way it could be read."""
    rest = _SCHEME.sub("", address, count=1)
    found: set[str] = set()
    if _SCHEME.match(address) and not re.match(r"^\s*sqlite", address):
        user, _, _ = rest.rpartition("@")
        _, _, password = user.partition(":")
        found |= {password, unquote(password), unquote_plus(password)}
        for whole in list(found):  # drivers cut a password with special characters to pieces
            found |= {part for part in re.split(r"[@/:?#&= ]", whole) if len(part) >= _SHORTEST_PART}
    for name, value in re.findall(r"[?&\s]([^?&=\s]+)=([^&]*)", address):
        if _is_secret(name):
            found |= {value, unquote(value), unquote_plus(value)}
    return {secret for secret in found if secret}
