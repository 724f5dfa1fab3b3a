"""Directed simulations of quorum, controller and replication: see directed.py."""

from types import SimpleNamespace
from typing import Any

from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.metadata.commands import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Change,
    Command,
    Heartbeat,
    Move,
    MovedTopic,
)
from raftka.metadata.quorum.journal import Standing
from raftka.metadata.quorum.raft import RaftCore
from raftka.replication.partition import Altered, AlterIsr, LeaderState
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code, KafkaError
from tests.mutants.directed import finds

SLOW_S = (0.5, 0.5)  # what a flush takes where a scenario needs time


@finds
def truncates_to_the_high_watermark() -> None:
    """KIP-101: who follows a new leader before it was told how much is committed, and then must
    lead itself, has all that was acknowledged.
    """
    with World(1) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        # the followers hear that it is committed with the answer to their next fetch, up to 500 ms
        # later
        scene.produce(1)
        first = scene.leader
        scene.cluster.kill(first, power_loss=False)
        world.run(lambda: scene.leader not in (first, -1), at_most_s=5.0)
        second = scene.leader
        third = scene.other_than(first, second)
        assert world.run(lambda: scene.partition(third).image.leader == second, at_most_s=5.0)
        scene.cluster.kill(second, power_loss=True)
        scene.cluster.start(first)
        scene.produce(1)
        scene.cluster.start(second)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def high_watermark_ahead_of_the_shrink() -> None:
    """A leader that nobody hears may not go on alone because it has asked for an ISR of its own."""
    with World(2) as world:
        scene = Scene(
            world, settings={"replica.lag.time.max.ms": "500", "min.insync.replicas": "1"}
        )
        scene.produce(3)
        while scene.leader == scene.cluster.controller:
            scene.cluster.kill(scene.leader, power_loss=False)
            scene.cluster.start(next(iter(set(scene.replicas) - scene.cluster.living.keys())))
            scene.produce(1)
            scene.wait_whole()
        for other in scene.followers:
            world.network.cut(f"n{scene.leader}", f"n{other}")
        client = scene.client
        scene.client.runtime.spawn(
            lambda: client.produce(
                TOPIC, 0, [b"to a leader alone"], scene.producer_id, len(scene.acknowledged[0])
            ),
            "produce",
        )
        world.run(world.now + 1.5)
        told = scene.partition(scene.leader).high_watermark
        world.run(world.now + 5.0)
        world.network.heal()
        scene.wait_whole()
        assert scene.read() == [*scene.acknowledged[0], b"to a leader alone"]
        assert told == len(scene.acknowledged[0])


@finds
def joins_the_isr_too_early() -> None:
    """A replica that is still catching up may not be the one that is left."""
    with World(3) as world:
        scene = Scene(
            world,
            settings={"replica.fetch.max.bytes": "100", "min.insync.replicas": "1"},
            replication_factor=2,
        )
        leader, (late,) = scene.leader, scene.followers
        scene.cluster.kill(late, power_loss=False)
        scene.produce(20)
        scene.cluster.disk(late).sync_s = SLOW_S
        scene.cluster.start(late)
        assert scene.cluster.settled(
            lambda: (
                late in scene.cluster.partitions(TOPIC, 0)
                and scene.partition(late).log.flushed_offset > 0
            ),
            20.0,
        )
        world.run(world.now + 0.1)
        assert scene.partition(late).log.end_offset < len(scene.acknowledged[0])
        scene.cluster.kill(leader, power_loss=False)
        world.run(world.now + 3.0)
        scene.cluster.start(leader)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def follower_forgets_producers() -> None:
    """A batch that is everywhere when its leader dies, unanswered, is sent again to the next
    leader: it is a duplicate there too.
    """
    with World(4) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        before, leader = len(scene.acknowledged[0]), scene.leader
        world.network.cut(f"n{leader}", "client", one_way=True)
        scene.client.runtime.spawn(
            lambda: scene.client.produce(TOPIC, 0, [b"once"], scene.producer_id, before), "produce"
        )
        assert world.run(lambda: scene.partition(leader).high_watermark > before, at_most_s=2.0)
        scene.cluster.kill(leader, power_loss=False)
        scene.acknowledged[0].append(b"once")
        world.run(world.now + 5.0)
        scene.cluster.start(leader)
        world.network.heal()
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def never_truncates() -> None:
    """A leader that comes back with records that nobody else has lets go of them."""
    with World(5) as world:
        scene = Scene(world)
        scene.produce(3)
        scene.wait_whole()
        leader = scene.write_for_nobody()
        scene.produce(2)
        world.run(world.now + 10.0)  # what was on its way is given up
        world.network.heal()
        scene.cluster.start(leader)
        scene.wait_whole(5.0)
        scene.assert_nothing_lost()


