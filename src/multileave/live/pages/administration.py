"""Administration: the pages of the keys and of the audit log, for admins without limits."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from multileave.errors import MultileaveError
from multileave.live.access.scope import read_numbers
from multileave.live.errors import Invalid, NotFound
from multileave.live.pages.rendering import cut
from multileave.live.pages.sessions import Form, Manager, Viewer, answer
from multileave.live.pages.views import LARGEST_NUMBER, pages
from multileave.live.records import AuditEntry, Role

ENTRIES = 50
MOST_DAYS = 36_500
LONGEST_DETAIL = 120


@pages.get("/keys")
def keys(request: Request, admin: Manager, done: str = "") -> Response:
    """List the keys."""
    return _keys(request, admin, done="Key revoked." if done == "revoked" else None)


@pages.post("/keys")
def create_key(request: Request, admin: Manager, form: Form) -> Response:
    """Create a key and show its text once."""
    try:
        limits = {"expires": _expires(form), "experiments": read_numbers(form.get("experiments", ""))}
        name, role = form.get("name", "").strip(), cast(Role, form.get("role", ""))
        key, text = admin.service.access.create_key(name, role, **limits)
    except MultileaveError as problem:
        return _keys(request, admin, status=422, error=cut(str(problem), 600))
    return _keys(request, admin, made=key, text=text)


@pages.post("/keys/{key_number:int}/revoke")
def revoke_key(admin: Manager, form: Form, key_number: int) -> Response:
    """Revoke a key."""
    if key_number > LARGEST_NUMBER:
        raise NotFound("There is no key with that number.")
    admin.service.access.revoke_key(key_number)
    return RedirectResponse("/keys?done=revoked", 303)


@pages.get("/audit")
def audit(request: Request, admin: Manager, before: str = "", experiment: str = "") -> Response:
    """Show who did what, newest first."""
    of = _number(experiment)
    entries, following = admin.service.audit(before=_number(before), experiment=of, limit=ENTRIES)
    rows = [(entry, details_of(entry)) for entry in entries]
    return answer(request, admin, "audit.html", rows=rows, following=following, of=of, first=not before)


def details_of(entry: AuditEntry) -> list[str]:
    """Return what is known about an entry, as short sentences; settings as old -> new."""
    found = []
    for name, value in entry.details.items():
        if name == "changed":
            found += [f"{setting}: {_short(old)} → {_short(new)}" for setting, (old, new) in value.items()]
        elif value is not None:
            found.append(f"{name}: {_short(value)}")
    return found


def _short(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST_DETAIL)


def _number(text: str) -> int | None:
    """Return a number of the address; None if it is left out, too large for anything if it makes no sense."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else LARGEST_NUMBER


def _expires(form: Mapping[str, str]) -> datetime | None:
    text = form.get("days", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= MOST_DAYS):
        raise Invalid(f"The key is to expire after {cut(text, 20)!r} days; expected a number from 1 to {MOST_DAYS:,}.")
    return datetime.now(UTC) + timedelta(days=int(text))


def _keys(request: Request, admin: Viewer, *, status: int = 200, **values: Any) -> Response:
    said = {"done": None, "error": None, "made": None, "text": None, "now": datetime.now(UTC), **values}
    return answer(request, admin, "keys.html", status=status, keys=admin.service.access.keys(), **said)
