"""The table that the parts fill, printed line by line and written into docs/verdicts.md, a table for each part."""

import math
import re
from pathlib import Path

ROWS: list[dict[str, object]] = []


def share(count: int, of: int) -> str:
    """Return a percentage with its standard error."""
    p = count / of
    return f"{100 * p:5.1f} % ± {100 * math.sqrt(max(p * (1 - p), 1e-9) / of):.1f}"


def report(part: str, what: str, found: str, wanted: str = "", held: bool | None = None) -> None:
    """Print one line of the table."""
    held = None if held is None else bool(held)  # NumPy's bool is not JSON
    ROWS.append({"part": part, "what": what, "found": found, "wanted": wanted, "held": held})
    print(f"{part:<13} {what:<66} {found:<18} {wanted:<14} {mark(held)}", flush=True)


def mark(held: object) -> str:
    return {True: "yes", False: "NO", None: ""}[held]


def write(page: Path, part: str, rows: list[dict[str, object]]) -> None:
    """Replace a part's table in a page of Markdown: what is between its two comments."""
    lines = ["| what | found | target | met |", "|---|---|---|---|"]
    lines += [
        f"| {row['what']} | {str(row['found']).strip()} | {row['wanted']} | {mark(row['held'])} |" for row in rows
    ]
    text = page.read_text()
    place = re.compile(f"(<!-- calibration {part} -->\\n).*?(<!-- end of calibration -->)", re.DOTALL)
    if not place.search(text):
        raise SystemExit(
            f"{page} has no place for {part!r}; add <!-- calibration {part} --> and <!-- end of calibration -->."
        )
    page.write_text(place.sub(lambda found: found[1] + "\n" + "\n".join(lines) + "\n\n" + found[2], text))
