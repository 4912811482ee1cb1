"""Users: compiled models of who clicks what."""

from multileave.clicks.cascade import USERS, Cascade, cascade_clicks, user

__all__ = ["USERS", "Cascade", "cascade_clicks", "user"]
