"""The orders project: what its player writes are change events, and the pipeline's lake is like the
shop, as its users run it.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml", reason="needs raftka[pipeline]")
pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.pipeline.flows.streams import TITLE, Declared, load
from raftka.pipeline.project import PROJECTS, init
from raftka.pipeline.projects.orders.play import NEXT, STREAM, Shop, play
from raftka.pipeline.records.envelopes import EnvelopeDecoder
from raftka.testing import Cluster

FOLDER = PROJECTS / "orders"
NOW_MS = 1_795_596_654_627
SECONDS = 600  # for what takes half a minute where nothing else runs


def test_the_player_writes_changes_that_make_its_shop() -> None:
    (stream,) = load(FOLDER / "streams.yml").streams
    assert stream.envelope is not None
    decoder, shop = EnvelopeDecoder(stream.formats, stream.fields, stream.envelope), Shop(25)
    events = [event for at in range(2000) for event in shop.changes(NOW_MS + at)]
    records = pa.array(
        [{"key": key, "value": value} for key, value in events],
        pa.struct([("key", pa.binary()), ("value", pa.binary())]),
    )
    rows: dict[int, dict[str, Any]] = {}
    for row in decoder.columns(records).to_pylist():
        rows.pop(row["id"], None)
        if not row["_deleted"]:
            rows[row["id"]] = row

    assert decoder.errors(records).null_count == len(events)
    assert {key: row["state"] for key, row in rows.items()} == {
        key: order["state"] for key, order in shop.orders.items()
    }
    assert {key: row["amount"] for key, row in rows.items()} == {
        key: Decimal(order["amount"]) for key, order in shop.orders.items()
    }
    assert {None, "c", "u", "d"} == {row["_op"] for row in decoder.columns(records).to_pylist()}
    assert {row["state"] for row in rows.values()} == {"NEW", *NEXT.values()}


def test_what_the_project_declares() -> None:
    found = load(FOLDER / "streams.yml")
    settings = json.loads((FOLDER / "postgres" / "connector.json").read_text())["config"]

    assert found.page is not None
    assert (found.page.title, found.page.noun) != (TITLE, "truck")
    assert {each.source for each in found.outputs} - {"orders", "orders_bad"} == {
        line.split()[3]
        for path in (FOLDER / "transformations").glob("*.sql")
        for line in path.read_text().splitlines()
        if line.startswith("CREATE")
    }
    assert (
        found.stream(STREAM).topic == f"{settings['topic.prefix']}.{settings['table.include.list']}"
    )
    table = (FOLDER / "postgres" / "orders.sql").read_text()
    assert all(
        f"  {each.name} " in table
        for each in found.stream(STREAM).fields
        if not each.name.startswith("_")
    )


# as its users run it


@pytest.fixture
def environment() -> Iterator[None]:
    pytest.importorskip(
        "pyspark",
        reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
    )
    pytest.importorskip("deltalake", reason="needs raftka[pipeline]")
    from tests.kit.spark.fast_spark import fast_environment

    with fast_environment():
        yield


def test_the_lake_is_like_the_shop(environment: None, cluster: Cluster, tmp_path: Path) -> None:
    from bench.pipeline_kills import Driver
    from tests.kit.spark.fast_spark import SETTINGS

    settings = {
        name: value
        for name, value in SETTINGS.items()
        if not name.startswith("spark.sql.warehouse")
    }
    folder, shop = tmp_path / "o", Shop(25)
    init("orders", folder, cluster.bootstrap_servers)
    found = load(folder / "streams.yml")
    assert play(folder, shop, 300, 100_000) > 300
    driver = Driver(folder, settings, lambda line: None)
    driver.start()
    try:
        cluster.wait_for(
            lambda: states(folder) == {key: order["state"] for key, order in shop.orders.items()},
            SECONDS,
        )
        play(folder, shop, 200, 100_000)
        cluster.wait_for(
            lambda: states(folder) == {key: order["state"] for key, order in shop.orders.items()},
            SECONDS,
        )
        cluster.wait_for(
            lambda: (
                shown(cluster, found)
                == {str(key): order["state"] for key, order in shop.orders.items()}
            ),
            SECONDS,
        )
        driver.check()
    finally:
        driver.close()


def states(folder: Path) -> dict[int, str]:
    from deltalake import DeltaTable

    if not (folder / "lake" / "orders" / "_delta_log").exists():
        return {}
    rows = DeltaTable(folder / "lake" / "orders").to_pyarrow_table().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["state"] for row in rows}


def shown(cluster: Cluster, found: Declared) -> dict[str, str]:
    """The orders that the page shows, with their state."""
    assert found.page is not None
    newest = {
        (record.key or b"").decode(): json.loads(record.value or b"{}")
        for record in cluster.records(found.page.positions)
    }
    return {key: value["state"] for key, value in newest.items() if "latitude" in value}
