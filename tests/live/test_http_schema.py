"""What the service answers is what its OpenAPI description says, whatever it is sent."""

import pytest
from http_service import API, DEFINITION, serving

schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from multileave.live.http.app import create_app  # noqa: E402
from multileave.live.settings import Settings  # noqa: E402

EXAMPLES = 30
DESCRIPTION = create_app(Settings()).openapi()
OPERATIONS = [(method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('schema')}/live.db") as served:
        served.running()
        served.send("POST", f"{API}/experiments", json=DEFINITION)
        yield served


@pytest.fixture(scope="module")
def schema(served):
    return schemathesis.openapi.from_dict(served.client.get(f"{API}/openapi.json").json())


def of_an_experiment_that_exists(case):
    if "number" in (case.path_parameters or {}):
        case.path_parameters["number"] = 1 + case.path_parameters["number"] % 2
    if "key_number" in (case.path_parameters or {}):
        case.path_parameters["key_number"] += 10  # the keys of this test stay
    return case


def has_input(operation):
    return bool(operation.body or operation.path_parameters or operation.query)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_keep_to_the_description(served, schema, method, path):
    operation = schema[path][method]
    there = operation.as_strategy(generation_mode=POSITIVE).map(of_an_experiment_that_exists)
    cases = st.one_of(there, operation.as_strategy(generation_mode=POSITIVE))
    if has_input(operation):
        cases = st.one_of(cases, operation.as_strategy(generation_mode=NEGATIVE))
    key = {"Authorization": f"Bearer {served.keys['admin']}"}
    # An event that makes no sense is rejected in an answer that says 200 to its batch.
    checks = CHECKS if path == f"{API}/events" else [*CHECKS, negative_data_rejection]
    answered = []

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases)
    def check(case):
        sent = case.as_transport_kwargs(headers=key)
        assert not sent.pop("cookies")
        if "data" in sent:
            sent["content"] = sent.pop("data")
        answer = served.client.request(**sent)
        # Unknown query parameters are ignored.
        unknown = set(case.query or {}) - {parameter.name for parameter in operation.query}
        case.validate_response(answer, checks=CHECKS if unknown else checks)
        answered.append(answer.status_code)

    check()
    assert {status for status in answered if status != 404}, answered
