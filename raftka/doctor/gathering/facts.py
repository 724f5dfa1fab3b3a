"""All facts about a cluster, in the order in which they are asked for."""

import time
from collections.abc import Iterable, Mapping, Sequence

from raftka.client.blocking.access import list_acls, list_quotas
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.reassignments import Reassignment, list_reassignments
from raftka.client.connection import Address
from raftka.doctor.facts import Facts, Node
from raftka.doctor.gathering.cluster import Questions, now_ms
from raftka.doctor.gathering.places import look_at
from raftka.doctor.gathering.users import read_groups, read_hanging, read_shares

Sizes = Mapping[tuple[int, Where], int]  # bytes by broker and partition

CONTROLLER, NO_CONTROLLER = "reassignments, at the controller", -1
LOOK_S = 3.0  # between two looks at what should move


def gather(client: Client, node: Node | None) -> Facts:
    """Ask the cluster for everything. Raises OSError and ClientError where it does not even tell
    its brokers and topics.
    """
    questions = Questions(client)
    try_to = questions.try_to
    client.refresh([])
    began = time.monotonic()
    moves = try_to(CONTROLLER, lambda: list_reassignments(client)) or []
    sizes = _sizes_of(questions, moves)
    shares = try_to("share groups", lambda: read_shares(client, questions)) or {}
    topics, brokers = questions.topics(), questions.brokers()
    quorum, leader_ahead_ms = try_to("the quorum", questions.quorum) or (None, None)
    levels = try_to("features", questions.levels) or {}
    quotas = try_to("quotas", lambda: list_quotas(client)) or []
    acls = try_to("ACLs", lambda: list_acls(client)) or []
    users = try_to("SCRAM users", questions.scram_users)
    tokens = try_to("delegation tokens", questions.tokens) or []
    hanging = try_to("transactions", lambda: read_hanging(client, topics)) or []
    newest_ms = try_to("times of records", lambda: questions.newest_ms(topics)) or {}
    if moves or any(each.lag for own in shares.values() for each in own.values()):
        time.sleep(max(0.0, began + LOOK_S - time.monotonic()))
    return Facts(
        bootstrap=client.bootstrap,
        controller=NO_CONTROLLER if CONTROLLER in questions.silent else client.controller_id,
        brokers=brokers,
        topics=topics,
        levels=levels,
        quorum=quorum,
        leader_ahead_ms=leader_ahead_ms,
        stuck_moves=try_to(CONTROLLER, lambda: _stuck(client, questions, moves, sizes)) or [],
        groups=try_to("groups", lambda: read_groups(client, questions, topics, shares)) or [],
        hanging=hanging,
        quotas=quotas,
        acls=acls,
        scram_users=users,
        tokens=tokens,
        endpoints=look_at(
            [each.address for each in brokers.values() if each.is_alive],
            with_tls=client.security.uses_tls,
        ),
        newest_ms=newest_ms,
        node=node,
        now_ms=now_ms(),
        unknown=questions.unknown,
    )


def _sizes_of(questions: Questions, moves: Iterable[Reassignment]) -> Sizes:
    """Return bytes of the replicas that reassignments add."""
    adding = [(node_id, each.where) for each in moves for node_id in each.adding]
    wheres, node_ids = {where for _, where in adding}, {node_id for node_id, _ in adding}
    return questions.sizes(wheres, node_ids) if adding else {}


def _stuck(
    client: Client, questions: Questions, moves: Sequence[Reassignment], before: Sizes
) -> list[Where]:
    """Return the partitions that were moving and still are, and whose new replicas have not
    grown.
    """
    ongoing = {each.where for each in list_reassignments(client)} if moves else set()
    left = [each for each in moves if each.where in ongoing and each.adding]
    after = _sizes_of(questions, left)
    return [
        each.where
        for each in left
        if all(
            after.get((node_id, each.where), 0) <= before.get((node_id, each.where), 0)
            for node_id in each.adding
        )
    ]


def only_places(bootstrap: Sequence[Address], node: Node | None, *, with_tls: bool) -> Facts:
    """Return the facts about a cluster that does not answer: its addresses, and this machine."""
    endpoints = look_at(bootstrap, with_tls=with_tls)
    return Facts(bootstrap=bootstrap, endpoints=endpoints, node=node, now_ms=now_ms())
