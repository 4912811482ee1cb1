"""The client without a service: draws lists in this process and logs them."""

import hashlib
import json
import math
import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import TracebackType

from multileave.client.counters import Counters, Stats
from multileave.client.search import Document, Page, Search, check_control
from multileave.errors import DataError, MultileaveError
from multileave.methods import get_method
from multileave.methods.base import Method

MOST_REMEMBERED = 100_000  # impressions


class LocalClient:
    """Draws lists in this process and logs them with their clicks for `multileave replay`; thread-safe.

    method, k, pages: how lists are drawn, how many results a page has, and how many pages are drawn at once. Later
        pages continue the list; only the first is logged and compared.
    control: the ranker to fall back to if rankings cannot be combined.
    folder: where `LogWriter` writes the log. name: of this process in it.
    experiment, version: seed the draws, with the unit, the query and the salt.
    window: seconds in which the same rankings for the same unit and query are one impression.
    """

    def __init__(
        self,
        method: str | Method = "recommended",
        *,
        control: str,
        folder: str | os.PathLike[str],
        k: int = 10,
        pages: int = 1,
        experiment: str = "local",
        version: int = 1,
        window: float = 86_400.0,
        name: str = "log",
    ) -> None:
        from multileave.log import LogWriter

        check_control(control, k)
        if type(pages) is not int or pages < 1:
            raise DataError(f"pages is {pages!r}; expected an integer from 1.")
        self._method = get_method(method) if isinstance(method, str) else method
        self._control, self._k, self._pages = control, k, pages
        self._experiment, self._version, self._window = experiment, version, window
        self._counters = Counters()
        self._log = LogWriter(folder, name=name)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    @property
    def stats(self) -> Stats:
        """The counts so far; logged events count as sent and accepted."""
        return self._counters.stats

    def interleave(
        self,
        rankings: Mapping[str, Sequence[Document] | None],
        unit: str,
        query: str = "",
        *,
        page: int = 1,
        pinned: Mapping[int, Document] | None = None,
        salt: str = "",
    ) -> Page:
        """Return the page to show to a unit, as `Client.interleave` does."""
        search = Search.checked(rankings, unit, query, page, pinned, salt)
        seed = json.dumps([self._experiment, self._version, unit, query, salt])
        try:
            if page > self._pages:
                raise DataError(f"page is {page}; pages 1 to {self._pages} are drawn.")
            present = {name: documents or None for name, documents in search.rankings.items()}
            drawn = self._method.combine(present, self._k * self._pages, seed=seed, pinned=search.pinned or None)
        except MultileaveError as why:
            self._counters.add(fallbacks=1)
            return search.fall_back(self._control, self._k, str(why))
        shown = drawn.shown[(page - 1) * self._k : page * self._k]
        if page > 1:
            return Page(shown)  # type: ignore[arg-type]
        impression, is_new = self._identify(seed, search)
        if is_new:
            try:
                self._log.impression(drawn.until(self._k), impression_id=impression, user_id=unit, query=query)
            except OSError:
                self._counters.add(dropped=1)
        return Page(shown, impression)  # type: ignore[arg-type]

    def click(
        self,
        impression: str | None,
        document: Document | None = None,
        *,
        position: int | None = None,
        action: str = "click",
        dwell: float | None = None,
    ) -> None:
        """Log what a user did with a document of a page, as `Client.click` does."""
        if impression is None:
            self._counters.add(ignored=1)
            return
        try:
            self._log.click(impression, document=document, position=position, action=action, dwell=dwell)
        except OSError:
            self._counters.add(dropped=1)
        else:
            self._counters.add(sent=1, accepted=1)

    def flush(self, timeout: float = 5.0) -> bool:
        """Return True: every line has reached the operating system when a call returns."""
        return True

    def close(self, timeout: float = 5.0) -> None:
        """Close the log."""
        self._log.close()

    def __enter__(self) -> "LocalClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _identify(self, seed: str, search: Search) -> tuple[str, bool]:
        """Return the id of an impression, and whether it is new: not logged before within the window."""
        source = json.dumps([seed, search.rankings, sorted(search.pinned.items())])
        key = hashlib.blake2b(source.encode(), digest_size=16).digest()
        with self._lock:
            at, found = self._known.get(key, (-math.inf, ""))
            if time.monotonic() - at < self._window:
                return found, False
            found = uuid.uuid4().hex
            self._known[key] = time.monotonic(), found
            self._known.move_to_end(key)
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
            return found, True
