"""Routes of experiments: create, change, start, stop and clone."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from multileave.live.access.scope import scope_of
from multileave.live.definition import Definition
from multileave.live.experiment import Experiment, Status
from multileave.live.http.auth import Allow, key_of, service_of
from multileave.live.http.derived_models import Changes, ExperimentAnswer, experiment_answer
from multileave.live.http.request_body import JsonBody
from multileave.live.http.responses import ExperimentList
from multileave.live.http.routes import API, Number, errors
from multileave.live.verdicts.summary import Search, Standing

router = APIRouter(prefix=f"{API}/experiments", tags=["experiments"])
READ = [Depends(Allow("read"))]
LIST = [Depends(Allow("read", scope="any"))]
ADMIN = [Depends(Allow("admin"))]
CLONE = [Depends(Allow("admin", scope="service"))]
ChangesBody = Annotated[BaseModel, Depends(JsonBody(Changes))]
Text = Annotated[
    str, Query(max_length=100, description="Only experiments with these words in their number, name, group or rankers.")
]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1, description="How many to leave out, the newest first.")]
Limit = Annotated[int | None, Query(ge=1, le=1000, description="How many to return; all by default.")]
Answer = dict[str, Any]


def _answer(request: Request, found: Experiment) -> Answer:
    return experiment_answer(found, compiled=service_of(request).is_compiled(found.definition.method))


@router.post("", status_code=201, dependencies=ADMIN, response_model=ExperimentAnswer)
def create(
    body: Annotated[Definition, Depends(JsonBody(Definition))], request: Request, response: Response
) -> Answer:  # fmt: skip
    """Create an experiment as a draft; nothing is shown to users yet."""
    made = service_of(request).create(body)
    response.headers["Location"] = f"{API}/experiments/{made.number}"
    return _answer(request, made)


@router.get("", dependencies=LIST, response_model=ExperimentList)
def list_all(
    request: Request,
    search: Text = "",
    status: Annotated[Status | None, Query(description="Only experiments with this status.")] = None,
    standing: Annotated[Standing | None, Query(description="Only experiments with this standing.")] = None,
    offset: Offset = 0,
    limit: Limit = None,
) -> Answer:
    """List all experiments with their results in short, or those that the key is limited to, newest first."""
    wanted = Search(search, status, standing)
    part = service_of(request).search(wanted, within=scope_of(key_of(request)), offset=offset, limit=limit)
    found = [{**_answer(request, one.experiment), "summary": one.summary} for one in part.found]
    return {"experiments": found, "total": part.total, "as_of": part.as_of, "stale": part.stale}


@router.get("/{number}", dependencies=READ, responses=errors(404), response_model=ExperimentAnswer)
def get(number: Number, request: Request) -> Answer:
    """Return an experiment."""
    return _answer(request, service_of(request).experiment(number))


@router.patch("/{number}", dependencies=ADMIN, responses=errors(404, 409), response_model=ExperimentAnswer)
def change(number: Number, body: ChangesBody, request: Request) -> Answer:
    """Change a draft, or the share and the arms of a running experiment; to change other settings, clone it."""
    return _answer(request, service_of(request).edit(number, body.model_dump(exclude_unset=True)))


@router.delete("/{number}", status_code=204, dependencies=ADMIN, responses=errors(404, 409))
def delete(number: Number, request: Request) -> None:
    """Delete a draft."""
    service_of(request).delete_draft(number)


@router.post("/{number}/start", dependencies=ADMIN, responses=errors(404, 409), response_model=ExperimentAnswer)
def start(number: Number, request: Request) -> Answer:
    """Start a draft."""
    return _answer(request, service_of(request).start(number))


@router.post("/{number}/stop", dependencies=ADMIN, responses=errors(404, 409), response_model=ExperimentAnswer)
def stop(number: Number, request: Request) -> Answer:
    """Stop a running experiment: everyone sees the control's list, and nothing more is recorded."""
    return _answer(request, service_of(request).stop(number))


@router.post(
    "/{number}/clone", status_code=201, dependencies=CLONE, responses=errors(404, 409), response_model=ExperimentAnswer
)
def clone(number: Number, body: ChangesBody, request: Request, response: Response) -> Answer:
    """Create the next version of an experiment as a draft, with some settings changed."""
    made = service_of(request).clone(number, body.model_dump(exclude_unset=True))
    response.headers["Location"] = f"{API}/experiments/{made.number}"
    return _answer(request, made)
