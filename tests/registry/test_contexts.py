"""Contexts: registries in the registry, by names of subjects (`:.staging:orders-value`) and by
paths (`/contexts/.staging/...`).
"""

import json

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.reader import Reader
from raftka.registry import limits
from raftka.registry.records import Body, Registered, context_record, schema_record, used_ids_record
from raftka.registry.server import RegistryServer
from raftka.registry.state import State
from raftka.testing import Cluster
from tests.kit.secured_registry import login
from tests.registry.rest import Rest, record
from tests.registry.small_limits import hits, small

INT, LONG, STRING = '"int"', '"long"', '"string"'


def test_ids_and_versions_are_a_contexts_own(rest: Rest) -> None:
    assert rest.register("t", STRING) == 1
    assert rest.register(":.one:t", INT) == 1
    assert rest.register(":.two:t", LONG) == 1
    assert rest.register(":.one:t", LONG) == 2

    assert [
        rest.get(f"/contexts/{each}/schemas/ids/1")["schema"] for each in (".", ".one", ".two")
    ] == [STRING, INT, LONG]
    assert rest.get("/schemas/ids/1?subject=:.two:") == {"schema": LONG}
    assert rest.get("/schemas/ids/1?subject=:.one:&fetchMaxId=true")["maxId"] == 2
    assert rest.get("/subjects/:.one:t/versions") == [1, 2]
    assert rest.get("/subjects/t/versions") == [1]
    assert rest.get("/contexts") == [".", ".one", ".two"]


