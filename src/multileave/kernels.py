"""Kernels: plain functions that are compiled when they are first called, once per machine.

Importing Numba takes 0.3 s and compiling takes seconds, so neither happens at import time: `kernel` only remembers the
function. At the first call the function is rebuilt with the kernels it names replaced by their compiled selves, and
compiled into a cache of our own.

The cache is a directory of the user. A kernel's place in it is a hash of the source files of all kernels that it can
reach and of the versions of Numba and Python. Numba's own cache looks only at the file of the outermost function, and
would keep a loop that inlined an edited kernel of another file.

A loop that is the same for every method names `draw` and `credit` as globals that stand for nothing; `Kernel.bind`
compiles it with a method's own kernels in their place. Unlike a closure, the result is found again in the cache.

Numba counts references to arrays, atomically, for every view and call. Our arrays belong to the caller, so kernels
that do not allocate are compiled without (the private option `_nrt`): this makes the study loop 1.3 to 2 times as fast.
"""

import functools
import hashlib
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from multileave.errors import MultileaveWarning

_lock = threading.RLock()

# A kernel that names one of these needs reference counts. Others are found because they do not compile without, which
# takes longer and is not cached.
ALLOCATING = {"arange", "copy", "empty", "empty_like", "full", "ones", "zeros", "zeros_like"}
REORDERING = {"reassoc", "contract", "arcp", "nsz", "nnan"}  # LLVM's names of what a `vector_kernel` allows


class Kernel:
    """A function of arrays and numbers that is compiled when it is first called.

    A kernel may use NumPy arrays, numbers and other kernels, and returns numbers. If it cannot be compiled, it runs as
    plain Python, with one warning.
    """

    def __init__(
        self, function: Callable[..., Any], parts: dict[str, "Kernel"] | None = None, *, reorders: bool = False
    ) -> None:
        self.function = function
        self.parts = parts or {}
        self.reorders = reorders
        self._forms: dict[tuple[bool, bool, bool], Callable[..., Any]] = {}
        self._compiled: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function, or the function itself if it cannot be compiled."""
        try:
            return (self._compiled or self.compiled)(*arguments)
        except Exception as error:
            if not _is_numbas(error):
                raise
            self._compiled = self._form(counting=True)  # perhaps it allocates
        try:
            return self._compiled(*arguments)
        except Exception as error:
            if not _is_numbas(error):
                raise
            warnings.warn(
                f"{self.__module__}.{self.name} cannot be compiled and runs as plain Python, much slower: "
                f"{' '.join(str(error).split())[:300]}",
                MultileaveWarning,
                stacklevel=2,
            )
            self._compiled = _uncompiled(self._rebuilt(self._named_kernels()))
        return self._compiled(*arguments)

    def __get__(self, instance: object, owner: type | None = None) -> "Kernel":
        return self  # a kernel in a class body is a static method

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_kernel, (self.function.__module__, self.function.__qualname__, self.parts)

    @property
    def name(self) -> str:
        """The function's name, with those of the parts bound to it."""
        bound = ",".join(f"{key}={part.__module__}.{part.name}" for key, part in sorted(self.parts.items()))
        return f"{self.function.__qualname__}[{bound}]" if bound else self.function.__qualname__

    def bind(self, **parts: "Kernel | Callable[..., Any]") -> "Kernel":
        """Return this kernel with the globals it names replaced by other kernels."""
        return _bound(self, tuple(sorted((key, as_kernel(part)) for key, part in parts.items())))

    @property
    def compiled(self) -> Callable[..., Any]:
        """The compiled function, made when first asked for."""
        if self._compiled is None:
            allocates = any(_global_names(part.function.__code__) & ALLOCATING for part in self._reachable())
            self._compiled = self._form(counting=allocates)
        return self._compiled

    def _form(self, *, counting: bool, inner: bool = False, inlined: bool = False) -> Callable[..., Any]:
        """Return the function compiled with or without reference counts.

        inner: only other kernels call it, so it needs no wrappers for Python. inlined: they inline it.
        """
        form = counting, inner, inlined
        if form not in self._forms:
            with _lock:
                if form not in self._forms:
                    self._forms[form] = self._compile(counting=counting, inner=inner, inlined=inlined)
        return self._forms[form]

    def _named_kernels(self) -> dict[str, "Kernel"]:
        """Return the kernels this function names, by their names."""
        found = dict(self.parts)
        for name in _global_names(self.function.__code__):
            value = self.function.__globals__.get(name)
            if name not in found and isinstance(value, Kernel):
                found[name] = value
        return found

    def _reachable(self, seen: dict[int, "Kernel"] | None = None) -> Iterator["Kernel"]:
        """Yield this kernel and all that it can reach."""
        seen = {} if seen is None else seen
        if id(self) in seen:
            return
        seen[id(self)] = self
        yield self
        for part in self._named_kernels().values():
            yield from part._reachable(seen)

    def _compile(self, *, counting: bool, inner: bool, inlined: bool) -> Callable[..., Any]:
        import numba

        # Bound parts are called in one place, so inlining them costs no code; the study loop is 5 % faster for it.
        parts = {
            name: part._form(counting=counting, inner=True, inlined=name in self.parts)
            for name, part in self._named_kernels().items()
        }
        function = self._rebuilt(parts, f"{counting} {inner} {inlined}")
        if numba.config.DISABLE_JIT:
            return _uncompiled(function)
        directory = self._directory()
        with _numba_cache(numba.config, directory):
            options: Any = {
                "cache": directory is not None,
                "error_model": "numpy",
                "nogil": True,
                "_nrt": counting,
                "forceinline": inlined,
                "no_cpython_wrapper": inner,
                "no_cfunc_wrapper": inner,
                "fastmath": REORDERING if self.reorders else False,
            }
            compiled: Callable[..., Any] = numba.njit(**options)(function)
        return compiled

    def _rebuilt(self, parts: dict[str, Any], form: str = "") -> types.FunctionType:
        """Return the function with the kernels it names replaced, under its own name in the cache."""
        function = types.FunctionType(
            self.function.__code__,
            {**self.function.__globals__, **parts},
            self.function.__name__,
            self.function.__defaults__,
        )
        digest = hashlib.sha256(f"{self.name} {form}".encode()).hexdigest()[:8]
        function.__qualname__ = f"{self.function.__name__}_{digest}"
        function.__module__ = self.function.__module__
        return function

    def _directory(self) -> Path | None:
        """Return the directory for this kernel's machine code, or None if it cannot be cached."""
        import platform

        import numba

        functions = [part.function for part in self._reachable()]
        sources = sorted({function.__code__.co_filename for function in functions})
        if not all(map(os.path.isfile, sources)) or not all(f.__module__ in sys.modules for f in functions):
            return None  # typed at a prompt: another process could not find it
        base = cache_directory()
        if base is None:
            return None
        key = hashlib.sha256(f"{numba.__version__} {sys.version} {platform.machine()}".encode())
        for source in (__file__, *sources):  # this file, as it says how kernels are compiled
            key.update(_digest(source))
        return base / key.hexdigest()[:20]


