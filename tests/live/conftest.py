"""Databases for the service's tests: SQLite in a file, and a Postgres cluster of our own."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="pip install 'multileave[live]'")
pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")

INSTALL = "Postgres is absent: apt-get install postgresql"


def _bindir():
    found = shutil.which("pg_config")
    if found:
        return Path(subprocess.run([found, "--bindir"], capture_output=True, text=True, check=True).stdout.strip())
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return versions[-1] if versions else None


@pytest.fixture(scope="session")
def postgres():
    """The address of a cluster that is started for these tests, by a user other than root, on a socket only."""
    bindir = _bindir()
    if bindir is None or not (bindir / "initdb").exists():
        pytest.skip(INSTALL)
    folder = Path(tempfile.mkdtemp(prefix="mlpg"))
    user = {}
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres" if any(p.pw_name == "postgres" for p in pwd.getpwall()) else "nobody")
        os.chown(folder, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid}
    run = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
    subprocess.run([bindir / "initdb", "-D", folder / "data", "-U", "tests", "-A", "trust", "--no-sync"], **run)
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c max_connections=60 -c fsync=off"
    control = [bindir / "pg_ctl", "-D", folder / "data", "-w"]
    subprocess.run([*control, "-o", options, "-l", folder / "log", "start"], **run)
    yield f"postgresql://tests@/NAME?host={folder}"
    subprocess.run([*control, "-m", "immediate", "stop"], **run)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_paused(postgres):
    """A context in which no process of the cluster runs: it accepts connections and answers nothing."""
    folder = Path(postgres.partition("host=")[2])

    @contextlib.contextmanager
    def paused():
        main = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        processes = [main, *map(int, children)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    return paused


@pytest.fixture
def postgres_address(postgres):
    """The address of an empty database of the cluster."""
    import psycopg

    name = "t" + uuid.uuid4().hex
    with psycopg.connect(postgres.replace("NAME", "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres.replace("NAME", name)
    with psycopg.connect(postgres.replace("NAME", "postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def sqlite_address(tmp_path):
    """The address of an SQLite database that is not there yet."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request):
    """The address of an empty database, once of each kind."""
    return request.getfixturevalue(f"{request.param}_address")
