"""`multileave demo --live`: a service with simulated users who search through the client."""

import asyncio
import contextlib
import random
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from multileave.cli.printing import print_json, rounded_table, table_console
from multileave.errors import DataError, MultileaveError

if TYPE_CHECKING:
    import httpx
    from rich.table import Table

    from multileave.clicks import ClickModel
    from multileave.client import AsyncClient
    from multileave.data import QuerySet

QUALITIES = (0.8, 0.65, 0.55, 0.45, 0.35)  # of r1, the known winner, to r5
CONTROL = "r3"
QUERIES, DOCUMENTS, RETURNED, GRADES, PAGE = 500, 40, 20, 5, 10
RATE = 60.0  # searches a second, at most
TOGETHER = 8  # searches at a time
DEADLINE = 2.0  # seconds; searches, users and the service share this machine
API = "/api/v1/experiments"
COMPILES_WITHIN = 300.0  # seconds, on a busy machine and the first time
NEXT = """
Next:
  multileave demo --live --open --seconds 0   watch it in your browser, until Ctrl+C
  multileave serve --open                     run your own experiment: create it at http://127.0.0.1:8421/experiments/new
  multileave replay --help                    compare rankers from logs that you have
The tutorial puts four rankers behind a search page: docs/tutorial.md."""


def demo_live(
    *,
    port: int,
    users: int,
    seconds: float,
    folder: Path | None,
    seed: str,
    open_browser: bool,
    as_json: bool,
    clicker: "Callable[[QuerySet, int], ClickModel]",
) -> None:
    """Run the service and its users for some seconds, or until Ctrl+C for 0; then print the verdict.

    clicker: makes the user who clicks, from the data and the number of results per page.
    """
    if users < 2 or seconds < 0:
        raise DataError(
            f"--users is {users} and --seconds is {seconds:g}; expected at least 2 users and at least 0 seconds."
        )
    from multileave.client.http import httpx
    from multileave.live import Settings, running

    httpx()  # raises an error with the install command if it is missing
    traffic = _Traffic(users, seed, clicker)
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(_database(folder))
        with _spinner():
            address = stack.enter_context(running(Settings(database=database, port=port, open=True)))
            number = _start(address, traffic.data.rankers)
        page = f"{address}/experiments/{number}"
        typer.echo(f"The dashboard: {address}/   Simulated users are searching. Stop them with Ctrl+C.", err=as_json)
        if open_browser and not webbrowser.open(page):
            typer.echo(f"No browser was found here. Open {page} in yours.", err=True)
        with _shown(enabled=not as_json) as show, contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_run(address, number, traffic, seconds, show))
        report = traffic.report(address)
    if as_json:
        print_json(report)
    else:
        _print(report)
        typer.echo(NEXT)


class _Traffic:
    """The users, their queries, and the verdict so far."""

    def __init__(self, users: int, seed: str, clicker: "Callable[[QuerySet, int], ClickModel]") -> None:
        from multileave.data import synthetic

        self.data = synthetic(queries=QUERIES, documents=DOCUMENTS, rankers=QUALITIES, grades=GRADES, seed=seed)
        self.user = clicker(self.data, PAGE)
        self.users, self.rng = users, random.Random(seed)
        self.searches = 0
        self.answer: dict[str, Any] = {"verdict": None, "traffic": None}
        self.stats: dict[str, int] | None = None

    async def search(self, client: "AsyncClient") -> None:
        """Let a user search and click."""
        import numpy as np

        from multileave.random import seed_state

        q = self.rng.randrange(len(self.data))
        labels, ranked = self.data.query(q)
        rankings = {
            name: [f"q{q}d{d}" for d in row[:RETURNED].tolist()]
            for name, row in zip(self.data.rankers, ranked, strict=True)
        }
        unit, salt, seed = f"user {self.rng.randrange(self.users)}", str(self.searches), self.rng.getrandbits(60)
        self.searches += 1
        page = await client.interleave(rankings, unit, f"query {q}", salt=salt)
        grades = np.array([labels[int(str(d).rpartition("d")[2])] for d in page.shown], dtype=np.uint8)
        clicks = np.zeros(len(grades), dtype=np.uint8)
        self.user.kernel(grades, len(grades), self.user.parameters, seed_state(seed), clicks)
        for position in np.flatnonzero(clicks).tolist():
            await client.click(page.impression, position=position)

    def report(self, address: str) -> dict[str, Any]:
        """Return the result as plain values."""
        best = self.data.rankers[QUALITIES.index(max(QUALITIES))]
        verdict = self.answer["verdict"]
        winner = None if verdict is None else verdict["winner"]
        return {
            "address": address,
            "known_winner": best,
            "winner": winner,
            "right": winner == best,
            "client": self.stats,
            **self.answer,
        }


