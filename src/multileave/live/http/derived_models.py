"""Derived models: pydantic models that follow from the records they describe.

A setting added to `Definition`, or a statistic added to a verdict, a pair or the health in `multileave.stats`, is in
requests, responses and OpenAPI without a change here.
"""

from dataclasses import fields, is_dataclass
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from multileave.live.definition import Definition
from multileave.live.experiment import Experiment
from multileave.stats import Health, Verdict
from multileave.stats.arms import Agreement, ArmVerdict
from multileave.stats.records import reported_fields
from multileave.stats.verdict.interactions import Interaction


def model_of(record: type) -> type[BaseModel]:
    """Return a model of what a record of `multileave.stats` reports in JSON."""
    found = {
        name: (_json_type(one.type), Field(description=one.description))
        for name, one in reported_fields(record).items()
    }
    about = (record.__doc__ or "").partition("\n    >>>")[0]
    return create_model(record.__name__, __doc__=about, **found)  # type: ignore[call-overload, no-any-return]


def _json_type(hint: Any) -> Any:
    """Return the type of a value in JSON, where numbers that are not finite are null."""
    if hint is float:
        return float | None
    if is_dataclass(hint):
        return model_of(cast(type, hint))
    options = get_args(hint)
    if get_origin(hint) is tuple and options[-1] is Ellipsis:
        return list[_json_type(options[0])]  # type: ignore[misc]
    if isinstance(hint, UnionType) and any(map(is_dataclass, options)):
        return reduce(or_, map(_json_type, options))
    return hint


VerdictModel: Any = model_of(Verdict)
HealthModel: Any = model_of(Health)
InteractionModel: Any = model_of(Interaction)
ArmVerdictModel: Any = model_of(ArmVerdict)
AgreementModel: Any = model_of(Agreement)

STATE = ("number", "version", "parent", "status", "created", "started", "stopped", "drops")
_settings = get_type_hints(Definition, include_extras=True)
_state = get_type_hints(Experiment, include_extras=True)

ExperimentAnswer = create_model(  # type: ignore[call-overload]
    "Experiment",
    __doc__="An experiment: its state and its settings.",
    **{name: (_state[name], ...) for name in STATE},
    compiled=(
        bool,
        Field(
            description="Whether the worker that answers can draw with the experiment's method; if not, it is being "
            "compiled, and searches get the control's list, unrecorded."
        ),
    ),
    **{field.name: (_settings[field.name], ...) for field in fields(Definition)},
)


def experiment_answer(experiment: Experiment, *, compiled: bool) -> dict[str, Any]:
    """Return the values of an `ExperimentAnswer`."""
    state = {name: getattr(experiment, name) for name in STATE}
    return {**state, "compiled": compiled, **experiment.definition.to_dict()}


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
