"""Settings (`/config`), data contracts, and fields that a request does not know."""

import json

import pytest

from raftka.json_values import Json
from raftka.registry.limits import SCHEMA_CHARACTERS
from raftka.registry.server import RegistryServer
from tests.registry.rest import Rest, record, talk

STRING = '"string"'
ONE = record("One", a="string")
TWO = record("One", a="string", b=("int", 0))
BREAKS = record("One", a="string", d="int")
ENCRYPT = {
    "name": "encrypt",
    "type": "ENCRYPT",
    "kind": "TRANSFORM",
    "mode": "WRITEREAD",
    "tags": ["PII"],
    "params": {"encrypt.kek.name": "k"},
    "disabled": False,
}
RULES = {"domainRules": [ENCRYPT]}
OWNER = {"properties": {"owner": "fleet"}}


# requests without a level


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"normalize": True},
        {"compatibility": None},
        {"compatibilityLevel": None},
        {"compatibilityGroup": "major"},
        {"overrideRuleSet": RULES},
    ],
)
@pytest.mark.parametrize("path", ["/config", "/config/t", "/config/:.one:", "/config/:.__GLOBAL:"])
def test_settings_without_a_level_leave_the_level(rest: Rest, path: str, body: Json) -> None:
    rest.put(path, {"compatibility": "FULL"})

    rest.put(path, body)

    assert rest.get(path)["compatibilityLevel"] == "FULL"


def test_a_subject_that_sets_no_level_has_its_contexts(rest: Rest) -> None:
    rest.put("/config", {"compatibility": "FORWARD"})
    rest.put("/config/t", {"normalize": True})

    assert rest.get("/config/t") == {"compatibilityLevel": "FORWARD", "normalize": True}
    rest.register("t", ONE)
    assert rest.try_register("t", '"int"').code == 409


@pytest.mark.parametrize("path", ["/config", "/config/t", "/mode", "/mode/t"])
def test_an_empty_body_is_refused(raftka_registry: RegistryServer, path: str) -> None:
    request = f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    answer = talk(raftka_registry, request.encode())

    assert answer.startswith(b"HTTP/1.1 422 ")
    assert b"the body is empty" in answer


def test_settings_are_kept_and_changed_one_by_one(rest: Rest) -> None:
    first = {"compatibility": "FULL", "normalize": True, "compatibilityGroup": "major"}
    assert rest.put("/config/t", first) == first
    changed = rest.put("/config/t", {"normalize": None, "defaultMetadata": OWNER})

    wanted = {"compatibilityGroup": "major", "defaultMetadata": OWNER}
    assert changed == {"compatibility": "FULL", **wanted}
    assert rest.get("/config/t") == {"compatibilityLevel": "FULL", **wanted}
    assert rest.delete("/config/t") == {"compatibilityLevel": "FULL", **wanted}
    assert rest.ask("GET", "/config/t").code == 40408


def test_a_level_may_have_the_name_that_answers_give_it(rest: Rest) -> None:
    assert rest.put("/config/t", {"compatibilityLevel": "full"}) == {"compatibility": "FULL"}
    both = {"compatibilityLevel": "FULL", "compatibility": "NONE"}
    assert rest.ask("PUT", "/config/t", both).code == 422


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        ({"compatibilty": "NONE"}, 422, "compatibilty"),
        ({"compatibility": 7}, 42203, "level"),
        ({"compatibility": "NONE", "validateFields": True}, 422, "validateFields"),
        ({"validateRules": True}, 422, "validateRules"),
        ({"compatibilityPolicy": "LENIENT"}, 422, "compatibilityPolicy"),
        ({"aliasForDeks": "other"}, 422, "aliasForDeks"),
        ({"normalize": "yes"}, 422, "normalize"),
        ({"normalize": 1}, 422, "normalize"),
        ({"alias": 7}, 422, "alias"),
        ({"alias": "\n"}, 422, "control"),
        ({"compatibilityGroup": ["x"]}, 422, "compatibilityGroup"),
        ({"defaultMetadata": {"propertys": {}}}, 422, "propertys"),
        ({"overrideRuleSet": {"rules": []}}, 42210, "rules"),
    ],
)
def test_settings_that_are_not_supported_are_refused_by_name(
    rest: Rest, body: Json, code: int, named: str
) -> None:
    answer = rest.ask("PUT", "/config/t", body)

    assert answer.code == code
    assert named in answer.body["message"]
    assert rest.ask("GET", "/config/t").code == 40408


