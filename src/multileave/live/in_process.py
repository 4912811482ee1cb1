"""A service in the background of a process, for demonstrations, notebooks and tests."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from multileave.errors import MultileaveError
from multileave.live.settings import Settings
from multileave.live.store.database import Store

STARTS_WITHIN = 120.0  # seconds; kernels may have to be compiled


@contextlib.contextmanager
def running(settings: Settings) -> Iterator[str]:
    """Run the service in a thread and yield its address; it is stopped and its database closed afterwards.

    settings: as for `multileave serve`; port 0 picks a free one.
    """
    import uvicorn

    from multileave.live.http.app import create_app
    from multileave.live.http.connections import server_options

    Store(settings.database, seconds=settings.database_seconds).close()  # what is wrong with it is raised here
    app = create_app(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
        except OSError as error:
            raise MultileaveError(
                f"The service cannot listen on {settings.host}, port {settings.port}: {error}. Choose another port."
            ) from None
        config = uvicorn.Config(app, timeout_graceful_shutdown=5, **server_options(settings))
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), name="multileave-service", daemon=True)
        thread.start()
        try:
            _wait(thread, lambda: server.started and app.state.service.ready)
            yield replace(settings, port=listening.getsockname()[1]).base_url
        finally:
            server.should_exit = True
            thread.join()


def _wait(thread: threading.Thread, is_ready: Callable[[], bool]) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while not is_ready():
        if not thread.is_alive() or time.monotonic() > end:
            raise MultileaveError("The service did not start. See its log for the reason.")
        time.sleep(0.02)
