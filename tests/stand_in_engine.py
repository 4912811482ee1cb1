"""A stand-in for a search server, so that the how-to pages' clients have somebody to talk to over HTTP.

It answers the requests of those pages in the shapes of OpenSearch, Elasticsearch and Solr: a few products,
scored by how many of the query's words they hold in the fields that are asked for.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PRODUCTS = {
    "p1": {"title": "Red running shoes", "description": "Light shoes for the road."},
    "p2": {"title": "Red scarf", "description": "Goes well with red shoes."},
    "p3": {"title": "Trail shoes", "description": "Red or blue, for mud and stones."},
    "p4": {"title": "Shoe polish", "description": "For black shoes."},
    "p5": {"title": "Sandals", "description": "Open shoes in red, for the beach."},
}


def ranked(query: str, weights: dict[str, float]) -> list[tuple[str, float]]:
    """Return products that hold a word of the query in a field with a weight, best first."""
    words = query.lower().split()
    scores = {
        product: sum(weight * (word in fields[field].lower()) for word in words for field, weight in weights.items())
        for product, fields in PRODUCTS.items()
    }
    return sorted(((p, s) for p, s in scores.items() if s > 0), key=lambda pair: (-pair[1], pair[0]))


def weighted(fields: list[str]) -> dict[str, float]:
    """Read fields such as title^3."""
    return {name: float(weight or 1) for name, _, weight in (field.partition("^") for field in fields)}


def search(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a multi_match query as OpenSearch and Elasticsearch do."""
    match = request["query"]["multi_match"]
    hits = [
        {"_index": "products", "_id": product, "_score": score, "_source": PRODUCTS[product]}
        for product, score in ranked(match["query"], weighted(match["fields"]))[: request.get("size", 10)]
    ]
    total = {"value": len(hits), "relation": "eq"}
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    return {"took": 1, "timed_out": False, "_shards": shards, "hits": {"total": total, "hits": hits}}


def select(parameters: dict[str, list[str]]) -> dict[str, Any]:
    """Answer an edismax query as Solr does."""
    found = ranked(parameters["q"][0], weighted(parameters["qf"][0].split()))
    documents = [{"id": product, **PRODUCTS[product]} for product, _ in found[: int(parameters["rows"][0])]]
    response = {"numFound": len(found), "start": 0, "docs": documents}
    return {"responseHeader": {"status": 0, "QTime": 1}, "response": response}


class Handler(BaseHTTPRequestHandler):
    """Answers a search, whichever method of HTTP the client prefers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        address = urlsplit(self.path)
        if address.path.endswith("/_search"):
            answer = search(json.loads(body))
        else:
            answer = select(parse_qs(address.query) | parse_qs(body.decode()))
        sent = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", self.headers.get("accept", "application/json").split(",")[0])
        self.send_header("x-elastic-product", "Elasticsearch")  # Elasticsearch's client insists on it
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_POST = do_GET

    def log_message(self, *arguments: Any) -> None:
        """Keep quiet."""


@contextmanager
def running() -> Iterator[str]:
    """Serve on a free port of this machine; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