# what settings do


def test_normalize_holds_for_all_schemas_of_a_subject(rest: Rest) -> None:
    rest.put("/config/t", {"normalize": True})

    rest.register("t", '{"type":"record","name":"R","fields":[],"doc":"d"}')

    normal = {"type": "record", "name": "R", "doc": "d", "fields": []}
    assert rest.get("/subjects/t/versions/1")["schema"] == json.dumps(normal, separators=(",", ":"))


def test_only_versions_of_one_compatibility_group_are_compared(rest: Rest) -> None:
    rest.put("/config/t", {"compatibilityGroup": "major"})
    rest.register("t", ONE, metadata={"properties": {"major": "1"}})

    assert rest.try_register("t", BREAKS, metadata={"properties": {"major": "1"}}).code == 409
    assert rest.register("t", BREAKS, metadata={"properties": {"major": "2"}})
    check = {"schema": json.dumps(TWO), "metadata": {"properties": {"major": "1"}}}
    assert rest.ask("POST", "/compatibility/subjects/t/versions", check).body["is_compatible"]


def test_an_alias_stands_for_a_subject(rest: Rest) -> None:
    number = rest.register("orders", ONE)
    rest.put("/config/old-orders", {"alias": "orders"})

    assert rest.get("/subjects/old-orders/versions/latest")["subject"] == "orders"
    assert rest.register("old-orders", ONE) == number
    assert rest.get("/subjects") == ["orders"]
    rest.put("/config/old-orders", {"alias": None})
    assert rest.ask("GET", "/subjects/old-orders/versions").code == 40401
    assert rest.get("/config/old-orders") == {"compatibilityLevel": "BACKWARD"}
    assert rest.ask("PUT", "/config", {"alias": "orders"}).code == 422
    assert rest.ask("PUT", "/config/:.one:", {"alias": "orders"}).code == 422


def test_an_alias_is_of_its_subjects_context(rest: Rest) -> None:
    rest.register(":.one:orders", ONE)
    rest.put("/config/:.one:old", {"alias": "orders"})

    assert rest.get("/subjects/:.one:old/versions/1")["subject"] == ":.one:orders"
    assert rest.get("/contexts/.one/subjects/old/versions/1")["subject"] == ":.one:orders"


def test_a_schema_gets_the_defaults_and_overrides_of_its_settings(rest: Rest) -> None:
    more = {"properties": {"owner": "nobody", "stage": "prod"}}
    rest.put("/config", {"defaultMetadata": more, "overrideMetadata": {"sensitive": ["owner"]}})
    rest.put("/config/t", {"overrideRuleSet": RULES})

    rest.register("t", ONE, metadata=OWNER)

    found = rest.get("/subjects/t/versions/1")
    assert found["metadata"] == {
        "properties": {"owner": "fleet", "stage": "prod"},
        "sensitive": ["owner"],
    }
    assert found["ruleSet"] == RULES
    assert rest.register("t", ONE, metadata=OWNER) == found["id"]
    assert rest.get("/subjects/t/versions") == [1]


@pytest.mark.parametrize("settings", [{}, {"defaultMetadata": OWNER}])
def test_a_schema_that_says_its_version_is_registered_once(rest: Rest, settings: Json) -> None:
    rest.put("/config/t", settings)
    number = rest.register("t", ONE, version=-1)

    assert rest.register("t", ONE) == rest.register("t", ONE, version=-1) == number
    assert rest.get("/subjects/t/versions") == [1]


