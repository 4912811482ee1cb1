"""Tokens: impression ids that browsers may hold, the hashes under which things are stored, and new random texts.

An impression id holds the impression's key, its experiment, when it expires, and a signature, so that a browser can
send clicks without an API key but cannot make up an impression. It begins with the id of the secret that signed it, so
that secrets can be replaced. API keys and session cookies are stored as a hash only; they are 256 random bits, so a
fast hash is enough. Units are stored as an HMAC unless an experiment's settings say otherwise.

We do not use itsdangerous: it cannot read the ids that running services have given out, and its own are longer.
"""

import base64
import binascii
import hashlib
import hmac
import secrets as random
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

KEY_PREFIX = "mlv_"
HASHING = ("unit", "traffic", "rankings")  # purposes whose keys are in the database and never change
LONGEST_KEY = 100
_FORM = struct.Struct(">16sIq")  # key, experiment, expiry in microseconds
_ID = 4  # bytes; ids of the first version have none
_SIGNATURE = 16
_LONGEST = 80


class ImpressionToken(NamedTuple):
    """What an impression id holds."""

    key: bytes
    experiment: int
    expires: int


class Signer:
    """Signs impression ids with secrets, and hashes with keys that outlive them.

    secrets: the first signs; ids that any of them signed are valid. keys: of the purposes in HASHING.
    """

    def __init__(self, secrets: Sequence[str], keys: Mapping[str, bytes]) -> None:
        signing = [_derived(secret, "impression") for secret in secrets]
        self._signing = {_digest(key, b"id", _ID): key for key in signing}
        self._id = _digest(signing[0], b"id", _ID)
        self._keys = dict(keys)

    def mac(self, purpose: str, message: bytes) -> bytes:
        """Return the keyed hash of a message for a purpose."""
        return _digest(self._keys[purpose], message)

    def impression(self, token: ImpressionToken) -> str:
        """Return the impression id that a browser may hold."""
        body = self._id + _FORM.pack(*token)
        return base64.urlsafe_b64encode(body + _digest(self._signing[self._id], body, _SIGNATURE)).decode()

    def read_impression(self, text: str) -> ImpressionToken | None:
        """Return what an impression id holds; None if the signature is wrong. The caller checks the expiry."""
        if len(text) > _LONGEST:
            return None
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        body, signature = raw[:-_SIGNATURE], raw[-_SIGNATURE:]
        if len(body) == _ID + _FORM.size:
            key = self._signing.get(body[:_ID])
            known = [] if key is None else [key]
        elif len(body) == _FORM.size:
            known = list(self._signing.values())
        else:
            return None
        if not any(hmac.compare_digest(signature, _digest(key, body, _SIGNATURE)) for key in known):
            return None
        return ImpressionToken(*_FORM.unpack(body[-_FORM.size :]))

    def unit(self, unit: str) -> str:
        """Return the hash under which a unit is stored."""
        return self.mac("unit", unit.encode("utf-8", "surrogatepass")).hex()


def new_hashing_keys() -> dict[str, bytes]:
    """Return the keys of a new database, which depend on no secret."""
    return {purpose: random.token_bytes(32) for purpose in HASHING}


def derived_hashing_keys(secret: str) -> dict[str, bytes]:
    """Return the keys that the first version derived from its secret; the secret does not follow from them."""
    return {purpose: _derived(secret, purpose) for purpose in HASHING}


def new_secret() -> str:
    """Return a new secret or session cookie, 256 random bits."""
    return random.token_urlsafe(32)


def new_key() -> str:
    """Return a new API key."""
    return KEY_PREFIX + new_secret()


def may_be_key(text: str) -> bool:
    """Whether a text looks like an API key, so that it is worth looking for."""
    return text.startswith(KEY_PREFIX) and len(text) <= LONGEST_KEY


def hash_text(text: str) -> bytes:
    """Return the hash under which an API key or a session's cookie is stored."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def csrf_token(cookie: str) -> str:
    """Return the token that forms of a session must send back; only who has the cookie can compute it."""
    return hashlib.blake2b(cookie.encode("utf-8", "surrogatepass"), digest_size=16, person=b"csrf").hexdigest()


def csrf_matches(cookie: str, token: str) -> bool:
    """Whether a form was sent from a page of the session."""
    return hmac.compare_digest(csrf_token(cookie).encode(), token.encode("utf-8", "surrogatepass"))


def _derived(secret: str, purpose: str) -> bytes:
    return hashlib.blake2b(secret.encode(), digest_size=32, person=purpose.encode()).digest()


def _digest(key: bytes, message: bytes, size: int = 16) -> bytes:
    return hashlib.blake2b(message, key=key, digest_size=size).digest()
