"""Impression: what was shown to a user, and all that inference needs.

Nothing is remembered elsewhere, so a log line from last month, read on another machine, infers the same.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from multileave.errors import ImpressionError
from multileave.rankings import with_pins
from multileave.written import Written

FORMAT_VERSION = 1
ALONE = "alone"  # the method of a page that shows one ranker's own list
ABSENT = 2**31 - 1  # the rank of a document in a ranking that does not hold it: after all others

Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"


@dataclass(frozen=True, eq=False, slots=True)
class Impression:
    """A result list with everything that inference needs.

    rankers: the names of the R rankers.
    method: the method with all its parameters, as `get_method` reads it.
    k: the requested length, without pinned slots.
    shown: the ids the user sees, best first, including pinned ones.
    hidden: ids that were drawn after the last visible one and not shown (ppm: one).
    pinned: (position, id) of results that took no part in the comparison.
    lengths: int32 (R,), how many documents each ranker returned; 0 if it did not answer and takes no part.
    ranks: int32 (m, R), the rank from 1 of each drawn document (shown, then hidden, without pinned) in every ranking,
        ABSENT if the ranking lacks it; (0, R) for methods that do not need ranks.
    note: int32 (m,), the method's note on each drawn document (tdm: its team, ppm: the number of choices; on a page of
        one ranker alone: 0 if it is the ranker's, -1 if that returned nothing and others' were shown), or (0,).
    stat: figures of the draw worth keeping (om: the slack and the number of lists; rpm and tdm: the shown
        documents' propensities, if asked to keep them).
    """

    rankers: tuple[str, ...]
    method: str
    k: int
    shown: tuple[Hashable, ...]
    hidden: tuple[Hashable, ...]
    pinned: tuple[tuple[int, Hashable], ...]
    lengths: Ints
    ranks: Ints
    note: Ints
    stat: tuple[float, ...]

    _propensities: ClassVar[Callable[["Impression"], "np.ndarray[Any, np.dtype[np.float64]] | None"]]
    """Set by `methods.base`, as impressions do not know methods."""

    def propensity(self, document: Hashable) -> float:
        """Return the probability that the method shows this document at the rank where it is shown, given the rankings.

        >>> from multileave import PairwisePreference
        >>> impression = PairwisePreference().combine({"bm25": "abc", "dense": "bca"}, k=2, seed=1)
        >>> impression.shown, [impression.propensity(document) for document in impression.shown]
        (('b', 'c'), [0.5, 0.5])
        """
        visible = self.drawn[: len(self.shown) - len(self.pinned)]
        if document not in visible:
            raise ImpressionError(
                f"Document {document!r} has no propensity: it was not drawn for this page. Drawn were "
                f"{', '.join(map(repr, visible[:10]))}{', ...' if len(visible) > 10 else ''}."
            )
        found = Impression._propensities(self)
        if found is None:
            raise ImpressionError(
                f"The propensities of {self.method} are unknown for this impression of {len(self.rankers)} rankers: "
                "the method has no closed form for them, a ranker returned nothing, or they were not kept with the "
                "draw. Use ppm, dpm or opm, which need not keep them, or combine(..., propensities=True) with rpm for "
                "at most six rankers, or with tdm for two."
            )
        return float(found[visible.index(document)])

    @classmethod
    def alone(
        cls,
        ranker: str,
        ranking: Sequence[Hashable],
        k: int,
        *,
        pinned: Mapping[int, Hashable] | None = None,
        fallback: Sequence[Hashable] = (),
    ) -> "Impression":
        """Return a page with one ranker's own list, as users in an arm of an A/B test see it. It compares nothing.

        k: the length of the page, with pinned results. fallback: what is shown if the ranker returned nothing; the page
        counts for its arm all the same, since leaving it out would favour rankers that fail on hard queries.

        >>> Impression.alone("bm25", ["d1", "d2", "d3"], k=2).shown
        ('d1', 'd2')
        """
        own, documents = tuple(ranking), tuple(ranking or fallback)
        if isinstance(ranking, str) or len(set(documents)) < len(documents):
            raise ImpressionError(
                f"The ranking of {ranker!r} is not a list of different documents. Pass each document id once."
            )
        if type(k) is not int or k < 1:
            raise ImpressionError(f"k is {k!r}; expected the length of the page, an integer from 1.")
        held = set((pinned or {}).values())
        places = all(type(position) is int and 0 <= position < k for position in pinned or {})
        if len(held) < len(pinned or {}) or not places:
            raise ImpressionError(
                f"pinned is {pinned!r}; expected positions 0 to {k - 1} mapped to different documents."
            )
        shown = tuple(with_pins(documents, pinned or {}, k))
        fixed = tuple((position, document) for position, document in enumerate(shown) if document in held)
        lengths = np.array([len(own)], dtype=np.int32)
        note = np.full(len(shown) - len(fixed), 0 if own else -1, dtype=np.int32)
        ranks = np.zeros((0, 1), dtype=np.int32)
        return cls((ranker,), ALONE, k - len(fixed), shown, (), fixed, lengths, ranks, note, ())

    @property
    def arm(self) -> str | None:
        """The ranker whose own page this is, None if the impression compares rankers."""
        return self.rankers[0] if self.method == ALONE else None

    @property
    def drawn(self) -> tuple[Hashable, ...]:
        """The drawn documents in order: shown, without pinned, then hidden."""
        if not self.pinned:
            return self.shown + self.hidden
        fixed = {position for position, _ in self.pinned}
        return tuple(d for position, d in enumerate(self.shown) if position not in fixed) + self.hidden

    def until(self, delivered: int) -> "Impression":
        """Return the impression of a user who received only the first `delivered` results, such as the first page.

        As many documents stay hidden as were hidden in the whole list. For a fixed number, such as the first page,
        inference is as good as from the whole list. If users decide how much they receive, infer from the whole list
        and treat the rest as unclicked: guarantees for users who stop need that.

        >>> from multileave import PairwisePreference
        >>> whole = PairwisePreference().combine({"bm25": "abcdef", "dense": "fedcba"}, k=4, seed=1)
        >>> whole.until(2).shown == whole.shown[:2], whole.until(2).hidden == whole.shown[2:3]
        (True, True)
        """
        if delivered >= len(self.shown):
            return self
        drawn = self.drawn
        pinned = tuple((position, document) for position, document in self.pinned if position < delivered)
        visible = delivered - len(pinned)
        m = visible + len(self.hidden)
        return replace(
            self,
            k=visible,
            shown=self.shown[:delivered],
            hidden=drawn[visible:m],
            pinned=pinned,
            ranks=self.ranks[:m],
            note=self.note[:m],
        )

    def among(self, rankers: Sequence[str], *, note_is_ranker: bool) -> "Impression":
        """Return the impression for more rankers, which returned nothing, or for fewer.

        note_is_ranker: the method's notes are positions of rankers, and change as well.
        """
        here = {name: position for position, name in enumerate(self.rankers)}
        lengths = np.zeros(len(rankers), dtype=np.int32)
        ranks = np.full((len(self.ranks), len(rankers)), ABSENT, dtype=np.int32)
        moved = np.full(len(self.rankers) + 1, -1, dtype=np.int32)  # the last is for no ranker
        for place, name in enumerate(rankers):
            if name in here:
                lengths[place] = self.lengths[here[name]]
                ranks[:, place] = self.ranks[:, here[name]]
                moved[here[name]] = place
        note = moved[self.note] if note_is_ranker else self.note
        return replace(self, rankers=tuple(rankers), lengths=lengths, ranks=ranks, note=note)

    def to_dict(self) -> dict[str, Any]:
        """Return the impression as plain values for JSON; absent documents have rank 0."""
        for document in (*self.shown, *self.hidden):
            if not isinstance(document, str | int | float | bool | None):
                raise ImpressionError(
                    f"Document {document!r} is a {type(document).__name__}; an impression can only be written if its "
                    "document ids are strings or numbers. Use str ids in the rankings."
                )
        ranks = np.where(self.ranks == ABSENT, 0, self.ranks)
        return {
            "version": FORMAT_VERSION,
            "method": self.method,
            "rankers": list(self.rankers),
            "k": self.k,
            "shown": list(self.shown),
            "hidden": list(self.hidden),
            "pinned": [[position, document] for position, document in self.pinned],
            "lengths": self.lengths.tolist(),
            "ranks": ranks.tolist(),
            "note": self.note.tolist(),
            "stat": list(self.stat),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Impression":
        """Return the impression that `to_dict` wrote, after validation."""
        written = Written(data, "impression", ImpressionError)
        written.check_version(FORMAT_VERSION)
        rankers = tuple(written.field("rankers", list))
        named = all(isinstance(name, str) for name in rankers)
        method = written.field("method", str)
        if method == ALONE:
            written.require("rankers", named and len(rankers) == 1, "one name")
        else:
            written.require("rankers", named and 2 <= len(rankers) == len(set(rankers)), "two or more distinct names")
        k = written.count("k")
        shown = tuple(written.field("shown", list))
        hidden = tuple(written.field("hidden", list))
        documents = (*shown, *hidden)
        plain = all(isinstance(d, str | int | float | bool | None) for d in documents)
        written.require("shown", plain, "document ids that are strings or numbers")
        written.require("shown", len(set(documents)) == len(documents), "every document once")
        pinned = tuple(_pin(pin, shown, written) for pin in written.field("pinned", list))
        written.require("pinned", len({position for position, _ in pinned}) == len(pinned), "every position once")
        drawn = len(documents) - len(pinned)
        visible = drawn - len(hidden)
        written.require("k", visible <= k, f"at least the {visible} documents shown")
        lengths = written.integers("lengths", (len(rankers),), most=ABSENT).astype(np.int32)
        ranks = _rows(written, "ranks", (drawn, len(rankers)), 0)
        if ranks.size:
            written.require("ranks", bool((ranks <= lengths).all()), "no rank beyond a ranking's length")
            written.require("ranks", bool(ranks.any(axis=1).all()), "every document in at least one ranking")
            present = [column[column > 0] for column in ranks.T]
            written.require("ranks", all(len(np.unique(p)) == len(p) for p in present), "every rank once in a ranking")
            ranks[ranks == 0] = ABSENT
        note = _rows(written, "note", (drawn,), -1)
        written.require("note", method != ALONE or len(note) == drawn, "one for each document")
        stat = written.field("stat", list)
        written.require("stat", all(isinstance(x, int | float) and not isinstance(x, bool) for x in stat), "numbers")
        return cls(rankers, method, k, shown, hidden, pinned, lengths, ranks, note, tuple(float(x) for x in stat))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Impression):
            return NotImplemented
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )

    def __hash__(self) -> int:
        return hash((self.rankers, self.method, self.shown, self.ranks.tobytes(), self.note.tobytes()))

    def __repr__(self) -> str:
        return f"Impression(method={self.method!r}, rankers={self.rankers!r}, shown={self.shown!r})"


def _pin(pin: Any, shown: tuple[Hashable, ...], written: Written) -> tuple[int, Hashable]:
    right = isinstance(pin, list | tuple) and len(pin) == 2 and type(pin[0]) is int
    right = right and 0 <= pin[0] < len(shown) and shown[pin[0]] == pin[1]
    written.require("pinned", right, "[position, document] for positions of 'shown'")
    return pin[0], pin[1]


def _rows(written: Written, name: str, shape: tuple[int, ...], least: int) -> Ints:
    """Return a row of integers for each drawn document, or none at all."""
    some = shape if written.field(name, list) else (0, *shape[1:])
    found: Ints = written.integers(name, some, least, ABSENT).astype(np.int32)
    return found
