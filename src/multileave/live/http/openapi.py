"""OpenAPI: FastAPI's description, completed by what our own dependencies read and refuse."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from multileave.live.http.auth import Allow
from multileave.live.http.event_batches import EventBatch
from multileave.live.http.request_body import JsonBody
from multileave.live.http.responses import ErrorResponse
from multileave.live.http.routes import WHEN
from multileave.version import __version__

REFERENCE = "#/components/schemas/{model}"
DESCRIPTION = """Which ranker do users prefer? Applications send rankings and get one list to show; browsers or
applications report what users did with it; the service returns a verdict.

Send keys as `Authorization: Bearer KEY`. A key has a role: `ingest`, `read`, or `admin`, which may do everything.
Every error has one shape: `{"error": {"code", "message", "details", "request_id"}}`."""


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI schema of an app."""
    found = get_openapi(title="multileave", version=__version__, description=DESCRIPTION, routes=app.routes)
    models: list[type] = [ErrorResponse]
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                operation = found["paths"][route.path_format][method.lower()]
                _describe_dependencies(route, operation, models)
    adapters: list[tuple[Any, Any, TypeAdapter[Any]]] = [
        (model, "validation", TypeAdapter(model)) for model in dict.fromkeys(models)
    ]
    _, described = TypeAdapter.json_schemas(adapters, ref_template=REFERENCE)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(described["$defs"])
    return found


def _describe_dependencies(route: APIRoute, operation: dict[str, Any], models: list[type]) -> None:
    """Add what the dependencies of a route read, require and refuse."""
    refused = {422} if "422" in operation["responses"] else set()
    for dependency in route.dependant.dependencies:
        call = dependency.call
        if isinstance(call, Allow):
            refused |= {401, 403, 503}
            who = "No key, or one with the role" if call.without_key else "Requires a key with the role"
            operation["description"] = f"{operation.get('description', '')}\n\n{who} {call.role}.".strip()
            if call.without_key:
                operation["security"] = [{}, *operation["security"]]
        if isinstance(call, (JsonBody, EventBatch)):
            refused |= {400, 413, 415, 422}
            models.extend(call.models)
            operation["requestBody"] = {"required": True, "content": call.content()}
    answer = {"application/json": {"schema": {"$ref": REFERENCE.format(model=ErrorResponse.__name__)}}}
    for status in sorted(refused):
        operation["responses"][str(status)] = {"description": WHEN[status], "content": answer}
