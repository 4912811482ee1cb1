"""Tokens: signing and hashing with the service's secret.

An impression id holds the impression's key, its experiment, when it expires, and a signature, so that a browser can
send clicks without an API key but cannot make up an impression. API keys are stored as a hash only; they are 256 random
bits, so a fast hash is enough. Units are stored as an HMAC unless an experiment's settings say otherwise.

We do not use itsdangerous: it cannot read the ids that running services have given out, and its own are longer.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from typing import NamedTuple

KEY_PREFIX = "mlv_"
_FORM = struct.Struct(">16sIq")  # key, experiment, expiry in microseconds
_SIGNATURE = 16


class ImpressionToken(NamedTuple):
    """What an impression id holds."""

    key: bytes
    experiment: int
    expires: int


class Signer:
    """Everything that uses the service's secret; each purpose has its own key."""

    def __init__(self, secret: str) -> None:
        self._keys = {
            purpose: hashlib.blake2b(secret.encode(), digest_size=32, person=purpose.encode()).digest()
            for purpose in ("impression", "unit", "traffic", "session", "csrf", "rankings")
        }

    def mac(self, purpose: str, message: bytes, size: int = 16) -> bytes:
        """Return the keyed hash of a message for a purpose."""
        return hashlib.blake2b(message, key=self._keys[purpose], digest_size=size).digest()

    def impression(self, token: ImpressionToken) -> str:
        """Return the impression id that a browser may hold."""
        body = _FORM.pack(*token)
        return base64.urlsafe_b64encode(body + self.mac("impression", body, _SIGNATURE)).rstrip(b"=").decode()

    def read_impression(self, text: str) -> ImpressionToken | None:
        """Return what an impression id holds; None if the signature is wrong. The caller checks the expiry."""
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
        """Return the hash under which a unit is stored."""
        return self.mac("unit", unit.encode("utf-8", "surrogatepass")).hex()

    def session(self, key: int, expires: int) -> str:
        """Return a session cookie for the holder of an API key."""
        body = f"{key}.{expires}.{secrets.token_urlsafe(9)}"
        return f"{body}.{self.mac('session', body.encode()).hex()}"

    def read_session(self, cookie: str) -> tuple[int, int] | None:
        """Return the key's number and the expiry of a cookie; None if the signature is wrong."""
        body, _, signature = cookie.rpartition(".")
        expected = self.mac("session", body.encode("utf-8", "surrogatepass")).hex()
        if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass")):
            return None
        key, expires, _ = body.split(".")
        return int(key), int(expires)

    def csrf(self, cookie: str) -> str:
        """Return the token that forms of a session must send back."""
        return self.mac("csrf", cookie.encode("utf-8", "surrogatepass")).hex()

    def csrf_matches(self, cookie: str, token: str) -> bool:
        """Whether a form was sent from a page of the session."""
        return hmac.compare_digest(self.csrf(cookie).encode(), token.encode("utf-8", "surrogatepass"))


def new_key() -> str:
    """Return a new API key."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def hash_key(text: str) -> bytes:
    """Return the hash under which an API key is stored."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
