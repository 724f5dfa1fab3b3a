"""Moves of a plan, carried out: some partitions at a time, with Kafka's replication throttles, then
elections of the leaders that the plan wants. Whatever ends it leaves a sound cluster: moved
replicas stay, those under way are cancelled, and no throttle is left.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from raftka.balance.state import find_brokers
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.reassignments import (
    alter_reassignments,
    elect_leaders,
    list_reassignments,
)
from raftka.client.blocking.settings import Changes, change_settings, describe_settings
from raftka.metadata.balance import Move
from raftka.wire.errors import Code, name_of_code

STEP, ORDERS = 8, 50  # partitions at a time: that are copied, and whose order alone changes
# leaders at a time, and the rest of their producers, which ask for the new ones: with a throttle
ELECTED, REST_S = 2, 0.5
LOOK_S = 0.2
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
OF_BROKER, OF_TOPIC = 2, 1  # sources of settings that were set for the resource itself
FORGIVEN = {Code.NONE, Code.ELECTION_NOT_NEEDED, Code.PREFERRED_LEADER_NOT_AVAILABLE}


class Throttles:
    """The throttles of one balance. `rate`: bytes a second of each broker; 0: there is none.
    `alive`: the brokers that can be throttled.
    """

    def __init__(self, client: Client, rate: int, alive: Collection[int]) -> None:
        self._client, self._rate, self._alive = client, rate, alive
        self._brokers: set[int] = set()  # whose rates we have set
        self._known: set[int] = set()
        self._topics: dict[tuple[str, str], bool] = {}  # topic and setting: it had a value before

    def begin(self, moves: Iterable[Move]) -> None:
        """Throttle the replicas that these moves copy from and to."""
        if not self._rate:
            return
        moves = list(moves)
        touched = {each for move in moves for each in (*move.before, *move.after)}
        for node_id in sorted(touched.intersection(self._alive)):
            self._limit(node_id)
        for (topic, setting), pairs in _replicas(moves).items():
            if (topic, setting) not in self._topics:
                self._topics[topic, setting] = _is_given(
                    self._client, "topic", topic, setting, OF_TOPIC
                )
            _change(self._client, "topic", topic, {setting: ("APPEND", ",".join(pairs))})

    def end(self, moves: Iterable[Move]) -> None:
        if not self._rate:
            return
        for (topic, setting), pairs in _replicas(moves).items():
            _change(self._client, "topic", topic, {setting: ("SUBTRACT", ",".join(pairs))})

    def close(self) -> None:
        """Remove all that was set and was not there before."""
        for (topic, setting), was_given in self._topics.items():
            if not was_given:
                _change(self._client, "topic", topic, {setting: ("DELETE", None)})
        for node_id in sorted(self._brokers):
            lift_rates(self._client, node_id)
        self._topics, self._brokers = {}, set()

    def _limit(self, node_id: int) -> None:
        """Keep a rate that an operator has set."""
        if node_id in self._known:
            return
        self._known.add(node_id)
        if not _is_given(self._client, "broker", str(node_id), RATES[0], OF_BROKER):
            self._brokers.add(node_id)
            rates: Changes = {name: ("SET", str(self._rate)) for name in RATES}
            _change(self._client, "broker", str(node_id), rates)


def _replicas(moves: Iterable[Move]) -> dict[tuple[str, str], list[str]]:
    """Return partition:broker of replicas by topic and setting: those that send, and those that
    come.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for move in moves:
        topic, index = move.where
        coming = [each for each in move.after if each not in move.before]
        if coming:
            found.setdefault((topic, LEADERS), []).extend(f"{index}:{each}" for each in move.before)
            found.setdefault((topic, FOLLOWERS), []).extend(f"{index}:{each}" for each in coming)
    return found


def _is_given(client: Client, kind: str, name: str, setting: str, source: int) -> bool:
    return any(
        each.name == setting and each.config_source == source
        for each in describe_settings(client, kind, name).configs
    )


def _change(client: Client, kind: str, name: str, changes: Changes) -> None:
    """A topic may have been deleted, and a list may be `*`: then all its replicas are throttled."""
    change_settings(client, kind, name, changes)


def lift_rates(client: Client, node_id: int) -> None:
    _change(client, "broker", str(node_id), dict.fromkeys(RATES, ("DELETE", None)))


def carry_out(
    client: Client,
    moves: Sequence[Move],
    rate: int,
    alive: Collection[int],
    on_progress: Callable[[int], None] = lambda done: None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Move everything; `on_progress` gets the number of partitions that are done. `check` is called
    again and again and ends it by raising. Raises ClientError for a move that the controller
    refuses. What is under way when it ends so, or by Ctrl-C, is cancelled.
    """
    throttles, done = Throttles(client, rate, alive), 0
    copies = [each for each in moves if set(each.before) != set(each.after)]
    orders = [each for each in moves if set(each.before) == set(each.after)]
    try:
        for some in [*_portions(copies, STEP), *_portions(orders, ORDERS)]:
            throttles.begin(some)
            _reassign(client, some, check)
            throttles.end(some)
            for elected in _portions([each for each in some if each.changes_leader], ELECTED):
                _elect(client, [each.where for each in elected])
                check()
                time.sleep(REST_S if rate else 0.0)
            done += len(some)
            on_progress(done)
    finally:
        throttles.close()


def _portions(moves: Sequence[Move], size: int) -> Iterator[list[Move]]:
    rest = iter(moves)
    while some := list(islice(rest, size)):
        yield some


def _reassign(client: Client, moves: Sequence[Move], check: Callable[[], None]) -> None:
    """Begin these moves and wait for their end."""
    try:
        check()
        answers = alter_reassignments(client, {each.where: list(each.after) for each in moves})
        refused = [(where, code) for where, code in answers if code]
        if refused:
            (topic, index), code = refused[0]
            raise ClientError(f"{topic}-{index} cannot be moved: {name_of_code(code)}")
        wheres = {each.where for each in moves}
        while any(each.where in wheres for each in list_reassignments(client)):
            check()
            time.sleep(LOOK_S)
    except BaseException:  # Ctrl-C among them
        cancel(client, {each.where for each in moves})
        raise


def _elect(client: Client, wheres: Sequence[Where]) -> None:
    """Let the first replicas lead. One that has just come may not be ready: then the cluster gives
    it leadership later, as after a restart.
    """
    for each in elect_leaders(client, wheres):
        if each.code not in FORGIVEN and not Code(each.code).retriable:
            topic, index = each.where
            raise ClientError(f"{topic}-{index} keeps its leader: {name_of_code(each.code)}")


def cancel(client: Client, wheres: set[Where] | None = None) -> int:
    """Leave replicas where they were, of these partitions or of all; return how many."""
    ongoing = [
        each.where for each in list_reassignments(client) if wheres is None or each.where in wheres
    ]
    if ongoing:
        alter_reassignments(client, dict.fromkeys(ongoing))
    return len(ongoing)


def lift_all(client: Client) -> None:
    """Remove the throttles of all brokers and topics, as one that was killed leaves them."""
    alive, _ = find_brokers(client)
    for node_id in sorted(alive):
        lift_rates(client, node_id)
    for topic in client.metadata(None).topics:
        name = topic.name or ""
        for setting in (LEADERS, FOLLOWERS):
            if _is_given(client, "topic", name, setting, OF_TOPIC):
                _change(client, "topic", name, {setting: ("DELETE", None)})