@finds
def journal_without_flush() -> None:
    """Entries that the controller has confirmed are there when all come back, and with them every
    acknowledged record.
    """
    with World(6) as world:
        scene = Scene(world)
        scene.produce(1)
        for node_id in scene.cluster.nodes:
            scene.cluster.disk(node_id).keeps_nothing = True
        scene.cluster.power_loss()
        for node_id in scene.cluster.nodes:
            scene.cluster.start(node_id)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def forgets_its_vote() -> None:
    """A voter that was restarted votes no second time in a term: two leaders would decide, each
    with a majority.
    """
    with World(7) as world:
        scene = Scene(world)
        cluster, first = scene.cluster, scene.cluster.controller
        assert first is not None
        world.network.isolate(f"n{first}")
        others = [node_id for node_id in cluster.nodes if node_id != first]
        assert cluster.settled(lambda: any(_leads(scene, node_id) for node_id in others), 10.0)
        second = next(node_id for node_id in others if _leads(scene, node_id))
        voter, term = scene.other_than(first, second), _core(scene, second).term
        cluster.kill(voter, power_loss=True)
        world.network.heal()
        world.network.isolate(f"n{second}")
        cluster.start(voter)
        assert cluster.settled(
            lambda: any(_leads(scene, node_id, term) for node_id in (first, voter)), 10.0
        )
        world.network.heal()
        scene.produce(1)
        scene.wait_whole()
        scene.assert_nothing_lost()


def _core(scene: Scene, node_id: int) -> RaftCore:
    core = scene.cluster.nodes[node_id].quorum.core
    assert core is not None
    return core


def _leads(scene: Scene, node_id: int, term: int = 0) -> bool:
    """In that term or a later one."""
    core = scene.cluster.nodes[node_id].quorum.core  # None: about to start
    return core is not None and core.active and core.term >= term


@finds
def believes_every_directory() -> None:
    """One of a broker's directories is replaced by an empty one, and the broker is back before the
    other that has everything.
    """
    _a_directory_is_replaced({"log.dirs": "/data,/more", "min.insync.replicas": "1"})


def _a_directory_is_replaced(settings: dict[str, str]) -> None:
    with World(8) as world:
        scene = Scene(world, settings=settings, partitions=6, replication_factor=2)
        cluster = scene.cluster
        for partition in range(6):
            scene.produce(3, partition)
        scene.wait_whole()
        partition, victim = next(
            (p, i)
            for p in range(6)
            for i, replica in cluster.partitions(TOPIC, p).items()
            if replica.home.path == "/more"
        )
        (other,) = set(cluster.replicas_of(TOPIC, partition)) - {victim}
        cluster.power_loss()
        cluster.disk(victim).replace_directory("/more")
        for node_id in cluster.nodes.keys() - {other}:
            cluster.start(node_id)
        world.run(world.now + 5.0)
        cluster.start(other)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def lost_voter_votes_at_once() -> None:
    """A topic is created while one voter is cut off from the others. One of these loses its disk,
    then the last dies: who is left knows less.
    """
    for seed in range(35, 41):  # its word must come between two of the leader's
        with World(seed) as world:
            _disk_is_lost_while_another_is_behind(world)


def _disk_is_lost_while_another_is_behind(world: World) -> None:
    scene = Scene(world)
    cluster, leader = scene.cluster, scene.cluster.controller
    assert leader is not None
    behind, loses = sorted(node_id for node_id in cluster.nodes if node_id != leader)
    for other in (leader, loses):
        world.network.cut(f"n{behind}", f"n{other}")
    client = scene.client
    client.bootstrap = [(f"n{leader}", CLIENT_PORT)]
    cluster.do(client, lambda: client.create_topic("second", 1, 1))
    cluster.kill(loses, power_loss=True)
    cluster.new_disk(loses)
    world.network.heal()
    world.network.cut(f"n{behind}", f"n{leader}")
    world.network.delay(f"n{behind}", f"n{loses}", 0.11, 0.11)
    cluster.start(loses)
    assert world.run(lambda: _standing(scene, loses) is not Standing.EMPTY, at_most_s=5.0)
    cluster.kill(leader, power_loss=True)
    world.network.heal()
    world.run(world.now + 8.0)
    cluster.start(leader)
    known = [node_id for node_id in (behind, leader) if _knows(scene, node_id, "second", 15.0)]
    assert known == [behind, leader], f"the topic is known to {known} alone"
    assert not world.failures


