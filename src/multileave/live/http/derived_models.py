"""Derived models: pydantic models that follow from the records they describe.

A setting added to `Definition`, or a statistic added to a verdict, a pair or the health in `multileave.stats`, is in
requests, responses and OpenAPI without a change here.
"""

from dataclasses import fields, is_dataclass
from inspect import getattr_static
from typing import Any, get_args, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, create_model

from multileave.live.experiment import Definition, Experiment
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow
from multileave.stats.verdict.rules import Rules

__all__ = ["Changes", "ExperimentAnswer", "HealthModel", "VerdictModel", "experiment_answer", "model_of"]


def model_of(record: Any) -> type[BaseModel]:
    """Return a model of what a record's `to_dict` returns: names from there, types from its fields and properties."""
    hints = _hints(record)
    found = {name: (_json_type(hints.get(name, Any), getattr(record, name, None)), ...) for name in record.to_dict()}
    kind = type(record)
    return create_model(kind.__name__, __doc__=kind.__doc__.partition("\n    >>>")[0], **found)  # type: ignore[call-overload, no-any-return, union-attr]


def _hints(record: Any) -> dict[str, Any]:
    """Return the types of a record's fields and properties, and of the fields of records it holds."""
    hints = get_type_hints(type(record))
    for name in record.to_dict():
        attribute = getattr_static(type(record), name, None)
        if isinstance(attribute, property):
            hints[name] = get_type_hints(attribute.fget).get("return", Any)
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value) and not hasattr(value, "to_dict"):
            hints = {**get_type_hints(type(value)), **hints}
    return hints


def _json_type(hint: Any, value: Any) -> Any:
    """Return the type of a value in JSON, where numbers that are not finite are null."""
    if hasattr(value, "to_dict"):
        model = model_of(value)
        return model | None if type(None) in get_args(hint) else model
    if isinstance(value, tuple) and value and hasattr(value[0], "to_dict"):
        return list[model_of(value[0])]  # type: ignore[misc]
    return float | None if hint is float else hint


def _sample_verdict() -> Any:
    tally = GroupedTally(("first", "second"))
    for _ in range(2):
        tally.change(None, UnitRow(1, 0, np.zeros(1)))
    return tally.verdict(Rules(interval="anytime"))


VerdictModel = model_of(_sample_verdict())
HealthModel = get_args(VerdictModel.model_fields["health"].annotation)[0]

STATE = ("number", "version", "parent", "status", "created", "started", "stopped")
_settings = get_type_hints(Definition, include_extras=True)
_state = get_type_hints(Experiment, include_extras=True)

ExperimentAnswer = create_model(  # type: ignore[call-overload]
    "Experiment",
    __doc__="An experiment: its state and its settings.",
    **{name: (_state[name], ...) for name in STATE},
    **{field.name: (_settings[field.name], ...) for field in fields(Definition)},
)


def experiment_answer(experiment: Experiment) -> dict[str, Any]:
    """Return the values of an `ExperimentAnswer`."""
    return {**{name: getattr(experiment, name) for name in STATE}, **experiment.definition.to_dict()}


def _leave_out_defaults(schema: dict[str, Any]) -> None:
    """What is not sent is not changed, so that no client may fill in a default."""
    for described in schema["properties"].values():
        described.pop("default", None)
    schema["examples"] = [{"share": 0.5}]


Changes = create_model(  # type: ignore[call-overload]
    "Changes",
    __doc__="Settings of an experiment to be changed.",
    __config__=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, json_schema_extra=_leave_out_defaults),
    **{field.name: (_settings[field.name], None) for field in fields(Definition)},
)
