"""Sessions: who looks at a page, what they may do, and how forms are protected.

A session is a random cookie that stands for an API key; the database has its hash. Forms carry a token that follows
from that cookie or, before the login and on an open service, from a random cookie of the visit.
"""

import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from multileave.errors import MultileaveError
from multileave.live.access.actor import Actor, acting
from multileave.live.access.scope import check_scope
from multileave.live.errors import Forbidden, Invalid, NotFound, Problem, TooLarge, Unauthorized, Unavailable
from multileave.live.http.auth import check_open, look_up, service_of
from multileave.live.http.error_responses import RETRY_AFTER
from multileave.live.http.request_body import media_type, read_body
from multileave.live.pages.rendering import cut, render
from multileave.live.records import Key
from multileave.live.service import Service

SESSION = "multileave_session"
VISIT = "multileave_visit"
MOST_FORM = 250_000  # 100 names of 100 characters take up to 120,000 bytes, escaped
MOST_FIELDS = 100
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",  # without a referrer, browsers send forms with the origin "null"
}
TITLES = {
    Forbidden.status: "Not allowed",
    NotFound.status: "Not found",
    TooLarge.status: "Too large",
    Unavailable.status: "Not available now",
}


@dataclass(frozen=True)
class Viewer:
    """Who looks at a page: the key they logged in with, if any, and the cookie that forms are tied to."""

    service: Service
    key: Key | None
    cookie: str

    @property
    def admin(self) -> bool:
        """Whether they may change things."""
        return self.service.settings.open or (self.key is not None and self.key.role == "admin")

    @property
    def manager(self) -> bool:
        """Whether they may change things that concern the whole service, such as keys."""
        return self.admin and (self.key is None or self.key.experiments is None)

    @property
    def reader(self) -> bool:
        """Whether they may look at experiments."""
        return self.service.settings.open or self.key is not None

    @property
    def csrf(self) -> str:
        """The token that their forms carry."""
        return self.service.access.csrf(self.cookie)


class PageRoute(APIRoute):
    """A route for people: errors are pages, and visitors without a session are sent to the login."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with errors rendered and headers set."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                response = await handler(request)
            except Unauthorized as problem:
                response = _to_login(request, problem)
            except MultileaveError as problem:
                response = await run_in_threadpool(_error_page, request, problem)
            response.headers.update(HEADERS)
            fresh = getattr(request.state, "fresh_visit", None)
            if fresh is not None:
                _set(service_of(request), response, VISIT, fresh, None)
            return response

        return handle


def answer(request: Request, viewer: Viewer, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a rendered page."""
    return HTMLResponse(render(template, viewer=viewer, path=request.url.path, **values), status)


def open_session(service: Service, response: Response, key: Key) -> None:
    """Log in: set the cookie of a new session."""
    _set(service, response, SESSION, service.access.open_session(key), round(service.settings.session_hours * 3600))


def close_session(viewer: Viewer, response: Response) -> None:
    """Log out: end the session and drop its cookie."""
    if viewer.key is not None:
        viewer.service.access.close_session(viewer.cookie)
    _set(viewer.service, response, SESSION, "", 0)


def _set(service: Service, response: Response, name: str, value: str, seconds: int | None) -> None:
    response.set_cookie(
        name, value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=service.settings.secure_cookies
    )


async def _visitor(request: Request) -> Viewer:
    service = service_of(request)
    cookie = request.cookies.get(SESSION, "")
    key = await look_up(request, service.access.session, cookie) if cookie else None
    if key is not None and key.role in ("read", "admin"):
        acting.set(Actor("session", key.number, key.name))
        found = Viewer(service, key, cookie)
    else:
        acting.set(Actor("open" if service.settings.open else "visitor"))
        found = _stranger(request)
    request.state.viewer = found
    return found


def _stranger(request: Request) -> Viewer:
    visit = request.cookies.get(VISIT, "")
    if not 20 <= len(visit) <= 100:
        fresh: str | None = getattr(request.state, "fresh_visit", None)
        visit = request.state.fresh_visit = fresh or secrets.token_urlsafe(24)
    return Viewer(service_of(request), None, visit)


Visitor = Annotated[Viewer, Depends(_visitor)]


async def _any_reader(request: Request, visitor: Visitor) -> Viewer:
    if visitor.service.settings.open:
        check_open(request)
    if not visitor.reader:
        raise Unauthorized("This page requires a login. Log in with an admin or read key.")
    return visitor


# Somebody who may look, perhaps only at some experiments: the page itself leaves out the others.
AnyReader = Annotated[Viewer, Depends(_any_reader)]


async def _reader(request: Request, reader: AnyReader) -> Viewer:
    number = request.path_params.get("number")
    check_scope(reader.key, None if number is None else str(number))
    return reader


# Somebody who may look at the experiment that the address names, or at the whole service if it names none.
Reader = Annotated[Viewer, Depends(_reader)]


async def _admin(reader: Reader) -> Viewer:
    if not reader.admin:
        raise Forbidden("A read key cannot change anything. Log in with an admin key.")
    return reader


Admin = Annotated[Viewer, Depends(_admin)]


async def _manager(admin: Admin) -> Viewer:
    check_scope(admin.key, None)
    return admin


# An admin without limits, for what concerns the whole service.
Manager = Annotated[Viewer, Depends(_manager)]


async def _form(request: Request, visitor: Visitor) -> dict[str, str]:
    """Return the fields of a form, after checking that one of our own pages sent it."""
    kind = media_type(request)
    if kind != "application/x-www-form-urlencoded":
        raise Invalid(f"The form has the type {cut(kind or 'none')!r}; expected application/x-www-form-urlencoded.")
    body = await read_body(request, MOST_FORM)
    try:
        fields = parse_qsl(
            body.decode("ascii", "replace"), keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise Invalid(f"The form has over {MOST_FIELDS} fields, the limit.") from None
    form = dict(fields)
    token = form.pop("csrf", "")
    if not visitor.service.access.csrf_matches(visitor.cookie, token):
        raise Forbidden("The form was not sent from this page, or you have logged in again since. Reload the page.")
    return form


Form = Annotated[dict[str, str], Depends(_form)]


def _to_login(request: Request, problem: Problem) -> Response:
    if request.url.path.endswith("/live"):
        return HTMLResponse("", problem.status)
    here = request.url.path if request.method == "GET" else "/"
    if request.method == "GET" and request.url.query:
        here += f"?{request.url.query}"
    return RedirectResponse("/login" if here == "/" else f"/login?next={quote(here)}", 303)


def _error_page(request: Request, problem: MultileaveError) -> Response:
    status = problem.status if isinstance(problem, Problem) else Invalid.status
    titles = {
        Forbidden.status: "Not allowed",
        NotFound.status: "Not found",
        TooLarge.status: "Too large",
        Unavailable.status: "Try again soon",
    }
    title = titles.get(status, "Not possible")
    viewer = getattr(request.state, "viewer", None) or _stranger(request)
    response = answer(request, viewer, "error.html", status=status, title=title, message=cut(str(problem), 600))
    if status == Unavailable.status:
        response.headers.update(RETRY_AFTER)
    return response
