"""Brokers without a vote, controllers that are no brokers: they follow the metadata, come and go,
and clients see brokers only.
"""

import pytest

from raftka.chaos.simulated.checks import verify
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.chaos.simulation import WIDTH, live
from raftka.metadata.commands import AllocateProducerIds, ProducerIdBlock
from raftka.metadata.configs.describe import FILE_SOURCE
from raftka.runtime.simulated.world import World
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.quorum import DESCRIBE_QUORUM, PartitionData
from raftka.wire.messages.topics import CREATE_TOPICS

SHORT_LOG = {"metadata.log.max.record.bytes.between.snapshots": "500"}


def quorum(scene: Scene) -> PartitionData:
    request = DESCRIBE_QUORUM.request
    row = request(
        topics=[
            request.topics(
                topic_name="__cluster_metadata",
                partitions=[request.topics.partitions(partition_index=0)],
            )
        ]
    )
    answer = scene.cluster.do(scene.client, lambda: scene.client.anybody(DESCRIBE_QUORUM, row))
    assert answer.error_code == 0
    found: PartitionData = answer.topics[0].partitions[0]
    return found


def equal(cluster: Cluster) -> bool:
    return len({node.image.offset for node in cluster.living.values()}) == 1


def test_controllers_that_are_no_brokers() -> None:
    with World(1) as world:
        scene = Scene(world, nodes=6, voters=3, controllers=(1, 2, 3))
        cluster = scene.cluster
        scene.produce(3)
        metadata = cluster.do(
            scene.client, lambda: scene.client.anybody(METADATA, METADATA.request(topics=None))
        )
        assert {broker.node_id for broker in metadata.brokers} == {4, 5, 6}
        assert metadata.controller_id in (4, 5, 6)
        leader = cluster.controller
        assert leader is not None
        assert leader in (1, 2, 3)
        assert directory(cluster, leader) == []

        cluster.kill(leader, power_loss=True)
        scene.produce(3)
        cluster.kill(scene.leader, power_loss=True)
        scene.produce(3)
        for node_id in set(cluster.nodes) - set(cluster.living):
            cluster.start(node_id)
        cluster.wait_ready()
        scene.wait_whole()
        scene.assert_nothing_lost()
        for node_id in sorted(cluster.nodes):
            cluster.stop(node_id)


class Uneven(Cluster):
    """A controller and a broker whose files say different things about topics."""

    def properties(self, node_id: int) -> dict[str, str]:
        own = (
            {"num.partitions": "2", "log.retention.ms": "1000"}
            if node_id == 1
            else {"num.partitions": "5", "log.retention.ms": "5000"}
        )
        return super().properties(node_id) | own


def test_an_automatic_topic_has_as_many_partitions_as_its_broker_says() -> None:
    with World(1) as world:
        cluster = Uneven(world, nodes=2, voters=1, controllers=(1,))
        cluster.wait_ready()
        client, request = cluster.client(), METADATA.request
        wanted = request(topics=[request.topics(name="t")], allow_auto_topic_creation=True)
        cluster.do(client, lambda: client.anybody(METADATA, wanted))

        assert cluster.settled(lambda: cluster.newest.image.topic_named("t") is not None)
        topic = cluster.newest.image.topic_named("t")
        assert topic is not None
        assert len(topic.partitions) == 5


def test_a_created_topic_is_described_with_the_controllers_settings() -> None:
    """As in Kafka, whichever broker was asked."""
    with World(1) as world:
        cluster = Uneven(world, nodes=2, voters=1, controllers=(1,))
        cluster.wait_ready()
        client, request = cluster.client(), CREATE_TOPICS.request
        wanted = request(
            topics=[request.topics(name="t", num_partitions=-1, replication_factor=-1)],
            timeout_ms=5000,
        )
        ((created,),) = [cluster.do(client, lambda: client.anybody(CREATE_TOPICS, wanted)).topics]

        assert (created.error_code, created.num_partitions) == (0, 2)
        assert [
            (each.value, each.config_source)
            for each in created.configs
            if each.name == "retention.ms"
        ] == [("1000", FILE_SOURCE)]


