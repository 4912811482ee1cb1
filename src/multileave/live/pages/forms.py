"""Forms: an experiment's settings as the fields of a form, and back; all of it follows from `Definition`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from multileave.live.definition import FIELDSETS, Definition, Input
from multileave.live.errors import Invalid
from multileave.methods import get_method, methods

LONGEST_FIELD = 20_000
METHOD, PARAMETERS = "method", "parameters"  # the one setting with two fields


@dataclass(frozen=True)
class FormField:
    """A field of the form.

    kind: text, lines, counts (lines of numbers), shares (lines of names and numbers), whole, decimal, tick, choice or
        method.
    choices: of a choice.
    """

    name: str
    kind: str
    input: Input
    hint: str
    required: bool
    optional: bool
    choices: tuple[str, ...] = ()

    def text(self, value: Any) -> str:
        """Return a setting as the field shows it."""
        if isinstance(value, bool):
            return "yes" if value else ""
        if isinstance(value, tuple):
            return "\n".join(map(str, value))
        if isinstance(value, dict):
            return "\n".join(f"{name}: {self.text(share)}" for name, share in value.items())
        if isinstance(value, int | float):
            return f"{value * self.input.factor:.10g}"
        return value or ""

    def value(self, text: str) -> Any:
        """Return the setting that was typed."""
        if self.kind == "tick":
            return bool(text)
        if self.optional and not text:
            return None
        if self.kind in ("lines", "counts", "shares"):
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if self.kind == "shares":
                return self._shares(lines)
            return [whole_of(line) for line in lines] if self.kind == "counts" else lines
        if self.kind == "whole":
            return whole_of(text)
        return number_of(self.name, text) / self.input.factor if self.kind == "decimal" else text

    def _shares(self, lines: list[str]) -> dict[str, float]:
        found = {}
        for line in lines:
            name, _, share = line.rpartition(":")
            if not name.strip() or name.strip() in found:
                raise Invalid(f"{self.name} has the line {line[:100]!r}; expected one per ranker, such as bm25: 10.")
            found[name.strip()] = number_of(self.name, share.strip()) / self.input.factor
        return found


def _form_fields() -> dict[str, FormField]:
    found = {}
    hints, types = get_type_hints(Definition, include_extras=True), get_type_hints(Definition)
    kinds: dict[Any, str] = {bool: "tick", int: "whole", float: "decimal", str: "text"}
    for field in fields(Definition):
        arguments = get_args(types[field.name])
        choices = arguments if get_origin(types[field.name]) is Literal else ()
        plain = next((kind for kind in arguments if kind is not type(None)), None)
        kind = kinds.get(types[field.name]) or (
            ("counts" if plain is int else "lines") if Ellipsis in arguments else kinds.get(plain, "text")
        )
        kind = "choice" if choices else "shares" if get_origin(types[field.name]) is dict else kind
        form_input = next(extra for extra in hints[field.name].__metadata__ if isinstance(extra, Input))
        found[field.name] = FormField(
            field.name,
            METHOD if field.name == METHOD else kind,
            form_input,
            form_input.hint or Definition.__pydantic_fields__[field.name].description or "",  # type: ignore[attr-defined]
            required=field.default is MISSING and field.default_factory is MISSING,
            optional=type(None) in arguments,
            choices=choices,
        )
    return found


FIELDS = _form_fields()
UNTICKED = {name: "" for name, field in FIELDS.items() if field.kind == "tick"}  # browsers send no unticked boxes


def fieldsets_of() -> list[tuple[str, list[FormField]]]:
    """Return the fields of the form by fieldset."""
    return [(title, [field for field in FIELDS.values() if field.input.fieldset == title]) for title in FIELDSETS]


def texts_of(definition: Definition | None = None) -> dict[str, str]:
    """Return the text of every field, for a definition or for a new one."""
    if definition is None:
        defaults = {field.name: field.default for field in fields(Definition)}
        given = {name: None if value is MISSING else value for name, value in defaults.items()}
        given[METHOD] = get_method("recommended").name
    else:
        given = {name: getattr(definition, name) for name in FIELDS}
    texts = {name: field.text(given[name]) for name, field in FIELDS.items()}
    texts[METHOD], _, parameters = texts[METHOD].partition("(")
    return {**texts, PARAMETERS: parameters.removesuffix(")")}


def definition_of(form: Mapping[str, str]) -> Definition:
    """Return the definition that a form holds, checked; a field that was not sent has its default, a tick is off.

    >>> definition_of({"name": "Autumn", "rankers": "bm25\\nltr", "share": "10"}).share
    0.1
    """
    texts = {**texts_of(), **UNTICKED}
    texts.update({name: text.strip() for name, text in form.items() if name in texts})
    for name, text in texts.items():
        if len(text) > LONGEST_FIELD:
            raise Invalid(f"{name} has {len(text):,} characters; expected at most {LONGEST_FIELD:,}.")
    if texts[PARAMETERS]:
        texts[METHOD] += f"({texts[PARAMETERS]})"
    return Definition.from_dict({name: field.value(texts[name]) for name, field in FIELDS.items()})


def settings_of(definition: Definition) -> list[tuple[str, str]]:
    """Return every setting with its label, as people read it."""
    found = []
    for name, field in FIELDS.items():
        value = getattr(definition, name)
        text = ("yes" if value else "no") if field.kind == "tick" else field.text(value).replace("\n", ", ")
        found.append((field.input.label, f"{text} {field.input.unit}".strip() if text else "none"))
    return found


def method_choices() -> list[tuple[str, str]]:
    """Return the methods with a description each, recommended ones first."""
    known = sorted(methods().items(), key=lambda item: not item[1].recommended)
    return [
        (
            name,
            f"{name}: {method.title}"
            + (", recommended" if method.recommended else "")
            + (f", for {method.most_rankers} rankers" if method.most_rankers is not None else ""),
        )
        for name, method in known
    ]


def whole_of(text: str) -> int | str:
    """Return the whole number that was typed, or the text, for the definition to refuse."""
    return int(text) if text.lstrip("+-").isdecimal() and len(text) < 20 else text[:40]


def number_of(field: str, text: str) -> float:
    """Return the number that was typed into a field."""
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{field} is {text[:40]!r}; expected a number.") from None
