"""Actions that add up values: "purchase:value" is what purchases are worth, such as revenue.

Preferences of such an action are those of the action itself, as a result was bought or not. Its rates add up the values
of the events instead of counting results. A result counts once in an impression, with the largest value that was
reported for it: so it does not matter how often an event is sent, nor in which order.
"""

SUFFIX = ":value"


def split_action(action: str) -> tuple[str, bool]:
    """Return which events count for an action, and whether their values are added up.

    >>> split_action("purchase:value"), split_action("click")
    (('purchase', True), ('click', False))
    """
    base = action.removesuffix(SUFFIX)
    return (base, True) if base and base != action else (action, False)
