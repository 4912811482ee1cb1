"""Fitting user models to logs of real clicks: `fit` takes `Pages`, which a `PageCollector` collects."""

from multileave.clicks.fitting.fit import fit
from multileave.clicks.fitting.models import MODELS
from multileave.clicks.fitting.pages import PageCollector, Pages
from multileave.clicks.fitting.result import ModelFit, UserFit

__all__ = ["MODELS", "ModelFit", "PageCollector", "Pages", "UserFit", "fit"]
