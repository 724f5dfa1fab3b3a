"""The REST API, request by request: answers and refusals as Confluent's registry gives them."""

import json
import sys

import pytest

from raftka.registry import limits
from raftka.registry.server import RegistryServer
from tests.registry.rest import Rest, connected, record, talk

STRING, LONG, INT = '"string"', '"long"', '"int"'
ONE = record("One", a="string")
TWO = record("One", a="string", b=("int", 0))
THREE = record("One", a="string", b=("int", 0), c=("long", 1))
BREAKS = record("One", a="string", d="int")


# schemas and versions


def test_a_schema_gets_an_id_and_is_found_by_it(rest: Rest) -> None:
    number = rest.register("t-value", ONE)

    assert rest.get(f"/schemas/ids/{number}") == {"schema": json.dumps(ONE, separators=(",", ":"))}
    assert rest.get(f"/schemas/ids/{number}/schema") == ONE
    assert rest.get(f"/schemas/ids/{number}/versions") == [{"subject": "t-value", "version": 1}]
    assert rest.get(f"/schemas/ids/{number}/subjects") == ["t-value"]
    assert rest.get(f"/schemas/ids/{number}?fetchMaxId=true")["maxId"] == number


def test_the_same_schema_is_the_same_version_and_has_one_id_in_all_subjects(rest: Rest) -> None:
    first = rest.register("a", ONE)
    spaced = json.dumps(ONE, indent=4)

    assert rest.register("a", spaced) == first
    assert rest.register("b", ONE) == first
    assert rest.register("b", TWO) == first + 1
    assert rest.get("/subjects/a/versions") == [1]
    assert rest.get("/subjects/b/versions") == [1, 2]


def test_a_version_by_number_and_the_latest(rest: Rest) -> None:
    rest.register("t", ONE)
    number = rest.register("t", TWO)
    wanted = {
        "subject": "t",
        "version": 2,
        "id": number,
        "schema": json.dumps(TWO, separators=(",", ":")),
    }

    for version in ("2", "latest", "-1"):
        assert rest.get(f"/subjects/t/versions/{version}") == wanted
    assert rest.get("/subjects/t/versions/1/schema") == ONE


def test_a_schema_is_looked_up_in_its_subject(rest: Rest) -> None:
    number = rest.register("t", ONE)

    found = rest.ask("POST", "/subjects/t", {"schema": json.dumps(ONE)})

    assert found.body == {
        "subject": "t",
        "version": 1,
        "id": number,
        "schema": json.dumps(ONE, separators=(",", ":")),
    }
    assert rest.ask("POST", "/subjects/t", {"schema": STRING}).code == 40403
    assert rest.ask("POST", "/subjects/other", {"schema": STRING}).code == 40401


def test_subjects_with_strange_names(rest: Rest) -> None:
    name = "a/b c?d&e=ü%41"
    rest.register(name, STRING)

    assert rest.get("/subjects") == [name]
    assert rest.get("/subjects/a%2Fb%20c%3Fd%26e%3D%C3%BC%2541/versions") == [1]


def test_lists_have_pages_and_prefixes(rest: Rest) -> None:
    for name in ("b-1", "a-2", "a-1", "b-2"):
        rest.register(name, STRING)
    rest.register("a-1", '["null","string"]')

    assert rest.get("/subjects") == ["a-1", "a-2", "b-1", "b-2"]
    assert rest.get("/subjects?subjectPrefix=b") == ["b-1", "b-2"]
    assert rest.get("/subjects?offset=1&limit=2") == ["a-2", "b-1"]
    assert rest.get("/subjects?limit=0") == []
    assert [
        (each["subject"], each["version"]) for each in rest.get("/schemas?subjectPrefix=a")
    ] == [("a-1", 1), ("a-1", 2), ("a-2", 1)]
    assert [
        (each["subject"], each["version"]) for each in rest.get("/schemas?latestOnly=true&limit=1")
    ] == [("a-1", 2)]


# compatibility


def test_a_schema_that_breaks_readers_is_refused(rest: Rest) -> None:
    rest.register("t", ONE)

    refused = rest.try_register("t", BREAKS)

    assert (refused.status, refused.code) == (409, 409)
    assert "d" in refused.body["message"]
    assert rest.get("/subjects/t/versions") == [1]


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("NONE", {"BREAKS", "TWO"}),
        ("BACKWARD", {"TWO"}),
        ("BACKWARD_TRANSITIVE", {"TWO"}),
        ("FORWARD", {"BREAKS", "TWO"}),
        ("FULL", {"TWO"}),
    ],
)
def test_each_level_decides(rest: Rest, level: str, allowed: set[str]) -> None:
    rest.register("t", ONE)
    assert rest.put("/config/t", {"compatibility": level}) == {"compatibility": level}

    for name, schema in (("TWO", TWO), ("BREAKS", BREAKS)):
        answer = rest.ask(
            "POST",
            "/compatibility/subjects/t/versions/latest?verbose=true",
            {"schema": json.dumps(schema)},
        ).body
        assert answer["is_compatible"] == (name in allowed)
        assert bool(answer["messages"]) != answer["is_compatible"]


