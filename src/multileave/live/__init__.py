"""Live: the service a search team runs its experiments on."""

from importlib.util import find_spec

from multileave.errors import MissingExtra

NEEDED = ("fastapi", "uvicorn", "sqlalchemy", "alembic", "prometheus_client", "jinja2", "pyarrow")

_missing = [name for name in NEEDED if find_spec(name) is None]
if _missing:
    raise MissingExtra(f"the service needs {', '.join(_missing)}, which is absent: pip install 'multileave[live]'")
