"""Directed simulations of what readers are told, followers and clients: see directed.py."""

from raftka.broker.work.long_work import drained
from raftka.chaos.simulated.clients.client import end_row
from raftka.chaos.simulated.cluster import CLIENT_PORT
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.metadata.commands import AlterReassignments, Move, MovedTopic
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, READ_COMMITTED
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from tests.broker.requests import fetch
from tests.broker.stage import Stage
from tests.kit.broker.fetch_sessions import Growing, late_records_missed
from tests.kit.broker.transactional_partition import Scene as Producing
from tests.mutants.directed import finds


@finds
def divergence_tells_the_high_watermark() -> None:
    """A leader comes back with a tail that nobody else has, to one that has written nothing: it
    cuts its log, and must hear what is committed.
    """
    with World(16) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        leader = scene.write_for_nobody()
        world.run(world.now + 10.0)
        world.network.heal()
        scene.cluster.start(leader)
        scene.wait_whole(5.0)
        scene.assert_nothing_lost()


@finds
def says_nothing_twice() -> None:
    """The high watermark is told in an answer that is under way when its reader begins anew, in the
    leader's next epoch.
    """
    with World(35) as world:
        # two and more that one follows from the other
        scene = Scene(world, nodes=5, voters=1, controllers=(1,), partitions=12)
        leader, (follower, gone) = scene.leader, scene.followers
        # the followers hear that it is committed with the answer to their next fetch, up to 500 ms
        # later
        scene.produce(1)
        world.network.cut(f"n{leader}", f"n{follower}", one_way=True)
        world.run(world.now + 1.0)
        epoch = scene.partition(follower).image.leader_epoch
        move = AlterReassignments(
            (
                MovedTopic(
                    TOPIC, (Move(0, (leader, follower, scene.other_than(1, *scene.replicas))),)
                ),
            )
        )
        scene.cluster.nodes[gone].controller.call(move, lambda error, reply: None, 5.0)
        assert world.run(
            lambda: scene.partition(follower).image.leader_epoch > epoch, at_most_s=10.0
        )
        world.network.heal()
        scene.wait_whole(5.0)


@finds
def answers_readers_of_another_epoch() -> None:
    """A leader that nobody hears but a reader, who knows its successor's epoch: it must not say
    what it takes for the end.
    """
    with World(17) as world:
        scene = Scene(world, settings={"broker.session.timeout.ms": "1000"})
        scene.produce(3)
        scene.wait_whole()
        old, client = scene.leader, scene.client
        others = [node_id for node_id in scene.cluster.nodes if node_id != old]
        for other in others:
            world.network.cut(f"n{old}", f"n{other}")
        client.bootstrap = [(f"n{other}", CLIENT_PORT) for other in others]
        assert scene.cluster.settled(
            lambda: any(scene.partition(other).leader is not None for other in others), 20.0
        )
        scene.produce(2)
        epoch = max(scene.partition(other).image.leader_epoch for other in others)
        answer = scene.cluster.do(
            client,
            lambda: client.ask((f"n{old}", CLIENT_PORT), LIST_OFFSETS, end_row(TOPIC, 0, epoch)),
        )
        told = answer.topics[0].partitions[0]
        assert told.error_code, (
            f"stale read: the end is {told.offset}, {len(scene.acknowledged[0])} are acknowledged"
        )


@finds
def serves_before_it_knows_anything() -> None:
    """Alone after a power loss of all it cannot know which topics there are: that its image is
    empty is no answer.
    """
    with World(19) as world:
        scene = Scene(world)
        scene.cluster.power_loss()
        wanted = METADATA.request(
            topics=[METADATA.request.topics(name=TOPIC)], allow_auto_topic_creation=False
        )
        client, told = scene.client, []

        async def ask() -> None:
            answer = await client.anybody(METADATA, wanted)
            told.append(answer.topics[0].error_code)

        client.bootstrap = client.bootstrap[:1]
        scene.cluster.start(1)
        client.runtime.spawn(ask, "ask")
        world.run(world.now + 3.0)
        for node_id in (2, 3):
            scene.cluster.start(node_id)
        assert world.run(lambda: bool(told), at_most_s=30)
        assert Code.UNKNOWN_TOPIC_OR_PARTITION not in told, "a topic is denied"


@finds
def reader_behind_an_open_transaction_is_not_woken() -> None:
    """It waits up to 30 s for a byte; the marker comes after half a second."""
    with Stage() as stage:
        stage.create("t")
        scene = Producing(stage)
        scene.send(b"a")
        wire = stage.wire()
        wire.request(
            FETCH,
            fetch("t", 0, isolation_level=READ_COMMITTED, max_wait_ms=30_000, min_bytes=1),
            12,
        )
        stage.world.run(stage.world.now + 0.5)
        scene.mark(commit=True)
        assert stage.world.run(lambda: bool(wire.frames), at_most_s=5.0), (
            "not woken: the transaction is committed, and its reader waits"
        )


@finds
def interrupted_first_fetch_misses_records() -> None:
    with Stage() as stage:
        assert not late_records_missed(stage, wait_ms=0), (
            "a session misses a record that came while its first fetch was interrupted"
        )


@finds
def session_change_forgets_what_is_new() -> None:
    """Rights change while a request adds partitions to a session: these are read all the same."""
    growing = Growing()
    growing.sessions.review()
    session, _ = drained(growing.steps)
    assert len(session.dirty) == len(session.partitions), (
        "partitions that a request adds to a session are not read"
    )