def _standing(scene: Scene, node_id: int) -> Standing:
    core = scene.cluster.nodes[node_id].quorum.core
    return core.journal.standing if core is not None else Standing.EMPTY


def _knows(scene: Scene, node_id: int, topic: str, at_most_s: float) -> bool:
    return scene.cluster.settled(
        lambda: scene.cluster.nodes[node_id].image.topic_named(topic) is not None, at_most_s
    )


@finds
def deposed_controller_confirms() -> None:
    """A controller sleeps with a proposal on its way, wakes when its successor has committed more,
    and is asked again before it knows.
    """
    with World(1) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        old = cluster.controller
        assert old is not None
        told: list[tuple[KafkaError | None, Any]] = []
        node = cluster.nodes[old]
        host, core = node.quorum.host, node.quorum.core
        assert host is not None
        assert core is not None

        def ask(command: Command) -> None:
            host.submit(command, lambda error, reply: told.append((error, reply)))

        def ask_and_sleep() -> None:
            ask(AllocateProducerIds(old, node.lifecycle.broker_epoch))
            world.pause(f"n{old}")

        world.at(world.now, ask_and_sleep)
        world.run(world.now + 4.0)  # the next one commits more than the old one has proposed
        assert max(each.image.offset for each in cluster.nodes.values()) > core.last_index
        apply = node.quorum._apply

        def apply_and_ask(found: Any) -> None:
            """The broker asks its own controller while it takes over what the new one has
            decided.
            """
            ask(Heartbeat(old, node.lifecycle.broker_epoch, node.image.offset))
            apply(found)

        node.quorum._apply = apply_and_ask
        world.resume(f"n{old}")
        assert world.run(lambda: len(told) > 1, at_most_s=30.0)
        codes = {error.code if error is not None else None for error, _ in told}
        assert codes <= {Code.NOT_CONTROLLER, Code.NETWORK_EXCEPTION}, (
            f"a deposed controller confirms: {codes}"
        )


@finds
def producer_ids_are_given_twice() -> None:
    """Producers come to all brokers, and to the same ones again after a restart: no two have one
    id.
    """
    with World(10) as world:
        scene = Scene(world)
        given: list[int] = [scene.producer_id]
        for _ in range(3):
            given += [scene.cluster.do(scene.client, scene.client.producer_id) for _ in range(6)]
            scene.cluster.power_loss()
            for node_id in scene.cluster.nodes:
                scene.cluster.start(node_id)
            scene.cluster.wait_ready()
        assert len(set(given)) == len(given), f"producer ids are given twice: {sorted(given)}"


@finds
def unclean_election_without_permission() -> None:
    """A replica that was left behind may not lead when the last of the ISR dies."""
    with World(12) as world:
        scene = Scene(
            world,
            replication_factor=2,
            configs={"min.insync.replicas": "1"},
            settings={"replica.lag.time.max.ms": "500"},
        )
        leader, (late,) = scene.leader, scene.followers
        scene.cluster.kill(late, power_loss=False)
        scene.produce(3)
        scene.cluster.kill(leader, power_loss=False)
        scene.cluster.start(late)
        world.run(world.now + 5.0)
        scene.cluster.start(leader)
        scene.wait_whole()
        scene.assert_nothing_lost()


@finds
def isr_change_without_partition_epoch() -> None:
    """A leader's request to take a follower in comes again, late, when that follower has fallen out
    and lacks what was committed since.
    """
    with World(13) as world:
        scene = Scene(
            world, settings={"replica.lag.time.max.ms": "500"}, configs={"min.insync.replicas": "1"}
        )
        cluster, leader = scene.cluster, scene.leader
        follower = next(each for each in scene.followers if each != cluster.controller)
        topic_id = scene.partition(leader).topic_id
        image = scene.partition(leader).image
        members = tuple((each, cluster.newest.image.brokers[each].epoch) for each in image.isr)
        broker_epoch = cluster.nodes[leader].lifecycle.broker_epoch
        late = AlterPartition(
            leader,
            broker_epoch,
            (Change(topic_id, 0, image.leader_epoch, image.partition_epoch, members),),
        )
        world.network.cut(f"n{leader}", f"n{follower}")
        client = scene.client
        client.runtime.spawn(
            lambda: client.produce(TOPIC, 0, [b"first"], scene.producer_id, 0), "produce"
        )
        assert cluster.settled(lambda: follower not in scene.isr, 10.0)
        scene.acknowledged[0].append(b"first")
        scene.produce(3)
        controller = cluster.controller
        assert controller is not None
        host = cluster.nodes[controller].quorum.host
        assert host is not None
        answered: list[object] = []
        world.at(world.now, lambda: host.submit(late, lambda error, reply: answered.append(error)))
        world.run(lambda: bool(answered), at_most_s=2.0)
        assert follower not in scene.isr, (
            f"n{follower} is in the ISR again, and lacks what is committed"
        )


