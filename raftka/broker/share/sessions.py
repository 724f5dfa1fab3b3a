"""Share sessions: the partitions from which a member of a share group fetches. Finds the session of
a request, and ends sessions with their connections. Reads no log.

A connection stands for one session, the last that was opened over it, and ends it. A session may go
on over other connections. It ends with the last of those that have used it, too: else a client
could leave sessions behind that take the places of others.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from raftka.broker.network.connection import ServerConnection
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work.long_work import Steps
from raftka.limits import SHARE_SESSION_PARTITIONS, SHARE_SESSIONS
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_fetch import FetchTopic, ForgottenTopic

BEGIN, END = 0, -1  # epochs of requests
LAST_EPOCH = 0x7FFFFFFF
MEMBER_ID_CHARACTERS = 36


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class Parked(Protocol):
    """A ShareFetch that waits in a session."""

    def overtaken(self) -> None:
        """Another request of the session has come."""


class ShareSession:
    __slots__ = ("connections", "counted", "epoch", "key", "parked", "partitions")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.connections: set[ServerConnection] = set()  # those that have used it and are open
        self.epoch = 1  # of the next request
        # by topic id and partition; True: there was such a topic when it was added
        self.partitions: dict[tuple[bytes, int], bool] = {}
        self.counted = 0  # partitions, by the cache
        self.parked: Parked | None = None

    def want(self, topics: Sequence[FetchTopic], is_known: Callable[[bytes], bool]) -> Steps[None]:
        """Add partitions."""
        for topic in topics:
            for each in topic.partitions:
                self.partitions.setdefault(
                    (topic.topic_id, each.partition_index), is_known(topic.topic_id)
                )
                yield
            yield

    def forget(self, topics: Sequence[ForgottenTopic]) -> Steps[None]:
        """Remove partitions."""
        for topic in topics:
            for index in topic.partitions:
                self.partitions.pop((topic.topic_id, index), None)
                yield
            yield


class ShareSessions:
    """The share sessions of a node."""

    def __init__(self, metrics: Metrics, slots: Callable[[], int]) -> None:
        """`slots`: group.share.max.share.sessions."""
        self.metrics = metrics
        self.by_key: dict[SessionKey, ShareSession] = {}
        self.partitions = 0
        self._of_group: Counter[str] = Counter()  # sessions
        self._slots = slots
        # the sessions that a connection has used; True: it has opened it
        self._by_connection: dict[ServerConnection, dict[ShareSession, bool]] = {}

    def open(self, key: SessionKey, connection: ServerConnection) -> ShareSession:
        """Open a session in place of the one before, whose locks stay. Raises
        SHARE_SESSION_LIMIT_REACHED.
        """
        known = self.by_key.get(key)
        if known is not None:
            self.close(known)
        elif len(self.by_key) >= min(self._slots(), SHARE_SESSIONS.value):
            self.metrics.hit(SHARE_SESSIONS)
            raise KafkaError(Code.SHARE_SESSION_LIMIT_REACHED)
        session = self.by_key[key] = ShareSession(key)
        self._of_group[key.group_id] += 1
        self._use(session, connection, opens=True)
        return session

    def has_group(self, group_id: str) -> bool:
        """Return whether the group has a session."""
        return group_id in self._of_group

    def _use(
        self, session: ShareSession, connection: ServerConnection, *, opens: bool = False
    ) -> None:
        if connection not in session.connections:
            session.connections.add(connection)
            self._by_connection.setdefault(connection, {})[session] = opens

    def find(self, key: SessionKey, epoch: int, connection: ServerConnection) -> ShareSession:
        """Return the session with which a request goes on, or which it closes. Raises KafkaError
        for the answer's top level.
        """
        session = self.by_key.get(key)
        if session is None:
            raise KafkaError(Code.SHARE_SESSION_NOT_FOUND)
        if epoch not in (END, session.epoch):
            raise KafkaError(Code.INVALID_SHARE_SESSION_EPOCH)
        self._use(session, connection)
        return session

    def go_on(self, session: ShareSession) -> None:
        """Advance the epoch; a fetch that waits in the session ends."""
        session.epoch = session.epoch + 1 if session.epoch < LAST_EPOCH else 1
        self._overtake(session)

    def close(self, session: ShareSession) -> None:
        """Forget it. The caller releases what its member holds."""
        group_id = session.key.group_id
        del self.by_key[session.key]
        self._of_group[group_id] -= 1
        if not self._of_group[group_id]:
            del self._of_group[group_id]
        for connection in session.connections:
            self._leave(session, connection)
        session.connections.clear()
        self.partitions -= session.counted
        session.counted = 0
        self._overtake(session)

    def _leave(self, session: ShareSession, connection: ServerConnection) -> None:
        used = self._by_connection[connection]
        del used[session]
        if not used:
            del self._by_connection[connection]

    def ended_by(self, connection: ServerConnection) -> list[ShareSession]:
        """Close and return the sessions that end with this connection."""
        used = self._by_connection.get(connection, {})
        last = next((each for each in reversed(used) if used[each]), None)
        ended = dict.fromkeys(each for each in used if each is last or len(each.connections) == 1)
        for session in tuple(used):
            if session in ended:
                self.close(session)
            else:
                session.connections.discard(connection)
                self._leave(session, connection)
        return list(ended)

    def count(self, session: ShareSession) -> None:
        """Count its partitions, whose number has changed. Raises SHARE_SESSION_LIMIT_REACHED, and
        closes the session, if there are too many in all sessions.
        """
        if self.by_key.get(session.key) is not session:
            return
        more = len(session.partitions) - session.counted
        self.partitions += more
        session.counted += more
        if more > 0 and self.partitions > SHARE_SESSION_PARTITIONS.value:
            self.metrics.hit(SHARE_SESSION_PARTITIONS)
            self.close(session)
            raise KafkaError(Code.SHARE_SESSION_LIMIT_REACHED)

    @staticmethod
    def _overtake(session: ShareSession) -> None:
        parked, session.parked = session.parked, None
        if parked is not None:
            parked.overtaken()


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Raises INVALID_REQUEST for ids that no member can have."""
    if group_id is None or not member_id or len(member_id) > MEMBER_ID_CHARACTERS:
        raise KafkaError(Code.INVALID_REQUEST)
    return SessionKey(group_id, member_id)
