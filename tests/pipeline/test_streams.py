"""`streams.yml`: what it declares, and what is said of mistakes in it. No Spark."""

import json
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="needs raftka[pipeline]")

from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.flows.streams import Declared, declared, load
from raftka.pipeline.project import PROJECTS
from raftka.pipeline.records.fields import Envelope
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.creation import ensure_topics
from raftka.pipeline.topics.options import addresses
from raftka.testing import Cluster

STREAM = {"topic": "t", "fields": {"truck": "int"}}


def told(stream: dict[str, Any] | None = None, folder: Path = Path("/p"), **more: Any) -> Declared:
    return declared({"streams": {"trucks": {**STREAM, **(stream or {})}}, **more}, folder, {})


def test_missing_values_have_defaults() -> None:
    found = told()

    stream = found.stream("trucks")
    assert (found.bootstrap, stream.formats, stream.watermark, stream.options) == (
        "localhost:9092",
        ("json",),
        None,
        {"startingOffsets": "earliest"},
    )
    assert (found.outputs, found.page) == ((), None)


def test_the_environment_may_name_the_brokers() -> None:
    assert declared({"bootstrap": "a:1"}, Path("/p"), {}).bootstrap == "a:1"
    assert (
        declared({"bootstrap": "a:1"}, Path("/p"), {"RAFTKA_BOOTSTRAP_SERVER": "b:2"}).bootstrap
        == "b:2"
    )


def test_a_lakes_path_counts_from_the_project() -> None:
    found = told(
        outputs={
            "a": {"from": "trucks", "delta": "lake/a"},
            "b": {"delta": "s3://bucket/b"},
            "c": {"topic": "c", "key": "truck"},
        }
    )

    assert [(each.source, each.path, each.topic, each.key) for each in found.outputs] == [
        ("trucks", "/p/lake/a", None, None),
        (None, "s3://bucket/b", None, None),
        (None, None, "c", "truck"),
    ]


def test_a_lake_may_be_changed_by_key() -> None:
    keyed = {
        "from": "trucks",
        "delta": "lake/a",
        "mode": "upsert",
        "key": ["truck", "day"],
        "order": "sent",
        "delete": "gone",
    }
    found = told(
        outputs={"a": keyed, "b": {"delta": "b", "key": "truck", "options": {"order": "sent"}}}
    )

    assert [each.options for each in found.outputs] == [
        {"mode": "upsert", "key": "truck,day", "order": "sent", "delete": "gone"},
        {"order": "sent", "key": "truck"},
    ]
    assert [each.key for each in found.outputs] == [None, None]  # the rows stay as they are


def test_a_streams_records_may_be_changes() -> None:
    stream = {
        "topic": "shop.public.orders",
        "format": ["json", "avro"],
        "envelope": "debezium",
        "key": ["id"],
        "fields": {"id": "int"},
    }
    (found,) = declared(
        {"registry": "http://localhost:8081", "streams": {"orders": stream}}, Path("/p"), {}
    ).streams

    assert found.envelope == Envelope("debezium", ("id",))
    assert [each.name for each in found.fields] == ["id", "_deleted", "_op", "_changed"]


def test_watermarks() -> None:
    assert told({"watermark": "10 seconds"}).stream("trucks").watermark == (
        "_timestamp",
        "10 seconds",
    )
    assert told({"watermark": {"column": "sent", "delay": "1 minute"}}).stream(
        "trucks"
    ).watermark == ("sent", "1 minute")


def test_schemas_by_number(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "7.avsc").write_text(json.dumps({"type": "string"}))

    assert told({"format": ["json", "avro"], "schemas": "s"}, tmp_path).stream(
        "trucks"
    ).schemas == {7: {"type": "string"}}
    (tmp_path / "s" / "7.avsc").write_text("{")
    with pytest.raises(OptionRefused, match=r"7\.avsc is no JSON"):
        told({"format": "avro", "schemas": "s"}, tmp_path)
    (tmp_path / "s" / "7.avsc").rename(tmp_path / "s" / "seven.avsc")
    with pytest.raises(OptionRefused, match=r"seven\.avsc: a schema's file has its id as name"):
        told({"format": "avro", "schemas": "s"}, tmp_path)


def test_a_registry_for_all_streams_or_for_one() -> None:
    streams = {
        "a": STREAM,
        "b": {**STREAM, "format": "avro", "registry": "https://b:1/"},
        "c": {"topic": "c", "format": "string"},
    }
    found = declared({"registry": "http://x:1, http://y:2", "streams": streams}, Path("/p"), {})

    assert [each.registry and each.registry.urls for each in found.streams] == [
        ("http://x:1", "http://y:2"),
        ("https://b:1",),
        None,
    ]
    assert found.stream("b").schemas == {}
    assert declared(
        {"registry": "http://x:1", "streams": streams},
        Path("/p"),
        {"RAFTKA_REGISTRY_URL": "http://z"},
    ).streams[0].registry == (RegistryAccess(("http://z",)))


