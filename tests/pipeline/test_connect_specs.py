"""Connectors in `streams.yml`: what they become, and what is said of mistakes. No Spark, and no
connection.
"""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml", reason="needs raftka[pipeline]")

from raftka.pipeline.connect.specs import Sink
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.streams import Declared, declared
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.creation import ensure_topics
from raftka.pipeline.topics.options import addresses
from raftka.testing import Cluster

ORDERS = {"files": "inbox", "fields": {"id": "bigint", "price": "double?"}}
TABLE = {"url": "sqlite:///a.db", "name": "t"}


def told(streams: dict[str, Any] | None = None, outputs: dict[str, Any] | None = None) -> Declared:
    return declared(
        {"bootstrap": "b:1", "streams": streams or {}, "outputs": outputs or {}}, Path("/p"), {}
    )


def out(**given: Any) -> Sink:
    (found,) = told(outputs={"o": {"from": "v", **given}}).outputs
    assert (found.source, found.topic, found.path) == ("v", None, None)
    assert found.sink is not None
    return found.sink


def test_a_folder_becomes_sparks_file_source_with_a_place_for_rows_that_do_not_fit() -> None:
    found = told(
        {
            "orders": {
                **ORDERS,
                "format": "csv",
                "options": {"sep": ";", "header": False, "maxFilesPerTrigger": 10},
            }
        }
    )

    (source,) = found.sources
    assert (found.streams, source.name, source.format, source.kind) == (
        (),
        "orders",
        "csv",
        "files",
    )
    assert source.options == {
        "path": "/p/inbox",
        "maxFileAge": "36500d",
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_corrupt_record",
        "header": "false",
        "enforceSchema": "false",
        "sep": ";",
        "maxFilesPerTrigger": "10",
    }
    (source,) = told(
        {
            "orders": {
                **ORDERS,
                "files": "s3a://b/x",
                "format": "parquet",
                "watermark": {"column": "at", "delay": "1 minute"},
            }
        }
    ).sources
    assert (source.options, source.watermark) == (
        {"path": "s3a://b/x", "maxFileAge": "36500d"},
        ("at", "1 minute"),
    )


def test_outputs_into_folders() -> None:
    assert out(files="archive", format="parquet") == Sink(
        "files", "parquet", {"path": "/p/archive"}
    )
    assert out(files="archive", format="csv", options={"compression": "gzip"}).options == {
        "path": "/p/archive",
        "header": "true",
        "compression": "gzip",
    }
    assert out(files="archive").format == "json"


def test_outputs_to_webhooks() -> None:
    found = out(
        webhook="https://x/y",
        rows_per_request=5,
        headers={"X-A": "b"},
        secret_headers={"Authorization": "TOKEN"},
        dead_letters="refused",
    )

    assert (found.kind, found.format, found.dead_letters) == (
        "webhook",
        "raftka_webhook",
        "refused",
    )
    assert found.options == {
        "url": "https://x/y",
        "rows_per_request": "5",
        "header.X-A": "b",
        "secret_header.Authorization": "TOKEN",
        "dead_letters": "refused",
        "kafka.bootstrap.servers": "b:1",
    }


def test_tables_and_where_sqlites_files_are() -> None:
    (source,) = told(
        {
            "s": {
                "table": {"url": "sqlite:///data/shop.db", "name": "orders", "column": "id"},
                "fields": {"id": "bigint"},
            }
        }
    ).sources
    assert (source.kind, source.format) == ("table", "raftka_table")
    assert source.options == {"url": "sqlite:////p/data/shop.db", "name": "orders", "column": "id"}

    found = out(
        table={
            "url": "sqlite:////shop.db",
            "name": "orders",
            "key": ["id", "day"],
            "order": "at",
            "timeout": 5,
        }
    )
    assert (found.kind, found.format) == ("table", "raftka_table")
    assert found.options == {
        "url": "sqlite:////shop.db",
        "name": "orders",
        "key": "id,day",
        "order": "at",
        "timeout": "5",
    }


def test_iceberg_tables_in_catalogs_and_where_those_are() -> None:
    found = out(
        iceberg={
            "table": "a.b",
            "catalog": {"type": "sql", "uri": "sqlite:///c.db", "warehouse": "lake"},
            "secrets": {"s3.secret-access-key": "K"},
        }
    )

    assert (found.kind, found.format) == ("iceberg", "raftka_iceberg")
    assert found.options == {
        "table": "a.b",
        "catalog.type": "sql",
        "catalog.uri": "sqlite:////p/c.db",
        "catalog.warehouse": "/p/lake",
        "secret.s3.secret-access-key": "K",
    }


