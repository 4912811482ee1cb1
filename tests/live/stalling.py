"""Databases that do not answer: a stopped Postgres cluster, and an SQLite file that somebody else has locked."""

import os
import signal
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def cluster_processes(address):
    """Return the processes of the test's own cluster: the one that listens first, then its children."""
    folder = parse_qs(urlsplit(address).query)["host"][0]
    first = int(Path(folder, "data", "postmaster.pid").read_text().split()[0])
    children = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == first:
                children.append(int(entry.name))
    return [first, *children]


@contextmanager
def stopped(address):
    """Stop all processes of a cluster; they continue at the end."""
    found = cluster_processes(address)
    try:
        for process in found:
            os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in reversed(found):
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                continue


@contextmanager
def locked(address, kind="IMMEDIATE"):
    """Hold the write lock of an SQLite database."""
    holder = sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
    try:
        holder.execute(f"BEGIN {kind}")
        yield
        holder.execute("ROLLBACK")
    finally:
        holder.close()
