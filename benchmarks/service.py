"""Throughput of the service, compared with a bare route that validates the same body and inserts one row.

    python benchmarks/service.py [--db URL ...] [--rounds 6] [--seconds 2] [--connections 24] [--json]
    python benchmarks/service.py --minutes 5 [--db URL]
    python benchmarks/service.py --against OTHER/.venv/bin/python [--db URL ...]

Both run as `multileave serve` does, with one worker and their logs in a file, on databases opened with the
same settings; a load generator in its own process calls one, then the other, round after round, so
that other work on the machine disturbs both. The bare route is the better of two ways to write it:
a plain function, which FastAPI runs in a thread, or a coroutine that inserts in the loop.

--db: addresses of empty databases, one of each kind; default: SQLite in a temporary folder.
--against: the Python of another installation, such as an earlier version's, instead of the bare route.
--minutes: a mixed load of impressions, events and verdicts instead, with the memory of the service.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

RANKERS = ("bm25", "dense", "ltr", "hybrid", "recent")
DOCUMENTS, RETURNED = 40, 20
DEFINITION = {"name": "load", "rankers": RANKERS, "control": "bm25", "k": 10}
API = "/api/v1"


# The bare route


def bare(database, port, kind):
    """Serve the bare route."""
    import uuid

    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    from multileave.live.store.database import Store
    from multileave.live.store.tables import impressions

    store = Store(database)
    insert = store.insert(impressions)
    app = FastAPI()

    class Body(BaseModel):
        rankings: dict[str, list[str | int] | None]
        unit: str
        query: str = ""

    def keep(body):
        key = uuid.uuid4()
        row = {
            "id": key.bytes, "experiment": 1, "created": time.time_ns() // 1000, "unit": body.unit, "query": body.query,
            "payload": json.dumps(body.rankings), "delivered": 10, "missing": None, "dirty": False,
        }  # fmt: skip
        with store.write() as connection:
            connection.execute(insert, row)
        return {"impression": key.hex, "shown": body.rankings["bm25"][:10]}

    if kind == "thread":

        @app.post("/impressions")
        def route(body: Body):
            return keep(body)

    else:

        @app.post("/impressions")
        async def route(body: Body):
            return keep(body)

    uvicorn.run(app, host="127.0.0.1", port=port)


# The load


def bodies(count=2000, seed=0):
    """Return searches as JSON, each with a placeholder for the unit."""
    rng = random.Random(seed)
    found = []
    for query in range(count):
        documents = [f"document-{query}-{n}" for n in range(DOCUMENTS)]
        rankings = {name: rng.sample(documents, RETURNED) for name in RANKERS}
        text = json.dumps({"rankings": rankings, "unit": "UNIT", "query": f"query {query}"})
        found.append(text.encode().split(b"UNIT"))
    return found


class Connection:
    """A persistent HTTP/1.1 connection with as little overhead as possible."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port):
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, method, path, body=b""):
        """Return the status and the body of a response."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lower = answer.lower()
        start = lower.index(b"content-length:") + 15
        length = int(lower[start : lower.index(b"\r\n", start)])
        return int(answer[9:12]), await self.reader.readexactly(length)

    def close(self):
        self.writer.close()


async def ask_for_lists(port, path, seconds, connections, seed):
    """Return the seconds of each request, and how many did not get status 200."""
    texts = bodies()
    took, wrong = [], 0
    end = time.perf_counter() + seconds

    async def search(number):
        nonlocal wrong
        rng = random.Random(f"{seed} {number}")
        connection = await Connection.open(port)
        while (began := time.perf_counter()) < end:
            before, after = rng.choice(texts)
            status, _ = await connection.ask("POST", path, before + b"u%d" % rng.getrandbits(60) + after)
            took.append(time.perf_counter() - began)
            wrong += status != 200
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(search(number) for number in range(connections)))
    return {"per_second": len(took) / (time.perf_counter() - began), "took": took, "wrong": wrong}


async def mix(port, minutes, connections, process):
    """Let users search and click, and somebody read the verdict, for some minutes; print memory along the way."""
    texts = bodies()
    counts = {"impressions": 0, "events": 0, "verdicts": 0, "wrong": 0, "rejected": 0}
    end = time.perf_counter() + 60 * minutes
    memory = []

    async def search(number):
        rng = random.Random(number)
        connection = await Connection.open(port)
        while time.perf_counter() < end:
            before, after = rng.choice(texts)
            body = before + b"u%d" % rng.randrange(100_000) + after
            status, answer = await connection.ask("POST", f"{API}/experiments/1/impressions", body)
            counts["impressions"] += 1
            counts["wrong"] += status != 200
            impression = json.loads(answer)["impression"]
            places = [place for place in range(10) if rng.random() < 0.1]
            if places:
                events = [
                    {"id": f"{rng.getrandbits(60)}", "impression": impression, "position": place} for place in places
                ]
                status, answer = await connection.ask("POST", f"{API}/events", json.dumps(events).encode())
                counts["events"] += len(places)
                counts["wrong"] += status != 200
                counts["rejected"] += json.loads(answer)["rejected"]
        connection.close()

    async def look():
        connection = await Connection.open(port)
        while time.perf_counter() < end:
            status, _ = await connection.ask("GET", f"{API}/experiments/1/verdict")
            counts["verdicts"] += 1
            counts["wrong"] += status != 200
            await asyncio.sleep(1.0)
        connection.close()

    async def watch():
        every = max(60 * minutes / 20, 1.0)
        while time.perf_counter() < end:
            await asyncio.sleep(min(every, max(end - time.perf_counter(), 0.1)))
            memory.append(resident(process))
            print(f"  {counts['impressions']:,} impressions, {memory[-1]:.0f} MB", file=sys.stderr, flush=True)

    await asyncio.gather(look(), watch(), *(search(number) for number in range(connections)))
    return {**counts, "memory": memory}


def processor_seconds(process):
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process):
    """Return the megabytes of memory that a process uses."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