def test_a_folder_of_one_stream_goes_before_the_registry_of_all(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('"string"')
    stream = told({"format": "avro", "schemas": "."}, tmp_path, registry="http://x:1").stream(
        "trucks"
    )

    assert (stream.registry, stream.schemas) == (None, {7: "string"})


def test_the_registrys_password_is_in_the_environment() -> None:
    registry = {
        "url": "https://x",
        "user": "me",
        "password_from": "SECRET",
        "ca": "ca.pem",
        "certificate": "c.pem",
        "key": "/k.pem",
    }
    found = (
        declared({"registry": registry, "streams": {"a": STREAM}}, Path("/p"), {"SECRET": "s"})
        .streams[0]
        .registry
    )
    plain = {"registry": "http://x", "streams": {"a": STREAM}}

    assert found == RegistryAccess(("https://x",), "me", "s", "/p/ca.pem", "/p/c.pem", "/k.pem")
    assert declared(
        plain, Path("/p"), {"RAFTKA_REGISTRY_USER": "u", "RAFTKA_REGISTRY_PASSWORD": "p"}
    ).streams[0].registry == (RegistryAccess(("http://x",), "u", "p"))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "it is to be a mapping"),
        ({"stream": {}}, "it has stream, which means nothing: is it streams"),
        ({"streams": {"a b": STREAM}}, "'a b' is no name for a view"),
        ({"streams": {"a": {"topic": "t"}}}, "a: which fields do its records have"),
        ({"streams": {"a": {"fields": {"x": "int"}}}}, "a has no topic"),
        ({"streams": {"a": {**STREAM, "format": "xml"}}}, r"a\.format is 'xml'"),
        ({"streams": {"a": {**STREAM, "format": ["json", "string"]}}}, r"a\.format"),
        ({"streams": {"a": {**STREAM, "format": "string"}}}, "a: a string has one column, value"),
        (
            {"streams": {"a": {**STREAM, "watermak": "1 s"}}},
            "a has watermak, which means nothing: is it watermark",
        ),
        ({"streams": {"a": {**STREAM, "watermark": 10}}}, r"a\.watermark is 10"),
        (
            {"streams": {"a": {**STREAM, "format": "avro", "schemas": "nowhere"}}},
            "there is no schema in",
        ),
        ({"streams": {"a": {**STREAM, "format": "protobuf"}}}, "a: Protobuf needs a registry"),
        ({"streams": {"a": {**STREAM, "format": [["json"]]}}}, r"a\.format"),
        (
            {"streams": {"a": {**STREAM, "registry": "http://x", "schemas": "s"}}},
            "a: its schemas are in a registry or in a folder",
        ),
        (
            {"streams": {"a": {**STREAM, "registry": {"url": "http://x", "password": "s"}}}},
            r"a\.registry has password, which means nothing",
        ),
        ({"registry": "x:8081"}, "'x:8081' is no URL of a registry"),
        ({"registry": {"user": "me"}}, "registry has no url"),
        (
            {"registry": {"url": "http://x", "user": "me"}},
            "the user me, whose password is to be in the environment, in RAFTKA_REGISTRY_PASSWORD",
        ),
        ({"registry": {"url": "http://x", "key": "k"}}, "registry has a key, and no certificate"),
        ({"outputs": {"o": {"from": "a"}}}, "o: where to"),
        (
            {"streams": {"s": {"topic": "a", "format": "string", "envelope": "upsert"}}},
            "s has an envelope: which fields name a row",
        ),
        (
            {"streams": {"s": {"topic": "a", "key": "id", "fields": {"id": "int"}}}},
            "s has key, which is of streams with an envelope",
        ),
        ({"outputs": {"o": {"topic": "a", "delta": "b"}}}, "o: where to"),
        ({"outputs": {"o": {"topic": "a", "order": "b"}}}, "o has order, which is of lakes"),
        ({"outputs": {"o": {"delta": "a", "mode": "upsert"}}}, "o: mode upsert needs a key"),
        (
            {"outputs": {"o": {"delta": "a", "key": ["b"], "options": {"Key": "c"}}}},
            "o has key twice",
        ),
        ({"outputs": {"o": {"delta": "a", "key": {"b": 1}}}}, "o.key is to be a text"),
        (
            {"outputs": {"o": {"delta": "a", "delete": "gone", "options": {"order": "at"}}}},
            "o: order decides between rows with one key",
        ),
        ({"page": {"alerts": "a"}}, "page has no positions"),
    ],
)
def test_mistakes_are_reported(document: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(OptionRefused, match=said):
        declared(document, tmp_path, {})


def test_invalid_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"streams\.yml is not there.*raftka pipeline init"):
        load(tmp_path / "streams.yml")
    (tmp_path / "streams.yml").write_text("streams: {")
    with pytest.raises(OptionRefused, match="is no YAML"):
        load(tmp_path / "streams.yml")


def test_the_trucks_are_declared_without_a_mistake() -> None:
    found = load(PROJECTS / "trucks" / "streams.yml")

    assert [each.name for each in found.streams] == ["trucks"]
    assert [each.name for each in found.outputs] == [
        "bronze",
        "silver",
        "dead_letters",
        "minutes",
        "positions",
        "alerts",
    ]


def test_topics_that_are_missing_are_made(cluster: Cluster) -> None:
    there = cluster.create_topic(partitions=2)
    outputs = {
        "a": {"topic": "made", "partitions": 3, "config": {"cleanup.policy": "compact"}},
        "b": {"topic": there, "partitions": 9},
    }
    found = declared({"bootstrap": cluster.bootstrap_servers, "outputs": outputs}, Path("/p"), {})

    ensure_topics(found, 20)
    ensure_topics(found, 20)

    brokers = Brokers(addresses({"bootstrap.servers": cluster.bootstrap_servers}), "test", 20)
    assert {
        name: len(topic.partitions) for name, topic in brokers.topics(["made", there]).items()
    } == {"made": 3, there: 2}
    brokers.close()


def test_a_topic_that_can_not_be_made_is_reported(cluster: Cluster) -> None:
    found = declared(
        {
            "bootstrap": cluster.bootstrap_servers,
            "outputs": {"a": {"topic": "bad", "config": {"no.such": "1"}}},
        },
        Path("/p"),
        {},
    )

    with pytest.raises(PipelineError, match="the topic bad can not be made: INVALID_CONFIG"):
        ensure_topics(found, 20)