def test_columns_are_expressions_of_any_output() -> None:
    found = told(
        outputs={
            "a": {"from": "v", "topic": "t", "columns": ["n", "upper(x) as y"]},
            "b": {"from": "v", "files": "f", "columns": ["n"]},
        }
    )

    assert [each.columns for each in found.outputs] == [("n", "upper(x) as y"), ("n",)]


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ({**ORDERS, "topic": "t"}, "orders has files and topic: it reads one of them"),
        ({**ORDERS, "format": "avro"}, r"orders\.format is 'avro': one of csv, json, parquet"),
        ({"files": "inbox"}, "orders: which fields do its rows have"),
        ({**ORDERS, "schemas": "x"}, "orders has schemas, which means nothing"),
        ({**ORDERS, "files": ""}, r"orders\.files is to be a folder or a URL"),
        ({**ORDERS, "watermark": "10 seconds"}, r"orders\.watermark is '10 seconds': \{column"),
        (
            {**ORDERS, "options": {"mode": "FAILFAST"}},
            "mode can not be set: .* rows that do not fit go to orders_bad",
        ),
        ({**ORDERS, "options": {"sep": None}}, r"orders\.options\.sep is to be a text"),
        (
            {**ORDERS, "format": "csv", "fields": {"a": ["int"]}},
            r"orders\.fields: a can not be in a CSV file",
        ),
        ({"table": "t", "fields": {"id": "int"}}, r"orders\.table is to be a mapping"),
        ({"table": {**TABLE}, "fields": {"id": "int"}}, "orders: which column of the table grows"),
        (
            {"table": {**TABLE, "column": "nr"}, "fields": {"id": "int"}},
            "orders: column names nr, which is no field",
        ),
        ({"table": {**TABLE, "column": "id"}}, "orders: which fields do its rows have"),
        (
            {"table": {**TABLE, "column": "id", "kolumn": "x"}, "fields": {"id": "int"}},
            "orders: there is no option kolumn: is it column",
        ),
        (
            {"table": {**TABLE, "column": "id"}, "fields": {"id": "int"}, "options": {}},
            "orders has options, which means nothing",
        ),
        ({"topik": "t"}, "orders has topik, which means nothing: is it topic"),
        ({"fields": {"a": "int"}}, "orders has no topic, and none of files, table"),
    ],
)
def test_mistakes_in_streams_are_told(stream: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        told({"orders": stream})


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"files": "a", "topic": "t"}, "o has files and topic: it goes to one of them"),
        ({"files": "a", "webhook": "https://x"}, "o has files and webhook"),
        ({"files": "a", "key": "id"}, "o has key, which means nothing"),
        ({"files": "a/*"}, r"o\.files is to be one folder"),
        ({"files": "a", "format": "orc"}, r"o\.format is 'orc'"),
        ({"files": "a", "options": {"path": "b"}}, "path can not be set"),
        ({"files": "a", "columns": "id"}, r"o\.columns is to be a list"),
        (
            {"webhook": "http://example.org", "secret_headers": {"a": "B"}},
            "o: secret_headers would travel in the open",
        ),
        ({"webhook": "https://x", "retries": 99}, "o: retries is '99'"),
        ({"webhook": "https://x", "headers": {"a": ["b"]}}, r"o\.headers\.a is to be a text"),
        ({"table": {"url": "mysql://x/y", "name": "t"}}, "o: the table's url is to be postgresql"),
        (
            {"table": {"url": "postgresql://u:secret@h/d", "name": "t"}},
            "o: the table's url has a password: name an environment variable",
        ),
        ({"table": {**TABLE, "column": "id"}}, "o: there is no option column"),
        ({"iceberg": "a.b"}, r"o\.iceberg is to be a mapping"),
        ({"iceberg": {"table": "a.b", "kind": "sql"}}, r"o\.iceberg has kind, which means nothing"),
        ({"iceberg": {"table": "a.b"}}, "o: which catalog"),
        (
            {"iceberg": {"table": "a.b", "catalog": {"uri": "https://x", "token": "y"}}},
            "o: the catalog's token is a secret",
        ),
        ({}, "o: where to.*one of files, webhook, table, iceberg"),
    ],
)
def test_mistakes_in_outputs_are_told(output: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        told(outputs={"o": {"from": "v", **output}})


def test_topics_for_dead_letters_are_made(cluster: Cluster) -> None:
    outputs = {"o": {"from": "v", "webhook": "https://x", "dead_letters": "refused_rows"}}
    found = declared({"bootstrap": cluster.bootstrap_servers, "outputs": outputs}, Path("/p"), {})
    brokers = Brokers(addresses({"bootstrap.servers": cluster.bootstrap_servers}), "test", 20)

    for _ in range(2):
        ensure_topics(found, 20)
    assert list(brokers.topics(["refused_rows"])) == ["refused_rows"]
    brokers.close()
