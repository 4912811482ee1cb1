"""Compilation: the kernels of methods, compiled outside of the process that answers searches.

Compiling takes seconds and holds the interpreter for a few hundred milliseconds at a time, also in a thread. So another
process compiles into the cache on disk, and the service only loads the result, which takes some 50 ms in a thread.
Drawing a list takes microseconds and stays on the event loop, but only with a method that has been loaded.

    python -m multileave.live.compilation [METHOD ...]     compile methods, all by default
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from multileave.errors import MultileaveError
from multileave.impression import Impression
from multileave.kernels import cache_directory
from multileave.methods import Method, get_method, infer, methods
from multileave.stats.tally.health_counts import HealthCounts

LOADS_WITHIN = 5.0  # seconds; usually a tenth of a second
THREADS = 4  # a method that is only loaded does not wait for one that is compiled
COMPILES_WITHIN = 600.0  # seconds
RETRY_AFTER = 30.0  # seconds, for a method that could not be compiled
NICE = 5  # searches come first
MODULE = "multileave.live.compilation"
log = logging.getLogger("multileave.live")


class CompiledMethods:
    """The methods that this process has loaded, and the threads that load others."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self._wanted: dict[str, Future[None]] = {}
        self._compiling: set[str] = set()
        self._failed: dict[str, float] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "multileave-compiler")
        self._one_compiles = threading.Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def want(self, method: str) -> "Future[None] | None":
        """Start loading a method, compiled first if need be; return None if it is loaded or cannot be."""
        if method in self.loaded:
            return None
        with self._lock:
            found = self._wanted.get(method)
            if found is None and not self._closed and time.monotonic() >= self._failed.get(method, 0.0):
                found = self._wanted[method] = self._threads.submit(self._load, method)
            return found

    def wait(self, method: str, seconds: float) -> bool:
        """Wait until a method is loaded; return whether it is."""
        found = self.want(method)
        if found is not None:
            with contextlib.suppress(Exception):
                found.result(seconds)
        return method in self.loaded

    async def is_loaded(self, method: str) -> bool:
        """Return whether a method is loaded, after waiting a moment if it only has to be read from the cache."""
        found = self.want(method)
        if found is not None and method not in self._compiling:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(found)), LOADS_WITHIN)
        return method in self.loaded

    def close(self) -> None:
        """End what is being compiled."""
        with self._lock:
            self._closed = True
            for child in self._children:
                child.kill()
        self._threads.shutdown(cancel_futures=True)

    def _load(self, method: str) -> None:
        try:
            found = get_method(method)
            if not is_cached(found):
                self._compiling.add(method)
                with self._one_compiles:
                    self._compile(method)
            if not self._closed:
                exercise(found)
                self.loaded.add(method)
        except Exception:
            self._failed[method] = time.monotonic() + RETRY_AFTER
            log.exception("compilation failed", extra={"fields": {"method": method[:100]}})
        finally:
            with self._lock:
                self._wanted.pop(method, None)
                self._compiling.discard(method)

    def _compile(self, method: str) -> None:
        """Compile a method in another process. If that fails, as for one that only this process knows, do nothing."""
        with self._lock:
            if self._closed:
                return
            command = [sys.executable, "-m", MODULE, method]
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self._children.add(child)
        try:
            child.wait(COMPILES_WITHIN)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        finally:
            with self._lock:
                self._children.discard(child)


def exercise(method: Method) -> None:
    """Call every kernel of a method that the service calls, with all types of arguments it calls them with."""
    for rankings in ({"a": ["x", "y", "z"], "b": ["z", "x", "y"]}, {"a": [1, 2, 3], "b": [3, 1, 2]}):
        for asked, pinned in ((rankings, None), (rankings, {0: "pinned"}), ({**rankings, "absent": None}, None)):
            drawn = method.combine(asked, 2, seed=0, pinned=pinned, propensities=method.keeps_propensities)
            for impression in (drawn, _read_back(drawn)):
                infer(impression, positions=range(len(impression.shown)))
                HealthCounts(len(impression.rankers)).add(impression, impression.rankers)


def is_cached(method: Method) -> bool:
    """Whether a method's kernels are in the cache on disk, or need not be."""
    stamp = _stamp(method)
    return stamp is None or stamp.exists()


def compile_methods(specs: Iterable[str]) -> None:
    """Compile methods into the cache on disk, unless they are there; processes do this one after another."""
    for spec in specs:
        method = get_method(spec)
        stamp = _stamp(method)
        if stamp is None:
            return
        with _alone(stamp):
            if not stamp.exists():
                exercise(method)
                stamp.touch()


def _stamp(method: Method) -> Path | None:
    """Return the file that says that a method is in the cache on disk; None if nothing is cached."""
    import numba
    from llvmlite import binding

    base = cache_directory()
    if base is None or numba.config.DISABLE_JIT:
        return None
    from multileave.methods._drawing import draw_list

    kernels = (draw_list.bind(draw=method.draw_kernel), method.credit_kernel, method.balance_kernel)
    places = [str(kernel._directory()) for kernel in kernels]
    machine = [binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()]
    key = hashlib.sha256("\n".join([MODULE, method.name, *places, *machine]).encode()).hexdigest()[:20]
    return base / f"{method.name}-{key}.compiled"


@contextlib.contextmanager
def _alone(stamp: Path) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with open(stamp.with_suffix(".lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read_back(impression: Impression) -> Impression:
    from multileave.live.verdicts.tally_change import trusted

    return trusted(json.loads(json.dumps(impression.to_dict())))


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(NICE)
    try:
        compile_methods(sys.argv[1:] or methods())
    except MultileaveError as error:
        sys.exit(f"multileave: {error}")
