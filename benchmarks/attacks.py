"""What refused requests cost the service: time and memory for each of a list of hostile bodies.

    python benchmarks/attacks.py [--only TEXT] [--json]

Every body is sent over a socket to a service in its own process, after one small request to the same route. The
table lists the bytes sent, the status, the seconds until the response, the processor time of the service, and how far
its memory peaked above what it used before. The first rows are the largest legitimate bodies, to compare with. Linux
only: the figures are read from /proc.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import httpx

API = "/api/v1"
MOST = 2_000_000
JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PACKED = {"Content-Encoding": "gzip"}
EVENTS, SHOW, CREATE = f"{API}/events", f"{API}/experiments/1/impressions", f"{API}/experiments"
RANKERS = ["bm25", "dense"]
DEFINITION = {"name": "shop", "rankers": RANKERS, "k": 3}


def repeated(entry, before=b"[", after=b"]", most=MOST):
    """Return a JSON list of one entry, as long as the limit allows."""
    return before + b",".join([entry] * ((most - len(before) - len(after) - 10) // (len(entry) + 1))) + after


def keys(most=MOST, before=b"{", after=b"}"):
    """Return an object with as many different keys as the limit allows."""
    found = [b'"%x":1' % n for n in range(most // 10)]
    return before + b",".join(found)[: most - 100].rpartition(b",")[0] + after


def in_ranking(entry):
    return repeated(entry, b'{"unit":"u","rankings":{"bm25":[', b"]}}")


def legitimate(token):
    """Return the largest bodies that are accepted, by name."""
    ids = [f"{n:0>480}" for n in range(1000)]
    search = json.dumps({"rankings": {"bm25": ids, "dense": ids[::-1]}, "unit": "u"}).encode()
    events = [
        {"id": f"{n:0>128}", "impression": token, "position": n % 3, "timestamp": None, "document": "d" * 512}
        for n in range(1000)
    ]
    short = json.dumps({"rankings": {name: list(range(1000)) for name in RANKERS}, "unit": "u"}).encode()
    return {
        "legitimate: 2 rankings of 1,000 long ids": ("POST", SHOW, JSON, search),
        "legitimate: 2 rankings of 1,000 numbers": ("POST", SHOW, JSON, short),
        "legitimate: 1,000 events": ("POST", EVENTS, JSON, json.dumps(events).encode()),
        "legitimate: 1,000 events, gzip": ("POST", EVENTS, JSON | PACKED, gzip.compress(json.dumps(events).encode())),
    }


def hostile():
    """Return bodies to be refused, by name."""
    empty = repeated(b"{}")
    found = {
        "events: empty objects, gzip": (EVENTS, JSON | PACKED, gzip.compress(empty)),
        "events: empty objects": (EVENTS, JSON, empty),
        "events: empty lists": (EVENTS, JSON, repeated(b"[]")),
        "events: numbers": (EVENTS, JSON, repeated(b"1")),
        "events: empty strings": (EVENTS, JSON, repeated(b'""')),
        "events: empty objects in an object": (EVENTS, JSON, repeated(b"{}", b'{"events":[', b"]}")),
        "events: an object of many keys": (EVENTS, JSON, keys()),
        "events: more keys than events": (EVENTS, JSON, keys(before=b'{"events":[],')),
        "events: one of many keys": (EVENTS, JSON, keys(before=b"[{", after=b"}]")),
        "events: one of 7,000 keys": (EVENTS, JSON, keys(before=b"[{", after=b"}]", most=65_000)),
        "events: one key again and again": (EVENTS, JSON, repeated(b'"id":"e"', b"[{", b"}]")),
        "events: 1,000 that are empty": (EVENTS, JSON, b"[" + b",".join([b"{}"] * 1000) + b"]"),
        "events: 1,000 of 6 unknown keys": (
            EVENTS, JSON, b"[" + b",".join([b'{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}'] * 1000) + b"]",
        ),
        "events: nested lists": (EVENTS, JSON, b"[" * MOST),
        "events: lists nested 150 deep": (EVENTS, JSON, repeated(b"[" * 150 + b"]" * 150)),
        "events: digits": (EVENTS, JSON, b"[" + b"9" * (MOST - 2) + b"]"),
        "events: digits of a fraction": (EVENTS, JSON, b"[0." + b"9" * (MOST - 4) + b"]"),
        "events: numbers of 4,000 digits": (EVENTS, JSON, repeated(b"9" * 4000)),
        "events: an id of escapes": (EVENTS, JSON, b'[{"id":"' + b"\\u00e9" * 333_000 + b'"}]'),
        "events: spaces, gzip": (EVENTS, JSON | PACKED, gzip.compress(b" " * MOST)),
        "events: unpacks to 1 GB": (EVENTS, JSON | PACKED, bomb(1_000_000_000)),
        "lines: empty": (EVENTS, LINES, b"\n" * MOST),
        "lines: empty, gzip": (EVENTS, LINES | PACKED, gzip.compress(b"\n" * MOST)),
        "lines: of one byte": (EVENTS, LINES, b"1\n" * (MOST // 2)),
        "lines: of empty objects": (EVENTS, LINES, b"{}\n" * (MOST // 3)),
        "lines: one of empty objects": (EVENTS, LINES, empty),
        "lines: carriage returns": (EVENTS, LINES, b"\r" * MOST),
        "search: a ranking of empty objects": (SHOW, JSON, in_ranking(b"{}")),
        "search: a ranking of numbers": (SHOW, JSON, in_ranking(b"1")),
        "search: a ranking of empty strings": (SHOW, JSON, in_ranking(b'""')),
        "search: a ranking of nulls": (SHOW, JSON, in_ranking(b"null")),
        "search: 90,000 documents": (SHOW, JSON, json.dumps({"unit": "u", "rankings": {"bm25": list(range(90_000))}})),
        "search: many rankings": (SHOW, JSON, keys(before=b'{"unit":"u","rankings":{', after=b"}}")),
        "search: many pins": (SHOW, JSON, keys(before=b'{"unit":"u","rankings":{},"pinned":{', after=b"}}")),
        "search: many keys": (SHOW, JSON, keys()),
        "search: 6,500 keys": (SHOW, JSON, keys(most=65_000)),
        "search: a long unit": (SHOW, JSON, json.dumps({"unit": "u" * (MOST - 100), "rankings": {}}).encode()),
        "search: a long name": (SHOW, JSON, json.dumps({"unit": "u", "rankings": {"r" * (MOST - 100): []}}).encode()),
        "create: many rankers": (CREATE, JSON, repeated(b'"r"', b'{"name":"x","rankers":[', b"]}")),
        "create: empty objects as rankers": (CREATE, JSON, repeated(b"{}", b'{"name":"x","rankers":[', b"]}")),
        "create: a long control": (CREATE, JSON, json.dumps({**DEFINITION, "control": "c" * 1_900_000}).encode()),
        "create: many keys": (CREATE, JSON, keys()),
        "form: many fields": ("/experiments/new", FORM, b"a=&" * 330_000),
        "form: one field of escapes": ("/experiments/new", FORM, b"name=" + b"%C3%A9" * 160_000),
        "form: 10,000 rankers": ("/experiments/new", FORM, b"name=x&rankers=" + b"a%0A" * 9_900),
        "form: a long control": ("/experiments/new", FORM, b"name=x&rankers=a%0Ab&control=" + b"c" * 19_000),
    }  # fmt: skip
    return {name: ("POST", *rest) for name, rest in found.items()} | {
        "events: empty objects in chunks of 1 byte": ("POST", EVENTS, JSON, (b"%c" % byte for byte in empty[:200_000])),
    }


def bomb(size):
    import zlib

    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(b" " * 1_000_000) for _ in range(size // 1_000_000)) + packer.flush()


class Service:
    """A service in its own process, with an experiment that runs."""

    def __init__(self, folder):
        command = "import sys; from multileave.cli import main; sys.exit(main())"
        arguments = ["serve", "--open", "--port", "0", "--json", "--log", "error", "--db", f"sqlite:///{folder}/a.db"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "MULTILEAVE_FOLD_SECONDS": "600"},
        )  # fmt: skip
        self.http = httpx.Client(base_url=json.loads(self._document())["address"], timeout=120)
        end = time.monotonic() + 120
        while not self._is_ready():
            if time.monotonic() > end:
                raise SystemExit("The service does not start.")
            time.sleep(0.05)
        self.http.post(CREATE, json=DEFINITION)
        self.http.post(f"{CREATE}/1/start")

    def _document(self):
        text = b""
        while not text.rstrip().endswith(b"}"):
            text += self.process.stdout.readline()
        return text

    def _is_ready(self):
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def token(self):
        body = {"rankings": {"bm25": ["a", "b", "c"], "dense": ["c", "b", "a"]}, "unit": "u"}
        return self.http.post(SHOW, json=body).json()["impression"]

    def protected(self, headers, body):
        """Return a form with the token of a page."""
        if headers is not FORM:
            return body
        page = self.http.get("/experiments/new").text
        return b"csrf=" + quote(re.search(r'name="csrf" value="([^"]+)"', page)[1]).encode() + b"&" + body

    def cost(self, method, path, headers, body):
        """Send a request; return its status, the seconds it took, those of the processor, and megabytes."""
        body = self.protected(headers, body)
        origin = {"Origin": str(self.http.base_url).rstrip("/")}
        for _ in range(2):  # what is loaded once
            content = b"csrf=" if headers is FORM else b"[7]"
            self.http.request(method, path, headers={**{k: v for k, v in headers.items() if k != "Content-Encoding"},
                                                     **origin}, content=content)  # fmt: skip
        process = Path(f"/proc/{self.process.pid}")
        (process / "clear_refs").write_text("5")  # the peak starts anew
        memory, used, began = self._memory("VmRSS"), self._processor(), time.perf_counter()
        try:
            status = self.http.request(method, path, headers={**headers, **origin}, content=body).status_code
        except httpx.WriteError:  # the service refused it before all was sent
            status = 413
        took = time.perf_counter() - began
        return status, took, self._processor() - used, self._memory("VmHWM") - memory

    def _memory(self, name):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) / 1024

    def _processor(self):
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def stop(self):
        self.http.close()
        self.process.terminate()
        self.process.wait()


def measure(pick):
    """Return what one body costs; pick: its name, or chooses it."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(folder)
        try:
            request = {**legitimate(service.token()), **hostile()}[pick]
            size = len(request[3]) if hasattr(request[3], "__len__") else None
            status, took, processor, memory = service.cost(*request)
        finally:
            service.stop()
    return {"name": pick, "sent": size, "status": status, "ms": 1e3 * took, "cpu_ms": 1e3 * processor, "mb": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="bodies whose name contains this")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    names = [name for name in {**legitimate("x"), **hostile()} if chosen.only in name]
    if not chosen.json:
        print(f"{'body':45s} {'sent':>10s} {'status':>6s} {'ms':>8s} {'CPU ms':>8s} {'MB':>7s}")
    found = []
    for name in names:
        found.append(row := measure(name))
        if not chosen.json:
            sent = "chunks" if row["sent"] is None else f"{row['sent']:,}"
            figures = f"{row['ms']:8.0f} {row['cpu_ms']:8.0f} {row['mb']:7.1f}"
            print(f"{name:45s} {sent:>10s} {row['status']:6d} {figures}", flush=True)
    if chosen.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