async def _run(address: str, number: int, traffic: _Traffic, seconds: float, show: Callable[[_Traffic], None]) -> None:
    import httpx

    from multileave.client import AsyncClient

    async with (
        httpx.AsyncClient(base_url=address, timeout=60.0) as http,
        AsyncClient(address, number, control=CONTROL, k=PAGE, deadline=DEADLINE) as client,
    ):
        ends = time.monotonic() + seconds if seconds else float("inf")
        searchers = [asyncio.create_task(_searches(client, traffic, ends)) for _ in range(TOGETHER)]
        try:
            while time.monotonic() < ends:
                await asyncio.sleep(min(1.0, max(ends - time.monotonic(), 0.01)))
                await _look(http, number, client, traffic, show)
            await asyncio.gather(*searchers)
        finally:  # Ctrl+C arrives as a cancellation
            for searcher in searchers:
                searcher.cancel()
            await asyncio.gather(*searchers, return_exceptions=True)
            await client.flush()
            await _look(http, number, client, traffic, show)


def _start(address: str, rankers: tuple[str, ...]) -> int:
    """Create and start an experiment; return its number once the service can draw its lists."""
    import httpx

    ends = time.monotonic() + COMPILES_WITHIN
    with httpx.Client(base_url=address, timeout=60.0) as http:
        body = {"name": "demo", "rankers": rankers, "control": CONTROL, "k": PAGE}
        number = int(http.post(API, json=body).raise_for_status().json()["number"])
        found = http.post(f"{API}/{number}/start").raise_for_status().json()
        while not found["compiled"] and time.monotonic() < ends:
            time.sleep(0.1)
            found = http.get(f"{API}/{number}").raise_for_status().json()
    if not found["compiled"]:
        raise MultileaveError(
            f"The method {found['method']} was not compiled within {COMPILES_WITHIN:.0f} seconds. See the log above."
        )
    return number


async def _searches(client: "AsyncClient", traffic: _Traffic, ends: float) -> None:
    """Let users search at regular intervals until a time."""
    following = time.monotonic()
    while (now := time.monotonic()) < ends:
        await traffic.search(client)
        following = max(following + TOGETHER / RATE, now)
        await asyncio.sleep(max(following - time.monotonic(), 0.0))


async def _look(
    http: "httpx.AsyncClient", number: int, client: "AsyncClient", traffic: _Traffic, show: Callable[[_Traffic], None]
) -> None:
    traffic.answer = (await http.get(f"{API}/{number}/verdict")).raise_for_status().json()
    traffic.stats = asdict(client.stats)
    show(traffic)


@contextlib.contextmanager
def _database(folder: Path | None) -> Iterator[str]:
    """Yield the address of a database in a folder; without one, in a folder that is deleted afterwards."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield f"sqlite:///{folder / 'demo.db'}"
        return
    with tempfile.TemporaryDirectory(prefix="multileave-demo-", ignore_cleanup_errors=True) as name:
        yield f"sqlite:///{name}/demo.db"


@contextlib.contextmanager
def _spinner() -> Iterator[None]:
    """Say on a terminal what takes time."""
    from rich.console import Console

    with Console(stderr=True).status("Starting the service. The first time, this compiles its comparison method."):
        yield


@contextlib.contextmanager
def _shown(*, enabled: bool) -> Iterator[Callable[[_Traffic], None]]:
    """Keep a table on stderr up to date, if that is a terminal."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not enabled or not console.is_terminal:
        yield lambda _: None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda traffic: live.update(_table(traffic.answer), refresh=True)


def _table(answer: dict[str, Any]) -> "Table":
    from rich.markup import escape

    verdict, traffic = answer["verdict"], answer["traffic"]
    table = rounded_table(caption=escape(verdict["sentence"]) if verdict else "", caption_justify="left")
    table.title = f"{traffic['impressions']:,} pages, {traffic['units']:,} users, {traffic['events']['click']:,} clicks"
    for column in ("pair", "preference per page", "confidence interval"):
        table.add_column(column, justify="right" if "per" in column else "left", no_wrap=True)
    for pair in verdict["pairs"] if verdict else ():
        table.add_row(
            f"{pair['rankers'][0]} versus {pair['rankers'][1]}",
            f"{pair['preference']:+.3f}",
            f"{pair['low']:+.3f} to {pair['high']:+.3f}",
            style="bold" if pair["significant"] else "dim",
        )
    return table


def _print(report: dict[str, Any]) -> None:
    if report["verdict"] is None:
        typer.echo("Too few searches for a verdict. Run it longer with --seconds.")
        return
    table_console().print(_table(report))
    known = report["known_winner"]
    if report["right"]:
        typer.echo(f"The winner is {known}, the best ranker by construction.")
    else:
        found = f"The winner is {report['winner']}" if report["winner"] else "There is no significant winner yet"
        typer.echo(f"{found}; the best ranker by construction is {known}. Run it longer with --seconds.")