def test_defaults_of_a_subject_may_be_taken_as_they_are(rest: Rest) -> None:
    wrong = record("One", a=("int", "none"))
    assert rest.try_register("t", wrong).code == 42201

    rest.put("/config/t", {"validateNewSchemas": False})

    assert rest.register("t", wrong)


# contracts


def test_a_contract_is_stored_and_given_back_everywhere(rest: Rest) -> None:
    number = rest.register("t", ONE, metadata=OWNER, ruleSet=RULES)

    for path in ("/subjects/t/versions/1", f"/schemas/ids/{number}", "/subjects/t/metadata"):
        found = rest.get(path)
        assert (found["metadata"], found["ruleSet"]) == (OWNER, RULES)
    assert rest.get("/schemas")[0]["ruleSet"] == RULES
    asked = {"schema": json.dumps(ONE), "metadata": OWNER, "ruleSet": RULES}
    assert rest.ask("POST", "/subjects/t", asked).body["ruleSet"] == RULES


def test_a_contract_is_part_of_a_versions_identity(rest: Rest) -> None:
    plain = rest.register("t", ONE)
    ruled = rest.register("t", ONE, ruleSet=RULES)
    owned = rest.register("t", ONE, ruleSet=RULES, metadata=OWNER)

    assert len({plain, ruled, owned}) == 3
    assert rest.get("/subjects/t/versions") == [1, 2, 3]
    assert rest.register("t", ONE) == plain
    assert rest.register("u", ONE) == plain
    asked = {"schema": json.dumps(ONE), "ruleSet": RULES}
    assert rest.ask("POST", "/subjects/t", asked).body["version"] == 2


def test_a_new_version_keeps_the_contract_unless_it_has_its_own(rest: Rest) -> None:
    rest.register("t", ONE, metadata=OWNER, ruleSet=RULES)
    rest.register("t", TWO)
    assert rest.get("/subjects/t/versions/2")["ruleSet"] == RULES
    assert rest.ask("POST", "/subjects/t", {"schema": json.dumps(TWO)}).body["version"] == 2

    rest.register("t", TWO, ruleSet={}, metadata={})

    assert rest.get("/subjects/t/versions/3").keys() == {"subject", "version", "id", "schema"}


def test_a_contract_without_a_schema_is_for_the_one_before(rest: Rest) -> None:
    rest.register("t", ONE)

    answer = rest.ask("POST", "/subjects/t/versions", {"ruleSet": RULES})

    assert answer.status == 200
    found = rest.get("/subjects/t/versions/2")
    assert (json.loads(found["schema"]), found["ruleSet"]) == (ONE, RULES)
    assert rest.ask("POST", "/subjects/u/versions", {"ruleSet": RULES}).code == 42201


def test_contracts_of_one_meaning_are_one(rest: Rest) -> None:
    short = {"domainRules": [{"type": "CEL", "name": "r", "tags": ["b", "a", "a"], "doc": ""}]}
    long: Json = {
        "migrationRules": [],
        "domainRules": [
            {
                "name": "r",
                "type": "CEL",
                "kind": "TRANSFORM",
                "mode": "WRITEREAD",
                "tags": ["a", "b"],
                "params": {},
                "expr": None,
                "disabled": False,
            }
        ],
    }

    assert rest.register("t", ONE, ruleSet=short) == rest.register("t", ONE, ruleSet=long)


def test_the_newest_version_with_given_metadata_is_found(rest: Rest) -> None:
    for schema, properties in (
        (ONE, {"major": "1", "x": "y"}),
        (TWO, {"major": "1"}),
        (TWO, {"major": "2"}),
    ):
        rest.register("t", schema, metadata={"properties": properties})

    assert rest.get("/subjects/t/metadata?key=major&value=1")["version"] == 2
    assert rest.get("/subjects/t/metadata?key=major&value=1&key=x&value=y")["version"] == 1
    assert rest.ask("GET", "/subjects/t/metadata?key=major&value=9").code == 40403
    assert rest.ask("GET", "/subjects/u/metadata?key=major&value=1").code == 40401
    assert rest.ask("GET", "/subjects/t/metadata?key=major").code == 422
    rest.delete("/subjects/t/versions/3")
    assert rest.ask("GET", "/subjects/t/metadata?key=major&value=2").code == 40403
    assert rest.get("/subjects/t/metadata?key=major&value=2&deleted=true")["version"] == 3