@pytest.mark.parametrize("path", ["/contexts/.one", "/contexts/one", "/contexts/:.one:"])
def test_a_path_of_a_context_is_the_same_as_names_that_begin_with_it(rest: Rest, path: str) -> None:
    body = {"schema": STRING}
    assert rest.ask("POST", f"{path}/subjects/t/versions", body).body == {"id": 1}

    assert rest.get("/subjects/:.one:t/versions/1") == {
        "subject": ":.one:t",
        "version": 1,
        "id": 1,
        "schema": STRING,
    }
    assert rest.get(f"{path}/subjects/t/versions/1") == rest.get(
        f"{path}/subjects/:.one:t/versions/1"
    )
    assert rest.ask("POST", f"{path}/subjects/t", body).body["id"] == 1
    assert rest.get(f"{path}/subjects") == rest.get("/subjects?subjectPrefix=:.one:") == [":.one:t"]
    assert [each["subject"] for each in rest.get(f"{path}/schemas")] == [":.one:t"]
    assert rest.get(f"{path}/schemas/ids/1/subjects") == [":.one:t"]
    assert rest.get(f"{path}/schemas/ids/1/versions") == [{"subject": ":.one:t", "version": 1}]
    assert rest.get(f"{path}/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]
    assert rest.ask(
        "POST", f"{path}/compatibility/subjects/t/versions/latest", {"schema": INT}
    ).body == {"is_compatible": False}
    assert rest.delete(f"{path}/subjects/t") == [1]
    assert rest.get("/subjects") == []


def test_the_context_without_a_name_is_written_without(rest: Rest) -> None:
    assert rest.register(":.:t", STRING) == 1
    assert rest.get("/subjects/t/versions/1")["subject"] == "t"
    assert rest.get("/contexts/./subjects/t/versions") == [1]
    assert rest.get("/contexts") == ["."]


def test_which_subjects_are_listed(rest: Rest) -> None:
    for name in ("a1", "b1", ":.one:a1", ":.one:b1", ":.onetwo:a2"):
        rest.register(name, STRING)

    assert rest.get("/subjects") == [":.one:a1", ":.one:b1", ":.onetwo:a2", "a1", "b1"]
    assert rest.get("/subjects?subjectPrefix=") == ["a1", "b1"]
    assert rest.get("/subjects?subjectPrefix=:*:a") == [":.one:a1", ":.onetwo:a2", "a1"]
    assert rest.get("/subjects?subjectPrefix=:.one:b") == [":.one:b1"]
    assert rest.get("/contexts/.one/subjects?subjectPrefix=a") == [":.one:a1"]
    assert [each["subject"] for each in rest.get("/schemas")] == ["a1", "b1"]
    assert len(rest.get("/schemas?subjectPrefix=:*:")) == 5


def test_an_id_with_a_subject_is_looked_for_in_all_contexts(rest: Rest) -> None:
    """For a reader that knows a topic and an id, and no context."""
    rest.register("other", STRING)
    rest.register(":.one:t", INT)
    rest.register(":.two:u", LONG)

    assert rest.get("/schemas/ids/1?subject=t") == {"schema": INT}
    assert rest.get("/schemas/ids/1?subject=u") == {"schema": LONG}
    assert rest.get("/schemas/ids/1?subject=nowhere") == {"schema": STRING}
    assert rest.get("/schemas/ids/1?subject=:.two:t") == {"schema": LONG}
    assert rest.ask("GET", "/schemas/ids/9?subject=t").code == 40403


def test_references_are_of_the_same_context_unless_they_name_another(rest: Rest) -> None:
    for prefix, kind in (("", "int"), (":.one:", "string")):
        rest.register(f"{prefix}truck", record("Truck", number=kind))

    def fleet(subject: str, truck: str) -> int:
        reference = {"name": "Truck", "subject": truck, "version": 1}
        return rest.register(subject, record("Fleet", truck="Truck"), references=[reference])

    fleet(":.one:fleet", "truck")
    fleet(":.one:numbers", ":.:truck")
    fleet(":.two:fleet", ":.one:truck")
    assert (
        rest.try_register(
            ":.two:none",
            record("Fleet", truck="Truck"),
            references=[{"name": "Truck", "subject": "truck", "version": 1}],
        ).code
        == 42201
    )
    assert rest.get("/subjects/:.one:truck/versions/1/referencedby") == [2, 1]
    assert rest.get("/subjects/truck/versions/1/referencedby") == [3]
    assert rest.ask("DELETE", "/subjects/:.one:truck").code == 42206
    rest.delete("/subjects/:.one:numbers")
    assert rest.delete("/subjects/truck") == [1]
    assert rest.get("/subjects/:.one:fleet/versions/1")["references"] == [
        {"name": "Truck", "subject": "truck", "version": 1}
    ]


def test_schemas_are_normalized_in_a_context(rest: Rest) -> None:
    loose = '{"type":"record","name":"R","fields":[],"doc":"d"}'
    tight = '{"name":"R","doc":"d","type":"record","fields":[]}'

    first = rest.ask("POST", "/subjects/:.one:t/versions?normalize=true", {"schema": loose})
    assert first.body == {"id": 1}
    assert (
        rest.get("/schemas/ids/1?subject=:.one:t")["schema"]
        == '{"type":"record","name":"R","doc":"d","fields":[]}'
    )
    answer = rest.ask(
        "POST", "/contexts/.one/subjects/t/versions?normalize=true", {"schema": tight}
    )
    assert answer.body == {"id": 1}


def test_a_level_is_a_subjects_then_a_contexts_then_that_of_all(rest: Rest) -> None:
    rest.put("/config", {"compatibility": "FORWARD"})

    def level(subject: str) -> object:
        return rest.get(f"/config/{subject}?defaultToGlobal=true")["compatibilityLevel"]

    assert [level(each) for each in ("t", ":.one:t", ":.one:")] == [
        "FORWARD",
        "BACKWARD",
        "BACKWARD",
    ]
    rest.put("/config/:.__GLOBAL:", {"compatibility": "FULL"})
    assert [level(each) for each in ("t", ":.one:t", ":.one:")] == ["FORWARD", "FULL", "FULL"]
    assert rest.ask("GET", "/contexts/.one/config").code == 40408
    rest.put("/contexts/.one/config", {"compatibility": "NONE"})
    assert [level(each) for each in ("t", ":.one:t", ":.two:t")] == ["FORWARD", "NONE", "FULL"]
    assert (
        rest.get("/contexts/.one/config")
        == rest.get("/config/:.one:")
        == {"compatibilityLevel": "NONE"}
    )
    rest.put("/contexts/.one/config/t", {"compatibility": "FULL"})
    assert [level(each) for each in (":.one:t", ":.one:u")] == ["FULL", "NONE"]

    rest.register(":.one:u", STRING)
    assert rest.register(":.one:u", INT) == 2  # NONE
    rest.register(":.two:u", STRING)
    assert rest.try_register(":.two:u", INT).code == 409

    assert rest.delete("/contexts/.one/config") == {"compatibilityLevel": "NONE"}
    assert level(":.one:u") == "FULL"
    assert rest.get("/config") == {"compatibilityLevel": "FORWARD"}


def test_a_mode_is_a_contexts_own(rest: Rest) -> None:
    rest.put("/mode/:.one:", {"mode": "READONLY"})
    assert rest.try_register(":.one:t", STRING).code == 42205
    rest.register("t", STRING)
    rest.put("/contexts/.two/mode", {"mode": "IMPORT"})
    assert rest.register(":.two:t", INT, id=70, version=3) == 70
    assert rest.get("/schemas/ids/1") == {"schema": STRING}
    assert rest.ask("PUT", "/mode", {"mode": "IMPORT"}).code == 42205  # it has a subject
    assert rest.get("/mode/:.two:t?defaultToGlobal=true") == {"mode": "IMPORT"}

    rest.put("/mode/:.__GLOBAL:", {"mode": "READONLY_OVERRIDE"})
    for subject in ("t", ":.two:t", ":.three:t"):
        assert rest.try_register(subject, LONG, id=71).code == 42205
    assert rest.ask("PUT", "/config/:.three:t", {"compatibility": "NONE"}).code == 42205
    rest.delete("/mode/:.__GLOBAL:")
    rest.register(":.three:t", LONG)


def test_a_context_is_there_until_it_is_deleted(rest: Rest) -> None:
    rest.register(":.one:t", STRING)
    rest.put("/contexts/.one/config", {"compatibility": "NONE"})
    assert rest.ask("DELETE", "/contexts/.one").code == 42205
    rest.delete("/subjects/:.one:t")
    assert rest.ask("DELETE", "/contexts/.one").code == 42205
    rest.delete("/subjects/:.one:t?permanent=true")
    assert rest.get("/contexts") == [".", ".one"]
    assert rest.register(":.one:u", INT) == 2  # no id twice
    rest.delete("/subjects/:.one:u")
    rest.delete("/subjects/:.one:u?permanent=true")

    rest.delete("/contexts/.one")

    assert rest.get("/contexts") == ["."]
    assert rest.ask("GET", "/config/:.one:").code == 40408
    assert rest.ask("DELETE", "/contexts/.one").status == 404
    assert rest.ask("DELETE", "/contexts/.").status == 404


WRONG = [
    ("POST", "/subjects/:.a%20b:t/versions", 422),
    ("POST", "/subjects/:.one:/versions", 422),
    ("POST", "/subjects/:.one/versions", 422),
    ("POST", "/subjects/:*:t/versions", 422),
    ("POST", "/subjects/:.__GLOBAL:t/versions", 422),
    ("POST", "/subjects/:.one:__EMPTY/versions", 422),
    ("POST", "/contexts/a:b/subjects/t/versions", 422),
    ("POST", "/contexts/%20/subjects/t/versions", 422),
    ("PUT", "/config/:.__GLOBAL:t", 422),
    ("PUT", "/config/:*:", 422),
    ("PUT", "/mode/:.%00:", 422),
    ("GET", "/contexts/.one", 405),
    ("GET", "/contexts/.one/contexts/.two/subjects", 404),
    ("GET", "/contexts/.one/nothing", 404),
    ("GET", "/contexts/.one/subjects/t/versions", 404),
    ("GET", "/contexts/.one/schemas/ids/1", 404),
]


@pytest.mark.parametrize(("method", "target", "status"), WRONG, ids=str)
def test_wrong_requests(rest: Rest, method: str, target: str, status: int) -> None:
    body = {"POST": {"schema": STRING}, "PUT": {"compatibility": "NONE", "mode": "READONLY"}}.get(
        method
    )

    answer = rest.ask(method, target, body)

    assert answer.status == status
    assert answer.body["message"]
    assert rest.get("/contexts") == ["."]


def test_contexts_have_a_limit(
    monkeypatch: pytest.MonkeyPatch, raftka_registry: RegistryServer, rest: Rest
) -> None:
    small(monkeypatch, "registry", limits.CONTEXTS, 1)
    rest.register(":.one:t", STRING)

    assert rest.try_register(":.two:t", STRING).code == 42205

    assert hits(raftka_registry, limits.CONTEXTS) == 1
    rest.register(":.one:u", INT)
    rest.register("t", INT)


@pytest.mark.parametrize("target", ["/subjects/:{}:t/versions", "/contexts/{}/subjects/t/versions"])
def test_names_of_contexts_have_a_limit(
    raftka_registry: RegistryServer, rest: Rest, target: str
) -> None:
    longest = "." + "a" * (limits.CONTEXT_CHARACTERS.value - 1)
    assert rest.ask("POST", target.format(longest), {"schema": STRING}).status == 200

    assert rest.ask("POST", target.format(f"{longest}a"), {"schema": STRING}).status == 422

    assert hits(raftka_registry, limits.CONTEXT_CHARACTERS) == 1


# what is stored


def stored(cluster: Cluster, topic: str) -> list[tuple[object, object]]:
    with Client(addresses_of(cluster.bootstrap_servers)) as client:
        reader = Reader(client, {(topic, 0): 0}, committed=True)
        records = reader.poll(5, 100)
        reader.close()
    return [
        (json.loads(each.key or b""), None if each.value is None else json.loads(each.value))
        for each in records
    ]


def test_records_are_confluents(
    raftka_cluster: Cluster, raftka_registry: RegistryServer, rest: Rest
) -> None:
    rest.register(":.one:t", STRING)
    rest.put("/contexts/.one/config", {"compatibility": "NONE"})
    rest.delete("/subjects/:.one:t")
    rest.delete("/subjects/:.one:t?permanent=true")

    found = stored(raftka_cluster, raftka_registry._log._where[0])

    context = {"keytype": "CONTEXT", "tenant": "default", "context": ".one", "magic": 0}
    schema = {"keytype": "SCHEMA", "subject": ":.one:t", "version": 1, "magic": 1}
    assert found[:3] == [
        (context, {"tenant": "default", "context": ".one"}),
        (schema, {"subject": ":.one:t", "version": 1, "id": 1, "schema": STRING, "deleted": False}),
        ({"keytype": "CONFIG", "subject": ":.one:", "magic": 0}, {"compatibilityLevel": "NONE"}),
    ]
    assert found[-2:] == [
        (context, {"tenant": "default", "context": ".one", "maxId": 1}),
        (schema, None),
    ]


def test_another_instance_reads_the_same(
    raftka_cluster: Cluster, raftka_registry: RegistryServer, rest: Rest
) -> None:
    for name in ("t", ":.one:t", ":.two:t"):
        rest.register(name, STRING)
    rest.put("/config/:.two:", {"compatibility": "FULL"})

    with raftka_cluster.registry(raftka_registry._log._where[0]) as other, Rest(other) as second:
        assert second.get("/contexts") == [".", ".one", ".two"]
        assert second.get("/subjects") == rest.get("/subjects")
        assert second.get("/config/:.two:") == {"compatibilityLevel": "FULL"}
        assert second.register(":.one:u", INT) == 2


def test_a_contexts_highest_id_is_known_after_compaction_took_its_schemas_away() -> None:
    """The records of a context have one key, so compaction keeps the last one."""
    state = State()
    for key, value in (context_record(".one"), used_ids_record(5, ".one"), used_ids_record(3)):
        state.apply(key, value)

    assert (state.highest(".one"), state.highest(), state.highest(".two")) == (5, 3, 0)
    assert (
        context_record(".one")[0] == used_ids_record(5, ".one")[0] != used_ids_record(5, ".two")[0]
    )


def test_names_that_others_wrote_in_another_way_are_one_subject() -> None:
    state = State()
    for subject, version in ((":.:t", 1), ("t", 2), (":.one:t", 1)):
        state.apply(*schema_record(Registered(subject, version, version, Body("AVRO", STRING))))
    for key in (
        b'{"keytype":"SCHEMA","subject":":*:t","version":1,"magic":1}',
        b'{"keytype":"SCHEMA","subject":":.:","version":1,"magic":1}',
    ):
        state.apply(key, b'{"subject":"t","version":1,"id":1,"schema":"x"}')

    assert [(each.subject, each.version) for each in state] == [(":.one:t", 1), ("t", 1), ("t", 2)]
    assert state.ignored == 2


# rights


def test_acls_of_the_topic_hold_in_every_context(secured_registry: RegistryServer) -> None:
    with login(secured_registry, "writer") as rest:
        assert rest.register(":.one:orders-value", STRING) == 1
        assert rest.try_register(":.one:hidden-value", STRING).status == 403
        assert rest.get("/contexts") == [".", ".one"]
        assert rest.ask("PUT", "/contexts/.one/config", {"compatibility": "NONE"}).status == 403
        assert rest.ask("PUT", "/contexts/.one/mode", {"mode": "READONLY"}).status == 403
        assert rest.ask("DELETE", "/contexts/.one").status == 403
        assert rest.get("/config/:.one:?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    with login(secured_registry, "nobody") as rest:
        assert rest.get("/contexts") == ["."]
        assert rest.ask("GET", "/contexts/.one/schemas/ids/1").status == 403
        assert rest.get("/contexts/.one/subjects") == rest.get("/subjects?subjectPrefix=:*:") == []
    with login(secured_registry, "admin") as rest:
        rest.put("/contexts/.one/config", {"compatibility": "NONE"})
