"""Retrievers: query any number of search engines in parallel, and show their results as one list.

The protocol is one sentence. **A retriever is called with a query and returns, best first, ids or documents
with an id**, or an awaitable of them. A function, a bound method of a client or a lambda will do, so there is no
adapter per vendor. The id of a document is

- the document itself, if it is a string or an integer;
- its key or attribute ``id``, ``doc_id``, ``docno`` or ``_id``, the first that exists and is not None;
- one of these in its ``metadata`` or ``meta``.

Retrievers run in parallel, each with a deadline. One that fails, is late or returns nothing is *missing*: the list is
drawn from the others, and preferences are inferred among those; with ``on_missing="control"`` the control's own list
is shown instead. If fewer than two answer there is nothing to compare, and the list of the only one is shown. If the
control is missing too, the first ranker that answered replaces it. `ResultPage` says which were missing and why, and
whose list it is.
"""

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from multileave.errors import RankingsError, nearest
from multileave.impression import Impression
from multileave.methods.base import Method, get_method, infer
from multileave.random import Seed
from multileave.rankings import with_pins
from multileave.stats import Tally

__all__ = ["Multisearch", "ResultPage", "Retriever", "combine_answers", "document_id"]

Retriever: TypeAlias = Callable[[Any], "Iterable[Any] | Awaitable[Iterable[Any]]"]
"""Is called with a query and returns, best first, ids or documents with an id, or an awaitable of them."""

ID_NAMES = ("id", "doc_id", "docno", "_id")
NOTHING = "returned no documents"


def document_id(document: Any) -> str | int:
    """Return the id of a document of any kind.

    >>> document_id("d1"), document_id({"_id": "d2", "_source": {}}), document_id({"metadata": {"doc_id": 3}})
    ('d1', 'd2', 3)
    """
    for found in _possible_ids(document):
        if isinstance(found, np.integer):
            return int(found)
        if isinstance(found, str | int) and not isinstance(found, bool):
            return found
    raise RankingsError(
        f"A {type(document).__name__} has no id; expected a string, an integer, or a document with "
        f"{', '.join(ID_NAMES)} as a key, an attribute or in its metadata. Pass id_of=, a function that returns it."
    )


@dataclass(frozen=True)
class ResultPage:
    """What to show for a query, and what to log.

    documents: the retrievers' documents in the order shown; if several returned a document, the first ranker's.
        Pinned documents are included.
    impression: of all rankers, with length 0 for those missing; None if nothing is compared.
    missing: the rankers that did not answer, with the reason.
    fallback: the ranker whose own list is shown if there is no impression, or None.
    """

    documents: tuple[Any, ...]
    shown: tuple[Hashable, ...]
    impression: Impression | None
    missing: Mapping[str, str]
    fallback: str | None

    def add_to(self, tally: Tally, clicks: Iterable[Hashable] = (), *, unit: Hashable = None) -> None:
        """Add the page and its clicks to the tally of all rankers.

        Preferences are inferred among the rankers that answered; a pair with a missing ranker gets none. A page
        without an impression counts as a fallback, for the health checks only.
        """
        if self.impression is None:
            tally.add_fallback(tuple(self.missing))
            return
        clicked = list(clicks)
        tally.add(infer(self.impression, clicked), unit=unit, clicks=len(clicked), impression=self.impression)


