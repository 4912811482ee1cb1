"""multileave serve: the service on which experiments run."""

import os
import signal
import socket
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from multileave.cli.printing import print_json
from multileave.cli.stores import usable
from multileave.errors import DataError

if TYPE_CHECKING:
    from multileave.live.settings import Settings

LEVELS = ("debug", "info", "warning", "error")
Database = Annotated[
    str | None,
    typer.Option(help="sqlite:///FILE or postgresql://USER@HOST/NAME. Default: MULTILEAVE_DB, or multileave.db here."),
]


def serve(
    db: Database = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one. Default: 8421.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of processes. Default: 1.")] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Require no keys; only on this machine, for trying things out.")
    ] = False,
    log: Annotated[str, typer.Option(help="Log level: debug, info, warning or error.")] = "info",
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON document.")] = False,
) -> None:
    """Run the service: it combines rankings, records events, and shows verdicts on a dashboard."""
    from multileave.live.settings import Settings

    if log not in LEVELS:
        raise DataError(f"--log is {log!r}; expected one of {', '.join(LEVELS)}.")

    settings = Settings.from_environment(database=db, host=host, port=port, workers=workers, open=open_ or None)
    has_keys, warnings = _check_database(settings)
    settings = replace(settings, port=_free_port(settings.host, settings.port))
    _announce(settings, warnings, has_keys=has_keys, as_json=as_json)
    _run(settings, log)


def _check_database(settings: "Settings") -> tuple[bool, tuple[str, ...]]:
    """Migrate the database before workers open it; return whether there are keys, and what to warn about."""
    from multileave.live.service import Service
    from multileave.live.settings import is_loopback

    with usable(settings), closing(Service(settings)) as service:
        has_keys = service.access.has_keys()
    if not has_keys and not is_loopback(settings.host):
        raise DataError(
            f"The service would listen on {settings.host}, where others can reach it, but there are no keys yet. "
            f"Create one first: {_create_key(settings)}"
        )
    return has_keys, service.warnings


def _create_key(settings: "Settings") -> str:
    from multileave.live.store.addresses import safe_address

    return f"multileave keys create --role admin --name YOU --db '{safe_address(settings.database)}'"


def _free_port(host: str, port: int) -> int:
    """Return the port, or a free one for 0, after checking that the service can listen on it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((host, port))
            return int(tried.getsockname()[1])
    except (OSError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise DataError(
            f"The service cannot listen on {host}, port {port}: {reason}. Choose another --port or --host."
        ) from None


def _announce(settings: "Settings", warnings: tuple[str, ...], *, has_keys: bool, as_json: bool) -> None:
    from multileave.live.store.addresses import safe_address

    address = settings.base_url
    database = safe_address(settings.database)
    if as_json:
        started = {"address": address, "database": database, "workers": settings.workers, "open": settings.open}
        print_json({**started, "warnings": warnings})
    else:
        typer.echo(f"multileave is running at {address} with the database {database}. Stop it with Ctrl+C.")
        if not has_keys and not settings.open:
            typer.echo(f"There are no keys yet. Create one: {_create_key(settings)}")
        for warning in warnings:
            typer.echo(f"Warning: {warning}")
    sys.stdout.flush()


def _end(number: int, frame: FrameType | None) -> None:
    """Exit without an error; uvicorn raises the signal again once it has shut down."""
    raise SystemExit(0)


def _run(settings: "Settings", level: str) -> None:
    import uvicorn

    from multileave.live.http.app import LOG_LEVEL
    from multileave.live.http.connections import server_options
    from multileave.live.http.json_logging import configure
    from multileave.live.http.metrics import MULTIPROCESS_FOLDER

    os.environ.update(settings.to_environment())
    os.environ[LOG_LEVEL] = level
    configure(level)
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory(prefix="multileave-metrics-") as folder:
        if settings.workers > 1:
            os.environ[MULTIPROCESS_FOLDER] = folder
        uvicorn.run(
            "multileave.live.http.app:from_environment",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            timeout_graceful_shutdown=10,
            **server_options(settings),
        )
