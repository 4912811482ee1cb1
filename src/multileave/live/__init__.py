"""Live: the service on which a search team runs its experiments.

`running` starts it in this process with some `Settings`; `create_app` returns it as an ASGI app.
"""

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from multileave.errors import MissingExtra

if TYPE_CHECKING:
    from multileave.live.http.app import create_app
    from multileave.live.in_process import running
    from multileave.live.settings import Settings

__all__ = ["Settings", "create_app", "running"]

NEEDED = ("fastapi", "uvicorn", "sqlalchemy", "alembic", "prometheus_client", "jinja2", "pyarrow")

_missing = [name for name in NEEDED if find_spec(name) is None]
if _missing:
    raise MissingExtra(f"The service needs {', '.join(_missing)}. Install with: pip install 'multileave[live]'")

logging.getLogger(__name__).addHandler(logging.NullHandler())  # until `http.json_logging` is configured

_homes = {"Settings": "settings", "create_app": "http.app", "running": "in_process"}


def __getattr__(name: str) -> Any:
    """Import what is asked for; modules of this package import each other without importing the whole service."""
    if name not in _homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_homes[name]}"), name)
