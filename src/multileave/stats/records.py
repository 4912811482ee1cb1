"""Records: dataclasses from whose fields JSON, tables and HTTP responses follow.

A statistic is declared once, as a field with a description or as a property with a docstring that the record names in
`DERIVED`. `reported_fields` tells the type and the description of each, in the order in which they are reported.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple, dataclass_transform, get_type_hints


class ReportedField(NamedTuple):
    """What is reported under a name: its type, as in annotations, and what it means."""

    type: Any
    description: str


def about(
    text: str,
    *,
    default: Any = MISSING,
    reported: bool = True,
    last: bool = False,
    column: tuple[str, str] | None = None,
) -> Any:
    """Return a field of a record with a description.

    reported: whether it is part of JSON; last: after derived properties. column: its heading in a table and how it is
    printed there, see `verdict.wording`.
    """
    meaning = {"description": text, "reported": reported, "last": last, "column": column}
    return field(default=default, metadata=meaning)


@dataclass_transform(field_specifiers=(about,), frozen_default=True)
class Record:
    """A class whose subclasses are frozen dataclasses that report their fields."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def to_dict(self) -> dict[str, Any]:
        """Return what is reported as plain values that JSON can hold."""
        cls: Any = type(self)
        return {name: _plain(getattr(self, name)) for name in reported_fields(cls)}


@cache
def reported_fields(record: type) -> Mapping[str, ReportedField]:
    """Return what records of a class report: fields, then properties in `DERIVED`, then fields that come last."""
    hints = get_type_hints(record)
    found: list[dict[str, ReportedField]] = [{}, {}, {}]
    for one in fields(record):
        if one.metadata.get("reported", True):
            place = found[2 if one.metadata.get("last") else 0]
            place[one.name] = ReportedField(hints[one.name], one.metadata.get("description", ""))
    for name in getattr(record, "DERIVED", ()):
        getter = getattr(record, name).fget
        found[1][name] = ReportedField(get_type_hints(getter)["return"], getter.__doc__.partition("\n")[0])
    return found[0] | found[1] | found[2]


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
