"""HTTP: requests for pages and batches of events, and how their responses are read."""

import gzip
import json
import logging
import time
from types import ModuleType
from typing import Any

from multileave.client.counters import Counters
from multileave.client.outbox import SendResult
from multileave.client.search import Page, Search
from multileave.errors import DataError, MissingExtra

log = logging.getLogger("multileave.client")

CONNECTIONS = 32
IDLE = 30.0  # seconds after which a connection is closed; before the service does
SEND_SECONDS = 5.0  # for a batch of events
PACKED = 1000  # bytes from which a batch is compressed
QUIET = 10.0  # seconds between warnings
MOST_FAILURES, OPEN_SECONDS = 5, 1.0  # circuit breaker: failures in a row that open it, and for how long
REFUSED = (400, 415, 422)  # a batch that will never be accepted


class NoAnswer(Exception):
    """There is no usable answer; the message says why."""


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
    """Requests pages from a service, behind a circuit breaker."""

    def __init__(self, address: str, experiment: int, key: str | None, deadline: float) -> None:
        if not isinstance(address, str) or not address.startswith(("http://", "https://")):
            raise DataError(f"address is {address!r}; expected the URL of a service, such as 'http://127.0.0.1:8421'.")
        if type(experiment) is not int or experiment < 1:
            raise DataError(f"experiment is {experiment!r}; expected its number.")
        api = address.rstrip("/") + "/api/v1"
        self.impressions, self.events = f"{api}/experiments/{experiment}/impressions", f"{api}/events"
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._deadline = deadline
        self._failures = 0
        self._open_until = 0.0
        self._warned = -QUIET

    def settings(self, seconds: float) -> dict[str, Any]:
        """Return the arguments of httpx clients."""
        limits = httpx().Limits(
            max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE
        )
        return {"timeout": seconds, "limits": limits, "headers": self._headers}

    def check_circuit(self) -> None:
        """Raise `NoAnswer` while the circuit breaker is open."""
        if time.monotonic() < self._open_until:
            raise NoAnswer("the service did not answer, and is asked again in a second")

    def request_page(self, http: Any, search: Search) -> Page:
        """Return the page that the service responds with."""
        body = self._body(search)
        for attempt in (1, 2):
            try:
                return self._read(http.post(self.impressions, **body))
            except httpx().HTTPError as error:
                self._check_retry(error, attempt)
        raise AssertionError

    async def request_page_async(self, http: Any, search: Search) -> Page:
        """Return the page that the service responds with."""
        body = self._body(search)
        for attempt in (1, 2):
            try:
                return self._read(await http.post(self.impressions, **body))
            except httpx().HTTPError as error:
                self._check_retry(error, attempt)
        raise AssertionError

    def missed_deadline(self) -> NoAnswer:
        """Count a missed deadline, and return the error for it."""
        self._count_failure()
        return NoAnswer(f"the service did not answer within {1000 * self._deadline:g} ms")

    def warn(self, message: str, *values: object) -> None:
        """Log a warning, at most one in ten seconds."""
        if time.monotonic() - self._warned >= QUIET:
            self._warned = time.monotonic()
            log.warning(message, *values)

    def _body(self, search: Search) -> dict[str, Any]:
        content = json.dumps(search.to_dict(), separators=(",", ":")).encode()
        return {"content": content, "headers": {"Content-Type": "application/json"}}

    def _check_retry(self, error: Exception, attempt: int) -> None:
        """Allow one retry if the connection was closed, as both are one impression; otherwise raise `NoAnswer`."""
        if isinstance(error, httpx().TimeoutException):
            raise self.missed_deadline() from None
        closed = isinstance(error, httpx().RemoteProtocolError | httpx().ReadError | httpx().WriteError)
        if not closed or attempt > 1:
            self._count_failure()
            raise NoAnswer(f"the request failed: {type(error).__name__} {error}".strip()) from None

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self._open_until = time.monotonic() + OPEN_SECONDS

    def _read(self, answer: Any) -> Page:
        self._failures = 0
        if answer.status_code != 200:
            raise NoAnswer(f"the service answered {answer.status_code}: {error_message(answer)}")
        try:
            body = answer.json()
            shown, impression = body["shown"], body["impression"]
        except (ValueError, KeyError, TypeError):
            raise NoAnswer("the response is not a page. Is the address right?") from None
        fine = isinstance(shown, list) and all(type(d) in (str, int) for d in shown)
        if not fine or not isinstance(impression, str | None):
            raise NoAnswer("the response is not a page. Is the address right?")
        return Page(tuple(shown), impression)


class EventSender:
    """Sends batches of events, and counts which were accepted."""

    def __init__(self, service: Service, counters: Counters) -> None:
        self._service, self._counters = service, counters
        self._http = httpx().Client(**service.settings(SEND_SECONDS))

    def send(self, lines: list[bytes]) -> SendResult:
        """Send a batch; it is retried after any failure, unless the service refuses it for good."""
        content = b"".join(lines)
        headers = {"Content-Type": "application/x-ndjson"}
        if len(content) >= PACKED:
            content = gzip.compress(content, 1)
            headers["Content-Encoding"] = "gzip"
        try:
            answer = self._http.post(self._service.events, content=content, headers=headers)
            if answer.status_code == 200:
                return self._count(answer.json(), len(lines))
        except (httpx().HTTPError, ValueError, KeyError, TypeError) as error:
            self._service.warn("Could not send events: %s %s", type(error).__name__, error)
            return SendResult.LATER
        if answer.status_code == 413 and len(lines) > 1:
            return SendResult.TOO_LARGE
        self._service.warn("Events refused with status %d: %s", answer.status_code, error_message(answer))
        if answer.status_code in (413, *REFUSED):
            self._counters.add(sent=len(lines), rejected=len(lines))
            return SendResult.DONE
        return SendResult.LATER

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _count(self, body: Any, sent: int) -> SendResult:
        accepted = int(body["accepted"])
        if not 0 <= accepted <= sent:
            raise ValueError(f"{accepted} of {sent} events accepted")
        if accepted < sent:
            first: dict[str, Any] = next((r for r in body.get("receipts", ()) if not r.get("accepted")), {})
            self._service.warn("%d of %d events rejected, first: %s", sent - accepted, sent, first.get("reason"))
        self._counters.add(sent=sent, accepted=accepted, rejected=sent - accepted)
        return SendResult.DONE


def error_message(answer: Any) -> str:
    """Return the message of an error response."""
    try:
        return str(answer.json()["error"]["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return "no reason given"
