"""The client: what a search application calls, with a service over HTTP or in its own process.

Searches never fail because of it. If the service is down, slow or wrong, the control's list is shown and nothing is
recorded.
"""

from multileave.client.clients import AsyncClient, Client
from multileave.client.counters import Stats
from multileave.client.local import LocalClient
from multileave.client.search import Page

__all__ = ["AsyncClient", "Client", "LocalClient", "Page", "Stats"]
