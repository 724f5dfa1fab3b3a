"""Settings of the API on a real cluster: sources, filters, previews and changes."""

from collections.abc import Iterator

import pytest

from raftka.json_values import Json
from raftka.testing import Cluster
from tests.kit.console import Api, console_of


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Cluster, Api]]:
    with Cluster(2) as cluster, console_of(cluster) as console:
        yield cluster, Api(console.url)


@pytest.fixture
def cluster(shared: tuple[Cluster, Api]) -> Iterator[Cluster]:
    yield shared[0]
    shared[0].clean()


@pytest.fixture
def api(shared: tuple[Cluster, Api], cluster: Cluster) -> Api:
    cluster.create_topic("orders", retention_ms=77, max_message_bytes=55_555)
    return shared[1]


def setting(api: Api, path: str, name: str) -> Json:
    return {each["name"]: each for each in api.get(path)["settings"]}[name]


DEFAULT = {"value": "1048588", "source": "default"}  # of max.message.bytes
OF_TOPIC = "/api/topics/orders/settings"


def test_a_setting_shows_where_its_value_comes_from(api: Api) -> None:
    own = setting(api, OF_TOPIC, "max.message.bytes")
    other = setting(api, OF_TOPIC, "cleanup.policy")

    assert (own["value"], own["source"], own["own"], own["differs"]) == (
        "55555",
        "topic",
        True,
        True,
    )
    assert own["synonyms"] == [
        {"name": "max.message.bytes", "value": "55555", "source": "topic"},
        {"name": "message.max.bytes", "value": DEFAULT["value"], "source": "default"},
    ]
    assert own["without"] == DEFAULT
    assert own["type"] == "int"
    assert "batch" in own["documentation"]
    assert (other["value"], other["own"], other["differs"]) == ("delete", False, False)


def test_only_settings_that_differ_or_match_are_listed(api: Api) -> None:
    everything = api.get(OF_TOPIC)
    differing = api.get(OF_TOPIC, differs="true")
    found = api.get(OF_TOPIC, search="RETENTION ms")

    assert "retention.ms" in [each["name"] for each in differing["settings"]]
    assert all(each["differs"] for each in differing["settings"])
    assert differing["total"] == everything["differing"] < everything["of_all"]
    assert [each["name"] for each in found["settings"]] == [
        "delete.retention.ms",
        "local.retention.ms",
        "retention.ms",
    ]


def test_a_change_is_previewed_and_made(api: Api) -> None:
    changes = {"retention.ms": "99", "cleanup.policy": "compact"}
    preview = api.post(OF_TOPIC, changes=changes, validate_only=True)
    assert preview["changed"] == [
        {
            "name": "retention.ms",
            "before": {"value": "77", "source": "topic"},
            "after": {"value": "99", "source": "topic"},
        },
        {
            "name": "cleanup.policy",
            "before": {"value": "delete", "source": "default"},
            "after": {"value": "compact", "source": "topic"},
        },
    ]
    assert setting(api, OF_TOPIC, "retention.ms")["value"] == "77"
    api.post(OF_TOPIC, changes=changes)

    assert setting(api, OF_TOPIC, "retention.ms")["value"] == "99"
    assert setting(api, OF_TOPIC, "cleanup.policy")["source"] == "topic"


def test_an_own_value_is_taken_away(api: Api) -> None:
    changes = {"max.message.bytes": None}
    preview = api.post(OF_TOPIC, changes=changes, validate_only=True)
    assert preview["changed"][0]["after"] == DEFAULT
    api.post(OF_TOPIC, changes=changes)

    after = setting(api, OF_TOPIC, "max.message.bytes")
    assert {"value": after["value"], "source": after["source"]} == DEFAULT
    assert (after["own"], after["differs"]) == (False, False)


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_value_that_cannot_be_is_refused(api: Api, validate_only: bool) -> None:
    body = {"changes": {"retention.ms": "soon"}, "validate_only": validate_only}
    answer = api.ask("POST", OF_TOPIC, body=body)

    assert (answer.status, answer.json["error"]) == (400, "INVALID_CONFIG")
    assert "retention.ms" in answer.json["message"]
    assert api.ask("POST", OF_TOPIC, body={"changes": {}}).status == 400


def test_settings_of_a_broker_and_of_all(api: Api) -> None:
    one, everyone = "/api/brokers/1/settings", "/api/brokers/all/settings"
    api.post(everyone, changes={"log.retention.ms": "88"})
    assert setting(api, one, "log.retention.ms")["source"] == "all brokers"
    api.post(one, changes={"log.retention.ms": "99"})
    own = setting(api, one, "log.retention.ms")

    assert (own["value"], own["source"]) == ("99", "broker")
    assert own["without"] == {"value": "88", "source": "all brokers"}
    of_topic = [each["name"] for each in setting(api, OF_TOPIC, "retention.ms")["synonyms"]]
    assert of_topic[:2] == ["retention.ms", "log.retention.ms"]
    assert setting(api, everyone, "log.retention.ms")["value"] == "88"
    api.post(everyone, changes={"log.retention.ms": None})
    api.post(one, changes={"log.retention.ms": None})
    assert api.ask("GET", "/api/brokers/9/settings").status == 404
    assert api.ask("GET", "/api/brokers/x/settings").status == 404


def test_secrets_are_never_shown(cluster: Cluster, api: Api) -> None:
    rows = api.get("/api/brokers/1/settings")["settings"]
    hidden = [each for each in rows if each["hidden"]]

    assert hidden
    assert {each["value"] for each in hidden} == {None}