class Multisearch:
    """Several retrievers behind one result page.

    retrievers: two or more, by ranker name. Each should return k + 1 results or more: with fewer, a better ranker
        may not win. method: how lists are combined. k: results on a page.
    control: whose own list is shown if there is no comparison; the first by default.
    on_missing: what to show if a ranker is missing: "compare", a list of the others, or "control".
    deadline: seconds that a retriever may take, for all or by name. Threads cannot be stopped, so a late call
        continues in the background: give clients a timeout as well.
    pending: how many calls of a ranker may be running at once; beyond that it is missing immediately, so that a
        hanging engine does not pile up threads.
    id_of: returns the id of a document, if `document_id` does not find it.

    >>> search = Multisearch({"title": lambda query: ["a", "b"], "body": lambda query: ["b", "c"]}, k=2)
    >>> page = search("red shoes", seed=3)
    >>> page.shown, dict(page.missing)
    (('b', 'a'), {})
    """

    def __init__(
        self,
        retrievers: Mapping[str, Retriever],
        method: Method | str = "recommended",
        k: int = 10,
        *,
        control: str | None = None,
        on_missing: Literal["compare", "control"] = "compare",
        deadline: float | Mapping[str, float] = 1.0,
        pending: int = 32,
        id_of: Callable[[Any], Hashable] = document_id,
    ) -> None:
        if not isinstance(retrievers, Mapping) or len(retrievers) < 2:
            raise RankingsError("retrievers must map two or more names to functions of a query.")
        for name, retriever in retrievers.items():
            if not callable(retriever):
                raise RankingsError(
                    f"Retriever {name!r} is a {type(retriever).__name__}, which cannot be called with a query. Pass "
                    "one of its methods or a function, such as lambda query: client.search(query)."
                )
        self.retrievers = dict(retrievers)
        self.method = get_method(method)
        self.method.check_rankers(len(self.retrievers))
        self.k = k
        self.control = next(iter(self.retrievers)) if control is None else control
        self._check_name("control", self.control)
        if on_missing not in ("compare", "control"):
            raise RankingsError(f"on_missing is {on_missing!r}; expected 'compare' or 'control'.")
        self.on_missing = on_missing
        deadlines = deadline if isinstance(deadline, Mapping) else dict.fromkeys(self.retrievers, deadline)
        for name in deadlines:
            self._check_name("deadline", name)
        self.deadlines = {name: float(deadlines.get(name, 1.0)) for name in self.retrievers}
        if min(self.deadlines.values()) <= 0 or pending < 1:
            raise RankingsError("A deadline must be seconds above 0, and pending a number of calls from 1.")
        self.id_of = id_of
        self._pending = {name: threading.Semaphore(pending) for name in self.retrievers}

    def __call__(self, query: Any, *, seed: Seed = None, pinned: Mapping[int, Any] | None = None) -> ResultPage:
        """Call all retrievers in parallel and return the page.

        seed, pinned: as in `Method.combine`; pinned values are documents or ids. Awaitables run in their own event
        loops; use `search_async` for a client that belongs to a running loop.
        """
        started = time.monotonic()
        calls = {name: self._start(name, query, _finish) for name in self.retrievers}
        answers: dict[str, Any] = {}
        for name, call in calls.items():
            wait([call], max(started + self.deadlines[name] - time.monotonic(), 0.0))
            answers[name] = (call.exception() or call.result()) if call.done() else self._late(name)
        return self._page(answers, seed, pinned)

    async def search_async(
        self, query: Any, *, seed: Seed = None, pinned: Mapping[int, Any] | None = None
    ) -> ResultPage:
        """Do the same in a running event loop: await awaitables there, and call blocking retrievers in threads."""

        async def ask(name: str) -> Any:
            try:
                async with asyncio.timeout(self.deadlines[name]) as limit:
                    retriever = self.retrievers[name]
                    if _is_async(retriever):
                        return list(await retriever(query))  # type: ignore[misc]
                    found = await asyncio.wrap_future(self._start(name, query, _leave))
                    return list(await found) if inspect.isawaitable(found) else found
            except Exception as error:
                return self._late(name) if limit.expired() else error

        answers = await asyncio.gather(*(ask(name) for name in self.retrievers))
        return self._page(dict(zip(self.retrievers, answers, strict=True)), seed, pinned)

    def _start(self, name: str, query: Any, finish: Callable[[Any], Any]) -> "Future[Any]":
        """Call a retriever in a thread that does not keep the process alive."""
        call: Future[Any] = Future()
        call.set_running_or_notify_cancel()  # a thread cannot be cancelled
        gate = self._pending[name]
        if not gate.acquire(blocking=False):
            call.set_exception(RankingsError("too many calls are still running"))
            return call

        def run() -> None:
            try:
                try:
                    answer = finish(self.retrievers[name](query))
                finally:
                    gate.release()
                call.set_result(answer)
            except BaseException as error:  # a thread cannot raise to its caller
                call.set_exception(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run,), daemon=True, name=f"multisearch-{name}").start()
        return call

    def _late(self, name: str) -> RankingsError:
        return RankingsError(f"no answer within {self.deadlines[name]:g} s")

    def _page(self, answers: Mapping[str, Any], seed: Seed, pinned: Mapping[int, Any] | None) -> ResultPage:
        missing: dict[str, str] = {}
        rankings: dict[str, list[Hashable] | None] = dict.fromkeys(answers)
        documents: dict[Hashable, Any] = {}
        for name, answer in answers.items():
            try:
                if isinstance(answer, BaseException):
                    raise answer
                found = {self.id_of(document): document for document in answer}
                if len(found) < len(answer):
                    raise RankingsError("listed a document twice")
                if not found:
                    raise RankingsError(NOTHING)
            except RankingsError as error:
                missing[name] = str(error)
            except Exception as error:
                missing[name] = f"{type(error).__name__}: {error}"
            else:
                rankings[name] = list(found)
                documents = found | documents
        if len(missing) == len(answers) and NOTHING not in missing.values():
            reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
            raise RankingsError(f"No ranker answered: {reasons}.")
        pins = {position: self.id_of(document) for position, document in (pinned or {}).items()}
        documents |= {self.id_of(document): document for document in (pinned or {}).values()}
        impression, shown, fallback = combine_answers(
            self.method,
            rankings,
            self.k,
            control=self.control,
            compare=not missing or self.on_missing == "compare",
            seed=seed,
            pinned=pins,
        )
        return ResultPage(tuple(documents[d] for d in shown), shown, impression, missing, fallback)

    def _check_name(self, what: str, name: str) -> None:
        if name not in self.retrievers:
            raise RankingsError(
                f"{what} names {name!r}; the rankers are {', '.join(self.retrievers)}.{nearest(name, self.retrievers)}"
            )


