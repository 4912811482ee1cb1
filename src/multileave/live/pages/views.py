"""Views: the routes of the dashboard; each asks the service and fills a template.

The service is found at `request.app.state.service`. Every form is answered with a redirect to a page that
says what was done, or with the form again and what is wrong in it.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from multileave.errors import MultileaveError
from multileave.live.errors import Invalid, NotFound
from multileave.live.experiment import Definition, Experiment
from multileave.live.pages.condition import balances_of, figures_of
from multileave.live.pages.forms import definition_of, fields_of, method_choices, number, setting_of
from multileave.live.pages.impressions import impression_page
from multileave.live.pages.pairs import curves_of, drawn_rankers, forest_of, matrix_of, with_present
from multileave.live.pages.rendering import STATIC, cut, static_file
from multileave.live.pages.viewers import (
    Admin,
    Form,
    PageRoute,
    Reader,
    Viewer,
    Visitor,
    answer,
    close_session,
    open_session,
)
from multileave.live.pages.waiting import new_units_per_day, outlook
from multileave.live.records import Look, Role
from multileave.stats import Verdict

__all__ = ["pages"]

pages = APIRouter(route_class=PageRoute, include_in_schema=False, default_response_class=HTMLResponse)

REFRESH = {"running": 3, "draft": 10, "stopped": 30}  # seconds
RECENT = 20
LARGEST_NUMBER = 2**31 - 1
LONGEST_KEY = 512
LOCAL = re.compile(r"/(?!/)[\w/-]*", re.ASCII)
DONE = {
    "created": "The experiment is created as a draft. Start it when your search sends its rankings.",
    "changed": "The draft is changed.",
    "cloned": "This is a new version, a draft. Start it when you have stopped the old one.",
    "started": "Started. Impressions are recorded from now on.",
    "stopped": "Stopped. Everybody gets the control's list and nothing more is recorded.",
    "share": "The share of the traffic is changed.",
    "deleted": "The draft is deleted.",
    "revoked": "The key is revoked. It opens nothing any more.",
}


@pages.get("/static/{name}")
def static(name: str, request: Request) -> Response:
    """Answer a static file; its address carries a mark of its content, so it may be kept."""
    if name not in STATIC:
        raise NotFound(f"there is no file {cut(name)!r}.")
    content, mark = static_file(name)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "ETag": f'"{mark}"'}
    return Response(content, media_type=STATIC[name], headers=headers)


@pages.get("/login")
def login_form(request: Request, visitor: Visitor, next: str = "/") -> Response:
    """Ask for a key."""
    if visitor.reader:
        return RedirectResponse(_local(next), 303)
    return answer(request, visitor, "login.html", next=_local(next), error=None)


@pages.post("/login")
def login(request: Request, visitor: Visitor, form: Form) -> Response:
    """Open a session for a key that may look at pages."""
    target = _local(form.get("next", "/"))
    key = visitor.service.access.authenticate(form.get("key", "").strip()[:LONGEST_KEY])
    error = None
    if key is None:
        error = "This key is not known, or it was revoked."
    elif key.role == "ingest":
        error = "An ingest key sends traffic and opens no page. Use an admin or a read key."
    if key is None or error is not None:
        return answer(request, visitor, "login.html", status=401, next=target, error=error)
    response = RedirectResponse(target, 303)
    open_session(visitor.service, response, key)
    return response


@pages.post("/logout")
def logout(visitor: Visitor, form: Form) -> Response:
    """Close the session."""
    response = RedirectResponse("/login", 303)
    close_session(visitor.service, response)
    return response


@pages.get("/")
def experiments(request: Request, reader: Reader, done: str = "") -> Response:
    """List the experiments."""
    return answer(request, reader, "experiments.html", experiments=reader.service.experiments(), done=DONE.get(done))


@pages.get("/experiments/new")
def new(request: Request, admin: Admin) -> Response:
    """Ask for a new experiment."""
    return _definition_form(request, admin, "New experiment", fields_of(None))


@pages.post("/experiments/new")
def create(request: Request, admin: Admin, form: Form) -> Response:
    """Create an experiment as a draft."""
    try:
        made = admin.service.create(definition_of(form))
    except MultileaveError as problem:
        return _definition_form(request, admin, "New experiment", form, problem)
    return _to(made.number, "created")


def _asked(request: Request, reader: Reader) -> Experiment:
    asked = int(request.path_params["number"])
    if not 0 < asked <= LARGEST_NUMBER:
        raise NotFound("there is no experiment of that number.")
    return reader.service.experiment(asked)


Asked = Depends(_asked)


@pages.get("/experiments/{number:int}")
def experiment(
    request: Request, reader: Reader, asked: Experiment = Asked, action: str = "", done: str = ""
) -> Response:
    """Show what an experiment says so far."""
    return answer(request, reader, "experiment.html", done=DONE.get(done), **_live(reader, asked, action))


@pages.get("/experiments/{number:int}/live")
def live(request: Request, reader: Reader, asked: Experiment = Asked, action: str = "") -> Response:
    """Show the part of an experiment's page that changes, for the page to refresh itself."""
    return answer(request, reader, "live.html", **_live(reader, asked, action))


