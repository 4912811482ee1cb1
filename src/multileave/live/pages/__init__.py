"""Pages: the dashboard that people read, rendered on the server; `pages` is its router."""

from multileave.live.pages import administration
from multileave.live.pages.views import pages

__all__ = ["administration", "pages"]
