"""The events of a batch: which of them count, for which action, and on which position."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from multileave.kernels import kernel
from multileave.stats.rates.values import split_action

Array: TypeAlias = "np.ndarray[Any, Any]"

SATISFIED = "satisfied"
EVENTS = ("not_shown", "duplicate", "unused", "counted")  # what becomes of an event
FEW = 32  # events of a row that are compared with each other to find duplicates; more are sorted


@dataclass(frozen=True)
class Actions:
    """Which events count; each action gets its own verdict.

    names: "click", "cart", "purchase" or any other name in the log; "satisfied" is a click with at
        least `dwell` seconds on the document. "purchase:value" adds up the values of purchases (`stats.rates.values`).
    window: how long after its impression an event counts, in microseconds; None for any time.
    whole_pages: whether impressions hold all that was shown, so that exposure balance can be checked.
    rates: whether to estimate what each ranker would earn alone; needs whole pages.
    """

    names: tuple[str, ...] = ("click",)
    dwell: float = 30.0
    window: int | None = None
    whole_pages: bool = True
    rates: bool = True

    @property
    def bases(self) -> tuple[str, ...]:
        """The actions whose events count, one for each name."""
        return tuple(split_action(name)[0] for name in self.names)

    @property
    def valued(self) -> int:
        """Bit a is set if names[a] adds up values."""
        return sum(1 << place for place, name in enumerate(self.names) if split_action(name)[1])


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a batch; those of row i are offsets[i] to offsets[i + 1]."""

    offsets: Array  # int32 (n + 1,)
    positions: Array  # int32, -1 for a document that was not shown
    masks: Array  # uint32, bit a for actions.names[a]
    codes: Array  # int32, the action, to find duplicates
    times: Array  # int64, -2**62 if unknown
    again: Array  # uint8, whether it is a duplicate; set for rows of more than FEW
    values: Array  # float64, what it is worth, NaN if unknown
    late: int
    undated: int

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What the kernels read."""
        return self.offsets, self.positions, self.masks, self.codes, self.times, self.again


def read_events(batch: pa.RecordBatch, actions: Actions) -> Events:
    """Return the events of prepared rows; documents without a position are looked up in what was shown."""
    lists = batch.column("clicks")
    offsets = lists.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    events = lists.values.slice(first, last - first)
    offsets = offsets - np.int32(first)
    document, position, action, time, dwell, value = (events.field(x) for x in range(6))
    given = position.fill_null(0).to_numpy(zero_copy_only=False)
    positions = np.where(given < 0, np.int32(-2), given)
    if position.null_count:
        positions[position.is_null().to_numpy(zero_copy_only=False)] = -1
        shown = batch.column("documents")
        _find_documents(
            offsets, positions, *strings(document),
            shown.offsets.to_numpy(), *strings(shown.values),
        )  # fmt: skip
    coded = action.fill_null("click").dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    names = coded.dictionary.to_pylist()
    bits = np.array(
        [sum(1 << a for a, wanted in enumerate(actions.bases) if wanted == name) for name in names] or [0],
        dtype=np.uint32,
    )
    masks = bits[codes] if len(codes) else np.zeros(0, dtype=np.uint32)
    if SATISFIED in actions.bases and "click" in names:
        stayed = dwell.fill_null(-1.0).to_numpy(zero_copy_only=False) >= actions.dwell
        satisfied = sum(1 << a for a, base in enumerate(actions.bases) if base == SATISFIED)
        masks[stayed & (codes == names.index("click"))] |= np.uint32(satisfied)
    times = time.fill_null(-(2**62)).to_numpy(zero_copy_only=False)
    late = undated = 0
    if actions.window is not None and len(times):
        shown_at = batch.column("time")
        dated = shown_at.is_valid().to_numpy(zero_copy_only=False)
        start = np.repeat(shown_at.fill_null(0).to_numpy(zero_copy_only=False), np.diff(offsets))
        known = np.repeat(dated, np.diff(offsets)) & time.is_valid().to_numpy(zero_copy_only=False)
        after = known & (times - np.where(known, start, times) > actions.window)
        late, undated = int(after.sum()), int((~known).sum())
        masks[after | ~known] = 0
    values = value.fill_null(np.nan).to_numpy(zero_copy_only=False)
    again = _repeats(offsets, positions, codes, times)
    return Events(offsets, positions, masks, codes, times, again, values, late, undated)


def _repeats(offsets: Array, positions: Array, codes: Array, times: Array) -> Array:
    """Return which events of rows with many repeat an earlier one, with the same position, action and time."""
    again = np.zeros(len(positions), dtype=np.uint8)
    sizes = np.diff(offsets)
    many = sizes > FEW
    if many.any():
        events = np.flatnonzero(np.repeat(many, sizes))
        rows = np.repeat(np.arange(len(sizes)), sizes)[events]
        keys = (times[events], codes[events], positions[events], rows)
        order = np.lexsort(keys)  # stable, so that the first of equals stays the first
        same = np.ones(len(order) - 1, dtype=bool)
        for key in keys:
            same &= np.diff(key[order]) == 0
        again[events[order[1:][same]]] = 1
    return again


def strings(strings: pa.StringArray) -> tuple[Array, Array]:
    """Return offsets and bytes of a string array; a null is empty."""
    _, offsets, data = strings.buffers()
    if offsets is None or not len(strings):
        return np.zeros(len(strings) + 1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    where = np.frombuffer(offsets, dtype=np.int32)[strings.offset : strings.offset + len(strings) + 1]
    return where, np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)


@kernel
def count_events(events, row, page, counts):  # type: ignore[no-untyped-def]
    """Count what becomes of a row's events; return the actions of those that count, as bits."""
    offsets, positions, masks, codes, times, repeats = events
    first, last = offsets[row], offsets[row + 1]
    used = np.uint32(0)
    for event in range(first, last):
        again = repeats[event] != 0
        if last - first <= FEW:
            for before in range(first, event):
                again = again or (
                    positions[before] == positions[event]
                    and codes[before] == codes[event]
                    and times[before] == times[event]
                )
        if positions[event] < 0 or positions[event] >= page:
            counts[0] += 1
        elif again:
            counts[1] += 1
        elif masks[event] == 0:
            counts[2] += 1
        else:
            counts[3] += 1
            used |= masks[event]
    return used


