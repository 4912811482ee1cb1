"""HTTP: requests for lists and batches of events, and what their answers are taken for."""

import gzip
import json
import logging
import time
from types import ModuleType
from typing import Any

from multileave.client.counters import Counters
from multileave.client.outbox import Outcome
from multileave.client.search import Page, Search
from multileave.errors import DataError, MissingExtra

__all__ = ["CONNECTIONS", "Asking", "EventSender", "Unanswered", "httpx"]

log = logging.getLogger("multileave.client")

CONNECTIONS = 32
IDLE = 30.0  # seconds after which a connection is closed; sooner than the service does
SEND_SECONDS = 5.0  # for a batch of events
PACKED = 1000  # bytes from which a batch is compressed
QUIET = 10.0  # seconds between complaints
MOST_LOST, REST = 5, 1.0  # after so many requests in a row without an answer, none is made for so many seconds
REFUSED = (400, 415, 422)  # a batch that will never be taken


class Unanswered(Exception):
    """There is no answer that could be used; the message says why."""


def httpx() -> ModuleType:
    """Return httpx, or say how to install it."""
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra(
            "clients of a service need httpx, which is absent: pip install 'multileave[client]'"
        ) from error
    return httpx


class Asking:
    """Makes requests for lists and reads their answers; leaves a service alone that does not answer."""

    def __init__(self, address: str, experiment: int, key: str | None) -> None:
        if not isinstance(address, str) or not address.startswith(("http://", "https://")):
            raise DataError(f"address is {address!r}; expected that of a service, such as 'http://127.0.0.1:8421'.")
        if type(experiment) is not int or experiment < 1:
            raise DataError(f"experiment is {experiment!r}; expected its number.")
        api = address.rstrip("/") + "/api/v1"
        self.impressions, self.events = f"{api}/experiments/{experiment}/impressions", f"{api}/events"
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._lost = 0
        self._rest_until = 0.0
        self._complained = -QUIET

    def settings(self, seconds: float) -> dict[str, Any]:
        """Return how httpx clients are made."""
        limits = httpx().Limits(
            max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE
        )
        return {"timeout": seconds, "limits": limits, "headers": self._headers}

    def check_rest(self) -> None:
        """Refuse to ask a service that has not answered for a while."""
        if time.monotonic() < self._rest_until:
            raise Unanswered("the service did not answer, and is asked again in a second")

    def ask(self, http: Any, search: Search) -> Page:
        """Return the page that the service answers."""
        body = self._body(search)
        for attempt in (1, 2):
            try:
                return self._read(http.post(self.impressions, **body))
            except httpx().HTTPError as error:
                self._lose(error, attempt)
        raise AssertionError

    async def ask_async(self, http: Any, search: Search) -> Page:
        """Return the page that the service answers."""
        body = self._body(search)
        for attempt in (1, 2):
            try:
                return self._read(await http.post(self.impressions, **body))
            except httpx().HTTPError as error:
                self._lose(error, attempt)
        raise AssertionError

    def too_late(self, deadline: float) -> Unanswered:
        """Return the reason of a page that came too late."""
        self._miss()
        return Unanswered(f"the service did not answer within {1000 * deadline:g} ms")

    def complain(self, message: str, *values: object) -> None:
        """Log a warning, unless there was one just now."""
        if time.monotonic() - self._complained >= QUIET:
            self._complained = time.monotonic()
            log.warning(message, *values)

    def _body(self, search: Search) -> dict[str, Any]:
        content = json.dumps(search.to_dict(), separators=(",", ":")).encode()
        return {"content": content, "headers": {"Content-Type": "application/json"}}

    def _lose(self, error: Exception, attempt: int) -> None:
        """Let a request be made again whose connection had been closed: asked twice, it is one impression."""
        closed = isinstance(error, httpx().RemoteProtocolError | httpx().ReadError | httpx().WriteError)
        if not closed or attempt > 1:
            self._miss()
            raise Unanswered(f"the service cannot be asked: {type(error).__name__} {error}".strip()) from None

    def _miss(self) -> None:
        self._lost += 1
        if self._lost >= MOST_LOST:
            self._rest_until = time.monotonic() + REST

    def _read(self, answer: Any) -> Page:
        self._lost = 0
        if answer.status_code != 200:
            raise Unanswered(f"the service answered {answer.status_code}: {told(answer)}")
        try:
            body = answer.json()
            shown, impression = body["shown"], body["impression"]
        except (ValueError, KeyError, TypeError):
            raise Unanswered("the service's answer is not a page. Is this its address?") from None
        fine = isinstance(shown, list) and all(type(d) in (str, int) for d in shown)
        if not fine or not isinstance(impression, str | None):
            raise Unanswered("the service's answer is not a page. Is this its address?")
        return Page(tuple(shown), impression)


class EventSender:
    """Sends batches of events, and counts what the service says of each."""

    def __init__(self, asking: Asking, counters: Counters) -> None:
        self._asking, self._counters = asking, counters
        self._http = httpx().Client(**asking.settings(SEND_SECONDS))

    def send(self, lines: list[bytes]) -> Outcome:
        """Send a batch; whatever goes wrong is to be tried again, but for what is refused for good."""
        content = b"".join(lines)
        headers = {"Content-Type": "application/x-ndjson"}
        if len(content) >= PACKED:
            content = gzip.compress(content, 1)
            headers["Content-Encoding"] = "gzip"
        try:
            answer = self._http.post(self._asking.events, content=content, headers=headers)
            if answer.status_code == 200:
                return self._count(answer.json(), len(lines))
        except (httpx().HTTPError, ValueError, KeyError, TypeError) as error:
            self._asking.complain("events cannot be sent: %s %s", type(error).__name__, error)
            return Outcome.LATER
        if answer.status_code == 413 and len(lines) > 1:
            return Outcome.TOO_LARGE
        self._asking.complain("events are refused with %d: %s", answer.status_code, told(answer))
        if answer.status_code in (413, *REFUSED):
            self._counters.add(sent=len(lines), rejected=len(lines))
            return Outcome.DONE
        return Outcome.LATER

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _count(self, body: Any, sent: int) -> Outcome:
        accepted = int(body["accepted"])
        if not 0 <= accepted <= sent:
            raise ValueError(f"{accepted} of {sent} events accepted")
        if accepted < sent:
            first: dict[str, Any] = next((r for r in body.get("receipts", ()) if not r.get("accepted")), {})
            self._asking.complain("%d of %d events rejected, first: %s", sent - accepted, sent, first.get("reason"))
        self._counters.add(sent=sent, accepted=accepted, rejected=sent - accepted)
        return Outcome.DONE


def told(answer: Any) -> str:
    """Return what a refusal says."""
    try:
        return str(answer.json()["error"]["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return "it does not say why"
