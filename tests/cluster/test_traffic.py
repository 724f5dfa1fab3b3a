"""The demo's clients on a cluster: what others write to the topic, and a reader that fails."""

import threading
from typing import Any

import pytest
from kafka import KafkaProducer

from raftka.cluster.tally import Tally
from raftka.cluster.traffic import Reader, ReaderFailed, Sender
from raftka.testing import Cluster


def test_records_of_others_do_not_end_the_reader() -> None:
    with Cluster(nodes=1) as cluster:
        topic, servers = cluster.create_topic(partitions=2), cluster.bootstrap_servers
        tally = Tally([b"truck-01", b"truck-02"])
        other = KafkaProducer(bootstrap_servers=servers)
        for headers in ([], [("n", b"x")], [("n", b"0")]):
            for key in (None, b"truck-01"):
                other.send(topic, key=key, value=b"{}", headers=headers).get(timeout=30)
        other.close()
        sender, reader = Sender(servers, topic, 2, tally), Reader(servers, topic, 2, tally)
        reader.start()
        for at in range(200):
            sender.send(b"truck-0%d" % (at % 2 + 1), b"%d" % at)
        sender.finish()
        reader.finish()
        sender.close()

    assert tally.verdict().good
    assert (tally.verdict().read, tally.foreign) == (200, 6)


def test_a_reader_that_fails_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr("raftka.cluster.traffic.PartitionReader", fail)
    reader, told = Reader("localhost:1", "t", 1, Tally([])), threading.Event()
    reader.on_failure = lambda error: told.set()
    reader.start()

    assert told.wait(30)
    with pytest.raises(ReaderFailed, match="the reader failed: KeyError 'a bug'"):
        reader.finish()
