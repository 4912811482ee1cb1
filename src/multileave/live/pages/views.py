"""Views: the routes of the dashboard; each asks the service and fills a template.

A form is answered with a redirect to a page that says what was done, or with the form and what is wrong in it.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from multileave.errors import MultileaveError
from multileave.live.access.scope import scope_of
from multileave.live.definition import Definition
from multileave.live.errors import Invalid, NotFound
from multileave.live.experiment import STATUSES, Experiment
from multileave.live.pages import forms, pairs
from multileave.live.pages.arm_table import arm_table
from multileave.live.pages.experiment_list import PAGE, RESULTS, Filters, rows_of
from multileave.live.pages.forecast import forecast, new_units_per_day, schedule
from multileave.live.pages.health_figures import balances_of, figures_of
from multileave.live.pages.impressions import preference_sentence
from multileave.live.pages.rendering import STATIC, cut, static_file
from multileave.live.pages.segment_tables import segment_tables
from multileave.live.pages.sessions import (
    Admin,
    AnyReader,
    Form,
    Manager,
    PageRoute,
    Reader,
    Viewer,
    Visitor,
    answer,
    close_session,
    open_session,
)
from multileave.live.records import Look
from multileave.live.verdicts.report import Report
from multileave.live.verdicts.segments import MOST_SEGMENTS
from multileave.methods import get_method
from multileave.stats import Verdict
from multileave.stats.rates.wording import counted, rate_words

pages = APIRouter(route_class=PageRoute, include_in_schema=False, default_response_class=HTMLResponse)

REFRESH = {"running": 3, "draft": 10, "stopped": 30}  # seconds
RECENT = 20
LARGEST_NUMBER = 2**31 - 1
MOST_RANKERS = 100
LONGEST_KEY = 512
LOCAL = re.compile(r"/(?!/)[\w/-]*(\?[\w=&%+.~-]*)?", re.ASCII)
DONE = {
    "created": "Draft created. Start it once your application sends rankings.",
    "changed": "Draft saved.",
    "cloned": "New version created as a draft. Stop the old version before you start it.",
    "started": "Experiment started. Impressions are now recorded.",
    "stopped": "Experiment stopped. Everyone sees the control's list, and nothing more is recorded.",
    "share": "Share of the traffic changed.",
    "deleted": "Draft deleted.",
}
FORMS = {
    "new": ("New experiment", "Create draft"),
    "edit": ("Edit draft", "Save draft"),
    "clone": ("Clone as a new version", "Create new version"),
}


@pages.get("/static/{name}")
async def static(name: str, request: Request) -> Response:
    """Return a static file; its address contains a hash of its content, so it can be cached."""
    if name not in STATIC:
        raise NotFound(f"There is no file {cut(name)!r}.")
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
    """Open a session for a key that may see pages."""
    target = _local(form.get("next", "/"))
    key = visitor.service.access.authenticate(form.get("key", "").strip()[:LONGEST_KEY])
    error = None
    if key is None:
        error = "This key is unknown or revoked."
    elif key.role == "ingest":
        error = "An ingest key cannot open pages. Use an admin or read key."
    if key is None or error is not None:
        visitor.service.access.login_failed()
        return answer(request, visitor, "login.html", status=401, next=target, error=error)
    if visitor.key is not None:
        visitor.service.access.close_session(visitor.cookie)
    response = RedirectResponse(target, 303)
    open_session(visitor.service, response, key)
    return response


@pages.post("/logout")
def logout(visitor: Visitor, form: Form) -> Response:
    """Close the session."""
    response = RedirectResponse("/login", 303)
    close_session(visitor, response)
    return response


@pages.get("/")
def experiments(request: Request, reader: AnyReader, done: str = "") -> Response:
    """List the experiments that the reader may see, those that the address asks for."""
    filters = Filters.of(request.query_params)
    part = reader.service.search(filters.search, within=scope_of(reader.key), offset=filters.offset, limit=PAGE)
    if not part.found and part.total:  # it was on a page after the last one
        return RedirectResponse(filters.address(-(-part.total // PAGE)), 303)
    return answer(
        request, reader, "experiments.html", filters=filters, part=part, rows=rows_of(part.found), done=DONE.get(done),
        statuses=STATUSES, results=RESULTS, last=-(-part.total // PAGE),
    )  # fmt: skip


@pages.get("/experiments/new")
def new(request: Request, admin: Manager) -> Response:
    """Show the form of a new experiment."""
    return _form(request, admin, "new", forms.texts_of())


@pages.post("/experiments/new")
def create(request: Request, admin: Manager, form: Form) -> Response:
    """Create an experiment as a draft."""
    try:
        made = admin.service.create(forms.definition_of(form))
    except MultileaveError as problem:
        return _form(request, admin, "new", form, problem)
    return _to(made.number, "created")


def _asked(request: Request, reader: Reader) -> Experiment:
    return reader.service.experiment(int(request.path_params["number"]))


Asked = Depends(_asked)


@pages.get("/experiments/{number:int}")
def experiment(request: Request, reader: Reader, number: int, action: str = "", done: str = "") -> Response:
    """Show the verdict of an experiment and everything else about it."""
    return answer(request, reader, "experiment.html", done=DONE.get(done), **_live(reader, number, action))


@pages.get("/experiments/{number:int}/live")
def live(request: Request, reader: Reader, number: int, action: str = "") -> Response:
    """Show the part of an experiment's page that changes, for the page to refresh itself."""
    return answer(request, reader, "live.html", **_live(reader, number, action))


