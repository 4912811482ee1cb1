"""Forms: an experiment's definition as fields of a form, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multileave.live.errors import Invalid
from multileave.live.experiment import Definition
from multileave.methods import get_method, methods

__all__ = ["MethodChoice", "definition_of", "fields_of", "method_choices", "number", "setting_of"]

LONGEST_FIELD = 20_000
HOUR = 3600.0
EMPTY = {
    "name": "", "rankers": "", "control": "", "method": get_method("recommended").name, "parameters": "",
    "k": "10", "pages": "1", "actions": "click",
    "dwell": "30", "unit": "user", "confidence": "95", "window": "24", "group": "", "share": "100",
    "hash_units": "yes", "keep_queries": "", "retention": "",
}  # fmt: skip


@dataclass(frozen=True)
class MethodChoice:
    """A method that can be chosen, with words about it."""

    name: str
    words: str


def method_choices() -> list[MethodChoice]:
    """Return the methods, recommended ones first."""
    known = sorted(methods().items(), key=lambda item: not item[1].recommended)
    return [
        MethodChoice(
            name,
            f"{name}: {method.title}"
            + (", recommended" if method.recommended else "")
            + (f", for {method.most_rankers} rankers" if method.most_rankers is not None else ""),
        )
        for name, method in known
    ]


def fields_of(definition: Definition | None) -> dict[str, str]:
    """Return the fields of a form that holds a definition, or nothing yet."""
    if definition is None:
        return dict(EMPTY)
    method, _, rest = definition.method.partition("(")
    return {
        "name": definition.name,
        "rankers": "\n".join(definition.rankers),
        "control": definition.control,
        "method": method,
        "parameters": rest.removesuffix(")"),
        "k": str(definition.k),
        "pages": str(definition.pages),
        "actions": "\n".join(definition.actions),
        "dwell": _short(definition.dwell),
        "unit": definition.unit,
        "confidence": _short(100 * definition.confidence),
        "window": _short(definition.window / HOUR),
        "group": definition.group or "",
        "share": _short(100 * definition.share),
        "hash_units": "yes" if definition.hash_units else "",
        "keep_queries": "yes" if definition.keep_queries else "",
        "retention": "" if definition.retention_days is None else _short(definition.retention_days),
    }


def definition_of(form: Mapping[str, str]) -> Definition:
    """Return the definition that a form holds, checked.

    >>> definition_of({"name": "Autumn", "rankers": "bm25\\nltr", "share": "10"}).to_dict()["share"]
    0.1
    """
    given = {**EMPTY, "hash_units": "", **{name: text.strip() for name, text in form.items() if name in EMPTY}}
    for name, text in given.items():
        if len(text) > LONGEST_FIELD:
            raise Invalid(f"{name} has {len(text):,} characters; expected at most {LONGEST_FIELD:,}.")
    rankers = _lines(given["rankers"])
    parameters = given["parameters"]
    values: dict[str, Any] = {
        "name": given["name"],
        "rankers": rankers,
        "control": given["control"] or next(iter(rankers), ""),
        "method": f"{given['method']}({parameters})" if parameters else given["method"],
        "k": _whole("k", given["k"]),
        "pages": _whole("pages", given["pages"]),
        "actions": _lines(given["actions"]),
        "dwell": number("dwell", given["dwell"]),
        "unit": given["unit"],
        "confidence": number("confidence", given["confidence"]) / 100,
        "window": number("window", given["window"]) * HOUR,
        "group": given["group"] or None,
        "share": number("share", given["share"]) / 100,
        "hash_units": bool(given["hash_units"]),
        "keep_queries": bool(given["keep_queries"]),
        "retention_days": number("retention", given["retention"]) if given["retention"] else None,
    }
    return Definition.from_dict(values)


def setting_of(message: str) -> str | None:
    """Return the field that a refusal speaks of, if it names one first."""
    word = message.partition(" ")[0].removesuffix("_days")
    return word if word in EMPTY else None


def number(field: str, text: str) -> float:
    """Return the number that was typed into a field."""
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{field} is {text[:40]!r}; expected a number.") from None


def _whole(field: str, text: str) -> int:
    try:
        return int(text[:40])
    except ValueError:
        raise Invalid(f"{field} is {text[:40]!r}; expected a whole number.") from None


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _short(value: float) -> str:
    return f"{value:.10g}"
