"""Experiments: made, started, ramped up, stopped and cloned."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from multileave.live.errors import Conflict
from multileave.live.http.auth import Allow, service_of
from multileave.live.http.body_limits import JsonBody
from multileave.live.http.requests import ChangesBody, ExperimentBody
from multileave.live.http.responses import ExperimentAnswer, ExperimentsAnswer
from multileave.live.http.routes import API, Number, may

__all__ = ["router"]

router = APIRouter(prefix=f"{API}/experiments", tags=["experiments"])
READ = [Depends(Allow("read"))]
ADMIN = [Depends(Allow("admin"))]
Changes = Annotated[ChangesBody, Depends(JsonBody(ChangesBody))]


@router.post("", status_code=201, dependencies=ADMIN)
def create(
    body: Annotated[ExperimentBody, Depends(JsonBody(ExperimentBody))], request: Request, response: Response
) -> ExperimentAnswer:
    """Make an experiment, a draft that shows nothing to anybody yet."""
    made = service_of(request).create(body.definition)
    response.headers["Location"] = f"{API}/experiments/{made.number}"
    return ExperimentAnswer.of(made)


@router.get("", dependencies=READ)
def list_all(request: Request) -> ExperimentsAnswer:
    """List all experiments, newest first."""
    return ExperimentsAnswer(experiments=[ExperimentAnswer.of(one) for one in service_of(request).experiments()])


@router.get("/{number}", dependencies=READ, responses=may(404))
def get(number: Number, request: Request) -> ExperimentAnswer:
    """Return an experiment."""
    return ExperimentAnswer.of(service_of(request).experiment(number))


@router.patch("/{number}", dependencies=ADMIN, responses=may(404, 409))
def change(number: Number, body: Changes, request: Request) -> ExperimentAnswer:
    """Change a draft, or the share of a running experiment; anything else of one is changed by cloning it."""
    service = service_of(request)
    changes = body.given
    present = service.experiment(number)
    if present.status == "draft":
        return ExperimentAnswer.of(service.edit(number, present.definition.changed(**changes)))
    fixed = sorted(changes.keys() - {"share"})
    if fixed:
        raise Conflict(
            f"{', '.join(fixed)} of experiment {number} cannot be changed: it is {present.status}. Clone it with the "
            "changes, and start the clone."
        )
    return ExperimentAnswer.of(service.ramp(number, changes["share"]) if changes else present)


@router.delete("/{number}", status_code=204, dependencies=ADMIN, responses=may(404, 409))
def delete(number: Number, request: Request) -> None:
    """Delete a draft."""
    service_of(request).delete_draft(number)


@router.post("/{number}/start", dependencies=ADMIN, responses=may(404, 409))
def start(number: Number, request: Request) -> ExperimentAnswer:
    """Start a draft."""
    return ExperimentAnswer.of(service_of(request).start(number))


@router.post("/{number}/stop", dependencies=ADMIN, responses=may(404, 409))
def stop(number: Number, request: Request) -> ExperimentAnswer:
    """Stop a running experiment: from now on the control's list is shown and nothing is recorded."""
    return ExperimentAnswer.of(service_of(request).stop(number))


@router.post("/{number}/clone", status_code=201, dependencies=ADMIN, responses=may(404, 409))
def clone(number: Number, body: Changes, request: Request, response: Response) -> ExperimentAnswer:
    """Make a draft of an experiment's settings with some changes, one version later."""
    made = service_of(request).clone(number, body.given)
    response.headers["Location"] = f"{API}/experiments/{made.number}"
    return ExperimentAnswer.of(made)