@pytest.mark.parametrize(
    ("field", "value", "code", "named"),
    [
        ("ruleSet", {"domainRule": []}, 42210, "domainRule"),
        ("ruleSet", {"domainRules": [{"name": "r"}]}, 42210, "no type"),
        ("ruleSet", {"domainRules": [{"type": "CEL"}]}, 42210, "no name"),
        ("ruleSet", {"domainRules": [{"type": "CEL", "name": "1"}]}, 42210, "'1'"),
        ("ruleSet", {"domainRules": [{**ENCRYPT, "mode": "UPGRADE"}]}, 42210, "mode"),
        ("ruleSet", {"migrationRules": [ENCRYPT]}, 42210, "mode"),
        ("ruleSet", {"domainRules": [{**ENCRYPT, "kind": "?"}]}, 42210, "kind"),
        ("ruleSet", {"domainRules": [{**ENCRYPT, "tag": ["PII"]}]}, 42210, "tag"),
        ("ruleSet", {"domainRules": [{**ENCRYPT, "disabled": "no"}]}, 42210, "disabled"),
        ("ruleSet", {"domainRules": [ENCRYPT], "encodingRules": [ENCRYPT]}, 42210, "two rules"),
        ("ruleSet", {"enableAt": "HOME"}, 42210, "enableAt"),
        ("ruleSet", [], 42210, "ruleSet"),
        ("metadata", {"properties": {"a": 1}}, 422, "properties"),
        ("metadata", {"tags": {"a": "PII"}}, 422, "tags"),
        ("metadata", {"owner": "me"}, 422, "owner"),
        ("metadata", "x", 422, "metadata"),
        ("references", [{"name": "a", "subject": "b", "version": 1, "id": 2}], 422, "id"),
        ("rulesSet", RULES, 422, "rulesSet"),
        ("schemaTagsToAdd", [{"tags": ["PII"]}], 422, "schemaTagsToAdd"),
        ("propagateSchemaTags", True, 422, "propagateSchemaTags"),
        ("subject", "u", 422, "another subject"),
    ],
)
def test_a_contract_that_would_be_lost_is_refused_by_name(
    rest: Rest, field: str, value: Json, code: int, named: str
) -> None:
    body = {"schema": json.dumps(ONE), field: value}
    for path in (
        "/subjects/t/versions",
        "/subjects/t",
        "/compatibility/subjects/t/versions/latest",
    ):
        answer = rest.ask("POST", path, body)

        assert answer.code == code
        assert named in answer.body["message"]
    assert rest.get("/subjects") == []


@pytest.mark.parametrize("field", ["metadata", "ruleSet"])
def test_a_contract_counts_as_part_of_a_schemas_size(rest: Rest, field: str) -> None:
    long = {"properties": {"a": "x" * (1 << 20)}}
    rules = {"domainRules": [{**ENCRYPT, "doc": "x" * (1 << 20)}]}

    answer = rest.try_register("t", ONE, **{field: long if field == "metadata" else rules})

    assert answer.code == 42201