def combine_answers(
    method: Method,
    rankings: Mapping[str, Sequence[Hashable] | None],
    k: int,
    *,
    control: str,
    compare: bool = True,
    seed: Seed = None,
    pinned: Mapping[int, Hashable] | None = None,
) -> tuple[Impression | None, tuple[Hashable, ...], str | None]:
    """Combine rankings, None for a missing one; return the impression, what to show, and whose list a fallback is.

    compare: if False, or if fewer than two rankings are there, show the control's list, or else the first.

    >>> from multileave import TeamDraft
    >>> combine_answers(TeamDraft(), {"bm25": None, "dense": ["a", "b", "c"]}, 3, control="bm25", pinned={1: "ad"})
    (None, ('a', 'ad', 'b'), 'dense')
    """
    present = {name: ranking for name, ranking in rankings.items() if ranking}
    if compare and len(present) > 1:
        impression = method.combine(rankings, k, seed=seed, pinned=pinned, propensities=method.keeps_propensities)
        return impression, impression.shown, None
    name = control if control in present else next(iter(present), None)
    return None, tuple(with_pins(present.get(name or "", ()), pinned or {}, k)), name


def _finish(result: Any) -> list[Any]:
    """Return all results of a retriever, in its own thread."""
    return list(asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result)


def _leave(result: Any) -> Any:
    """Return all results of a retriever, or an awaitable for the calling loop."""
    return result if inspect.isawaitable(result) else list(result)


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _is_async(retriever: Retriever) -> bool:
    return inspect.iscoroutinefunction(retriever) or inspect.iscoroutinefunction(getattr(retriever, "__call__", None))  # noqa: B004


def _possible_ids(document: Any) -> Iterator[Any]:
    """Yield what may be the id of a document, in this order."""
    yield document
    for holder in (document, _part(document, "metadata"), _part(document, "meta")):
        yield from (_part(holder, name) for name in ID_NAMES)


def _part(holder: Any, name: str) -> Any:
    if isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)
