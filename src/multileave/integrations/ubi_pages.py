"""Result pages and clicks from UBI logs, for fitting user models; see `multileave.integrations.ubi` for the format.

A query's page is its impression, if multileave combined the results, and otherwise `query_response_hit_ids`.
"""

from collections.abc import Mapping
from typing import Any

from multileave.integrations.ubi import ATTRIBUTE, Ubi, attributes_of, line_files, query_fields, unwrapped
from multileave.log.reader import RowError, short
from multileave.replay.clicked_pages import ClickedPages, read_pages
from multileave.replay.reading.files import Paths

__all__ = ["UbiPages", "read_ubi_pages"]


def read_ubi_pages(queries: Paths, events: Paths, *, first_ordinal: int = 1, **options: Any) -> ClickedPages:
    """Read pages and clicks from UBI queries and events, which may be in the same files.

    options: those of `multileave.replay.clicked_pages.read_pages`. The session is `session_id` in the query or its
    `query_attributes`, otherwise `client_id`, unless `unit` is given.
    """
    for paths in (queries, events):
        line_files(paths)
    return read_pages(queries, clicks=events, other=UbiPages(first_ordinal), **options)


class UbiPages(Ubi):
    """How UBI rows become pages."""

    def impression(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the page of a query, None for an event or a query without results."""
        row = unwrapped(raw)
        attributes = attributes_of(row, "query_attributes")
        if "action_name" in row:
            return None
        fields = query_fields(row, attributes)
        session = fields.get("session_id", fields.get("client_id"))
        if ATTRIBUTE in attributes:
            found = super().impression(raw)
            return None if found is None else {**found, "session_id": session}
        shown = row.get("query_response_hit_ids")
        if shown is None or shown == []:
            return None
        if not isinstance(shown, list):
            raise RowError(f"'query_response_hit_ids' is {short(shown)}; expected a list of document ids.")
        if row.get("query_id") in (None, ""):
            raise RowError("The query has no 'query_id', so no event can refer to it.")
        return {
            **fields,
            "impression_id": row["query_id"],
            "session": session,
            "query": row.get("user_query"),
            "shown": shown,
        }
