"""Impressions: what each ranker contributed to one list, as a table."""

from dataclasses import dataclass

from multileave.live.records import DocumentDetail, ImpressionDetail
from multileave.methods import get_method

__all__ = ["DocumentRow", "ImpressionPage", "impression_page"]

NOTES = {"tdm": "team", "ppm": "choices", "dpm": "choices", "opm": "choices", "rpm": "round"}


@dataclass(frozen=True)
class DocumentRow:
    """A shown or hidden document: its rank in every ranking, and what users did with it."""

    place: str
    document: str
    kind: str
    ranks: tuple[tuple[int | None, bool], ...]
    note: str
    actions: tuple[str, ...]


@dataclass(frozen=True)
class ImpressionPage:
    """An impression as its page shows it; note: what the method's note on a document means, in one word."""

    detail: ImpressionDetail
    method: str
    sentence: str
    note: str | None
    documents: tuple[DocumentRow, ...]
    preferences: tuple[tuple[str, tuple[str | None, ...]], ...]


def impression_page(detail: ImpressionDetail) -> ImpressionPage:
    """Return what the page of an impression shows."""
    method = get_method(detail.method)
    note = NOTES.get(method.name) if method.keeps_note else None
    documents = tuple(_document(document, detail, note) for document in detail.documents)
    return ImpressionPage(detail, str(method), _sentence(detail), note, documents, _matrix(detail))


def _document(document: DocumentDetail, detail: ImpressionDetail, note: str | None) -> DocumentRow:
    ranks = [document.ranks.get(name) for name in detail.rankers]
    best = min((rank for rank in ranks if rank is not None), default=None)
    kind = "pinned" if document.pinned else "hidden" if document.hidden else ""
    marked = tuple((rank, rank is not None and rank == best) for rank in ranks)
    return DocumentRow(
        "" if document.hidden else str(document.position + 1),
        str(document.document),
        kind,
        marked,
        _note(document.note, detail, note),
        document.actions,
    )


def _note(value: int | None, detail: ImpressionDetail, note: str | None) -> str:
    if value is None or note is None:
        return ""
    if note == "team":
        return detail.rankers[value] if 0 <= value < len(detail.rankers) else "none (all agree)"
    return str(value)


def _sentence(detail: ImpressionDetail) -> str:
    """Return which rankers this impression prefers, in words."""
    if detail.preferences is None:
        return "Nothing can be inferred from this impression."
    totals = [sum(row) for row in detail.preferences]
    order = sorted(range(len(totals)), key=lambda n: -totals[n])
    if not any(value for row in detail.preferences for value in row):
        return "This impression prefers no ranker." if detail.events else "No clicks, so no ranker is preferred."
    return "Mean preference over the other rankers: " + ", ".join(
        f"{detail.rankers[n]} {_signed(totals[n] / max(len(totals) - 1, 1))}" for n in order
    )


def _matrix(detail: ImpressionDetail) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    if detail.preferences is None:
        return ()
    return tuple(
        (name, tuple(None if n == m else _signed(value) for m, value in enumerate(row)))
        for n, (name, row) in enumerate(zip(detail.rankers, detail.preferences, strict=True))
    )


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−") if value else "0"
