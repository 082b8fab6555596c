"""OpenAPI and Swagger UI."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import yaml

from locks.api.views import openapi

pytestmark = pytest.mark.django_db


def test_the_schema_is_served_as_json_and_yaml(client):
    as_json = client.get("/openapi.json").json()
    assert yaml.safe_load(client.get("/openapi.yaml").content) == as_json
    assert as_json["openapi"].startswith("3.1")


def test_every_path_of_the_contract_is_described(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {
        "/locks", "/locks/{name}", "/locks/{name}/acquire", "/locks/{name}/renew", "/locks/{name}/release",
        "/locks/{name}/force-release", "/locks/check", "/locks/claim-next", "/locks/acquire-all", "/locks/renew-all",
        "/locks/release-all", "/tokens", "/tokens/{public_id}", "/auth/token/rotate", "/whoami", "/locks/{name}/acl",
        "/elections", "/elections/{room}", "/elections/{room}/campaign", "/elections/{room}/renew",
        "/elections/{room}/resign", "/elections/{room}/watch",
    } <= set(paths)  # fmt: skip


def test_every_operation_names_its_scope_errors_and_security(client):
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for operation in operations.values():
            needs_token = not path.startswith("/elections")
            assert operation.get("security") == ([{"bearer": []}] if needs_token else None), path
            assert {"429", "503"} <= set(operation["responses"]), path
            assert ("401" in operation["responses"]) is needs_token, path


def test_swagger_ui_is_served_by_ourselves(client):
    page = client.get("/docs").content.decode()
    assert "swagger-ui-bundle" in page
    assert "//cdn" not in page
    assert "https://" not in page
    assert client.options("/docs").status_code == 405


def test_concurrent_first_requests_get_the_same_document() -> None:
    openapi._generate.cache_clear()
    ready = Barrier(4)

    def first(_number: int) -> tuple[bytes, str]:
        ready.wait()
        return openapi._document("json")

    with ThreadPoolExecutor(4) as pool:
        assert len({id(document) for document, _ in pool.map(first, range(4))}) == 1
