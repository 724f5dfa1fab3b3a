"""A secured Apache Kafka 4.3.1, recorded in golden_security.jsonl and asked again: rights, ACLs and
SCRAM credentials.

An administrator made topics and ACLs between the recorded exchanges; ACLS and PREPARED do it anew,
as the comments of the exchanges say. What differs stands in RIGHTS with its reason, and in
docs/compatibility.md.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from raftka.broker.coordinators.partition import LOADED
from raftka.metadata.configs.broker import STANDARD_AUTHORIZER
from raftka.security import acls
from raftka.security.acls import ALLOW, DENY, LITERAL, PREFIXED, Acl
from raftka.wire.messages.acls import CREATE_ACLS, DELETE_ACLS
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from tests.broker.golden import (
    RECORDED_IDS,
    Differences,
    Exchange,
    Replay,
    all_found,
    not_meant,
    numbers_of,
    recorded,
)
from tests.broker.sasl import SECURE, log_in
from tests.broker.stage import Stage, Wire
from tests.kit.broker.kafka_differences import RIGHTS

EXCHANGES = [
    each
    for each in recorded(Path(__file__).parent / "golden_security.jsonl")
    if each.n == 1 or 307 <= each.n <= 743
]
BY_NUMBER = {exchange.n: exchange for exchange in EXCHANGES}
SAME = {"127.0.0.1": "n1", 24092: 9092}
HERE = "client"  # the client's address in the simulation
CLOCK_MS = 1_795_409_500_000
USERS = "".join(
    f' user_{name}="{name}-secret"' for name in ("node", "pat", "admin", "alice", "bob")
)
SETTINGS: dict[str, Any] = {
    **SECURE,
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="node" password="node-secret"{USERS};'
    ),
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:node;User:admin",
}


def user_of(stage: Stage, user: str) -> Wire:
    wire = Stage.wire(stage)
    assert log_in(wire, "PLAIN", user, f"{user}-secret").error_code == 0
    return wire


def acl(
    operation: int,
    name: str = "open",
    pattern: int = LITERAL,
    *,
    user: str = "User:alice",
    host: str = "*",
    kind: int = acls.TOPIC,
    deny: bool = False,
) -> Acl:
    return Acl(kind, name, pattern, user, host, operation, DENY if deny else ALLOW)


def on_cluster(operation: int) -> Acl:
    return acl(operation, acls.CLUSTER_NAME, kind=acls.CLUSTER)


PARTLY = (acl(acls.READ), acl(acls.READ, "g", kind=acls.GROUP))
NEW = (acl(acls.CREATE, "new-", PREFIXED),)
TRANSACTION = (acl(acls.WRITE, "t", kind=acls.TRANSACTIONAL_ID), acl(acls.WRITE))
BOB = (acl(acls.DESCRIBE, "t", kind=acls.TRANSACTIONAL_ID, user="User:bob"),)
ACLS: dict[int, tuple[Acl, ...]] = {  # from that exchange on there are these alone
    1: (),
    486: (acl(acls.READ),),
    488: (acl(acls.READ, "pre.", PREFIXED),),
    489: (acl(acls.READ, "pre.one", PREFIXED),),
    490: (acl(acls.READ, "pre."),),
    491: (acl(acls.READ, "*"),),
    492: (acl(acls.READ, "*", PREFIXED),),
    493: (acl(acls.READ, user="User:*"),),
    494: (acl(acls.READ, user="Group:alice"),),
    495: (acl(acls.READ, "Open"), acl(acls.READ, user="User:Alice")),
    496: (acl(acls.READ, host=HERE),),
    497: (acl(acls.READ, host="10.0.0.1"),),
    498: (acl(acls.READ, host="127.0.0.0/8"),),
    499: (acl(acls.READ), acl(acls.READ, deny=True)),
    500: (acl(acls.READ), acl(acls.READ, "op", PREFIXED, deny=True)),
    501: (acl(acls.READ), acl(acls.READ, "*", deny=True)),
    502: (acl(acls.READ), acl(acls.ALL, deny=True)),
    503: (acl(acls.READ), acl(acls.READ, host="10.0.0.1", deny=True)),
    504: (acl(acls.ALL),),
    505: (acl(acls.READ),),
    506: (acl(acls.WRITE),),
    507: (acl(acls.DELETE),),
    508: (acl(acls.ALTER),),
    509: (acl(acls.CREATE),),
    510: (acl(acls.ALTER_CONFIGS),),
    511: (acl(acls.DESCRIBE),),
    512: (acl(acls.READ), acl(acls.READ, deny=True)),
    513: (acl(acls.READ), acl(acls.DESCRIBE, deny=True)),
    515: (acl(acls.WRITE),),
    516: (acl(acls.ALL, user="User:*", deny=True),),
    517: (acl(acls.ALTER_CONFIGS), acl(acls.ALTER_CONFIGS, "gg", kind=acls.GROUP)),
    518: PARTLY,
    531: NEW,
    533: (*NEW, acl(acls.DESCRIBE, "new-", PREFIXED)),
    534: (acl(acls.DESCRIBE, "nix-", PREFIXED),),
    536: (acl(acls.DESCRIBE, "new-", PREFIXED), acl(acls.DESCRIBE, "nix-", PREFIXED)),
    538: (on_cluster(acls.CREATE),),
    539: (acl(acls.WRITE, "any"),),
    540: (acl(acls.WRITE, "any"), acl(acls.WRITE, "*", deny=True)),
    541: (acl(acls.WRITE, "any", PREFIXED), acl(acls.WRITE, "any", PREFIXED, deny=True)),
    542: (acl(acls.WRITE, "any"), acl(acls.WRITE, "any", deny=True)),
    543: (acl(acls.WRITE, "any"), acl(acls.WRITE, "other", deny=True)),
    544: (on_cluster(acls.IDEMPOTENT_WRITE),),
    545: TRANSACTION,
    551: (*TRANSACTION, *BOB),
    554: (on_cluster(acls.DESCRIBE),),
    556: (on_cluster(acls.ALL),),
    557: (on_cluster(acls.CLUSTER_ACTION),),
    558: (acl(acls.ALL),),
    559: (acl(acls.ALL), acl(acls.DELETE, deny=True)),
    560: (acl(acls.WRITE, "*"),),
    562: (),
    583: (
        acl(acls.READ, "f", PREFIXED),
        acl(acls.DESCRIBE, "*", user="User:*"),
        acl(acls.READ, "foo", kind=acls.GROUP, host="10.0.0.1"),
        acl(acls.WRITE, "foo", user="User:bob"),
        acl(acls.READ, "foo"),
        acl(acls.READ, "foo", user="User:*", deny=True),
        acl(acls.READ, "*", PREFIXED),
    ),
    731: (),
}


class RightsStage(Stage):
    """Its own requests are the administrator's."""

    def wire(self, node_id: int = 1) -> Wire:
        return user_of(self, "admin")