def directory(cluster: Cluster, node_id: int) -> list[str]:
    return [
        name
        for name in cluster.nodes[node_id].runtime.files.list("/data")
        if name.startswith(TOPIC)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_brokers_without_a_vote_follow_whichever_controller_there_is(seed: int) -> None:
    with World(seed) as world:
        chance = world.random("test")
        scene = Scene(world, nodes=9, voters=3, settings=SHORT_LOG)
        cluster = scene.cluster
        for number in range(6):
            victim = chance.choice([1, 2, 3, chance.randint(4, 9)])
            cluster.kill(victim, power_loss=chance.random() < 0.5)
            cluster.do(
                scene.client,
                lambda number=number: scene.client.create_topic(f"topic{number}", 3, 3),  # type: ignore[misc]
            )
            cluster.start(victim)
            world.run(world.now + chance.uniform(0.0, 1.0))
        cluster.wait_ready()
        assert cluster.settled(lambda: equal(cluster))
        assert verify.metadata(cluster) == []
        assert all(len(node.image.topics) == 7 for node in cluster.nodes.values())


def test_one_that_was_away_for_long_gets_a_snapshot() -> None:
    with World(2) as world:
        scene = Scene(world, nodes=4, voters=3, settings=SHORT_LOG)
        cluster = scene.cluster
        world.network.isolate("n4")
        for number in range(20):
            cluster.do(
                scene.client,
                lambda number=number: scene.client.create_topic(f"topic{number}", 1, 3),  # type: ignore[misc]
            )
        cores = [
            node.quorum.core for node in cluster.nodes.values() if node.quorum.core is not None
        ]
        behind = cluster.nodes[4].image.offset
        assert all(core.journal.base.index > behind for core in cores)
        assert not cluster.newest.image.alive(4)
        world.network.heal()
        cluster.wait_ready()
        assert cluster.settled(lambda: equal(cluster))
        assert verify.metadata(cluster) == []


def test_the_quorum_is_described_as_its_leader_sees_it() -> None:
    with World(3) as world:
        scene = Scene(world, nodes=5, voters=3)
        cluster = scene.cluster
        world.run(world.now + 3.0)
        state = quorum(scene)
        assert state.leader_id == cluster.controller
        assert [each.replica_id for each in state.current_voters] == [1, 2, 3]
        assert sorted(each.replica_id for each in state.observers) == [4, 5]
        assert {each.log_end_offset for each in (*state.current_voters, *state.observers)} == {
            state.high_watermark
        }
        assert state.high_watermark == cluster.newest.image.offset + 1
        now_ms = cluster.nodes[state.leader_id].runtime.clock.wall_ms()
        for each in (*state.current_voters, *state.observers):
            assert now_ms - 1500 < each.last_fetch_timestamp <= now_ms
            assert now_ms - 1500 < each.last_caught_up_timestamp <= now_ms

        observed = cluster.nodes[5].quorum._observing
        assert observed is not None
        # who sleeps tells nobody anything
        behind = next(
            node_id for node_id in (1, 2, 3) if node_id not in (state.leader_id, observed.voter)
        )
        for name in (f"n{behind}", "n4"):
            world.pause(name)
        before_ms = now_ms
        cluster.do(scene.client, lambda: ask_others(scene, (behind, 4)))
        state = quorum_of(scene, next(node_id for node_id in (1, 2, 3) if node_id != behind))
        rows = {each.replica_id: each for each in (*state.current_voters, *state.observers)}
        assert rows[behind].log_end_offset < state.high_watermark
        assert rows[behind].last_caught_up_timestamp <= before_ms + 500
        assert rows[5].log_end_offset == state.high_watermark
        for name in (f"n{behind}", "n4"):
            world.resume(name)


@pytest.mark.parametrize(("observed", "leads"), [(True, False), (True, True), (False, True)])
def test_a_voter_that_hangs_keeps_nobody_from_the_metadata(observed: bool, leads: bool) -> None:
    """Its connections stay open, and nothing comes: brokers without a vote go to another, ask the
    new controller anew, and are not fenced.
    """
    with World(5) as world:
        scene = Scene(world, nodes=5, voters=3, replication_factor=2)
        cluster = scene.cluster
        leader = cluster.controller
        assert leader is not None
        quorum = cluster.nodes[5].quorum

        def observes() -> bool:
            if quorum._observing is None or (quorum._observing.voter == leader) is (
                observed and leads
            ):
                return quorum._observing is not None and all(
                    link.up for link in quorum.links.values()
                )
            if quorum._observing.peer is not None:
                quorum._observing.peer.close("a test")
            return False

        assert world.run(observes, at_most_s=20)
        assert quorum._observing is not None
        hangs = quorum._observing.voter if observed else leader
        world.pause(f"n{hangs}")
        answered: list[object] = []
        node = cluster.nodes[5]
        node.controller.call(
            AllocateProducerIds(5, node.lifecycle.broker_epoch),
            lambda error, reply: answered.append(error or reply),
            timeout_s=20.0,
        )
        cluster.do(scene.client, lambda: ask_others(scene, (hangs,)))

        assert world.run(
            lambda: cluster.nodes[5].image.topic_named("newer") is not None, at_most_s=5
        )
        assert [type(answer) for answer in answered] == [ProducerIdBlock]
        world.run(world.now + 12.0)  # more than a session
        assert not any(cluster.nodes[5].image.brokers[node_id].fenced for node_id in (4, 5))
        world.resume(f"n{hangs}")


def test_a_broker_without_a_vote_knows_who_leads_and_in_which_term() -> None:
    with World(6) as world:
        cluster = Scene(world, nodes=4, voters=3).cluster
        observer = cluster.nodes[4].quorum

        def known() -> bool:
            leader = cluster.controller
            return leader is not None and (observer.leader, observer.term) == (
                leader,
                cluster.nodes[leader].quorum.term,
            )

        assert world.run(known, at_most_s=5)
        first = cluster.controller, observer.term
        assert first[0] is not None
        world.pause(f"n{first[0]}")
        assert world.run(
            lambda: observer.term > first[1] and observer.leader not in (None, first[0]),
            at_most_s=20,
        )
        later = observer.leader, observer.term
        observer._set_leader(*first)  # from a voter that was away

        assert (observer.leader, observer.term) == later
        world.resume(f"n{first[0]}")
        assert world.run(known, at_most_s=5)


async def ask_others(scene: Scene, asleep: tuple[int, ...]) -> None:
    """Create something, and let time pass until who sleeps has lost his session."""
    scene.client.bootstrap = [(f"n{i}", CLIENT_PORT) for i in range(1, 6) if i not in asleep]
    await scene.client.create_topic("newer", 1, 1)


def quorum_of(scene: Scene, node_id: int) -> PartitionData:
    # an observer says with its heartbeat, every two seconds, how far it is
    scene.world.run(scene.world.now + 2.5)
    return quorum(scene)


@pytest.mark.parametrize("seed", range(4))
def test_lives_of_clusters_of_many_roles(seed: int) -> None:
    """Replicas move, elections are asked for, and everything else goes wrong too."""
    life = live(seed, WIDTH)

    assert life.violations == []
    assert life.acknowledged > 0
