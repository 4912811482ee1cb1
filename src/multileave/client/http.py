"""HTTP: requests for pages and batches of events, and how their responses are read."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from types import ModuleType
from typing import Any, TypeVar

from multileave.client.counters import Counters
from multileave.client.outbox import SendResult
from multileave.client.search import NoAnswer, Page, Search
from multileave.errors import DataError, MissingExtra

T = TypeVar("T")

CONNECTIONS = 32
IDLE = 30.0  # seconds after which a connection is closed; before the service does
SEND_SECONDS = 5.0  # for a batch of events
PACKED = 1000  # bytes from which a batch is compressed
MOST_FAILURES, OPEN_SECONDS = 5, 1.0  # circuit breaker: failures in a row that open it, and for how long
REFUSED = (400, 415, 422)  # a batch that will never be accepted


def httpx() -> ModuleType:
    """Return httpx, or raise an error that says how to install it."""
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra(
            "Clients of a service need httpx, which is not installed: pip install 'multileave[client]'"
        ) from error
    return httpx


class Service:
    """Requests pages from a service, behind a circuit breaker, and sends it events.

    A thread of its own runs an event loop, as only there can a request be cancelled at its deadline: httpx limits each
    part of a request, not the whole.
    """

    def __init__(self, address: str, experiment: int, key: str | None, counters: Counters) -> None:
        if not isinstance(address, str) or not address.startswith(("http://", "https://")):
            raise DataError(f"address is {address!r}; expected the URL of a service, such as 'http://127.0.0.1:8421'.")
        if type(experiment) is not int or experiment < 1:
            raise DataError(f"experiment is {experiment!r}; expected its number.")
        api = address.rstrip("/") + "/api/v1"
        self._impressions, self._events = f"{api}/experiments/{experiment}/impressions", f"{api}/events"
        self._counters = counters
        self._failures = 0
        self._open_until = 0.0
        self._http = httpx().AsyncClient(
            timeout=None,
            limits=httpx().Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE
            ),
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="multileave-client", daemon=True)
        self._thread.start()

    def start(self, request: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a request; cancelling its future cancels it."""
        return asyncio.run_coroutine_threadsafe(request, self._loop)

    def wait(self, request: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of a request, or cancel it after so many seconds and raise `TimeoutError`."""
        future = self.start(request)
        try:
            return future.result(seconds)
        finally:
            future.cancel()

    def check_circuit(self) -> None:
        """Raise `NoAnswer` while the circuit breaker is open."""
        if time.monotonic() < self._open_until:
            raise NoAnswer("the service did not answer, and is asked again in a second")

    def missed_deadline(self, seconds: float) -> NoAnswer:
        """Count a missed deadline, and return the error for it."""
        self._count_failure()
        return NoAnswer(f"the service did not answer within {1000 * seconds:g} ms")

    async def request_page(self, search: Search) -> Page:
        """Return the page that the service responds with; raise `NoAnswer` if it is not one."""
        content = json.dumps(search.to_dict(), separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json"}
        try:
            try:
                answer = await self._http.post(self._impressions, content=content, headers=headers)
            except (httpx().RemoteProtocolError, httpx().ReadError, httpx().WriteError):
                # The connection was closed. Asking again is safe, as both are one impression.
                answer = await self._http.post(self._impressions, content=content, headers=headers)
        except httpx().HTTPError as error:
            self._count_failure()
            raise NoAnswer(f"the request failed: {type(error).__name__} {error}".strip()) from None
        self._failures = 0
        return _read_page(answer)

    def send_events(self, lines: list[bytes]) -> SendResult:
        """Send a batch; it is retried after any failure, unless the service refuses it for good."""
        content = b"".join(lines)
        headers = {"Content-Type": "application/x-ndjson"}
        if len(content) >= PACKED:
            content = gzip.compress(content, 1)
            headers["Content-Encoding"] = "gzip"
        try:
            answer = self.wait(self._http.post(self._events, content=content, headers=headers), SEND_SECONDS)
            if answer.status_code == 200:
                return self._count_events(answer.json(), len(lines))
        except (httpx().HTTPError, ValueError, KeyError, TypeError, TimeoutError) as error:
            self._counters.warn("Could not send events: %s %s", type(error).__name__, error)
            return SendResult.LATER
        if answer.status_code == 413 and len(lines) > 1:
            return SendResult.TOO_LARGE
        self._counters.warn("Events refused with status %d: %s", answer.status_code, _error_message(answer))
        if answer.status_code in (413, *REFUSED):
            self._counters.add(sent=len(lines), rejected=len(lines))
            return SendResult.DONE
        return SendResult.LATER

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._thread.is_alive():
            self.wait(self._http.aclose(), SEND_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self._open_until = time.monotonic() + OPEN_SECONDS

    def _count_events(self, body: Any, sent: int) -> SendResult:
        accepted = int(body["accepted"])
        if not 0 <= accepted <= sent:
            raise ValueError(f"{accepted} of {sent} events accepted")
        if accepted < sent:
            first: dict[str, Any] = next((r for r in body.get("receipts", ()) if not r.get("accepted")), {})
            self._counters.warn("%d of %d events rejected, first: %s", sent - accepted, sent, first.get("reason"))
        self._counters.add(sent=sent, accepted=accepted, rejected=sent - accepted)
        return SendResult.DONE


def _read_page(answer: Any) -> Page:
    if answer.status_code != 200:
        raise NoAnswer(f"the service answered {answer.status_code}: {_error_message(answer)}")
    try:
        body = answer.json()
        shown, impression = body["shown"], body["impression"]
    except (ValueError, KeyError, TypeError):
        raise NoAnswer("the response is not a page. Is the address right?") from None
    fine = isinstance(shown, list) and all(type(d) in (str, int) for d in shown)
    if not fine or not isinstance(impression, str | None):
        raise NoAnswer("the response is not a page. Is the address right?")
    return Page(tuple(shown), impression)


def _error_message(answer: Any) -> str:
    """Return the message of an error response."""
    try:
        return str(answer.json()["error"]["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return "no reason given"
