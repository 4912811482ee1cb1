"""Click models: simulated users, compiled."""

from multileave.clicks.cascade import USERS, Cascade, cascade_clicks, user
from multileave.clicks.position import PositionBased, position_clicks

__all__ = ["USERS", "Cascade", "PositionBased", "cascade_clicks", "position_clicks", "user"]
