"""Rendering: templates, static files, and escaping of untrusted text."""

import functools
import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from multileave.live.pages.impressions import signed
from multileave.version import __version__

STATIC = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
LONGEST_CELL = 80
UNSAFE = ("Cc", "Cs", "Cf", "Cn", "Co", "Zl", "Zp")
# Plain letters and the printable part of Latin-1 need no lookup of their category.
_SUSPECT = re.compile("[^\t\n\r -~\u00a0-\u00ac\u00ae-\u02ff]")


def harmless(value: Any) -> Any:
    r"""Return text without invisible characters: controls, surrogates and direction marks are spelled out.

    Every expression of every template goes through it and then through HTML escaping.

    >>> harmless("a\x00b\ud800 \u202egnp.exe")
    'a\\x00b\\ud800 \\u202egnp.exe'
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _SUSPECT.sub(_spelled, value)


def _spelled(match: re.Match[str]) -> str:
    character = match.group()
    if unicodedata.category(character) in UNSAFE:
        return character.encode("unicode_escape").decode("ascii")
    return character


def cut(text: object, longest: int = LONGEST_CELL) -> str:
    """Return a text that fits into a cell, with an ellipsis if it was cut.

    >>> cut("abcdef", 4)
    'abc…'
    """
    words = str(text)
    return words if len(words) <= longest else words[: longest - 1] + "…"


def render(template: str, **values: Any) -> str:
    """Return a page or a part of one as HTML."""
    return _environment().get_template(template).render(values)


@functools.cache
def static_file(name: str) -> tuple[bytes, str]:
    """Return a static file and the hash of its content, for its address."""
    content = (files("multileave.live.pages") / "static" / name).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:12]


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("multileave.live.pages", "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        finalize=harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(cut=cut, day=_day, moment=_moment, clock=_clock, count=_count, signed=signed)
    environment.globals.update(static=_address, version=__version__)
    return environment


def _address(name: str) -> str:
    return f"/static/{name}?{static_file(name)[1]}"


def _day(at: datetime) -> Markup:
    return _time(at, "%Y-%m-%d")


def _moment(at: datetime) -> Markup:
    return _time(at, "%Y-%m-%d %H:%M")


def _clock(at: datetime) -> Markup:
    today = at.astimezone(UTC).date() == datetime.now(UTC).date()
    return _time(at, "%H:%M:%S" if today else "%b %d, %H:%M:%S")


def _time(at: datetime, form: str) -> Markup:
    at = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(timespec="seconds"), at.strftime(form))


def _count(number: int) -> str:
    return f"{number:,}"
