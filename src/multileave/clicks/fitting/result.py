"""What a fit returns: the models' parameters with intervals, how well each predicts, and the best."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multileave.errors import DataError

VERSION = 1
NEGLIGIBLE = 5e-5  # nats per page: differences between models are written with four decimals


@dataclass(frozen=True)
class ModelFit:
    """A model fitted to a log.

    parameters: by name; a number, a list by rank, or a list of lists. intervals: 95 % intervals in the same shape.
    attractiveness: quantiles at 0, 1, ..., 100 % over the documents shown. satisfied: the same for satisfaction.
    difference, error: held-out log-likelihood per page less that of the best model, and its standard error.
    """

    name: str
    title: str
    size: int
    parameters: Mapping[str, Any]
    intervals: Mapping[str, Any]
    attractiveness: tuple[float, ...]
    attractiveness_mean: float
    log_likelihood: float
    perplexity: float
    conditional_perplexity: float
    perplexity_by_rank: tuple[float, ...]
    difference: float
    error: float
    by_grade: tuple[float, ...] = ()
    satisfied: tuple[float, ...] = ()
    satisfied_by_grade: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the model as it is written to a file."""
        optional = {"satisfied_quantiles": self.satisfied, "satisfied_by_grade": self.satisfied_by_grade}
        return {
            **self.parameters,
            **{name: list(values) for name, values in optional.items() if values},
            "attractiveness": list(self.attractiveness),
            "attractiveness_mean": self.attractiveness_mean,
            "parameters": self.size,
            "log_likelihood": self.log_likelihood,
            "perplexity": self.perplexity,
            "conditional_perplexity": self.conditional_perplexity,
            "perplexity_by_rank": list(self.perplexity_by_rank),
            "difference": self.difference,
            "difference_error": self.error,
            "intervals": dict(self.intervals),
        }


@dataclass(frozen=True)
class UserFit:
    """All models fitted to a log.

    log: counts. models: by name. unidentified: why a model could not be fitted, by name. notes: what to know.
    best: the model with the fewest parameters among those not significantly worse than the one that predicts best.
    """

    best: str
    log: Mapping[str, int]
    baseline: Mapping[str, Any]
    models: Mapping[str, ModelFit]
    unidentified: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as it is written to a file; `multileave.clicks` reads users from it."""
        best = self.models[self.best]
        return {
            "version": VERSION,
            "best": self.best,
            "notes": list(self.notes),
            "log": dict(self.log),
            "baseline": dict(self.baseline),
            "attractiveness": {
                "quantiles": list(best.attractiveness),
                "mean": best.attractiveness_mean,
                **({"by_grade": list(best.by_grade)} if best.by_grade else {}),
            },
            "models": {
                **{name: model.to_dict() for name, model in self.models.items()},
                **{name: {"unidentified": reason} for name, reason in self.unidentified.items()},
            },
        }

    @property
    def summary(self) -> str:
        """Which model fits best, and how clearly."""
        best = self.models[self.best]
        others = [model for model in self.models.values() if model.name != self.best]
        text = f"Best: {best.name} ({best.title})."
        if best.log_likelihood <= self.baseline["log_likelihood"]:
            text += " It predicts no better than the click rate by rank."
        if not others:
            return text
        near = max(others, key=lambda model: model.difference)
        if near.difference > -NEGLIGIBLE:
            return (
                f"{text} {near.name.capitalize()} predicts held-out clicks no worse ({_difference(near)}) but has more "
                f"parameters ({near.size} instead of {best.size}); the difference is not significant."
            )
        clear = near.error > 0 and -near.difference / near.error > 1.96
        word = "significantly" if clear else "but not significantly"
        return f"{text} It predicts held-out clicks better than {near.name}, {word} ({_difference(near)})."

    def to_toml(self) -> str:
        """Return the file's text.

        >>> print(toml({"version": 1, "log": {"pages": 2}}))
        version = 1
        <BLANKLINE>
        [log]
        pages = 2
        <BLANKLINE>
        """
        return toml(self.to_dict())

    def write(self, path: Path | str) -> None:
        """Write the file."""
        try:
            Path(path).write_text(self.to_toml(), encoding="utf-8")
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror}. Choose another file.") from None


def _difference(model: ModelFit) -> str:
    return f"{model.difference:+.4f} ± {1.96 * model.error:.4f} nats per page"


def toml(document: Mapping[str, Any], prefix: str = "") -> str:
    """Return a dictionary of strings, numbers, lists and dictionaries as TOML."""
    plain = {key: value for key, value in document.items() if not isinstance(value, Mapping)}
    lines = [f"{key} = {_value(value)}" for key, value in plain.items()]
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{prefix}{key}]", toml(value, f"{prefix}{key}.").rstrip("\n")]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int):
        return str(value)
    return f"{value:.6g}" if math.isfinite(value) and value % 1 else f"{value:.1f}"