@pages.get("/experiments/{number:int}/pairs")
def all_pairs(request: Request, reader: Reader, number: int, action: str = "") -> Response:
    """Show every pair with all its statistics, the whole matrix and every curve, however many rankers there are."""
    values = _live(reader, number, action, most=MOST_RANKERS)
    verdict = values["verdict"]
    return answer(request, reader, "pairs.html", statistics=verdict and pairs.all_statistics(verdict), **values)


@pages.get("/experiments/{number:int}/segments")
def segments(request: Request, reader: Reader, number: int, action: str = "") -> Response:
    """Show the verdict in each segment of the traffic, and how much segments differ."""
    try:
        found = reader.service.segments(number, action or None)
    except Invalid as problem:
        raise NotFound(str(problem)) from None
    return answer(
        request, reader, "segments.html", experiment=found.report.experiment, found=found, tables=segment_tables(found),
        most=MOST_SEGMENTS,
    )  # fmt: skip


@pages.get("/experiments/{number:int}/impressions/{key}")
def impression(request: Request, reader: Reader, key: str, asked: Experiment = Asked) -> Response:
    """Show what each ranker contributed to an impression."""
    if not key.isprintable() or len(key) > LONGEST_KEY:
        raise NotFound("There is no such impression in this experiment.")
    detail = reader.service.impression(asked.number, key)
    return answer(
        request,
        reader,
        "impression.html",
        experiment=asked,
        detail=detail,
        method=get_method(detail.method),
        sentence=preference_sentence(detail),
    )


@pages.get("/experiments/{number:int}/edit")
def edit_form(request: Request, admin: Admin, asked: Experiment = Asked) -> Response:
    """Show the form of a draft."""
    return _form(request, admin, "edit", forms.texts_of(asked.definition))


@pages.post("/experiments/{number:int}/edit")
def edit(request: Request, admin: Admin, form: Form, asked: Experiment = Asked) -> Response:
    """Change a draft."""
    try:
        admin.service.edit(asked.number, _changes(form, asked.definition))
    except MultileaveError as problem:
        return _form(request, admin, "edit", form, problem)
    return _to(asked.number, "changed")


@pages.get("/experiments/{number:int}/clone")
def clone_form(request: Request, admin: Manager, asked: Experiment = Asked) -> Response:
    """Show the form of a new version of an experiment."""
    return _form(request, admin, "clone", forms.texts_of(asked.definition))


@pages.post("/experiments/{number:int}/clone")
def clone(request: Request, admin: Manager, form: Form, asked: Experiment = Asked) -> Response:
    """Create a new version of an experiment as a draft."""
    try:
        made = admin.service.clone(asked.number, _changes(form, asked.definition))
    except MultileaveError as problem:
        return _form(request, admin, "clone", form, problem)
    return _to(made.number, "cloned")


@pages.post("/experiments/{number:int}/start")
def start(admin: Admin, form: Form, number: int) -> Response:
    """Start a draft."""
    admin.service.start(number)
    return _to(number, "started")


@pages.post("/experiments/{number:int}/stop")
def stop(admin: Admin, form: Form, number: int) -> Response:
    """Stop a running experiment for good."""
    admin.service.stop(number)
    return _to(number, "stopped")


