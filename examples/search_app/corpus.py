"""The corpus: the documentation of Python's standard library, read from the running interpreter."""

import contextlib
import importlib
import inspect
import io
import os.path
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# Modules that open windows or browsers, print, are deprecated, or hold tables of characters.
SKIPPED = {
    "antigravity", "distutils", "encodings", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo",
}  # fmt: skip
LEAST_WORDS = 2  # of a docstring; shorter ones only repeat the name


@dataclass(frozen=True)
class Document:
    """Something that is documented: a module, a class, a function, a method or a property."""

    name: str  # as one would import it, such as json.loads
    kind: str
    signature: str
    text: str

    @property
    def module(self) -> str:
        """The top-level module that it belongs to."""
        return self.name.partition(".")[0]

    @property
    def depth(self) -> int:
        """How many names are before its own."""
        return self.name.count(".")

    @property
    def path(self) -> str:
        """Where it is found."""
        return " › ".join(self.name.split(".")[:-1]) or ("standard library" if self.kind == "module" else "built in")

    @property
    def short_name(self) -> str:
        """Its name without its module and class."""
        return self.name.rpartition(".")[2]

    @property
    def summary(self) -> str:
        """The first paragraph of its documentation, on one line."""
        return " ".join(self.text.partition("\n\n")[0].split())


def documents() -> list[Document]:
    """Return everything in the standard library that has a proper docstring, once, in order of names."""
    things: dict[int, tuple[str, Any]] = {}  # by identity: many are offered under several names
    for module_name, module in _modules():
        _add(things, module_name, module)
        for name, thing in _public(module):
            full = name if module_name == "builtins" else f"{module_name}.{name}"
            _add(things, full, thing)
            if inspect.isclass(thing):
                for part, member in vars(thing).items():
                    if not part.startswith("_"):
                        _add(things, f"{full}.{part}", member)
    return sorted((_document(name, thing) for name, thing in things.values()), key=lambda d: d.name)


def _modules() -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules of the standard library, those with short names first."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        names = sorted(name for name in sys.stdlib_module_names - SKIPPED if not name.startswith("_"))
        yield "os.path", os.path
        for name in names:
            module = _imported(name)
            if module is None:
                continue
            yield name, module
            names.extend(
                f"{name}.{part.name}"
                for part in pkgutil.iter_modules(getattr(module, "__path__", []))
                if not part.name.startswith(("_", "test"))
            )


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):  # of another operating system, or built without it
        return None


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module defines, or offers as its own."""
    for name in getattr(module, "__all__", None) or list(vars(module)):
        thing = getattr(module, name, None)
        own = hasattr(module, "__all__") or getattr(thing, "__module__", module.__name__) == module.__name__
        if own and not name.startswith("_") and not inspect.ismodule(thing):
            yield name, thing


def _add(things: dict[int, tuple[str, Any]], name: str, thing: Any) -> None:
    if isinstance(thing, staticmethod | classmethod):
        thing = thing.__func__
    if _kind(thing) and len((inspect.getdoc(thing) or "").split()) >= LEAST_WORDS:
        things.setdefault(id(thing), (name, thing))


def _document(name: str, thing: Any) -> Document:
    return Document(name, str(_kind(thing)), _signature(thing), inspect.getdoc(thing) or "")


def _kind(thing: Any) -> str | None:
    if inspect.ismodule(thing):
        return "module"
    if inspect.isclass(thing):
        return "class"
    if inspect.isroutine(thing):
        return "function"
    return "property" if inspect.isdatadescriptor(thing) else None


def _signature(thing: Any) -> str:
    try:
        found = str(inspect.signature(thing)) if callable(thing) and not inspect.isclass(thing) else ""
    except (ValueError, TypeError, AttributeError):  # some builtins describe theirs wrongly, or not at all
        return ""
    return re.sub(r"<(?:function|class|built-in function) '?([\w.]+)[^>]*>", r"\1", found)