@kernel
def mark_clicks(events, row, bit, pinned, page, clicked):  # type: ignore[no-untyped-def]
    """Mark the drawn documents of a row that have an event of an action; return how many. bit: that of the action."""
    offsets, positions, masks = events[0], events[1], events[2]
    for x in range(len(clicked)):
        clicked[x] = 0
    number = 0
    for event in range(offsets[row], offsets[row + 1]):
        position = positions[event]
        if masks[event] & bit == 0 or position < 0 or position >= page:
            continue
        shift = 0
        is_pinned = False
        for x in range(len(pinned)):
            is_pinned = is_pinned or pinned[x] == position
            shift += pinned[x] < position
        if not is_pinned and clicked[position - shift] == 0:
            clicked[position - shift] = 1
            number += 1
    return number


@kernel
def _find_documents(offsets, positions, name_at, names, shown_at, id_at, ids):  # type: ignore[no-untyped-def]
    """Replace the position -1 of events by that of their document, if it was shown."""
    for row in range(len(offsets) - 1):
        for event in range(offsets[row], offsets[row + 1]):
            if positions[event] != -1:
                continue
            start, size = name_at[event], name_at[event + 1] - name_at[event]
            for place in range(shown_at[row], shown_at[row + 1]):
                if id_at[place + 1] - id_at[place] != size:
                    continue
                same = True
                for x in range(size):
                    same = same and ids[id_at[place] + x] == names[start + x]
                if same:
                    positions[event] = place - shown_at[row]
                    break
