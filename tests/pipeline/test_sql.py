"""`raftka sql`: questions to topics, streams and lakes as they are now, and what is said to
questions that make no sense.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.cli.commands import root
from raftka.client.blocking.producer import Producer
from raftka.pipeline.sql import plain
from raftka.testing import Cluster
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")

Run = Callable[..., Result]


@pytest.fixture
def run(spark: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("raftka.pipeline.spark.session", lambda *_, **__: spark)
    return lambda *arguments: CliRunner().invoke(
        root, ["sql", "--bootstrap-server", cluster.bootstrap_servers, *map(str, arguments)]
    )


@pytest.fixture
def topic(cluster: Cluster, player: Player) -> str:
    """Fifty trucks' speeds, every other one in partition 1; its name must be quoted."""
    name = (
        cluster.create_topic("trucks.gps-1")
        if "trucks.gps-1" not in player.brokers.names()
        else "trucks.gps-1"
    )
    if not cluster.records(name):
        producer = Producer(player.brokers)
        for at in range(50):
            producer.add(
                (name, 0),
                (
                    b"%d" % at,
                    b'{"truck": %d, "speed": %d.5}' % (at % 10, at),
                    (),
                    1_700_000_000_000 + at,
                ),
            )
        producer.flush()
    return name


def printed(done: Result) -> list[list[str]]:
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.output.splitlines()]


def test_a_topic_is_a_table_of_text(run: Run, topic: str) -> None:
    done = run(
        f"select key, value, offset, timestamp from `{topic}` where offset < 2 order by offset",
        "-o",
        "json",
    )

    assert [json.loads(line) for line in done.output.splitlines()] == [
        {
            "key": "0",
            "value": '{"truck": 0, "speed": 0.5}',
            "offset": 0,
            "timestamp": "2023-11-14T22:13:20",
        },
        {
            "key": "1",
            "value": '{"truck": 1, "speed": 1.5}',
            "offset": 1,
            "timestamp": "2023-11-14T22:13:20.001000",
        },
    ]


def test_a_topic_joined_with_itself_in_a_subquery(run: Run, topic: str) -> None:
    query = (
        f"with fast as (select * from `{topic}` where try_parse_json(value):speed::double > 40) "
        "select count(*) as n from fast"
    )

    assert printed(run(f"{query} where key in (select key from `{topic}`)")) == [["10"]]


def test_statements_are_done_beside_questions(run: Run, topic: str) -> None:
    made = run(
        "CREATE OR REPLACE STREAM cli_trucks (truck INT, speed DOUBLE) "
        f"WITH (KAFKA_TOPIC='{topic}')"
    )
    assert (made.exit_code, made.stdout) == (0, "")
    assert f"cli_trucks is a stream over the topic {topic}" in made.stderr
    assert ["cli_trucks", topic, "json"] in [line[:3] for line in printed(run("SHOW STREAMS"))]
    shown = run("SELECT truck FROM cli_trucks WHERE speed > 48 EMIT CHANGES FROM BEGINNING LIMIT 2")
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [{"truck": 8}, {"truck": 9}]
    refused = run("DROP STREAM nothing_such")
    assert refused.exit_code == 1
    assert "there is no stream nothing_such" in refused.stderr


def test_the_last_ones(run: Run, topic: str) -> None:
    assert printed(run("--last", "3", f"select min(offset) a, count(*) b from `{topic}`")) == [
        ["a", "b"],
        ["47", "3"],
    ]


def test_more_rows_than_are_printed_are_reported(run: Run, topic: str) -> None:
    done = run("--rows", "2", f"select offset, key from `{topic}`")

    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 3)
    assert "there are more than 2 rows" in done.stderr


def test_streams_and_lakes_of_a_project(
    spark: Any, run: Run, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    spark.range(7).write.format("raftka_delta").mode("append").save(str(tmp_path / "lake"))
    (tmp_path / "streams.yml").write_text(
        f"bootstrap: {cluster.bootstrap_servers}\n"
        f"streams:\n  trucks: {{topic: {topic}, format: json, fields: {{truck: int, speed: "
        "double}, watermark: 10 seconds}\n"
        f"outputs:\n  kept: {{from: trucks, delta: lake, options: {{compactEvery: 20}}}}\n"
    )
    assert printed(
        run(
            "--streams",
            tmp_path,
            "select truck, max(speed) as top from trucks group by truck order by truck limit 1",
        )
    ) == [
        ["truck", "top"],
        ["0", "40.5"],
    ]
    assert printed(
        run(
            "--streams",
            tmp_path / "streams.yml",
            "select (select count(*) from kept) a, (select count(*) from trucks_bad) b",
        )
    ) == [
        ["a", "b"],
        ["7", "0"],
    ]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("delete from x", "this is for questions, which begin with SELECT"),
        ("", "this is for questions"),
        ("select * from nothing_such", "there is no topic nothing_such. There are"),
        ("selec", "this is for questions"),
        ("select (1", "Syntax error at or near end of input\n"),
        ("select speed from `trucks.gps-1`", "`speed` cannot be resolved"),
        ("select 1 from trucks.gps", "stands in backticks: `trucks.gps`"),
        ("select 1/0", "Division by zero. Use `try_divide`"),
    ],
)
def test_an_invalid_query_is_reported_in_a_line(run: Run, topic: str, query: str, why: str) -> None:
    done = run(query)

    assert (done.exit_code, why in done.output) == (1, True), done.output
    assert done.output.startswith("raftka: ")
    assert re.search(r"Traceback|SQLSTATE|\[[A-Z_]+\]|line 1", done.output) is None


def test_values_are_printed_as_json_has_them() -> None:
    from datetime import date

    from pyspark.sql import Row

    assert plain(Row(a=b"x\xff", b=[Row(c=date(2026, 1, 2))], d={b"k": None})) == {
        "a": "x'78ff'",
        "b": [{"c": "2026-01-02"}],
        "d": {"k": None},
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"", ""),
        ("é\n".encode(), "é\n"),
        (rb"\xff", r"\xff"),
        (b"\xff", "x'ff'"),
        (b"\0a", "x'0061'"),
        (b"x'ff'", "x'7827666627'"),
    ],
)
def test_bytes_and_texts_cannot_be_mistaken(value: bytes, shown: str) -> None:
    assert plain(value) == shown


def test_brokers_that_do_not_answer_are_one_sentence(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.pipeline.spark.session", lambda *_, **__: spark)
    monkeypatch.setattr("raftka.pipeline.sql.PATIENCE_S", 0.1)
    done = CliRunner().invoke(root, ["sql", "-b", "127.0.0.1:1", "select 1 from x"])

    assert done.output == (
        "raftka: the brokers do not answer (127.0.0.1:1: Connection refused). Next step: see "
        "whether they run; -b names others\n"
    )