@pages.post("/experiments/{number:int}/share")
def change_share(admin: Admin, form: Form, number: int) -> Response:
    """Change an experiment's share of the traffic."""
    admin.service.edit(number, {"share": forms.FIELDS["share"].value(form.get("share", "").strip())})
    return _to(number, "share")


@pages.post("/experiments/{number:int}/delete")
def delete(admin: Admin, form: Form, number: int) -> Response:
    """Delete a draft."""
    admin.service.delete_draft(number)
    return RedirectResponse("/?done=deleted", 303)


def _live(reader: Viewer, number: int, action: str, most: int | None = None) -> dict[str, Any]:
    """Return what the page of an experiment shows."""
    service = reader.service
    try:
        report = service.report(number, action or None)
    except Invalid as problem:
        raise NotFound(str(problem)) from None
    found, verdict = report.experiment, report.verdict
    health = None if verdict is None else verdict.health
    definition, now = found.definition, datetime.now(UTC)
    looks: Sequence[Look] = service.history(number, report.action).looks
    if verdict is not None and not definition.looks:
        looks = pairs.with_current(looks, verdict, found.stopped or now)
    running = found.status == "running"
    per_day = new_units_per_day(looks, now) if running else None
    values: dict[str, Any] = {
        "experiment": found,
        "definition": definition,
        "settings": forms.settings_of(definition),
        "action": report.action,
        "verdict": verdict,
        "traffic": report.traffic,
        "as_of": report.as_of,
        "stale": report.stale,
        "compiled": found.status == "stopped" or service.is_compiled(definition.method),
        "recent": service.recent(number, RECENT),
        "forecast": forecast(verdict, definition.control, definition.unit, per_day) if running else None,
        "schedule": schedule(definition, verdict, report.traffic.units) if found.started else "",
        "figures": figures_of(health, definition.unit) if health is not None else [],
        "balances": balances_of(health) if health is not None else [],
        "refresh": REFRESH[found.status],
        "share": forms.texts_of(definition)["share"],
        "drawn": (),
        "rates": None,
        "arms": arm_table(report),
    }
    if verdict is not None:
        drawn = pairs.drawn_rankers(verdict, definition.control, most or pairs.MOST_DRAWN)
        values["drawn"] = drawn
        values["forest"] = pairs.forest_of(verdict, definition.control, drawn, per_day)
        values["matrix"] = pairs.matrix_of(verdict, drawn)
        values["rates"] = rates_of(report, verdict, drawn)
        values["curves"] = pairs.curves_of(looks, verdict, definition.control, drawn)
    return values


def rates_of(report: Report, verdict: Verdict, drawn: Sequence[str]) -> dict[str, Any]:
    """Return what each drawn ranker would earn alone, in words, and why that is missing or imprecise."""
    rates = verdict.rates
    if rates is None:
        return {"rows": [], "assumption": "", "note": report.rates_note}
    what = counted(report.action)
    rows = [(name, rate_words(rates, rates[name], what), rates[name].significant) for name in drawn]
    return {"rows": rows, "assumption": rates.assumption, "note": report.rates_note}


def _form(
    request: Request, admin: Viewer, kind: str, texts: Mapping[str, str], problem: MultileaveError | None = None
) -> Response:
    """Return the form of an experiment's settings, with what is wrong in it."""
    title, submit = FORMS[kind]
    shown = {**forms.texts_of(), **({} if problem is None else forms.UNTICKED), **texts}
    error = None if problem is None else cut(str(problem), 600)
    return answer(
        request, admin, "experiment_form.html", status=200 if problem is None else getattr(problem, "status", 422),
        title=title, submit=submit, fieldsets=forms.fieldsets_of(), methods=forms.method_choices(), error=error,
        wrong=None if error is None else error.partition(" ")[0],
        text={name: text[: forms.LONGEST_FIELD] for name, text in shown.items()},
    )  # fmt: skip


def _changes(form: Mapping[str, str], definition: Definition) -> dict[str, Any]:
    """Return the settings that a form changes."""
    wanted, present = forms.definition_of(form).to_dict(), definition.to_dict()
    return {name: value for name, value in wanted.items() if value != present[name]}


def _to(number: int, done: str) -> Response:
    return RedirectResponse(f"/experiments/{number}?done={done}", 303)


def _local(target: str) -> str:
    """Return an address on this service to continue at, never one elsewhere."""
    return target if LOCAL.fullmatch(target) else "/"
