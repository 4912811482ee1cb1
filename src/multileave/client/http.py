"""HTTP: requests for pages and batches of events, and how their responses are read."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
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
END_SECONDS = 1.0  # until the thread ends
PAGE_BYTES, RECEIPT_BYTES = 1 << 20, 1 << 10  # of a response: for a page, and more for each event
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

    A separate thread runs an event loop, as only there can a request be cancelled at its deadline: httpx limits each
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
            # A small compressed response may be a huge one.
            headers={"Accept-Encoding": "identity", **({} if key is None else {"Authorization": f"Bearer {key}"})},
        )
        self._ending = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="multileave-client", daemon=True)
        self._thread.start()

    def start(self, request: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a request; cancelling its future cancels it."""
        try:
            return asyncio.run_coroutine_threadsafe(request, self._loop)
        except RuntimeError:
            request.close()
            raise NoAnswer("the client is closed") from None

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
                answer = await self._post(self._impressions, content, headers, PAGE_BYTES)
            except (httpx().RemoteProtocolError, httpx().ReadError, httpx().WriteError):
                # The connection was closed. Asking again is safe, as both are one impression.
                answer = await self._post(self._impressions, content, headers, PAGE_BYTES)
        except httpx().HTTPError as error:
            self._count_failure()
            raise NoAnswer(f"the request failed: {type(error).__name__} {error}".strip()) from None
        self._failures = 0
        return answer.page()

    def send_events(self, lines: list[bytes]) -> SendResult:
        """Send a batch; it is retried after any failure, unless the service refuses it for good."""
        content = b"".join(lines)
        headers = {"Content-Type": "application/x-ndjson"}
        if len(content) >= PACKED:
            content = gzip.compress(content, 1)
            headers["Content-Encoding"] = "gzip"
        most = PAGE_BYTES + RECEIPT_BYTES * len(lines)
        try:
            answer = self.wait(self._post(self._events, content, headers, most), SEND_SECONDS)
            if answer.status == 200:
                return self._count_events(answer, len(lines))
        except Exception as error:  # whatever it is, the events are kept
            self._counters.warn("Could not send events: %s %s", type(error).__name__, error)
            return SendResult.LATER
        if answer.status == 413 and len(lines) > 1:
            return SendResult.TOO_LARGE
        self._counters.warn("Events refused with status %d: %s", answer.status, answer.error())
        if answer.status in (413, *REFUSED):
            self._counters.add(sent=len(lines), rejected=len(lines))
            return SendResult.DONE
        return SendResult.LATER

    def close(self) -> None:
        """End requests under way, close the connections and end the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        self._ending = True
        await asyncio.sleep(0)  # requests that were just submitted start
        requests = asyncio.all_tasks() - {asyncio.current_task()}
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        await self._http.aclose()

    async def _post(self, address: str, content: bytes, headers: dict[str, str], most: int) -> "Answer":
        """Return the response to a request; raise `NoAnswer` if it has more bytes than `most`."""
        body = bytearray()
        try:
            async with self._http.stream("POST", address, content=content, headers=headers) as response:
                async for block in response.aiter_raw():
                    body += block
                    if len(body) > most:
                        raise NoAnswer(f"the response is larger than {most:,} bytes. Is the address right?")
        except asyncio.CancelledError:
            if self._ending:
                raise NoAnswer("the client is closed") from None
            raise
        return Answer(response.status_code, bytes(body))

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self._open_until = time.monotonic() + OPEN_SECONDS

    def _count_events(self, answer: "Answer", sent: int) -> SendResult:
        body = answer.json()
        accepted = body.get("accepted")
        if type(accepted) is not int or not 0 <= accepted <= sent:
            raise NoAnswer("the response does not say how many events were accepted. Is the address right?")
        if accepted < sent:
            receipts = body.get("receipts")
            listed = [r for r in receipts if isinstance(r, dict)] if isinstance(receipts, list) else []
            reason = next((r.get("reason") for r in listed if not r.get("accepted")), None)
            self._counters.warn("%d of %d events rejected, first: %s", sent - accepted, sent, reason)
        self._counters.add(sent=sent, accepted=accepted, rejected=sent - accepted)
        return SendResult.DONE


@dataclass(frozen=True)
class Answer:
    """The status of a response and its body, which may be anything."""

    status: int
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the object in the body, an empty one if there is none."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def page(self) -> Page:
        """Return the page in the body; raise `NoAnswer` if it is something else."""
        if self.status != 200:
            raise NoAnswer(f"the service answered {self.status}: {self.error()}")
        body = self.json()
        shown, impression = body.get("shown"), body.get("impression", 0)
        fine = isinstance(shown, list) and all(type(document) in (str, int) for document in shown)
        if not fine or not isinstance(impression, str | None):
            raise NoAnswer("the response is not a page. Is the address right?")
        return Page(tuple(shown or ()), impression)

    def error(self) -> str:
        """Return the message of an error response."""
        try:
            return str(self.json()["error"]["message"])[:300]
        except (KeyError, TypeError):
            return "no reason given"
