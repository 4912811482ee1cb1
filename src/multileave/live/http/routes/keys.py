"""Keys, and the deletion of what is known about a unit."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.body_limits import JsonBody
from multileave.live.http.requests import KeyBody, UnitBody
from multileave.live.http.responses import DeletedAnswer, KeyAnswer, KeysAnswer, NewKeyAnswer
from multileave.live.http.routes import API, may

__all__ = ["router"]

router = APIRouter(prefix=API, tags=["keys and privacy"], dependencies=[Depends(Allow("admin"))])


@router.get("/keys")
def list_keys(request: Request) -> KeysAnswer:
    """List all keys, without their texts."""
    keys = service_of(request).access.keys()
    return KeysAnswer(keys=[KeyAnswer.of(key) for key in keys])


@router.post("/keys", status_code=201)
def create_key(body: Annotated[KeyBody, Depends(JsonBody(KeyBody))], request: Request) -> NewKeyAnswer:
    """Make a key. Its text is in this answer and nowhere else."""
    key, text = service_of(request).access.create_key(body.name, body.role)
    return NewKeyAnswer(
        number=key.number, name=key.name, role=key.role, created=key.created, revoked=key.revoked, key=text
    )


@router.delete("/keys/{key_number}", status_code=204, responses=may(404))
def revoke_key(
    key_number: Annotated[int, Path(ge=1, le=2**31 - 1, description="the number of the key")], request: Request
) -> None:
    """Revoke a key."""
    service_of(request).access.revoke_key(key_number)


@router.post("/privacy/delete-unit")
def delete_unit(body: Annotated[UnitBody, Depends(JsonBody(UnitBody))], request: Request) -> DeletedAnswer:
    """Delete all impressions and events of a unit; verdicts forget them too."""
    return DeletedAnswer(deleted=service_of(request).delete_unit(body.unit))
