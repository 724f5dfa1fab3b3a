"""Directed simulations of logs that are compacted, deleted from, and cut. See scenarios.py."""

from raftka.chaos.simulated.clients.client import produce_row
from raftka.chaos.simulated.cluster import CLIENT_PORT
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.chaos.simulated.workloads.compaction import all_of, state_of, times_row
from raftka.chaos.simulated.workloads.workload import often
from raftka.checksum import crc32c
from raftka.log.checkpoints import HIGH_WATERMARKS, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from raftka.log.producers.state import ENTRY, SEQUENCES, SNAPSHOT_HEAD, VERSION, ProducerState
from raftka.metadata.quorum.raft_types import Snapshot
from raftka.runtime.simulated.disk import SYNC_S, Inode
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import DELETE_TOPICS
from raftka.wire.records import NewRecord, build_batch
from tests.kit.compacted_logs import at, copied, first, without_records
from tests.log.given import append, batch, open_log
from tests.mutants.directed import finds

BEGUN_MS = 1_700_000_000_000
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "300",
    "min.cleanable.dirty.ratio": "0.01",
    "min.insync.replicas": "1",
    "delete.retention.ms": "86400000",
}


def _put(
    scene: Scene,
    key: bytes,
    value: bytes | None,
    producer_id: int = -1,
    sequence: int = -1,
    timestamp: int = BEGUN_MS,
) -> None:
    """acks=all, until it is acknowledged."""
    epoch = 0 if producer_id >= 0 else -1
    batch = build_batch(
        [(key, value, (), timestamp)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    client = scene.client
    scene.cluster.do(
        client, lambda: client.ask_leader(TOPIC, 0, PRODUCE, produce_row(TOPIC, 0, batch))
    )


def _fill(scene: Scene, batches: int = 12) -> None:
    """Segments are rolled, so that what is before can be cleaned."""
    for number in range(batches):
        _put(scene, b"filling", b"%d" % number + b"." * 60)


def _cleaned(scene: Scene) -> None:
    """All that can be on those that live."""
    _fill(scene)
    scene.world.run(scene.world.now + 4.0)


def _compacting(world: World) -> Scene:
    return Scene(
        world,
        configs=COMPACTED,
        settings={"log.cleaner.backoff.ms": "200", "replica.lag.time.max.ms": "1000"},
    )


@finds
def cleaner_drops_tombstones_early() -> None:
    """A follower is away while a key is deleted and its tombstone compacted: when it is back it
    must hear of it all the same.
    """
    with World(20) as world, often():
        scene = _compacting(world)
        _put(scene, b"gone", b"for ever")
        scene.wait_whole()
        late = scene.followers[0]
        scene.cluster.kill(late, power_loss=False)
        _put(scene, b"gone", None)
        _cleaned(scene)
        scene.cluster.start(late)
        scene.wait_whole()
        states = {node_id: state_of(all_of(scene.partition(node_id))) for node_id in scene.replicas}
        assert all(b"gone" not in state for state in states.values()), (
            f"a deleted key is back on n{late}"
        )


@finds
def cleans_what_is_not_committed() -> None:
    """A leader that nobody hears takes new values of a key, which are cut when it follows: the old
    one must be there still.
    """
    with World(26) as world, often():
        scene = _compacting(world)
        _put(scene, b"key", b"committed")
        _fill(scene)
        scene.wait_whole()
        leader, client = scene.leader, scene.client
        for other in scene.followers:
            world.network.cut(f"n{leader}", f"n{other}")
        for number in range(20):
            row = produce_row(
                TOPIC,
                0,
                build_batch([(b"key", b"for nobody %d" % number + b"." * 60, (), 0)]),
                acks=1,
            )
            scene.cluster.do(
                client,
                lambda row=row: client.ask((f"n{leader}", CLIENT_PORT), PRODUCE, row),  # type: ignore[misc]
            )
        world.run(world.now + 4.0)
        world.network.heal()
        scene.wait_whole()
        found = {
            node_id: state_of(all_of(scene.partition(node_id))).get(b"key")
            for node_id in scene.replicas
        }
        assert set(found.values()) == {b"committed"}, f"last value: {found}"


@finds
def cleans_above_the_recovery_point() -> None:
    """All brokers are killed before a checkpoint says how far their logs are on disk: recovery
    reads all of them, and a gap is damage to it.
    """
    with World(27) as world:
        scene = _compacting(world)
        _put(scene, b"key", b"value")
        _fill(scene)
        scene.wait_whole()
        world.run(world.now + 1.5)
        ends = {
            node_id: partition.log.end_offset
            for node_id, partition in scene.cluster.partitions(TOPIC, 0).items()
        }
        for node_id in scene.cluster.nodes:
            scene.cluster.kill(node_id, power_loss=False)
        for node_id in scene.cluster.nodes:
            scene.cluster.start(node_id)
        scene.cluster.wait_ready()
        scene.wait_whole()
        left = {
            node_id: partition.log.end_offset
            for node_id, partition in scene.cluster.partitions(TOPIC, 0).items()
        }
        assert left == ends, f"lost writes: logs ended at {ends}, recovered they end at {left}"


@finds
def deleted_records_come_back() -> None:
    """Records are deleted, checkpoints written, and all brokers start anew."""
    with World(11) as world:
        scene = Scene(world)
        scene.produce(5)
        scene.wait_whole()
        request = DELETE_RECORDS.request
        row = request(
            topics=[
                request.topics(
                    name=TOPIC, partitions=[request.topics.partitions(partition_index=0, offset=9)]
                )
            ],
            timeout_ms=5000,
        )
        leader = (f"n{scene.leader}", CLIENT_PORT)
        answer = scene.cluster.do(
            scene.client, lambda: scene.client.ask(leader, DELETE_RECORDS, row)
        )
        assert answer.topics[0].partitions[0].error_code == Code.NONE
        world.run(world.now + 12.0)
        scene.cluster.power_loss()
        for node_id in scene.cluster.nodes:
            scene.cluster.start(node_id)
        scene.cluster.wait_ready()
        scene.wait_whole()
        starts = {node_id: scene.partition(node_id).log.start_offset for node_id in scene.replicas}
        assert set(starts.values()) == {9}, f"deleted records are back: {starts}"


@finds
def names_of_an_empty_log_wait() -> None:
    """A follower lost its log, all records were deleted meanwhile: it begins where the leader ends,
    joins the ISR, and loses power.
    """
    with World(13) as world:
        scene = Scene(world)
        scene.produce(5)
        scene.wait_whole()
        late = scene.followers[0]
        scene.cluster.kill(late, power_loss=False)
        disk = scene.cluster.disk(late)
        disk.directory("/data").entries.pop(f"{TOPIC}-0")
        request = DELETE_RECORDS.request
        row = request(
            topics=[
                request.topics(
                    name=TOPIC, partitions=[request.topics.partitions(partition_index=0, offset=-1)]
                )
            ],
            timeout_ms=5000,
        )
        leader = (f"n{scene.leader}", CLIENT_PORT)
        answer = scene.cluster.do(
            scene.client, lambda: scene.client.ask(leader, DELETE_RECORDS, row)
        )
        assert answer.topics[0].partitions[0].error_code == Code.NONE
        assert world.run(lambda: late not in scene.isr, at_most_s=30.0)
        scene.cluster.start(late)
        scene.wait_whole()
        end = scene.partition(late).log.end_offset
        assert end > 0
        scene.cluster.kill(late, power_loss=True)
        told = disk.find(f"/data/{TOPIC}-0/{PARTITION_METADATA}")
        assert isinstance(told, Inode), f"n{late} was in the ISR up to {end}, and has no log"
        assert b"topic_id" in told.content, (
            f"n{late} was in the ISR up to {end}, and does not know which topic its log is of"
        )


@finds
def names_are_not_flushed() -> None:
    """All brokers are killed when they have made a partition and not flushed it; they come back,
    take records, and lose power.
    """
    with World(22) as world:
        scene = Scene(world, partitions=1)
        cluster = scene.cluster
        for node_id in cluster.nodes:
            cluster.disk(node_id).keeps_nothing = True
            cluster.kill(node_id, power_loss=False)
            cluster.start(node_id)
        cluster.wait_ready()
        _keeps_through_the_dark(scene)


@finds
def clean_end_made_names_durable() -> None:
    """All brokers are stopped in good order before their partition has a record; they come back,
    take records, and lose power.
    """
    with World(28) as world:
        scene = Scene(world, partitions=1)
        cluster = scene.cluster
        for node_id in cluster.nodes:
            cluster.disk(node_id).keeps_nothing = True
        for node_id in cluster.nodes:
            cluster.stop(node_id)
            cluster.start(node_id)
            cluster.wait_ready()
        scene.wait_whole()
        _keeps_through_the_dark(scene)


def _keeps_through_the_dark(scene: Scene) -> None:
    """Records, then no power for all."""
    cluster = scene.cluster
    scene.produce(3)
    scene.wait_whole()
    cluster.power_loss()
    for node_id in cluster.nodes:
        cluster.start(node_id)
    cluster.wait_ready()
    scene.wait_whole()
    scene.assert_nothing_lost()


@finds
def rotten_name_is_another_topic() -> None:
    """A bit of partition.metadata has flipped on the member of the ISR that is back first: led with
    nothing, the others would cut their records.
    """
    with World(29) as world:
        scene = Scene(
            world, nodes=6, voters=3, controllers=(1, 2, 3), configs={"min.insync.replicas": "1"}
        )
        cluster = scene.cluster
        scene.produce(5)
        scene.wait_whole()
        assert cluster.settled(
            lambda: (
                cluster.nodes[scene.leader]
                .replicas.logs.directories[0]
                .offsets[HIGH_WATERMARKS]
                .get((TOPIC, 0))
                == 15
            ),
            10.0,
        )
        rotten, others = scene.leader, scene.followers
        for node_id in (rotten, *others):
            cluster.kill(node_id, power_loss=False)
        cluster.disk(rotten).flip(f"/data/{TOPIC}-0/{PARTITION_METADATA}", 0, 1)
        cluster.start(rotten)
        world.run(world.now + 1.0)
        for node_id in others:
            cluster.start(node_id)
        cluster.wait_ready()
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def failed_flush_is_believed() -> None:
    """A leader's flush fails and it ends; its kernel shows what was to be flushed to the next
    process, and the power goes.
    """
    with World(23) as world:
        scene = Scene(world, replication_factor=1, configs={"min.insync.replicas": "1"})
        scene.produce(3)
        leader, client = scene.leader, scene.client
        scene.cluster.disk(leader).failing_syncs = 1
        before = len(scene.acknowledged[0])

        async def produce() -> None:
            await client.produce(TOPIC, 0, [b"not flushed"], scene.producer_id, before)
            scene.acknowledged[0].append(b"not flushed")

        client.runtime.spawn(produce, "produce")
        assert world.run(lambda: not scene.cluster.alive(leader), at_most_s=10.0)
        scene.cluster.start(leader)
        assert world.run(lambda: len(scene.acknowledged[0]) > before, at_most_s=30.0)
        scene.produce(3)
        scene.wait_whole()
        scene.cluster.kill(leader, power_loss=True)
        scene.cluster.start(leader)
        scene.produce(1)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def flushed_without_being_written() -> None:
    """Answers do not wait for the disk, and a flush fails: what the next process finds and says is
    on its disk must stay when the power goes.
    """
    with World(23) as world, often():
        settings = {"raftka.log.flush": "os"}
        scene = Scene(
            world,
            settings=settings,
            replication_factor=1,
            configs={"min.insync.replicas": "1", "flush.ms": "500"},
        )
        scene.produce(3)
        leader = scene.leader
        disk = scene.cluster.disk(leader)
        disk.keeps_nothing, disk.failing_under, disk.failing_syncs = (
            True,
            scene.partition(leader).log.segments.active.file.path,
            1,
        )
        assert world.run(lambda: not scene.cluster.alive(leader), at_most_s=10.0)
        scene.cluster.start(leader)
        scene.wait_whole()
        log = scene.partition(leader).log
        assert scene.cluster.settled(lambda: log.durability.settled_point == log.end_offset, 10.0)
        scene.cluster.kill(leader, power_loss=True)
        scene.cluster.start(leader)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def recovered_is_not_flushed() -> None:
    """A broker is killed while its disk is slow: what the next process finds in the page cache it
    must flush before it says that it is there.
    """
    with World(24) as world:
        scene = Scene(world, replication_factor=1, configs={"min.insync.replicas": "1"})
        scene.produce(3)
        leader, client = scene.leader, scene.client
        disk = scene.cluster.disk(leader)
        disk.sync_s = (3.0, 3.0)
        before = len(scene.acknowledged[0])
        acknowledged: list[int] = []

        async def produce() -> None:
            acknowledged.append(
                await client.produce(TOPIC, 0, [b"slow"], scene.producer_id, before)
            )

        client.runtime.spawn(produce, "produce")
        assert world.run(lambda: scene.partition(leader).log.written_offset > before, at_most_s=5.0)
        scene.cluster.kill(leader, power_loss=False)
        disk.sync_s, disk.keeps_nothing = SYNC_S, True
        scene.cluster.start(leader)
        scene.acknowledged[0].append(b"slow")
        # as a duplicate: it is in the log
        assert world.run(lambda: bool(acknowledged), at_most_s=20.0)
        scene.cluster.kill(leader, power_loss=True)
        scene.cluster.start(leader)
        scene.produce(1)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def tail_not_checked() -> None:
    """The last batch of one replica is damaged as the power goes: that replica cuts it, and fetches
    it anew.
    """
    with World(25) as world:
        scene = Scene(world)
        scene.produce(5)
        scene.wait_whole()
        damaged = scene.followers[0]
        file = scene.partition(damaged).log.segments.active.file
        scene.cluster.kill(damaged, power_loss=True)
        scene.cluster.disk(damaged).flip(file.path, file.size() - 3)
        scene.produce(2)
        scene.cluster.start(damaged)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def leader_epochs_are_believed() -> None:
    """A bit of a follower's leader epochs flips while it is down: it must be in sync again all the
    same.
    """
    with World(31) as world, often():
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        world.run(world.now + 2.0)  # it is written down
        follower = scene.followers[0]
        scene.cluster.kill(follower, power_loss=False)
        # epoch 0 -> 8
        scene.cluster.disk(follower).flip(
            f"/data/{TOPIC}-0/{LEADER_EPOCH_CHECKPOINT}", len(b"0\n1\n"), 8
        )
        scene.cluster.start(follower)
        scene.produce(2)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def sealed_at_the_recovery_point() -> None:
    """A checkpoint at a segment's end, the segment is rolled, the power goes: its last record is
    found by its time all the same.
    """
    with World(32) as world, often():
        scene = Scene(
            world,
            nodes=1,
            replication_factor=1,
            configs={"internal.segment.bytes": "1000", "min.insync.replicas": "1"},
        )
        for number in range(40):
            _put(scene, b"key", b"." * 60, timestamp=BEGUN_MS + number)
            if len(scene.partition(1).log.segments) > 1:
                break
            world.run(world.now + 1.2)  # a checkpoint
        last = scene.partition(1).log.segments.active.base_offset - 1
        scene.cluster.disk(1).keeps_nothing = True
        scene.cluster.kill(1, power_loss=True)
        scene.cluster.start(1)
        scene.wait_whole()
        row = times_row(TOPIC, 0, -1, BEGUN_MS + last)
        found = scene.cluster.do(
            scene.client, lambda: scene.client.ask_leader(TOPIC, 0, LIST_OFFSETS, row)
        )
        assert found.offset == last, (
            f"the record of that time is at {last}, asked for it says {found.offset}"
        )


@finds
def time_index_survives_truncation() -> None:
    """A leader that no follower hears takes records, which are cut when it follows; records of
    later times are found there in their place.
    """
    with World(37) as world:
        scene = Scene(world, configs={"index.interval.bytes": "0", "min.insync.replicas": "1"})
        for number in range(3):
            _put(scene, b"key", b"before", timestamp=BEGUN_MS + number)
        scene.wait_whole()
        deposed, client = scene.leader, scene.client
        for other in scene.followers:
            world.network.cut(f"n{deposed}", f"n{other}")
        for number in range(10):
            row = produce_row(
                TOPIC,
                0,
                build_batch([(b"key", b"for nobody", (), BEGUN_MS + 1000 + number)]),
                acks=1,
            )
            scene.cluster.do(
                client,
                lambda row=row: client.ask((f"n{deposed}", CLIENT_PORT), PRODUCE, row),  # type: ignore[misc]
            )
        assert scene.partition(deposed).log.end_offset == 13
        assert world.run(
            lambda: scene.cluster.leader_of(TOPIC, 0) not in (None, deposed), at_most_s=60.0
        )
        world.network.heal()
        scene.wait_whole()
        assert scene.partition(deposed).log.end_offset == 3
        for number in range(10):
            _put(scene, b"key", b"after", timestamp=BEGUN_MS + 2000 + number)
        scene.wait_whole()
        asked = times_row(TOPIC, 0, -1, BEGUN_MS + 2000)
        asked.replica_id = -2  # so that a follower answers
        answer = scene.cluster.do(
            client, lambda: client.ask((f"n{deposed}", CLIENT_PORT), LIST_OFFSETS, asked)
        )
        found = answer.topics[0].partitions[0].offset
        assert found == 3, f"the record of that time is at 3, asked for it says {found}"


@finds
def no_sequence_follows_the_last() -> None:
    """A producer's batch ends at the last sequence there is; its next one begins at 0."""
    _sequences_begin_again(World(38), 1)


@finds
def sequences_do_not_wrap_inside_a_batch() -> None:
    """A producer's batch has the last sequence there is, and the first, inside it."""
    _sequences_begin_again(World(39), 3)


def _sequences_begin_again(world: World, beyond: int) -> None:
    """Two batches of four records; the first one ends one below `beyond`. Also after another
    replica has taken over.
    """
    with world:
        scene = Scene(world, configs={"min.insync.replicas": "1"})
        client, sequence = scene.client, SEQUENCES - 5 + beyond
        for another_leads in (False, True):
            if another_leads:
                scene.cluster.kill(scene.leader, power_loss=True)
            values: list[NewRecord] = [(None, b"%d" % at, (), BEGUN_MS) for at in range(4)]
            batch = build_batch(
                values, producer_id=7, producer_epoch=0, base_sequence=sequence % SEQUENCES
            )
            row = produce_row(TOPIC, 0, batch)
            answer = scene.cluster.do(
                client,
                lambda row=row: client.ask_leader(TOPIC, 0, PRODUCE, row),  # type: ignore[misc]
            )
            assert answer.error_code == Code.NONE
            sequence += 4


@finds
def closes_before_the_flush() -> None:
    """The controller learns that a topic is deleted in the turn in which it writes a record of
    it.
    """
    with World(38) as world:
        _deleted_while_written_to(
            Scene(world, partitions=3, replication_factor=1, configs={"min.insync.replicas": "1"})
        )


@finds
def closes_and_writes() -> None:
    """The same of a broker without a vote, which hears of it from the controller."""
    with World(34) as world:
        _deleted_while_written_to(
            Scene(
                world,
                2,
                1,
                partitions=2,
                replication_factor=1,
                configs={"min.insync.replicas": "1"},
            ),
            by_another=True,
        )


@finds
def leads_after_its_end() -> None:
    """Metadata that is behind comes in the turn in which a leader has stopped."""
    with World(36) as world:
        scene = Scene(world)
        scene.produce(1)
        node, partition = scene.cluster.nodes[scene.leader], scene.partition(scene.leader)
        ended = []
        led = Snapshot(node.image.offset, 0, node.image.to_snapshot())

        async def ends() -> None:
            await node.shutdown()
            node.apply(led)
            ended.append(True)

        node.runtime.spawn(ends, "ends")
        assert world.run(lambda: bool(ended), at_most_s=20.0)
        assert partition.leader is None, "a node leads whose logs are closed"


def _deleted_while_written_to(scene: Scene, *, by_another: bool = False) -> None:
    """A leader hangs for a moment: the record and the end of its topic come in one turn."""
    world, cluster, client = scene.world, scene.cluster, scene.client
    admin = scene.cluster.client("admin")
    controller = cluster.controller
    assert controller is not None
    leaders = {
        partition: cluster.leader_of(TOPIC, partition) for partition in range(scene.partitions)
    }
    partition, one = next(
        (at, leader)
        for at, leader in leaders.items()
        if leader is not None and (leader != controller) == by_another
    )
    scene.produce(1, partition)
    for node_id in cluster.living:
        # the record comes before anybody has the topic's end on disk
        cluster.disk(node_id).sync_s = (0.03, 0.03)
    known = [node.quorum.core for node in cluster.living.values() if node.quorum.core is not None]
    before = max(core.last_index for core in known)

    request = DELETE_TOPICS.request(
        topics=[DELETE_TOPICS.request.topics(name=TOPIC)], timeout_ms=5000
    )
    if by_another:
        world.pause(f"n{one}")
    admin.runtime.spawn(
        lambda: admin.ask((f"n{controller}", CLIENT_PORT), DELETE_TOPICS, request), "deletes"
    )
    assert world.run(lambda: all(core.last_index > before for core in known), at_most_s=5.0), (
        "nobody decides that the topic goes"
    )
    if not by_another:
        world.pause(f"n{one}")
    row = produce_row(TOPIC, partition, build_batch([(None, b"last", (), BEGUN_MS)]))
    client.runtime.spawn(lambda: client.ask((f"n{one}", CLIENT_PORT), PRODUCE, row), "writes")
    world.run(world.now + 0.05)
    world.resume(f"n{one}")
    world.run(world.now + 1.0)
    assert world.failures == [], f"a node stopped: {world.failures}"
    assert cluster.partitions(TOPIC, partition) == {}, "the replica is there still"


@finds
def snapshot_has_one_coordinator_epoch() -> None:
    """Producers of two transaction coordinators, in a snapshot that Kafka has written: each keeps
    the epoch of its own.
    """
    entries = [
        ENTRY.pack(producer_id, 0, 9, 9, 0, BEGUN_MS, epoch, -1)
        for producer_id, epoch in ((1, 4), (2, 7), (3, 4))
    ]
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    written = SNAPSHOT_HEAD.pack(VERSION, crc32c(body), len(entries)) + body[4:]
    state = ProducerState.from_snapshot(written, BEGUN_MS)
    assert state is not None
    found = {
        producer_id: producer.coordinator_epoch for producer_id, producer in state.producers.items()
    }
    assert found == {1: 4, 2: 7, 3: 4}, f"coordinator epochs are mixed up: {found}"
    assert state.snapshot() == written, "the next snapshot tells other producers"


@finds
def search_passes_by_the_rest_of_a_stamped_batch() -> None:
    """The log begins within a batch that has the broker's time."""
    log = open_log(message_timestamp_type="LogAppendTime")
    append(log, batch(10))
    log.set_start_offset(5)
    found = log.offset_for_timestamp(0, log.end_offset)
    assert found is not None, "a search by time finds no record, the first is at 5"
    assert found.offset == 5, f"a search by time finds {found.offset}, the first is at 5"


@finds
def runs_without_records_outlive_a_truncation() -> None:
    """A follower copies batches without records, is cut, and copies others in their place."""
    log = open_log(cleanup_policy="compact")
    copied(log, without_records(10))
    assert first(log, 0) == (0, 0)
    log.truncate_to(3)
    copied(log, at(3, epoch=1), without_records(6, 4, epoch=1), epoch=1)
    assert first(log, 0) == (3, 1), "a reader passes by a record"
