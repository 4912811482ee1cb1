"""Click models: simulated users, compiled, and `fit`, which fits them to logs."""

from typing import Any

from multileave.clicks.browsing import Browsing, browsing_clicks
from multileave.clicks.cascade import USERS, Cascade, cascade_clicks, user
from multileave.clicks.fitted import FittedUsers, default_user, find_user
from multileave.clicks.model import ClickModel
from multileave.clicks.position import PositionBased, position_clicks
from multileave.clicks.returning import Returning, returning_clicks

__all__ = [
    "USERS",
    "Browsing",
    "Cascade",
    "ClickModel",
    "FittedUsers",
    "PositionBased",
    "Returning",
    "browsing_clicks",
    "cascade_clicks",
    "default_user",
    "find_user",
    "fit",
    "position_clicks",
    "returning_clicks",
    "user",
]


def __getattr__(name: str) -> Any:
    if name == "fit":  # with SciPy, which takes a while to import
        from multileave.clicks.fitting import fit

        return fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
