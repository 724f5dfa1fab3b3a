"""Frames that nobody would write, API by API, to a simulated node with logins and ACLs: from
strangers, and from a user who may do nothing.

A stranger is answered only what belongs to a login, or the connection ends. A user without rights
gets answers, and in none of them anything that was planted where only others may look: names,
settings, metadata of offsets, members, records.
"""

from itertools import chain, islice
from struct import pack

from raftka.broker.network.dispatch import HANDLERS
from raftka.metadata.image import TOPIC
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import JOIN_GROUP
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.schema import AnyApi
from tests.broker import fuzz_frames
from tests.broker.fuzz_frames import Frames
from tests.broker.judging import END, judged
from tests.broker.requests import batch, produce, produced
from tests.broker.rights import WITH_ACLS, admin_of, pat
from tests.broker.sasl import SECURE
from tests.broker.stage import Stage, Wire

CANARY = "canary-7261"
CANARY_MS = "7261000726"  # the value of a setting
LOGIN = {API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256")


class Secured(Stage):
    """Its own requests are the administrator's."""

    def wire(self, node_id: int = 1) -> Wire:
        return admin_of(self, node_id)


def strangers(api: AnyApi, count: int, seed: int) -> None:
    """Frames of clients that have not logged in, as the first of their connection or in the middle
    of a login.
    """
    with Stage(**SECURE) as stage:
        stage.world.network.delay("client", "n1", 0.0)
        some = islice(
            Frames(api, dict.fromkeys(fuzz_frames.TOPICS, bytes(15) + b"\1"), seed), count
        )
        for at, frame in enumerate(some):
            wire = stage.wire()
            if at % 2:
                request = SASL_HANDSHAKE.request(mechanism=MECHANISMS[at // 2 % 2])
                assert wire.ask(SASL_HANDSHAKE, request).error_code == 0
            wire.send_frame(frame)
            answer = wire.frame()
            assert answer is None or api.key in LOGIN, f"a stranger is answered: {frame.hex()}"
            assert answer is None or judged(api, frame, [answer]) is None, frame.hex()
            assert (
                not stage.server_side().session.authenticated
                if stage.nodes[1].dispatcher.connections
                else True
            )
            wire.close()
            assert stage.counted("raftka_handler_errors_total") == 0, (
                frame.hex(),
                stage.events("handler_failed"),
            )
        _check_node(stage)


def users(api: AnyApi, count: int, seed: int, user: str = "pat") -> None:
    """Frames of a user who has logged in and has no ACL; of the administrator, to see that what was
    planted is found.
    """
    with Secured(**WITH_ACLS) as stage:
        stage.world.network.delay("client", "n1", 0.0)
        ids = {
            name: stage.create(name, 2, configs=configs)
            for name, configs in fuzz_frames.TOPICS.items()
        }
        ids[CANARY] = stage.create(CANARY)
        plant(stage)
        known = dict(stage.nodes[1].image.topic_ids)
        frames = Frames(api, ids, seed)
        wire = logged_in_as(stage, user)
        for frame in chain(frames.by_hypothesis(count // 10), islice(frames, count)):
            wire.send(pack(">i", len(frame)) + frame + END)
            while (answer := wire.frame()) is not None and answer[:4] != END[8:12]:
                _check_answer(frame, answer)
            if answer is None:
                wire = logged_in_as(stage, user)
            assert stage.counted("raftka_handler_errors_total") == 0, (
                frame.hex(),
                stage.events("handler_failed"),
            )
        assert stage.nodes[1].image.topic_ids == known, (
            "a user without rights has changed the topics"
        )
        _check_node(stage)


def logged_in_as(stage: Stage, user: str) -> Wire:
    return admin_of(stage) if user == "node" else pat(stage)


def plant(stage: Stage) -> None:
    """Make things that only the administrator may see, under names that the frames have and under
    one that they have not.
    """
    admin = stage.wire()
    for name in (*fuzz_frames.TOPICS, CANARY):
        stage.set(TOPIC, name, retention_ms=CANARY_MS)
        # pc is compacted: it takes no record without a key
        for partition in (0, 1) if name not in ("pc", CANARY) else ():
            assert (
                produced(
                    admin.ask(PRODUCE, produce(name, batch(CANARY.encode()), partition), 12)
                ).error_code
                == 0
            )
    for kind in (0, 1):
        admin.ask(
            FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=kind, coordinator_keys=["any"])
        )
    row = OFFSET_COMMIT.request
    asked = row.topics(
        name="t",
        partitions=[
            row.topics.partitions(partition_index=0, committed_offset=1, committed_metadata=CANARY)
        ],
    )
    for name in ("a", CANARY):  # of a group and of a transaction
        commit = row(group_id=name, topics=[asked])
        begin = INIT_PRODUCER_ID.request(transactional_id=name, transaction_timeout_ms=60_000)
        while (
            admin.ask(OFFSET_COMMIT, commit, 8).topics[0].partitions[0].error_code
            or admin.ask(INIT_PRODUCER_ID, begin).error_code
        ):
            stage.world.run(stage.world.now + 0.2)  # coordinators load
    join = JOIN_GROUP.request
    protocol = join.protocols(name="range", metadata=CANARY.encode())
    admin.request(
        JOIN_GROUP,
        join(
            group_id="p", session_timeout_ms=300_000, protocol_type="consumer", protocols=[protocol]
        ),
        3,
    )


def _check_answer(frame: bytes, answer: bytes) -> None:
    for secret in (CANARY, CANARY_MS):
        assert secret.encode() not in answer, f"{secret} is told: {frame.hex()}"


def _check_node(stage: Stage) -> None:
    assert not stage.world.failures
    assert '"level": "error"' not in stage.logs[1].getvalue()


def apis() -> list[AnyApi]:
    return [HANDLERS[key].api for key in sorted(HANDLERS)]
