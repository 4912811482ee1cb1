"""The settings of the service: read from the environment, checked, and handed to other processes."""

import pytest

from multileave import live
from multileave.live.errors import Invalid
from multileave.live.settings import Settings


def test_settings_are_read_from_the_environment_and_what_is_given_takes_precedence():
    environment = {
        "MULTILEAVE_DB": "sqlite:///x.db", "MULTILEAVE_PORT": "9000", "MULTILEAVE_OPEN": "true",
        "MULTILEAVE_ORIGINS": "https://a.example, https://b.example", "MULTILEAVE_FOLD_SECONDS": "0.5", "OTHER": "1",
    }  # fmt: skip
    found = Settings.from_environment(environment, port=1234, host=None)
    assert (found.database, found.port, found.open, found.fold_seconds) == ("sqlite:///x.db", 1234, True, 0.5)
    assert found.origins == ("https://a.example", "https://b.example")
    assert found.host == "127.0.0.1"


def test_a_constructor_ignores_the_environment(monkeypatch):
    monkeypatch.setenv("MULTILEAVE_PORT", "9000")
    assert Settings().port == 8421


def test_other_processes_get_the_same_settings():
    settings = Settings(secret="s" * 16, origins=("https://a.example",), durable=True, session_hours=1.5, port=0)
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [("PORT", "many"), ("PORT", "-1"), ("WORKERS", "0"), ("OPEN", "perhaps"), ("FOLD_SECONDS", "0"),
     ("SESSION_HOURS", "nan"), ("MOST_BODY", "1.5")],
)  # fmt: skip
def test_an_invalid_variable_is_named_with_its_value(variable, value):
    with pytest.raises(Invalid, match=rf"^MULTILEAVE_{variable} is '{value}'; it should be .*\.$"):
        Settings.from_environment({f"MULTILEAVE_{variable}": value})


def test_a_short_secret_is_refused_and_not_repeated():
    with pytest.raises(Invalid, match="at least 16") as raised:
        Settings(secret="hidden")
    assert "hidden" not in str(raised.value)


def test_a_service_without_keys_is_for_this_machine_alone():
    with pytest.raises(Invalid, match=r"0\.0\.0\.0 without requiring keys"):
        Settings(open=True, host="0.0.0.0")
    assert Settings(open=True, host="::1").base_url == "http://[::1]:8421"


def test_the_package_offers_what_programs_need():
    assert live.Settings is Settings
    assert callable(live.running)
    assert live.create_app(Settings()).openapi_url == "/api/v1/openapi.json"
    with pytest.raises(AttributeError, match="nothing"):
        _ = live.nothing