@finds
def stale_broker_epoch_accepted() -> None:
    """The farewell of a broker's process before comes late: its next process is registered, and
    stays.
    """
    with World(14) as world:
        scene = Scene(world)
        cluster, controller = scene.cluster, scene.cluster.controller
        assert controller is not None
        broker = scene.other_than(controller)
        earlier = cluster.nodes[broker].lifecycle.broker_epoch
        cluster.kill(broker, power_loss=False)
        cluster.start(broker)
        assert cluster.settled(
            lambda: cluster.nodes[broker].lifecycle.broker_epoch > earlier and cluster.is_ready(),
            20.0,
        )
        host = cluster.nodes[controller].quorum.host
        assert host is not None
        farewell = Heartbeat(broker, earlier, cluster.newest.image.offset, want_shutdown=True)
        answered = []
        world.at(
            world.now, lambda: host.submit(farewell, lambda error, reply: answered.append(error))
        )
        world.run(lambda: bool(answered), at_most_s=2.0)
        world.run(world.now + 1.0)
        assert cluster.newest.image.alive(broker), (
            f"the process before has said goodbye for broker {broker}"
        )


@finds
def moved_away_is_kept() -> None:
    """A replica goes to another broker while the one that had it is down."""
    with World(15) as world:
        scene = Scene(world, nodes=4, voters=3, replication_factor=2)
        cluster, (gone,) = scene.cluster, scene.followers
        scene.produce(3)
        new = scene.other_than(scene.leader, gone)
        cluster.kill(gone, power_loss=False)
        move = AlterReassignments((MovedTopic(TOPIC, (Move(0, (scene.leader, new)),)),))
        cluster.nodes[scene.leader].controller.call(move, lambda error, reply: None, 5.0)
        assert cluster.settled(lambda: set(scene.replicas) == {scene.leader, new}, 20.0)
        cluster.start(gone)
        cluster.wait_ready()
        world.run(world.now + 2.0)
        left = [
            name for name in cluster.nodes[gone].runtime.files.list("/data") if name == f"{TOPIC}-0"
        ]
        assert left == [], f"n{gone} still has {left}"


@finds
def session_reuse_after_restart() -> None:
    """The only directory of a broker's logs is replaced by an empty one: there is no log that it
    would have to open first.
    """
    _a_directory_is_replaced(
        {"log.dirs": "/more", "metadata.log.dir": "/data", "min.insync.replicas": "1"}
    )


@finds
def controller_answers_at_once() -> None:
    """A controller that nobody hears decides, and keeps to itself what."""
    with World(18) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        leader = cluster.controller
        assert leader is not None
        world.network.isolate(f"n{leader}")
        node, told = cluster.nodes[leader], []
        host = node.quorum.host
        assert host is not None
        world.at(
            world.now,
            lambda: host.submit(
                AllocateProducerIds(leader, node.lifecycle.broker_epoch),
                lambda error, reply: told.append(reply),
            ),
        )
        world.run(world.now + 0.1)
        assert told == [], f"told what is not committed: {told}"


@finds
def divergence_is_not_looked_for() -> None:
    """As with a follower that never truncates."""
    never_truncates()


@finds
def late_answer_is_believed() -> None:
    """A leader asks for its followers in the ISR, and both are fenced. Believed, the answer brings
    back those whom the controller has taken out.
    """
    leader = LeaderState(1, 5, 0, [1, 2, 3], [1, 2], 0, 0, 0, 0.0, 10.0, 1, {1: 11, 2: 12, 3: 13})
    leader.appended(10)
    leader.flushed(10)
    asked = [
        effect
        for follower in (2, 3)
        for effect in leader.fetched(follower, 8, 0.0, 10 + follower)
        if isinstance(effect, AlterIsr)
    ]
    leader.on_image(
        SimpleNamespace(replicas=(1, 2, 3), isr=(1,), leader_epoch=5, partition_epoch=5, elr=()),
        {1: 11},
        0.0,
    )
    leader.alter_answered(asked[0], Altered((1, 2, 3), 1), 0.0)
    assert leader.isr == (1,), f"ISR {leader.isr} of a late answer"