@pages.get("/experiments/{number:int}/pairs")
def all_pairs(request: Request, reader: Reader, asked: Experiment = Asked, action: str = "") -> Response:
    """Show every pair, the whole matrix and every curve of an experiment, however many rankers it has."""
    values = _live(reader, asked, action, most=len(asked.definition.rankers))
    return answer(request, reader, "pairs.html", **values)


@pages.get("/experiments/{number:int}/impressions/{key}")
def impression(request: Request, reader: Reader, key: str, asked: Experiment = Asked) -> Response:
    """Show who contributed what to an impression."""
    if not key.isprintable() or len(key) > LONGEST_KEY:
        raise NotFound("there is no such impression in this experiment.")
    detail = reader.service.impression(asked.number, key)
    return answer(request, reader, "impression.html", experiment=asked, seen=impression_page(detail))


@pages.get("/experiments/{number:int}/edit")
def edit_form(request: Request, admin: Admin, asked: Experiment = Asked) -> Response:
    """Ask for changes to a draft."""
    return _definition_form(request, admin, "Edit draft", fields_of(asked.definition))


@pages.post("/experiments/{number:int}/edit")
def edit(request: Request, admin: Admin, form: Form, asked: Experiment = Asked) -> Response:
    """Change a draft."""
    try:
        admin.service.edit(asked.number, definition_of(form))
    except MultileaveError as problem:
        return _definition_form(request, admin, "Edit draft", form, problem)
    return _to(asked.number, "changed")


@pages.get("/experiments/{number:int}/clone")
def clone_form(request: Request, admin: Admin, asked: Experiment = Asked) -> Response:
    """Ask for what differs in a new version of an experiment."""
    return _definition_form(request, admin, "Clone as a new version", fields_of(asked.definition))


@pages.post("/experiments/{number:int}/clone")
def clone(request: Request, admin: Admin, form: Form, asked: Experiment = Asked) -> Response:
    """Create a new version of an experiment as a draft."""
    try:
        wanted, present = definition_of(form).to_dict(), asked.definition.to_dict()
        changes = {name: value for name, value in wanted.items() if value != present[name]}
        made = admin.service.clone(asked.number, changes)
    except MultileaveError as problem:
        return _definition_form(request, admin, "Clone as a new version", form, problem)
    return _to(made.number, "cloned")


@pages.post("/experiments/{number:int}/start")
def start(admin: Admin, form: Form, asked: Experiment = Asked) -> Response:
    """Start a draft."""
    admin.service.start(asked.number)
    return _to(asked.number, "started")


@pages.post("/experiments/{number:int}/stop")
def stop(admin: Admin, form: Form, asked: Experiment = Asked) -> Response:
    """Stop a running experiment, for good."""
    admin.service.stop(asked.number)
    return _to(asked.number, "stopped")


@pages.post("/experiments/{number:int}/share")
def ramp(admin: Admin, form: Form, asked: Experiment = Asked) -> Response:
    """Give an experiment another share of the traffic."""
    admin.service.ramp(asked.number, number("share", form.get("share", "")) / 100)
    return _to(asked.number, "share")


