"""Rate limits: how often something may happen within a minute, for each client or impression."""

import time
from array import array
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

MINUTE = 60.0  # seconds
COUNTERS = 2**18


class RateLimit:
    """Counts per key and minute, in this process.

    Keys are hashed into a table of fixed size, so that a million addresses need no more memory than one. Two keys may
    share a counter; with 1,000 of them busy, one key in 260 does. The hash has a random seed, so that nobody can choose
    whom to share one with.

    most: how much one key may spend in a minute; 0: any amount.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._counts = array("Q")
        self._ends = float("-inf")

    def wait(self, key: str | bytes, cost: int = 1, *, already: int = 0) -> float:
        """Spend some of a key's minute; return 0, or the seconds until the next minute if others have spent this one.

        The last request of a minute may cost more than is left, so that a request larger than the limit gets through.

        already: what the same request has spent before.
        """
        if not self._most:
            return 0.0
        now = self._clock()
        if now >= self._ends:
            self._counts = array("Q", bytes(8 * COUNTERS))
            self._ends = now + MINUTE
        place = hash(key) % COUNTERS
        if self._counts[place] - already >= self._most:
            return self._ends - now
        self._counts[place] += cost
        return 0.0


def client_of(host: str) -> str:
    """Return what is limited for an address: the address, or the /64 network of an IPv6 address, one site's.

    >>> client_of("203.0.113.7"), client_of("::ffff:203.0.113.7"), client_of("2001:db8:1:2:3:4:5:6")
    ('203.0.113.7', '203.0.113.7', '2001:db8:1:2::')
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))
