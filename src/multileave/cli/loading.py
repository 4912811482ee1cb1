"""--load: the user's own methods on the command line."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from multileave.errors import MethodError, MultileaveError

Load: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--load", help="Python file or module that registers your own methods; may be repeated."),
]


def load(sources: list[str] | None) -> None:
    """Import files or modules that register methods."""
    for source in sources or []:
        path = Path(source)
        try:
            if path.suffix == ".py":
                spec = importlib.util.spec_from_file_location(path.stem, path)
                if spec is None or spec.loader is None or not path.is_file():
                    raise MethodError(f"--load {source}: there is no such file. Name a Python file or a module.")
                module = importlib.util.module_from_spec(spec)
                sys.modules[path.stem] = module
                spec.loader.exec_module(module)
            else:
                sys.path.insert(0, "")
                importlib.import_module(source)
        except ImportError as error:
            raise MethodError(f"--load {source}: {error}. Name a Python file or a module.") from error
        except MultileaveError:
            raise
        except (Exception, SystemExit) as error:
            found = f"{type(error).__name__}: {error}"
            raise MethodError(f"--load {source}: the file fails with {found}. Correct it, or leave it out.") from error