def test_transitive_levels_look_at_all_versions(rest: Rest) -> None:
    rest.put("/config/t", {"compatibility": "NONE"})
    rest.register("t", record("One", a="int"))
    rest.register("t", record("One", a="long"))
    back_again = {"schema": json.dumps(record("One", a="long", z=("int", 0)))}
    double = {"schema": json.dumps(record("One", a="string"))}

    for level, fits in (
        ("BACKWARD", True),
        ("BACKWARD_TRANSITIVE", True),
        ("FORWARD_TRANSITIVE", False),
        ("FULL_TRANSITIVE", False),
    ):
        rest.put("/config/t", {"compatibility": level})
        assert rest.ask("POST", "/compatibility/subjects/t/versions", back_again).body == {
            "is_compatible": fits
        }
    assert rest.ask("POST", "/compatibility/subjects/t/versions/1", double).body == {
        "is_compatible": False
    }


def test_all_is_compatible_with_a_subject_without_versions(rest: Rest) -> None:
    assert rest.ask(
        "POST", "/compatibility/subjects/t/versions/latest", {"schema": STRING}
    ).body == {"is_compatible": True}
    assert rest.ask("POST", "/compatibility/subjects/t/versions", {"schema": STRING}).body == {
        "is_compatible": True
    }
    assert (
        rest.ask("POST", "/compatibility/subjects/t/versions/1", {"schema": STRING}).code == 40401
    )


