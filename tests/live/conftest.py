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


def _migrate(address):
    from multileave.live.store.database import Store

    Store(address).close()


def _execute(postgres, statement):
    import psycopg

    with psycopg.connect(postgres.replace("NAME", "postgres"), autocommit=True) as connection:
        connection.execute(statement)


def _create(postgres, name, template):
    _execute(postgres, f"CREATE DATABASE {name} TEMPLATE {template}")


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
    address = f"postgresql://tests@/NAME?host={folder}"
    _create(address, "migrated", "template1")
    _migrate(address.replace("NAME", "migrated"))
    yield address
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
    """The address of a database of the cluster, with empty tables."""
    name = "t" + uuid.uuid4().hex
    _create(postgres, name, "migrated")
    yield postgres.replace("NAME", name)
    _execute(postgres, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory):
    """An SQLite database with empty tables, to be copied: to migrate each test's own takes longer than most tests."""
    file = tmp_path_factory.mktemp("migrated") / "store.db"
    _migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def sqlite_address(tmp_path, migrated_file):
    """The address of an SQLite database with empty tables."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path)}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.acceptance)])
def address(request):
    """The address of a database with empty tables, once of each kind."""
    return request.getfixturevalue(f"{request.param}_address")


@pytest.fixture
def empty_address(request, address, tmp_path):
    """The address of another database of the same kind as `address`, without tables."""
    if address.startswith("sqlite"):
        return f"sqlite:///{tmp_path}/empty.db"
    cluster = request.getfixturevalue("postgres")
    _execute(cluster, "DROP DATABASE IF EXISTS empty WITH (FORCE)")
    _create(cluster, "empty", "template1")
    return cluster.replace("NAME", "empty")
