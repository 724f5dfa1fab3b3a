"""The API of schemas, with a real registry: versions, differences, a schema tried and kept."""

import json
from collections.abc import Iterator

import pytest

from raftka.console.limits import DIFFERENCE_LINES
from raftka.console.schemas.texts import find_difference, pretty
from raftka.json_values import Json
from raftka.registry.server import RegistryServer
from raftka.testing import Cluster
from tests.kit.console import Api, console_of


def order(*fields: Json) -> str:
    every = [{"name": "id", "type": "long"}, *fields]
    return json.dumps({"type": "record", "name": "Order", "fields": every})


NOTE = {"name": "note", "type": ["null", "string"], "default": None}
OTHER = {"name": "total", "type": "double"}  # without a default: readers of it fail on old records


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> Iterator[RegistryServer]:
    with cluster.registry() as registry:
        yield registry


@pytest.fixture
def api(cluster: Cluster, registry: RegistryServer) -> Iterator[Api]:
    with console_of(cluster, registry=registry.url) as console:
        yield Api(console.url)


def test_schema_is_tried_then_registered_and_its_versions_differ(api: Api) -> None:
    path = "/api/schemas/orders%2Fvalue%20%C3%A4"
    fresh = api.post(f"{path}/try", schema=order())
    assert (fresh["compatible"], fresh["latest_version"], fresh["known_version"]) == (
        True,
        None,
        None,
    )
    assert {each["kind"] for each in fresh["lines"]} == {"new"}
    first = api.post(f"{path}/versions", schema=order())
    assert first["version"] == 1

    good = api.post(f"{path}/try", schema=order(NOTE))
    assert (good["compatible"], good["compatibility"], good["latest_version"]) == (
        True,
        "BACKWARD",
        1,
    )
    assert api.get(path)["versions"] == [1]  # a try registers nothing
    again = api.post(f"{path}/try", schema=order())
    assert again["known_version"] == 1
    assert {each["kind"] for each in again["lines"]} == {"same"}

    second = api.post(f"{path}/versions", schema=order(NOTE))
    assert second["version"] == 2
    found = api.get(path)
    assert (found["versions"], found["compatibility"], found["compatibility_is_own"]) == (
        [1, 2],
        "BACKWARD",
        False,
    )
    shown = api.get(f"{path}/versions/2")
    assert (shown["id"], shown["kind"], shown["references"]) == (second["id"], "AVRO", [])
    assert json.loads(shown["text"]) == json.loads(order(NOTE))
    assert len(shown["text"].splitlines()) > 10
    lines = api.get(f"{path}/difference", old=1, new=2)["lines"]
    assert '"name": "note",' in [each["text"].strip() for each in lines if each["kind"] == "new"]
    assert "\n".join(each["text"] for each in lines if each["kind"] != "new") == (
        pretty("AVRO", order())
    )


def test_schema_that_does_not_go_with_the_level_is_told_why_and_refused(api: Api) -> None:
    api.post("/api/schemas/refused/versions", schema=order())
    tried = api.post("/api/schemas/refused/try", schema=order(OTHER))
    assert not tried["compatible"]
    assert "total" in " ".join(tried["reasons"])
    body = {"schema": order(OTHER)}
    refused = api.ask("POST", "/api/schemas/refused/versions", body=body)
    assert (refused.status, refused.json["error"]) == (409, "REGISTRY_409")
    assert api.get("/api/schemas/refused")["versions"] == [1]


def test_what_is_no_schema_is_refused_with_the_reason(api: Api) -> None:
    for body in ({"schema": '{"type": "recor'}, {"schema": "message {", "kind": "PROTOBUF"}):
        refused = api.ask("POST", "/api/schemas/none/try", body=body)
        assert refused.status == 400, refused.json
        assert refused.json["message"]
    unknown = api.ask("POST", "/api/schemas/none/try", body={"schema": "{}", "kind": "THRIFT"})
    assert unknown.status == 400
    assert api.ask("GET", "/api/schemas/none").status == 404
    assert api.ask("GET", "/api/schemas/none/versions/1").status == 404
    assert api.ask("GET", "/api/schemas/none/versions/latest").status == 400
    assert api.ask("GET", "/api/schemas/none/difference", {"old": 1}).status == 400


def test_protobuf_refers_to_another_subject(api: Api) -> None:
    head = 'syntax = "proto3"; package shop; '
    money = {"schema": head + "message Money { int64 cents = 1; }", "kind": "PROTOBUF"}
    api.post("/api/schemas/money/versions", **money)
    bill = {
        "schema": head + 'import "money.proto"; message Bill { Money sum = 1; }',
        "kind": "PROTOBUF",
        "references": [{"name": "money.proto", "subject": "money", "version": 1}],
    }
    assert api.post("/api/schemas/bill/versions", **bill)["version"] == 1
    shown = api.get("/api/schemas/bill/versions/1")
    assert (shown["kind"], shown["references"]) == ("PROTOBUF", bill["references"])
    assert "Money sum = 1;" in shown["text"]


def test_subjects_are_found_and_paged(api: Api) -> None:
    for name in ("list-a", "list-b", "list-c"):
        api.post(f"/api/schemas/{name}/versions", schema=order())
    found = api.get("/api/schemas", search="LIST-", sort="-name", size=2)
    assert (found["has_registry"], found["total"]) == (True, 3)
    assert [(each["name"], each["version"], each["kind"]) for each in found["subjects"]] == [
        ("list-c", 1, "AVRO"),
        ("list-b", 1, "AVRO"),
    ]
    second = api.get("/api/schemas", search="LIST-", sort="-name", size=2, page=2)
    assert [each["name"] for each in second["subjects"]] == ["list-a"]


def test_read_only_console_tries_but_registers_nothing(
    cluster: Cluster, registry: RegistryServer
) -> None:
    with console_of(cluster, registry=registry.url, read_only=True) as console:
        api = Api(console.url)
        assert api.post("/api/schemas/kept/try", schema=order())["compatible"]
        body = {"schema": order()}
        assert api.ask("POST", "/api/schemas/kept/versions", body=body).status == 403
        assert api.ask("GET", "/api/schemas/kept").status == 404


def test_console_without_a_registry_says_how_to_get_one(cluster: Cluster) -> None:
    with console_of(cluster) as console:
        api = Api(console.url)
        found = api.get("/api/schemas")
        assert (found["has_registry"], found["total"]) == (False, 0)
        assert "--registry" in found["how"]
        refused = api.ask("GET", "/api/schemas/orders")
        assert (refused.status, refused.json["error"]) == (404, "NO_REGISTRY")


def test_what_is_no_registry_is_told(cluster: Cluster) -> None:
    with console_of(cluster) as other, console_of(cluster, registry=other.url) as console:
        wrong = Api(console.url).ask("GET", "/api/schemas")
        assert wrong.status in (404, 502), wrong.json
        url = other.url
    with console_of(cluster, registry=url) as console:
        away = Api(console.url).ask("GET", "/api/schemas")
        assert (away.status, away.json["error"]) == (503, "REGISTRY_AWAY")


def test_long_schemas_are_not_compared_line_by_line() -> None:
    many = "\n".join(map(str, range(DIFFERENCE_LINES.value + 1)))
    kinds = [each.kind for each in find_difference(many, many + "\nlast")]
    assert kinds == ["old"] * (DIFFERENCE_LINES.value + 1) + ["new"] * (DIFFERENCE_LINES.value + 2)
    assert {each.kind for each in find_difference(many, many)} == {"same"}
