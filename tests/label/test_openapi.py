"""The page's routes against their own description: whatever fits it, or does not, is answered and never breaks anything."""

import os
import shutil
import warnings

import pytest

from askless.run import Run

from ..log import replay, stored

EXAMPLES = 10  # per route and kind of input

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]


@pytest.fixture
def office(prepared, shapes, tmp_path, make_office):
    return make_office(Run.open(shutil.copytree(prepared, tmp_path / "run")), shapes.truth)


def operations(office):
    """Every operation of the description, and the headers of somebody who may ask."""
    headers = {"Host": "127.0.0.1:8347", "Cookie": office.cookie, "X-Askless": "1"}
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", office.app, headers=headers)
    return [result.ok() for result in schema.get_all_operations()], headers


def test_the_description_names_every_route(office):
    found, _ = operations(office)
    described = {(operation.method.upper(), operation.path) for operation in found}
    routes = {
        (method, route.path)
        for route in office.app.routes
        for method in route.methods - {"HEAD"}
        if route.path.startswith(("/api/", "/image/")) and route.path != "/api/openapi.json"
    }
    assert described == routes
    assert len(described) >= 20


def send_many(operation, mode, headers, examples):
    """Requests of one kind, each checked; their statuses."""
    statuses = []

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        kind = {} if case.method == "GET" else {"Content-Type": "application/json"}
        response = case.call(base_url="http://127.0.0.1:8347", headers={**headers, **kind})
        statuses.append(response.status_code)
        case.validate_response(response, checks=CHECKS, headers={**headers, **kind})

    try:
        ask()
    except Exception as error:
        raise AssertionError(f"{operation.method.upper()} {operation.path}: {error}") from error
    return statuses


def check_every_route(office, mode, examples):
    """Sends so many requests to each route; how many that were."""
    found, headers = operations(office)
    statuses = {}
    for operation in found:
        if mode == GenerationMode.POSITIVE or operation.body or operation.query or operation.path_parameters:
            statuses[operation.method, operation.path] = send_many(operation, mode, headers, examples)
    assert len(statuses) >= 20
    assert all(statuses.values())
    assert {status for each in statuses.values() for status in each} <= {200, 400, 404, 409, 422}
    with office.run.store.look() as db:
        assert replay(db) == stored(db)
    return sum(map(len, statuses.values()))


@pytest.mark.filterwarnings("ignore")  # of the library that makes the requests
@pytest.mark.parametrize("mode", MODES, ids=["as described", "otherwise"])
def test_whatever_is_sent_is_answered_as_described(office, mode):
    check_every_route(office, mode, EXAMPLES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_thousands_of_requests_are_answered_as_described(office):
    examples = int(os.environ.get("ASKLESS_REQUESTS", "100"))
    n = sum(check_every_route(office, mode, examples) for mode in MODES)
    print(f"hostile requests {n:,}: 0 server errors, 0 answers that differ from the log")