@pages.post("/experiments/{number:int}/delete")
def delete(admin: Admin, form: Form, asked: Experiment = Asked) -> Response:
    """Delete a draft."""
    admin.service.delete_draft(asked.number)
    return RedirectResponse("/?done=deleted", 303)


@pages.get("/keys")
def keys(request: Request, admin: Admin, done: str = "") -> Response:
    """List the keys."""
    return _keys(request, admin, done=DONE.get(done))


@pages.post("/keys")
def create_key(request: Request, admin: Admin, form: Form) -> Response:
    """Create a key, and show its text this once."""
    try:
        key, text = admin.service.access.create_key(form.get("name", "").strip(), cast(Role, form.get("role", "")))
    except MultileaveError as problem:
        return _keys(request, admin, status=422, error=cut(str(problem), 600))
    return _keys(request, admin, made=key, text=text)


@pages.post("/keys/{number:int}/revoke")
def revoke_key(request: Request, admin: Admin, form: Form) -> Response:
    """Revoke a key."""
    asked = int(request.path_params["number"])
    if asked > LARGEST_NUMBER:
        raise NotFound("there is no key of that number.")
    admin.service.access.revoke_key(asked)
    return RedirectResponse("/keys?done=revoked", 303)


def _live(reader: Viewer, asked: Experiment, action: str, most: int | None = None) -> dict[str, Any]:
    """Return what the page of an experiment shows."""
    service, definition = reader.service, asked.definition
    if action and action not in definition.actions:
        raise NotFound(f"there is no action {cut(action)!r}; there are {', '.join(definition.actions)}.")
    action = action or definition.actions[0]
    verdict = service.verdict(asked.number, action)
    history = service.history(asked.number, action)
    health = None if verdict is None else verdict.health
    running, now = asked.status == "running", datetime.now(UTC)
    if verdict is not None:
        history = with_present(history, verdict, asked.stopped or now)
    per_day = new_units_per_day(history, now) if running else None
    values: dict[str, Any] = {
        "experiment": asked,
        "definition": definition,
        "action": action,
        "verdict": verdict,
        "traffic": service.counts(asked.number),
        "recent": service.recent(asked.number, RECENT),
        "outlook": outlook(verdict, definition.control, definition.unit, per_day)
        if asked.status == "running"
        else None,
        "figures": figures_of(health, definition.unit) if health is not None else [],
        "balances": balances_of(health) if health is not None else [],
        "refresh": REFRESH[asked.status],
        "share": fields_of(definition)["share"],
        "drawn": (),
    }
    if verdict is not None:
        values.update(_plots(verdict, history, definition, per_day, most))
    return values


def _plots(
    verdict: Verdict, history: list[Look], definition: Definition, per_day: float | None, most: int | None
) -> dict[str, Any]:
    drawn = drawn_rankers(verdict, definition.control, *([] if most is None else [most]))
    return {
        "drawn": drawn,
        "forest": forest_of(verdict, definition.control, drawn, per_day),
        "matrix": matrix_of(verdict, drawn),
        "curves": curves_of(history, verdict, definition.control, drawn),
    }


def _definition_form(
    request: Request, admin: Viewer, title: str, fields: Mapping[str, str], problem: MultileaveError | None = None
) -> Response:
    status = 200 if problem is None else getattr(problem, "status", Invalid.status)
    error = None if problem is None else cut(str(problem), 600)
    shown = {**fields_of(None), **({} if problem is None else {"hash_units": ""}), **fields}
    return answer(
        request, admin, "definition.html", status=status, title=title, methods=method_choices(), error=error,
        wrong=None if error is None else setting_of(error), field={name: text[:20_000] for name, text in shown.items()},
    )  # fmt: skip


def _keys(request: Request, admin: Viewer, *, status: int = 200, **values: Any) -> Response:
    said = {"done": None, "error": None, "made": None, "text": None, **values}
    return answer(request, admin, "keys.html", status=status, keys=admin.service.access.keys(), **said)


def _to(number: int, done: str) -> Response:
    return RedirectResponse(f"/experiments/{number}?done={done}", 303)


def _local(target: str) -> str:
    """Return an address on this service to go on to, never one elsewhere."""
    return target if LOCAL.fullmatch(target) else "/"
