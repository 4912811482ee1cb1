"""Fitting user models to logs of real clicks: `fit` takes `Pages`, which a `PageCollector` collects."""

from multileave.clicks.fitting.fit import fit
from multileave.clicks.fitting.result import ModelFit, UserFit
from multileave.clicks.fitting.models import MODELS
from multileave.clicks.fitting.pages import PageCollector, Pages

__all__ = ["MODELS", "ModelFit", "UserFit", "PageCollector", "Pages", "fit"]