# The servers


class Server:
    """A server in its own process."""

    def __init__(self, command, port, folder, name):
        self.port = port
        self.log = open(folder / f"{name}.log", "wb")  # noqa: SIM115
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    async def wait(self, path):
        for _ in range(1200):
            if self.process.poll() is not None:
                raise SystemExit(f"a server ended: {Path(self.log.name).read_text()[-2000:]}")
            try:
                connection = await Connection.open(self.port)
                status, _ = await connection.ask("GET", path)
                connection.close()
                if status < 500:
                    return self
            except OSError:
                pass
            await asyncio.sleep(0.1)
        raise SystemExit("a server does not start.")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()


def free_port():
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


PREPARE = """
import json, sys
from multileave.live.definition import Definition
from multileave.live.service import Service
from multileave.live.settings import Settings
service = Service(Settings(database=sys.argv[1]))
service.start(service.create(Definition(**json.loads(sys.argv[2]))).number)
service.close()
"""


def prepare(database, python=sys.executable):
    """Create an experiment."""
    subprocess.run([python, "-c", PREPARE, database, json.dumps(DEFINITION)], check=True)


def another(database):
    url = sa.make_url(database)
    name = f"{url.database}_bare"
    if url.get_backend_name() != "sqlite":
        admin = sa.create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
        admin.dispose()
    return url.set(database=name).render_as_string(hide_password=False)


def ours(database, folder, python=sys.executable, name="ours"):
    port = free_port()
    command = [
        python,
        "-c",
        "from multileave.cli import main; raise SystemExit(main())",
        "serve",
        "--open",
        "--db",
        database,
        "--port",
        str(port),
    ]
    return Server(command, port, folder, name)


def theirs(database, folder, kind):
    port = free_port()
    command = [sys.executable, __file__, "--bare", kind, "--db", database, "--port", str(port)]
    return Server(command, port, folder, f"bare-{kind}")


def generate(port, path, seconds, connections, seed):
    """Run the load generator in its own process."""
    command = [sys.executable, __file__, "--generate", path, "--port", str(port), "--seconds", str(seconds)]
    command += ["--connections", str(connections), "--seed", seed]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