class RightsReplay(Replay):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, EXCHANGES, RECORDED_IDS)
        self.wires: dict[str, Wire] = {}

    def run(self) -> dict[int, Differences]:
        return {exchange.n: self.answer(exchange) for exchange in self.exchanges}

    def answer(self, exchange: Exchange) -> Differences:
        assert exchange.principal is not None
        self.prepare_for(exchange.n)
        self.set_clock(CLOCK_MS)
        return self.ask(exchange, self.of(exchange.principal.removeprefix("User:")))

    def prepare_for(self, n: int) -> None:
        if n in ACLS:
            self.replace_acls(ACLS[n])
        if n in PREPARED:
            PREPARED[n](self)

    def of(self, user: str) -> Wire:
        """The connection of a user, a new one if the last has ended."""
        if user not in self.wires or self.wires[user].close_reason is not None:
            self.wires[user] = user_of(self.stage, user)
        return self.wires[user]

    def replace_acls(self, wanted: tuple[Acl, ...]) -> None:
        admin, filters = self.of("admin"), DELETE_ACLS.request.filters
        row = CREATE_ACLS.request.creations
        everything = filters(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            operation=1,
            permission_type=1,
        )
        admin.ask(DELETE_ACLS, DELETE_ACLS.request(filters=[everything]))
        creations = [
            row(
                resource_type=each.resource_type,
                resource_name=each.name,
                resource_pattern_type=each.pattern,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in wanted
        ]
        assert not any(
            each.error_code
            for each in admin.ask(CREATE_ACLS, CREATE_ACLS.request(creations=creations)).results
        )
        self.stage.wait(lambda: set(self.stage.nodes[1].image.acls) == set(wanted))

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name == "transaction_start_time_ms" and recorded > 0:
            return bool(ours > 0)
        return super().same(
            path,
            name,
            SAME.get(recorded, recorded) if isinstance(recorded, str | int) else recorded,
            ours,
        )


# what the administrator did between the exchanges


def _begin(replay: RightsReplay) -> None:
    replay.create("secret")


def _topics(replay: RightsReplay) -> None:
    replay.create("open")
    replay.stage.create("pre.one")


def _coordinators(replay: RightsReplay) -> None:
    admin = replay.of("admin")
    for kind, key in ((0, "g"), (1, "t")):
        admin.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=kind, coordinator_keys=[key]))
    node = replay.stage.nodes[1]
    runtimes = node.transactions.runtime, node.groups.runtime
    replay.stage.wait(
        lambda: all(
            len(each.partitions) == 50
            and all(its.state in LOADED for its in each.partitions.values())
            for each in runtimes
        )
    )


def _first_producer(replay: RightsReplay) -> None:
    """One had been given out before."""
    replay.of("admin").ask(
        INIT_PRODUCER_ID,
        INIT_PRODUCER_ID.request(transactional_id=None, transaction_timeout_ms=1000),
    )


PREPARED: dict[int, Callable[[RightsReplay], None]] = {
    307: _begin,
    486: _topics,
    518: _coordinators,
    539: _first_producer,
}


@cache
def replayed() -> dict[int, Differences]:
    with RightsStage(**SETTINGS) as stage:
        return RightsReplay(stage).run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(RIGHTS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(RIGHTS))
def test_what_is_said_to_differ_does(n: int) -> None:
    assert all_found(RIGHTS, n, replayed()[n])