def test_settings_have_a_size(rest: Rest, raftka_registry: RegistryServer) -> None:
    long = {"defaultMetadata": {"properties": {"a": "x" * (1 << 20)}}}

    assert rest.ask("PUT", "/config", long).code == 422
    page = talk(raftka_registry, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert f"{SCHEMA_CHARACTERS.metric} 1\n".encode() in page


def test_a_record_that_the_topic_does_not_take_is_the_requests_fault(rest: Rest) -> None:
    """Quotes are two characters in it."""
    quotes = json.dumps({"type": "string", "doc": '"' * 300_000})

    assert rest.try_register("t", quotes).code == 42209
    long = {"defaultMetadata": {"properties": {"a": '"' * 600_000}}}
    assert rest.ask("PUT", "/config/t", long).code == 42209
    assert rest.register("t", STRING) == 1


# parameters


@pytest.mark.parametrize(
    ("method", "target", "named"),
    [
        ("GET", "/subjects?delete=true", "delete"),
        ("GET", "/subjects?deleted=yes", "deleted"),
        ("GET", "/subjects?deleted=false&deleted=true", "deleted"),
        ("GET", "/schemas?ruleType=CEL", "ruleType"),
        ("GET", "/schemas?aliases=true", "aliases"),
        ("GET", "/subjects/t/versions/1?format=resolved", "resolved"),
        ("GET", "/subjects/t/versions/1?findTags=PII", "findTags"),
        ("DELETE", "/subjects/t?permanent=1", "permanent"),
        ("DELETE", "/subjects/t?force=true", "force"),
        ("POST", "/subjects/t/versions?force=true", "force"),
        ("POST", "/subjects/t/versions?normalise=true", "normalise"),
        ("PUT", "/config/t?defaultToGlobal=true", "defaultToGlobal"),
        ("PUT", "/mode/t?forced=true", "forced"),
        ("GET", "/config/t?defaultToGlobal=on", "defaultToGlobal"),
        ("POST", "/compatibility/subjects/t/versions?verbose=1", "verbose"),
    ],
)
def test_parameters_that_a_request_has_not_are_refused_by_name(
    rest: Rest, method: str, target: str, named: str
) -> None:
    rest.register("t", ONE)

    answer = rest.ask(method, target, {"schema": STRING})

    assert answer.code == 422
    assert named in answer.body["message"]


def test_parameters_that_ask_for_nothing_are_passed_over(rest: Rest) -> None:
    rest.register("t", ONE)

    assert rest.get("/subjects/t/versions/1?format=&findTags=&referenceFormat=")
    assert rest.get("/schemas?aliases=false&ruleType=&deleted=False") == rest.get("/schemas")


def test_fields_that_ask_for_nothing_are_passed_over(rest: Rest) -> None:
    nothing: Json = {
        "schemaTagsToAdd": None,
        "schemaTagsToRemove": [],
        "propagateSchemaTags": False,
    }

    number = rest.register(":.one:t", ONE, **nothing)
    asked = {"schema": json.dumps(ONE), "subject": "t"}
    assert rest.ask("POST", "/contexts/.one/subjects/t", asked).body["id"] == number


def test_a_client_may_write_deleted_only_with_a_line(rest: Rest) -> None:
    rest.register("t", ONE)
    rest.register("u", ONE)
    rest.delete("/subjects/u")

    assert rest.get("/subjects?deleted_only=True") == ["u"]


@pytest.mark.parametrize(
    "path", ["dek-registry/v1/keks/k", "exporters", "associations/resources/a/b"]
)
def test_parts_of_the_api_that_are_not_there_are_refused_by_name(rest: Rest, path: str) -> None:
    for method in ("GET", "POST"):
        answer = rest.ask(method, f"/{path}", {})

        assert answer.code == 404
        assert "this registry has no such requests" in answer.body["message"]


def test_contexts_have_a_prefix(rest: Rest) -> None:
    for context in (".one", ".two"):
        rest.register(f":{context}:t", ONE)

    assert rest.get("/contexts?contextPrefix=.t") == [".two"]


def test_deleted_versions_are_negative_numbers_if_asked_for(rest: Rest) -> None:
    rest.register("t", ONE)
    rest.register("t", TWO)
    rest.delete("/subjects/t/versions/1")

    assert rest.get("/subjects/t/versions?deletedAsNegative=true") == [-1, 2]
