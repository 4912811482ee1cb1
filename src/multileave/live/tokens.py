"""Tokens: what is signed, hashed and compared in constant time.

An impression id is its key, the experiment, when it expires, and a signature, so a browser can send
clicks without a key and cannot make up an impression. Keys of the API are kept as a hash only: they
are 256 random bits, so that a fast hash is enough. Units are kept as an HMAC unless an experiment says
otherwise.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from typing import NamedTuple

__all__ = ["KEY_PREFIX", "ImpressionToken", "Signer", "hash_key", "new_key"]

KEY_PREFIX = "mlv_"
_FORM = struct.Struct(">16sIq")  # key, experiment, expiry in microseconds
_SIGNATURE = 16


class ImpressionToken(NamedTuple):
    """What an impression id holds."""

    key: bytes
    experiment: int
    expires: int


class Signer:
    """All that is done with the service's secret; each purpose has a key of its own."""

    def __init__(self, secret: str) -> None:
        self._keys = {
            purpose: hashlib.blake2b(secret.encode(), digest_size=32, person=purpose.encode()).digest()
            for purpose in ("impression", "unit", "traffic", "session", "csrf", "rankings")
        }

    def mac(self, purpose: str, message: bytes, size: int = 16) -> bytes:
        """Return the keyed hash of a message for a purpose."""
        return hashlib.blake2b(message, key=self._keys[purpose], digest_size=size).digest()

    def impression(self, token: ImpressionToken) -> str:
        """Return the id that a browser may hold."""
        body = _FORM.pack(*token)
        return base64.urlsafe_b64encode(body + self.mac("impression", body, _SIGNATURE)).rstrip(b"=").decode()

    def read_impression(self, text: str) -> ImpressionToken | None:
        """Return what an id holds; None if it was not signed by us. Whether it expired is for the caller to see."""
        if len(text) > 80:
            return None
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(raw) != _FORM.size + _SIGNATURE:
            return None
        body, signature = raw[: _FORM.size], raw[_FORM.size :]
        if not hmac.compare_digest(signature, self.mac("impression", body, _SIGNATURE)):
            return None
        return ImpressionToken(*_FORM.unpack(body))

    def unit(self, unit: str) -> str:
        """Return what a unit is stored as."""
        return self.mac("unit", unit.encode("utf-8", "surrogatepass")).hex()

    def session(self, key: int, expires: int) -> str:
        """Return a cookie for the holder of a key."""
        body = f"{key}.{expires}.{secrets.token_urlsafe(9)}"
        return f"{body}.{self.mac('session', body.encode()).hex()}"

    def read_session(self, cookie: str) -> tuple[int, int] | None:
        """Return the key's number and the expiry of a cookie; None if it was not signed by us."""
        body, _, signature = cookie.rpartition(".")
        expected = self.mac("session", body.encode("utf-8", "surrogatepass")).hex()
        if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass")):
            return None
        key, expires, _ = body.split(".")
        return int(key), int(expires)

    def csrf(self, cookie: str) -> str:
        """Return what a form of this session must send back."""
        return self.mac("csrf", cookie.encode("utf-8", "surrogatepass")).hex()

    def csrf_matches(self, cookie: str, token: str) -> bool:
        """Whether a form was sent from a page of this session."""
        return hmac.compare_digest(self.csrf(cookie).encode(), token.encode("utf-8", "surrogatepass"))


def new_key() -> str:
    """Return a new key for the API."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def hash_key(text: str) -> bytes:
    """Return what is stored of a key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
