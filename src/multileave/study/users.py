"""Users for given data: presets, or users fitted to a log with the attractiveness of the grades that are shown."""

from collections.abc import Sequence
from pathlib import Path

from multileave.clicks import ClickModel, default_user, find_user
from multileave.data import QuerySet


def user_for(
    data: QuerySet,
    k: int,
    name: str | None = None,
    users_from: Sequence[str | Path] = (),
    attractiveness: str = "auto",
) -> ClickModel:
    """Return a user who clicks on pages of k results of these data.

    name, users_from, attractiveness: see `multileave.clicks.find_user`. Without a name the best model of the first
    file, and without files the navigational user.

    >>> from multileave.data import synthetic
    >>> user_for(synthetic(queries=5, grades=2, seed=1), 10).click
    (0.05, 0.95)
    """
    chosen = default_user(users_from) if name is None else name
    shares = data.grade_shares(k) if users_from else None
    return find_user(chosen, data.grades, users_from, shares=shares, attractiveness=attractiveness)