def test_levels_of_one_subject_and_of_all(rest: Rest) -> None:
    assert rest.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert rest.ask("GET", "/config/t").code == 40408
    assert rest.put("/config", {"compatibility": "full"}) == {"compatibility": "FULL"}
    assert rest.get("/config/t?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}
    rest.put("/config/t", {"compatibility": "NONE"})
    assert rest.get("/config/t") == {"compatibilityLevel": "NONE"}
    assert rest.delete("/config/t") == {"compatibilityLevel": "NONE"}
    assert rest.get("/config/t?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}
    assert rest.ask("DELETE", "/config/t").code == 40401
    assert rest.delete("/config") == {"compatibilityLevel": "FULL"}
    assert rest.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert rest.ask("PUT", "/config", {"compatibility": "SOMETIMES"}).code == 42203


# deleting


def test_a_deleted_version_is_found_by_its_id_only(rest: Rest) -> None:
    first, second = rest.register("t", ONE), rest.register("t", TWO)

    assert rest.delete("/subjects/t/versions/1") == 1

    assert rest.get("/subjects/t/versions") == [2]
    assert rest.get("/subjects/t/versions?deleted=true") == [1, 2]
    assert rest.get("/subjects/t/versions?deletedOnly=true") == [1]
    assert rest.ask("GET", "/subjects/t/versions/1").code == 40402
    assert rest.get("/subjects/t/versions/1?deleted=true")["id"] == first
    assert rest.get(f"/schemas/ids/{first}")["schema"]
    assert rest.get(f"/schemas/ids/{first}/subjects") == []
    assert rest.get(f"/schemas/ids/{first}/subjects?deleted=true") == ["t"]
    assert rest.ask("DELETE", "/subjects/t/versions/1").code == 40406
    assert rest.get("/subjects/t/versions/latest")["id"] == second


def test_a_deleted_schema_comes_back_with_its_id_and_a_new_version(rest: Rest) -> None:
    first = rest.register("t", ONE)
    rest.delete("/subjects/t")

    assert rest.register("t", ONE) == first
    assert rest.get("/subjects/t/versions") == [2]


def test_only_what_is_deleted_is_deleted_for_ever(rest: Rest) -> None:
    number = rest.register("t", ONE)
    rest.register("t", TWO)

    assert rest.ask("DELETE", "/subjects/t?permanent=true").code == 40405
    assert rest.ask("DELETE", "/subjects/t/versions/1?permanent=true").code == 40407
    assert rest.delete("/subjects/t/versions/1") == 1
    assert rest.delete("/subjects/t/versions/1?permanent=true") == 1
    assert rest.ask("GET", f"/schemas/ids/{number}").code == 40403
    assert rest.delete("/subjects/t") == [2]
    assert rest.ask("DELETE", "/subjects/t").code == 40404
    assert rest.get("/subjects") == []
    assert rest.get("/subjects?deleted=true") == rest.get("/subjects?deletedOnly=true") == ["t"]
    assert rest.delete("/subjects/t?permanent=true") == [2]
    assert rest.get("/subjects?deleted=true") == []
    assert rest.ask("DELETE", "/subjects/t").code == 40401


def test_an_id_is_never_given_out_again(rest: Rest) -> None:
    number = rest.register("t", ONE)
    rest.delete("/subjects/t")
    rest.delete("/subjects/t?permanent=true")

    assert rest.register("t", ONE) == number + 1
    assert rest.get("/subjects/t/versions") == [1]


def test_a_deleted_subject_has_no_level_of_its_own_any_more(rest: Rest) -> None:
    rest.register("t", ONE)
    rest.put("/config/t", {"compatibility": "NONE"})

    rest.delete("/subjects/t")

    assert rest.ask("GET", "/config/t").code == 40408


# references


def test_references_are_named_and_keep_what_they_name(rest: Rest) -> None:
    rest.register("engine", record("Engine", power="int"))
    reference = {"name": "Engine", "subject": "engine", "version": 1}
    number = rest.register("car", record("Car", engine="Engine"), references=[reference])

    assert rest.get(f"/schemas/ids/{number}")["references"] == [reference]
    assert rest.get("/subjects/engine/versions/1/referencedby") == [number]
    assert rest.ask("DELETE", "/subjects/engine").code == 42206
    assert rest.ask("DELETE", "/subjects/engine/versions/1").code == 42206
    rest.delete("/subjects/car")
    assert rest.delete("/subjects/engine") == [1]


def test_a_schema_that_two_references_need_is_there_once(rest: Rest) -> None:
    rest.register("bolt", record("Bolt", size="int"))
    bolt = {"name": "Bolt", "subject": "bolt", "version": 1}
    for name in ("Engine", "Wheel"):
        rest.register(name, record(name, bolt="Bolt"), references=[bolt])
    both = [{"name": name, "subject": name, "version": 1} for name in ("Engine", "Wheel")]

    assert rest.register("car", record("Car", engine="Engine", wheel="Wheel"), references=both) == 4
    assert rest.register("car", record("Car", engine="Engine", wheel="Wheel"), references=both) == 4


def test_a_reference_to_nothing_is_refused(rest: Rest) -> None:
    reference = {"name": "Engine", "subject": "engine", "version": 1}

    assert (
        rest.try_register("car", record("Car", engine="Engine"), references=[reference]).code
        == 42201
    )
    assert rest.try_register("car", record("Car", engine="Engine")).code == 42201
    assert rest.try_register("car", STRING, references=[{"name": 7}]).code == 422
    assert rest.try_register("car", STRING, references="no").code == 422


# modes


def test_a_registry_that_is_only_read(rest: Rest) -> None:
    rest.register("t", ONE)

    assert rest.put("/mode", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert rest.try_register("t", TWO).code == 42205
    assert rest.register("t", ONE)  # it is there
    assert rest.ask("DELETE", "/subjects/t").code == 42205
    assert rest.put("/mode/t", {"mode": "READWRITE"}) == {"mode": "READWRITE"}
    assert rest.register("t", TWO)
    assert rest.put("/mode", {"mode": "READONLY_OVERRIDE"}) == {"mode": "READONLY_OVERRIDE"}
    assert rest.try_register("t", THREE).code == 42205
    assert rest.delete("/mode/t") == {"mode": "READWRITE"}
    assert rest.ask("GET", "/mode/t").code == 40409
    assert rest.get("/mode/t?defaultToGlobal=true") == {"mode": "READONLY_OVERRIDE"}
    assert rest.ask("PUT", "/mode", {"mode": "UPSIDE_DOWN"}).code == 42204


def test_schemas_are_imported_with_their_ids(rest: Rest) -> None:
    assert rest.try_register("t", ONE, id=77).code == 42205
    rest.put("/mode/t", {"mode": "IMPORT"})
    assert rest.try_register("t", ONE).code == 42205

    assert rest.register("t", ONE, id=77, version=5) == 77

    assert rest.get("/subjects/t/versions") == [5]
    assert rest.try_register("t", TWO, id=77).code == 42205
    assert rest.try_register("t", TWO, id=78, version=5).code == 42205
    rest.put("/mode/t", {"mode": "READWRITE"})
    assert rest.register("t", TWO) == 78
    assert rest.ask("PUT", "/mode/t", {"mode": "IMPORT"}).code == 42205
    assert rest.put("/mode/t?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}


# what is wrong with a request


@pytest.mark.parametrize(
    ("method", "target", "body", "code"),
    [
        ("POST", "/subjects/t/versions", {"schema": "{"}, 42201),
        ("POST", "/subjects/t/versions", {"schema": '{"type":"nonsense"}'}, 42201),
        ("POST", "/subjects/t/versions", {"schema": ""}, 42201),
        ("POST", "/subjects/t/versions", {"schema": 7}, 42201),
        ("POST", "/subjects/t/versions", {}, 42201),
        ("POST", "/subjects/t/versions", {"schema": STRING, "schemaType": "XML"}, 42201),
        ("POST", "/subjects/t/versions", {"schema": STRING, "id": "7"}, 422),
        ("POST", "/subjects/t/versions", {"schema": STRING, "id": 1 << 31}, 422),
        ("POST", "/subjects/t/versions", {"schema": STRING, "version": -7}, 422),
        ("POST", "/subjects/t/versions", b'{"schema": "\\ud800"}', 422),
        ("POST", "/subjects/t/versions", b"no json", 422),
        ("POST", "/subjects/t/versions", b"[1]", 422),
        ("POST", "/subjects/t/versions", b"[" * 100_000, 422),
        ("POST", "/subjects/%0A/versions", {"schema": STRING}, 422),
        ("POST", "/subjects/:.other:/versions", {"schema": STRING}, 422),
        ("GET", "/subjects/t/versions", None, 40401),
        ("GET", "/subjects/t/versions/1", None, 40401),
        ("GET", "/subjects/t/versions/0", None, 42202),
        ("GET", "/subjects/t/versions/x", None, 42202),
        ("GET", "/subjects/t/versions/2147483648", None, 42202),
        ("GET", "/schemas/ids/1", None, 40403),
        ("GET", "/subjects?limit=x", None, 422),
        ("DELETE", "/subjects/t", None, 40401),
        ("GET", "/schemas/ids/x", None, 404),
        ("GET", "/nothing", None, 404),
        ("PATCH", "/subjects", None, 405),
    ],
)
def test_wrong_requests(rest: Rest, method: str, target: str, body: object, code: int) -> None:
    answer = rest.ask(method, target, body)

    assert answer.code == code
    assert answer.status == int(str(code)[:3])
    assert rest.get("/subjects") == []


def test_a_text_that_is_too_large(rest: Rest) -> None:
    long = json.dumps(
        {"type": "fixed", "name": "F", "size": 1, "doc": "x" * limits.SCHEMA_CHARACTERS.value}
    )

    assert rest.try_register("t", long).code == 42201


# connections


def test_a_body_that_is_too_large_ends_the_connection(raftka_registry: RegistryServer) -> None:
    size = limits.REQUEST_BYTES.value + 1
    head = b"POST /subjects/t/versions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size

    answer = talk(raftka_registry, head + b"x" * size)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\xa5\x01", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * limits.HEAD_BYTES.value, 431),
        (b"GET / HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
    ],
)
def test_what_is_no_http_is_answered_and_closed(
    raftka_registry: RegistryServer, data: bytes, status: int
) -> None:
    assert talk(raftka_registry, data).startswith(b"HTTP/1.1 %d " % status)


def test_requests_of_one_connection_are_answered_in_their_order(
    raftka_registry: RegistryServer,
) -> None:
    first = b"GET /config HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /mode HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    answer = talk(raftka_registry, first + last)

    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b"compatibilityLevel") < answer.index(b'{"mode"')


def test_head_has_no_body_and_a_client_is_told_to_go_on(raftka_registry: RegistryServer) -> None:
    head = talk(raftka_registry, b"HEAD /config HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    waits = (
        b"PUT /config HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 24\r\n"
        b"Connection: close\r\n\r\n"
    )

    assert head.endswith(b"\r\n\r\n")
    assert b"Content-Length: 33\r\n" in head
    with connected(raftka_registry) as connection:
        connection.sendall(waits)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"compatibility":"NONE"}')
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_the_page_of_numbers_counts_refusals(raftka_registry: RegistryServer, rest: Rest) -> None:
    talk(raftka_registry, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * limits.HEAD_BYTES.value)

    page = talk(
        raftka_registry, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    ).decode()

    assert f"{limits.HEAD_BYTES.metric} 1\n" in page
    assert 'raftka_registry_requests_total{status="431"} 1\n' in page
    assert all(f"{limit.metric} " in page for limit in limits.ALL)


def test_a_format_whose_package_is_missing_is_named(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith("raftka.schemas.formats.json")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)

    answer = rest.try_register("t", '{"type": "object"}', schemaType="JSON")

    assert answer.code == 50001
    assert isinstance(answer.body, dict)
    assert "jsonschema_rs" in str(answer.body["message"])
    assert str(answer.body["message"]).endswith("pip install 'raftka[registry]'")
    assert rest.register("t", ONE) > 0
