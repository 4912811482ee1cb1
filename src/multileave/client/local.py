"""The client without a service: draws lists in this process and logs them."""

import hashlib
import json
import math
import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from multileave.assignment import Arms, grown, position_of
from multileave.client.base import BlockingClient
from multileave.client.search import Click, Page, Search
from multileave.errors import DataError
from multileave.impression import Impression
from multileave.methods import get_method
from multileave.methods.base import Method

MOST_REMEMBERED = 100_000  # impressions


class LocalClient(BlockingClient):
    """Draws lists in this process and logs them with their clicks for `multileave replay`; thread-safe.

    method, k, pages: how lists are drawn, how many results a page has, and how many pages are drawn at once. Later
        pages continue the list; only the first is logged and compared.
    control: the ranker to fall back to if rankings cannot be combined.
    folder: where `LogWriter` writes the log. name: of this process in it.
    experiment, version: seed the draws, with the unit, the query and the salt.
    window: seconds in which the same rankings for the same unit and query are one impression.
    arms: rankers whose own pages some of the units see, as in an A/B test, each with its share of the units, such as
        {"bm25": 0.1, "ltr": 0.1}; logged, but not compared. A unit's arm follows from the experiment, the version and
        the unit. It stays in it when shares grow, as long as the arms are the same and none has more than its equal
        part of all units (1 / number of arms).
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
        arms: Mapping[str, float] | None = None,
    ) -> None:
        from multileave.log import LogWriter

        super().__init__(control, k)
        if type(pages) is not int or pages < 1:
            raise DataError(f"pages is {pages!r}; expected an integer from 1.")
        self._method = get_method(method) if isinstance(method, str) else method
        self._pages = pages
        self._experiment, self._version, self._window = experiment, version, window
        self._log = LogWriter(folder, name=name)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        shares = _checked_arms(arms or {})
        self._arms = Arms(grown((), shares), shares) if shares else None

    def _find_page(self, search: Search) -> Page:
        if search.page > self._pages:
            raise DataError(f"page is {search.page}; pages 1 to {self._pages} are drawn.")
        seed = json.dumps([self._experiment, self._version, search.unit, search.query, search.salt])
        drawn = self._draw(seed, search)
        shown = drawn.shown[(search.page - 1) * self._k : search.page * self._k]
        if search.page > 1:
            return Page(shown)  # type: ignore[arg-type]
        impression, is_new = self._identify(seed, search)
        if is_new:
            first = drawn.until(self._k)
            more: dict[str, Any] = {} if search.segment is None else {"segment": search.segment}
            try:
                self._log.impression(first, impression_id=impression, user_id=search.unit, query=search.query, **more)
            except OSError:
                self._counters.add(dropped=1)
        return Page(shown, impression)  # type: ignore[arg-type]

    def _draw(self, seed: str, search: Search) -> Impression:
        """Return the list drawn for a unit, or the own page of its arm's ranker."""
        size, pinned = self._k * self._pages, search.pinned or None
        arm = None
        if self._arms is not None:
            source = json.dumps([self._experiment, self._version, search.unit])
            arm, _ = self._arms.find(position_of(hashlib.blake2b(source.encode(), person=b"arms").digest()))
        if arm is None:
            present = {name: documents or None for name, documents in search.rankings.items()}
            kept = self._method.keeps_propensities
            return self._method.combine(present, size, seed=seed, pinned=pinned, propensities=kept)
        # Once each: to refuse what one ranker returned would leave pages out of its arm alone.
        own = dict.fromkeys(search.rankings.get(arm) or ())
        instead = dict.fromkeys(search.first_choice(self._control))
        return Impression.alone(arm, tuple(own), size, pinned=pinned, fallback=tuple(instead))

    def _record(self, click: Click) -> None:
        fields = vars(click).copy()
        try:
            self._log.click(fields.pop("impression"), **fields)
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


def _checked_arms(arms: Mapping[str, float]) -> dict[str, float]:
    """Return the arms and their shares, or raise `DataError`."""
    for name, share in arms.items():
        if not isinstance(name, str) or isinstance(share, bool) or not isinstance(share, int | float):
            raise DataError(f"arms is {arms!r}; expected names of rankers mapped to shares, such as {{'bm25': 0.1}}.")
        if not 0.0 < share < 1.0:
            raise DataError(f"The share of the arm {name!r} is {share!r}; expected a number between 0 and 1.")
    if sum(arms.values()) > 1.0 + 1e-9:
        raise DataError(f"The shares of arms add up to {sum(arms.values()):g}; expected at most 1. Lower some of them.")
    return dict(arms)
