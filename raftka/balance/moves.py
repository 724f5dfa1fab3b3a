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
from raftka.client.blocking.settings import GIVEN, Changes, change_settings, describe_settings
from raftka.metadata.balance import Move
from raftka.wire.errors import Code, name_of_code

STEP, ORDERS = 8, 50  # partitions at a time: that are copied, and whose order alone changes
# leaders at a time, and the rest of their producers, which ask for the new ones: with a throttle
ELECTED, REST_S = 2, 0.5
LOOK_S = 0.2
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
DONE = {Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION}  # its topic was deleted meanwhile
ALL = "*"  # in place of a list
REFUSED = {Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}
FORGIVEN = {Code.NONE, Code.ELECTION_NOT_NEEDED, Code.PREFERRED_LEADER_NOT_AVAILABLE}


class Throttles:
    """The throttles of one balance. `rate`: bytes a second of each broker; 0: there is none.
    `alive`: the brokers that can be throttled.
    """

    def __init__(self, client: Client, rate: int, alive: Collection[int]) -> None:
        self._client, self._rate, self._alive = client, rate, alive
        self._rates: dict[int, list[str]] = {}  # by broker: the settings that are ours
        # by topic and setting: what an operator has given
        self._given: dict[tuple[str, str], frozenset[str]] = {}
        self._added: set[tuple[str, str, str]] = set()  # topic, setting and an element of ours

    def begin(self, moves: Iterable[Move]) -> None:
        """Throttle the replicas that these moves copy from and to. Raises ClientError where the
        user has no right to do so.
        """
        if not self._rate:
            return
        moves = list(moves)
        touched = {each for move in moves for each in (*move.before, *move.after)}
        for node_id in sorted(touched.intersection(self._alive)):
            self._limit(node_id)
        for (topic, setting), pairs in _replicas(moves).items():
            if (topic, setting) not in self._given:
                value = given_settings(self._client, "topic", topic).get(setting, "")
                self._given[topic, setting] = frozenset(value.split(",")) - {""}
            given = self._given[topic, setting]
            ours = [each for each in pairs if each not in given and ALL not in given]
            self._added.update((topic, setting, each) for each in ours)
            if ours:
                self._set("topic", topic, {setting: ("APPEND", ",".join(ours))})

    def end(self, moves: Iterable[Move]) -> None:
        for (topic, setting), pairs in _replicas(moves).items():
            ours = [each for each in pairs if (topic, setting, each) in self._added]
            self._added.difference_update((topic, setting, each) for each in ours)
            if ours:
                change_settings(
                    self._client, "topic", topic, {setting: ("SUBTRACT", ",".join(ours))}
                )

    def close(self) -> None:
        """Remove all that was set and was not there before."""
        left: dict[tuple[str, str], list[str]] = {}
        for topic, setting, each in sorted(self._added):
            left.setdefault((topic, setting), []).append(each)
        for (topic, setting), given in self._given.items():
            ours = ",".join(left.get((topic, setting), ()))
            if not given:
                change_settings(self._client, "topic", topic, {setting: ("DELETE", None)})
            elif ours:
                change_settings(self._client, "topic", topic, {setting: ("SUBTRACT", ours)})
        for node_id, rates in sorted(self._rates.items()):
            lift_rates(self._client, node_id, rates)
        self._given, self._added, self._rates = {}, set(), {}

    def _limit(self, node_id: int) -> None:
        """Keep a rate that an operator has set."""
        if node_id not in self._rates:
            given = given_settings(self._client, "broker", str(node_id))
            ours = self._rates[node_id] = [name for name in RATES if name not in given]
            rates: Changes = {name: ("SET", str(self._rate)) for name in ours}
            self._set("broker", str(node_id), rates)

    def _set(self, kind: str, name: str, changes: Changes) -> None:
        """A topic may have been deleted meanwhile: that is no error."""
        for each in change_settings(self._client, kind, name, changes) if changes else ():
            if each.error_code in REFUSED:
                raise ClientError(
                    f"no right to throttle {kind} {name}: {name_of_code(each.error_code)}; "
                    "--throttle 0 moves without"
                )


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


def given_settings(client: Client, kind: str, name: str) -> dict[str, str]:
    """Return the settings that were set for a topic or a broker itself."""
    return {
        each.name: each.value or ""
        for each in describe_settings(client, kind, name).configs
        if each.config_source == GIVEN[kind]
    }


def lift_rates(client: Client, node_id: int, rates: Iterable[str] = RATES) -> None:
    if changes := dict.fromkeys(rates, ("DELETE", None)):
        change_settings(client, "broker", str(node_id), changes)


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
        refused = [(where, code) for where, code in answers if code not in DONE]
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
        given = given_settings(client, "topic", name)
        for setting in (LEADERS, FOLLOWERS):
            if setting in given:
                change_settings(client, "topic", name, {setting: ("DELETE", None)})
