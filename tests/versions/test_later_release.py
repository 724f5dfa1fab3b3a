"""The way back: until `raftka features upgrade` an earlier release reads all that a later one has
written. After it, the earlier one refuses the data and does not touch them.
"""

from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

import raftka.cluster
from raftka.cli.commands import root
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.cluster.embedded import Cluster
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.image import MetadataImage
from raftka.metadata.quorum.journal_format import Kind, decode_journal
from raftka.versions import RAFTKA_VERSION, NewerFormat
from tests.kit.versions.directory import read_records
from tests.kit.versions.fingerprint import fingerprint
from tests.kit.versions.later_release import LEVEL, REMARK_KIND, play_later_release


def command(cluster: Cluster, text: str) -> str:
    arguments = [*text.split(), "--bootstrap-server", cluster.bootstrap_servers]
    result = CliRunner().invoke(root, arguments)
    assert result.exit_code == 0, f"{text}: {result.output}"
    return result.stdout


async def ask(cluster: Cluster, text: str) -> str:
    return await trio.to_thread.run_sync(partial(command, cluster, text))


def produce(cluster: Cluster, topic: str) -> None:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        producer = Producer(client)
        producer.add((topic, 0), (b"key", f"value of {topic}".encode(), (), 1_700_000_000_000))
        producer.flush()


def consume(cluster: Cluster, topic: str) -> list[list[str | None]]:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        return read_records(client, (topic, 0))


async def write(cluster: Cluster, name: str) -> None:
    await ask(cluster, f"topics create {name} --partitions 2 -c retention.ms=-1")
    await trio.to_thread.run_sync(produce, cluster, name)
    await ask(cluster, f"quotas set --user {name} producer_byte_rate=1048576")


async def read(cluster: Cluster, *names: str) -> None:
    quotas = await ask(cluster, "quotas list")
    for name in names:
        found = await trio.to_thread.run_sync(consume, cluster, name)
        assert found == [["key", f"value of {name}"]]
        assert name in quotas


def image_of(cluster: Cluster) -> MetadataImage:
    node = cluster.nodes[1].node
    assert node is not None
    return node.image


def entries_of(folder: Path) -> list[bytes]:
    items, _, _ = decode_journal((folder / METADATA_DIRECTORY / "journal").read_bytes())
    return [item.data for item in items if item.kind == Kind.ENTRY]


def has_remark(folder: Path) -> bool:
    return any(REMARK_KIND.to_bytes(2, "big") in entry for entry in entries_of(folder))


async def test_the_way_back_is_free_until_the_level_is_raised(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        play_later_release(patch)
        async with raftka.cluster.launch(1, data=tmp_path) as cluster:
            await write(cluster, "later")
        async with raftka.cluster.launch(1, data=tmp_path) as cluster:  # leaders change: new epochs
            await read(cluster, "later")

    async with raftka.cluster.launch(1, data=tmp_path) as cluster:
        assert image_of(cluster).level == LEVEL - 1
        await read(cluster, "later")
        await write(cluster, "earlier")

    with pytest.MonkeyPatch.context() as patch:
        play_later_release(patch)
        async with raftka.cluster.launch(1, data=tmp_path) as cluster:
            await read(cluster, "later", "earlier")
    assert not has_remark(tmp_path / "node-1" / "data")


async def test_data_of_a_raised_level_are_refused_and_not_touched(tmp_path: Path) -> None:
    data = tmp_path / "node-1" / "data"
    with pytest.MonkeyPatch.context() as patch:
        play_later_release(patch)
        async with raftka.cluster.launch(1, data=tmp_path) as cluster:
            await write(cluster, "before")
            await ask(cluster, "features upgrade --dry-run")
            assert image_of(cluster).level == LEVEL - 1
            told = await ask(cluster, "features upgrade")
            rows = [line.split() for line in told.splitlines()]
            assert [RAFTKA_VERSION, str(LEVEL - 1), str(LEVEL), "yes"] in rows
            assert image_of(cluster).level == LEVEL
            await write(cluster, "after")
    assert has_remark(data)
    assert f"{RAFTKA_VERSION}={LEVEL}" in (data / "meta.properties").read_text()
    before = fingerprint(data)

    with pytest.raises(
        NewerFormat,
        match=f"data.*has raftka.version {LEVEL}, and this release knows it up to {LEVEL - 1}$",
    ):
        async with raftka.cluster.launch(1, data=tmp_path):
            pass

    assert fingerprint(data) == before
    with pytest.MonkeyPatch.context() as patch:
        play_later_release(patch)
        async with raftka.cluster.launch(1, data=tmp_path) as cluster:
            await read(cluster, "before", "after")


async def test_the_sentence_in_the_log_says_what_to_do(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        play_later_release(patch)
        async with raftka.cluster.launch(1, data=tmp_path) as cluster:
            await ask(cluster, f"features upgrade --feature {RAFTKA_VERSION}={LEVEL}")
    with pytest.raises(NewerFormat):
        async with raftka.cluster.launch(1, data=tmp_path):
            pass

    (line,) = [
        line
        for line in (tmp_path / "node-1" / "raftka.log").read_text().splitlines()
        if "start_failed" in line
    ]
    assert f"raftka.version {LEVEL}" in line
    assert "start a release that knows it" in line