async def compare(database, folder, rounds, seconds, connections, against=None):
    """Return the figures of the service and of what it is compared with, by round and in total."""
    beside = another(database)
    prepare(database)
    prepare(beside, against or sys.executable)
    path = f"{API}/experiments/1/impressions"
    servers = {"ours": (await ours(database, folder).wait("/readyz"), path)}
    if against:
        servers["other"] = (await ours(beside, folder, against, "other").wait("/readyz"), path)
    else:
        for kind in ("thread", "loop"):
            servers[kind] = (await theirs(beside, folder, kind).wait("/docs"), "/impressions")
    found = {name: {"per_second": [], "took": [], "processor": 0.0} for name in servers}
    try:
        for number in range(-1, rounds):
            for name, (server, path) in sorted(servers.items(), reverse=bool(number % 2)):  # no one is always first
                used = processor_seconds(server.process.pid)
                result = generate(server.port, path, seconds if number >= 0 else 1.0, connections, f"{number} {name}")
                if result["wrong"]:
                    raise SystemExit(f"{result['wrong']} requests of {name} failed.")
                if number >= 0:
                    found[name]["per_second"].append(result["per_second"])
                    found[name]["took"].extend(result["took"])
                    found[name]["processor"] += processor_seconds(server.process.pid) - used
    finally:
        for server, _ in servers.values():
            server.stop()
    return {name: summary(**figures) for name, figures in found.items()}


def summary(per_second, took, processor):
    cuts = statistics.quantiles(took, n=100)
    return {
        "per_second": statistics.median(per_second), "p50_ms": 1000 * cuts[49], "p99_ms": 1000 * cuts[98],
        "requests": len(took), "processor_us": 1e6 * processor / len(took), "rounds": per_second,
    }  # fmt: skip


NAMES = {
    "ours": "the service", "other": "the other version", "thread": "bare, in threads", "loop": "bare, in the loop",
}  # fmt: skip


def report(kind, figures):
    print(f"\n{kind}")
    for name, f in figures.items():
        said = NAMES[name]
        print(
            f"  {said:18s} {f['per_second']:7.0f} per second p50 {f['p50_ms']:6.1f} ms   p99 {f['p99_ms']:6.1f} ms   "
            f"{f['processor_us']:6.0f} us of CPU time each"
        )
    mine = figures["ours"]
    others = {name: other for name, other in figures.items() if name != "ours"}
    for name, other in others.items():
        print(
            f"  against {name}: {mine['per_second'] / other['per_second']:.0%} of its throughput, "
            f"p50 {mine['p50_ms'] / other['p50_ms']:.1f}x, p99 {mine['p99_ms'] / other['p99_ms']:.1f}x"
        )
    if "other" in others:
        ratios = [a / b for a, b in zip(mine["rounds"], others["other"]["rounds"], strict=True)]
        middle = statistics.median(ratios)
        print(f"  ratio of throughput by round: median {middle:.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    else:
        best = max(other["per_second"] for other in others.values())
        print(f"  share of the better one's throughput: {mine['per_second'] / best:.0%} (target: at least 50 %)")


def report_mix(kind, found):
    memory = found["memory"]
    quarter = max(len(memory) // 4, 1)
    print(
        f"{kind}: {found['impressions']:,} impressions, {found['events']:,} events, {found['verdicts']:,} verdicts; "
        f"{found['wrong']} requests failed, {found['rejected']} events rejected; {memory[0]:.0f} MB at the start, "
        f"{statistics.mean(memory[quarter : 2 * quarter]):.0f} MB in the second quarter, "
        f"{statistics.mean(memory[-quarter:]):.0f} MB in the last"
    )


async def soak(database, folder, minutes, connections):
    prepare(database)
    server = await ours(database, folder).wait("/readyz")
    try:
        return await mix(server.port, minutes, connections, server.process.pid)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", nargs="+", default=[])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=24)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--against")
    parser.add_argument("--json", action="store_true")
    for internal in ("--bare", "--generate", "--seed"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.bare:
        bare(chosen.db[0], chosen.port, chosen.bare)
        return
    if chosen.generate:
        seconds, connections = chosen.seconds, chosen.connections
        print(json.dumps(asyncio.run(ask_for_lists(chosen.port, chosen.generate, seconds, connections, chosen.seed))))
        return
    os.environ.setdefault("MULTILEAVE_SECRET", "a secret for measuring only")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {}
        for database in chosen.db or [f"sqlite:///{folder}/load.db"]:
            kind = sa.make_url(database).get_backend_name()
            if chosen.minutes:
                found[kind] = asyncio.run(soak(database, folder, chosen.minutes, chosen.connections))
                if not chosen.json:
                    report_mix(kind, found[kind])
            else:
                found[kind] = asyncio.run(
                    compare(database, folder, chosen.rounds, chosen.seconds, chosen.connections, chosen.against)
                )
                if not chosen.json:
                    report(kind, found[kind])
        if chosen.json:
            print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
