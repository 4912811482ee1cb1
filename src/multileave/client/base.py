"""What all clients share: checked arguments, counts, the fallback, and the calls of those that block."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

from multileave.client.counters import Counters, Stats
from multileave.client.search import Click, Document, Page, Search, check_control
from multileave.errors import MultileaveError


class ClientBase(ABC):
    """Counts, the fallback to the control's list, and the checks of clicks."""

    def __init__(self, control: str, k: int) -> None:
        check_control(control, k)
        self._control, self._k = control, k
        self._counters = Counters()

    @property
    def stats(self) -> Stats:
        """The counts so far; events that `LocalClient` logs count as sent and accepted."""
        return self._counters.stats

    @abstractmethod
    def _record(self, click: Click) -> None:
        """Send or log a click on a page that was recorded."""

    def _take(self, click: Click) -> None:
        if click.impression is None:
            self._counters.add(ignored=1)
        else:
            self._record(click)

    def _fall_back(self, search: Search, why: Exception) -> Page:
        reason = str(why) if isinstance(why, MultileaveError) else f"{type(why).__name__}: {why}"
        self._counters.add(fallbacks=1)
        self._counters.warn("Showing the control's list: %s", reason)
        return search.fall_back(self._control, self._k, reason)


class BlockingClient(ClientBase):
    """The calls of `Client` and `LocalClient`."""

    def interleave(
        self,
        rankings: Mapping[str, Sequence[Document] | None],
        unit: str,
        query: str = "",
        *,
        page: int = 1,
        pinned: Mapping[int, Document] | None = None,
        salt: str = "",
        segment: str | None = None,
    ) -> Page:
        """Return the page to show to a unit; the control's after the deadline or any failure.

        rankings: each ranker's documents, best first; None for one that failed. pinned: documents at positions
        from 0, over all pages. salt: another salt gives another draw. segment: of the traffic, such
        as a device; stored with the impression, and no part of the draw.
        """
        search = Search.checked(rankings, unit, query, page, pinned, salt, segment)
        try:
            return self._find_page(search)
        except Exception as why:  # a search never fails
            return self._fall_back(search, why)

    def click(
        self,
        impression: str | None,
        document: Document | None = None,
        *,
        position: int | None = None,
        action: str = "click",
        dwell: float | None = None,
        value: float | None = None,
    ) -> None:
        """Record what a user did with a document of a page; ignored if the page was not recorded.

        impression: of the page. document, position: its id, or its position from 0 over all pages.
        dwell: seconds on the document. value: what it is worth, such as the price of what was bought.
        """
        self._take(Click(impression, document, position, action, dwell, value))

    @abstractmethod
    def close(self, timeout: float = 5.0) -> None:
        """Send queued events within the timeout, spill the rest, and stop."""

    @abstractmethod
    def _find_page(self, search: Search) -> Page:
        """Return the page to show, or raise an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
