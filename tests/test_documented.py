"""What is public is described: commands, options, names, methods, parameters, settings, routes."""

import dataclasses
import functools
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest
import typer

from multileave.cli import app
from multileave.methods import base

griffe = pytest.importorskip("griffe", reason="pip install 'multileave[docs]'")
pytest.importorskip("mkdocs_gen_files", reason="pip install 'multileave[docs]'")
pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")
pytest.importorskip("pyterrier", reason="pip install 'multileave[pyterrier]'")

DOCS = Path(__file__).parents[1] / "docs"
SITE = runpy.run_path(str(DOCS / "site.py"), run_name="site")  # as mkdocs runs it, it writes pages
CONVERTER = re.compile(r":\w+}")  # of a path's parameter, as in {number:int}


def commands(command=None, path="multileave"):
    """Yield every command with what is typed for it."""
    command = command or typer.main.get_command(app)
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{path} {name}")


def has_word(name, text):
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def undescribed(value):
    """Return the parts of a class, or the thing itself, that have no docstring of their own."""
    own = value.__doc__ or ""
    if not own.strip() or own.startswith(f"{value.__name__}("):  # what dataclass writes by itself
        yield value.__name__
    for name, part in vars(value).items() if inspect.isclass(value) else ():
        kinds = (property, classmethod, staticmethod, functools.cached_property)
        if not name.startswith("_") and (inspect.isfunction(part) or isinstance(part, kinds)):
            described = part.__func__ if isinstance(part, classmethod | staticmethod) else part
            if not (described.__doc__ or inspect.getdoc(getattr(value, name)) or "").strip():
                yield f"{value.__name__}.{name}"


@pytest.fixture(scope="module")
def sources():
    """Return the modules of the reference as they are written: values have docstrings there only."""
    loader = griffe.GriffeLoader(search_paths=[str(DOCS.parent / "src")])
    loader.load("multileave")
    loader.resolve_aliases()
    return loader.modules_collection


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    from multileave.live.http.app import create_app
    from multileave.live.settings import Settings

    return create_app(Settings(database=f"sqlite:///{tmp_path_factory.mktemp('routes') / 'routes.db'}", open=True))


@pytest.mark.parametrize(("path", "command"), list(commands()), ids=lambda part: part if isinstance(part, str) else "")
def test_every_command_and_option_says_what_it_does(path, command):
    reference = SITE["command_reference"]()
    assert (command.help or "").strip()
    _, heading, section = reference.partition(f"\n## `{path}`\n")
    assert heading
    section = section.partition("\n## ")[0]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        assert (parameter.help or "").strip(), f"{path} does not say what {parameter.name} does"
        is_option = parameter.param_type_name == "option"
        words = parameter.opts if is_option else [(parameter.metavar or parameter.name).upper()]
        assert any(f"`{word}`" in section for word in words), f"the reference of {path} lacks {parameter.name}"


@pytest.mark.parametrize("package", list(SITE["PACKAGES"]))
def test_every_public_name_has_a_docstring(package, sources):
    module = importlib.import_module(package)
    assert (module.__doc__ or "").strip()
    source = sources[package]
    lacking = []
    for name in module.__all__:
        value = getattr(module, name)
        if name.startswith("__") or inspect.ismodule(value):
            continue
        if inspect.isclass(value) or inspect.isroutine(value):
            lacking.extend(undescribed(value))
        elif not (source[name].final_target if source[name].is_alias else source[name]).has_docstring:
            lacking.append(name)
    assert lacking == []


def test_every_public_package_is_in_the_reference():
    root = DOCS.parent / "src" / "multileave"
    found = {path.stem for path in root.glob("*.py")} | {path.parent.name for path in root.glob("*/__init__.py")}
    # These are reached through `import multileave`, by commands and over HTTP.
    inner = {
        "assignment", "cli", "impression", "kernels", "live", "methods", "numbering", "outcome", "random", "rankings",
        "version", "written",
    }  # fmt: skip
    listed = {name.split(".")[1] for name in SITE["PACKAGES"] if "." in name}
    assert found - {"__init__"} - inner == listed


@pytest.mark.parametrize("name", list(base.methods()))
def test_every_method_describes_its_parameters(name):
    method = base.methods()[name]
    described = inspect.getdoc(method) or ""
    for field in dataclasses.fields(method):
        assert has_word(field.name, described), f"{method.__name__} does not say what {field.name} is"
    assert any(f"`{name}`" in page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))


def test_every_setting_is_described():
    from multileave.live.definition import Definition
    from multileave.live.settings import Settings
    from multileave.study.settings import Settings as StudySettings

    for name, setting in Definition.__pydantic_fields__.items():
        assert setting.description, f"Definition does not say what {name} is"
    for settings in (Settings, StudySettings):
        for field in dataclasses.fields(settings):
            assert has_word(field.name, settings.__doc__), f"{settings.__qualname__} does not say what {field.name} is"


def test_every_route_stands_in_a_table(service):
    tables = {page: (DOCS / page).read_text(encoding="utf-8") for page in ("service.md", "dashboard.md")}
    for route in service.routes:
        path = CONVERTER.sub("}", route.path)
        in_api = path.startswith("/api/") or path in ("/healthz", "/readyz", "/metrics")
        for method in route.methods - {"HEAD"}:
            wanted = f"`{method} {path}`" if in_api else f"`{path}`"
            assert wanted in tables["service.md" if in_api else "dashboard.md"], f"{wanted} is not documented"
        for query in route.dependant.query_params if in_api and hasattr(route, "dependant") else ():
            assert f"?{query.alias}=" in tables["service.md"], f"?{query.alias}= of {path} is not documented"