def kernel(function: Callable[..., Any]) -> Kernel:
    """Mark a function as a kernel, to be compiled when it is first called.

    >>> @kernel
    ... def twice(x):
    ...     return x + x
    >>> twice(21)
    42
    """
    return Kernel(function)


def vector_kernel(function: Callable[..., Any]) -> Kernel:
    """Mark a kernel whose sums may be added up in any order, so that loops over many numbers use vector instructions.

    Its last digits depend on the processor, and it must not meet NaN: not for what has to be the same everywhere.
    """
    return Kernel(function, reorders=True)


def as_kernel(function: "Kernel | Callable[..., Any]") -> Kernel:
    """Return the function as a kernel, whichever it was."""
    return function if isinstance(function, Kernel) else Kernel(function)


def cache_directory() -> Path | None:
    """Return the directory for compiled code, or None, with one warning, if it is not writable.

    It is ``$MULTILEAVE_CACHE_DIR``, or ``multileave`` in the user's cache directory.
    """
    return _writable(os.environ.get("MULTILEAVE_CACHE_DIR") or _user_cache())


def _user_cache() -> str:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base or "", "multileave")


@functools.lru_cache
def _writable(directory: str) -> Path | None:
    import tempfile

    try:
        if not os.path.isabs(directory):
            raise OSError("no home directory")
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        warnings.warn(
            f"Compiled code cannot be cached in {directory!r} ({error}), so every process compiles again. "
            "Set MULTILEAVE_CACHE_DIR to a writable directory.",
            MultileaveWarning,
            stacklevel=2,
        )
        return None
    return Path(directory)


@contextmanager
def _numba_cache(config: Any, directory: Path | None) -> Iterator[None]:
    """Point Numba's cache to a directory while one function is declared."""
    before = config.CACHE_DIR
    config.CACHE_DIR = before if directory is None else str(directory)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@functools.cache
def _digest(source: str) -> bytes:
    return hashlib.sha256(Path(source).read_bytes()).digest()


@functools.cache
def _bound(loop: Kernel, parts: tuple[tuple[str, Kernel], ...]) -> Kernel:
    return Kernel(loop.function, {**loop.parts, **dict(parts)}, reorders=loop.reorders)


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _is_numbas(error: Exception) -> bool:
    return type(error).__module__ == "numba.core.errors"


def _uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    import numpy as np

    def run(*arguments: Any) -> Any:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # as compiled code does
            return function(*arguments)

    return run


def _find_kernel(module: str, qualname: str, parts: dict[str, Kernel]) -> Kernel:
    import importlib

    found: Any = importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    return found.bind(**parts) if parts else as_kernel(found)
