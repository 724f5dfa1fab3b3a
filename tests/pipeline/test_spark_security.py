"""format("raftka") in a real Spark on a cluster with TLS, certificates and ACLs: the sink and the
source come in, and a stranger does not. Then SASL_SSL with SCRAM: streams, `raftka sql` and the
audit, by a file whose secret Spark never has.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.cli.commands import root
from raftka.pipeline.flows.streams import connection
from raftka.testing import Cluster
from tests.clients.secured import LOGINS, PASSWORD, Secured, add_scram_user

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster(security=True) as cluster:
        yield cluster


def options(cluster: Cluster, user: str) -> dict[str, str]:
    security = {f"kafka.{name}": value for name, value in cluster.client_files(user).java().items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **security}


def test_sink_and_source_come_in_by_certificate(spark: Any, secured: Cluster) -> None:
    topic, given = secured.create_topic(partitions=2), options(secured, "admin")
    frame = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("raftka").mode("append").options(**given, topic=topic).save()

    rows = spark.read.format("raftka").options(**given, subscribe=topic).load().collect()

    assert sorted(int(row["value"]) for row in rows) == list(range(100))


def test_user_without_rights_is_told_what_it_needs(spark: Any, secured: Cluster) -> None:
    topic = secured.create_topic(partitions=1)
    with pytest.raises(Exception, match="needs DESCRIBE and READ"):
        spark.read.format("raftka").options(
            **options(secured, "nobody"), subscribe=topic
        ).load().collect()


@pytest.fixture(scope="module")
def scram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """A cluster with logins over TLS, and the client properties of a user that logs in with
    SCRAM.
    """
    with Cluster(security=True, properties=LOGINS) as cluster:
        add_scram_user(cluster)
        file = tmp_path_factory.mktemp("scram") / "client.properties"
        file.write_text(Secured(cluster, cluster.client_files(), "SCRAM-SHA-512").properties())
        yield cluster, file


def copy_topic(spark: Any, given: dict[str, str], source: str, copy: str, checkpoint: str) -> str:
    """Return the plans, as Spark shows them, of a stream that copies 20 records."""
    rows = spark.range(0, 20, 1, 1).selectExpr(
        "'truck' as key", "concat('{\"seq\": ', id, '}') as value"
    )
    rows.write.format("raftka").mode("append").options(**given, topic=source).save()
    records = (
        spark.readStream.format("raftka")
        .options(
            **given, subscribe=source, startingOffsets="earliest", **{"kafka.group.id": "seen"}
        )
        .load()
    )
    writer = (
        records.selectExpr("key", "value", "partition")
        .writeStream.format("raftka")
        .options(**given, topic=copy)
    )
    query = (
        writer.options(deliveryGuarantee="exactly-once", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    plans: str = query._jsq.explainInternal(True) + records._jdf.queryExecution().toString()
    return plans


def test_streams_sql_and_audit_log_in_and_spark_never_has_the_secret(
    spark: Any, scram: tuple[Cluster, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, file = scram
    given = connection(cluster.bootstrap_servers, file)
    source, copy = cluster.create_topic(partitions=1), cluster.create_topic(partitions=1)
    plan = copy_topic(spark, given, source, copy, str(tmp_path / "checkpoint"))

    login = {
        f"kafka.{name}": value
        for name, value in Secured(cluster, cluster.client_files(), "SCRAM-SHA-512").java().items()
    }
    inline = (
        spark.readStream.format("raftka")
        .options(**{"kafka.bootstrap.servers": "a:1"}, subscribe="t", **login)
        .load()
    )
    plan += inline._jdf.queryExecution().toString()

    assert f"kafka.client.config={file}" in plan
    assert "kafka.sasl.jaas.config=" in plan
    kept = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert kept
    assert PASSWORD not in plan
    assert not any(PASSWORD.encode() in each for each in kept)
    assert cluster.wait_for(lambda: len(cluster.records(copy))) >= 20

    monkeypatch.setattr("raftka.pipeline.spark.session", lambda *_, **__: spark)
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(
        "".join(json.dumps({"producer": "truck", "seq": at}) + "\n" for at in range(20))
    )
    login_given = [
        *("--bootstrap-server", cluster.bootstrap_servers),
        *("--command-config", str(file)),
    ]
    audit = ["audit", *login_given, "--ledger", str(ledger), "--topic", copy]
    asked = CliRunner().invoke(
        root, ["sql", *login_given, "-o", "json", f"select count(*) n from `{copy}`"]
    )
    done = CliRunner().invoke(root, [*audit, "-o", "json"])
    files = cluster.client_files()
    other = Secured(cluster, files, "SCRAM-SHA-512", "wrong-secret").java()
    wrong = ["-X", f"sasl.jaas.config={other['sasl.jaas.config']}"]
    options = ["--option", "kafkaConsumer.pollTimeoutMs=1000"]
    refused = CliRunner().invoke(root, [*audit, *wrong, *options])

    assert json.loads(asked.stdout) == {"n": 20}, asked.output
    assert done.exit_code == 0, done.output
    assert (refused.exit_code, "invalid credentials" in refused.output) == (2, True), refused.output
    assert "wrong-secret" not in refused.output
