"""Routes of API keys, and the deletion of a unit's data."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.request_body import JsonBody
from multileave.live.http.responses import Deleted, KeyList
from multileave.live.http.routes import API, errors
from multileave.live.records import KeyRequest, NewKey, UnitRequest

router = APIRouter(prefix=API, tags=["keys and privacy"], dependencies=[Depends(Allow("admin"))])


@router.get("/keys")
def list_keys(request: Request) -> KeyList:
    """List all keys, without their texts."""
    return KeyList(keys=service_of(request).access.keys())


@router.post("/keys", status_code=201)
def create_key(body: Annotated[KeyRequest, Depends(JsonBody(KeyRequest))], request: Request) -> NewKey:
    """Create a key. Its text is in this response only."""
    limits = {"expires": body.expires, "experiments": body.experiments}
    key, text = service_of(request).access.create_key(body.name, body.role, **limits)
    return NewKey(**asdict(key), key=text)


@router.delete("/keys/{key_number}", status_code=204, responses=errors(404))
def revoke_key(
    key_number: Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of the key.")], request: Request
) -> None:
    """Revoke a key."""
    service_of(request).access.revoke_key(key_number)


@router.post("/privacy/delete-unit")
def delete_unit(body: Annotated[UnitRequest, Depends(JsonBody(UnitRequest))], request: Request) -> Deleted:
    """Delete all impressions and events of a unit, from the verdicts as well."""
    return Deleted(deleted=service_of(request).delete_unit(body.unit))
