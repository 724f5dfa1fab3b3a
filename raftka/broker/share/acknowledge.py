"""The acknowledgements of one request, of ShareAcknowledge or in a ShareFetch. The leader writes
each change before it is answered.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.network.access.authorizer import GROUP
from raftka.broker.network.request import Request
from raftka.broker.replica.finding import check
from raftka.broker.share.partitions import NOT_HOSTED, Place, ShareLeader, State
from raftka.broker.share.sessions import SessionKey, session_key
from raftka.broker.work.long_work import Steps
from raftka.share.partition import RENEW, Ack
from raftka.share.state import SharePartitionKey
from raftka.versions import SHARE_VERSION
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages import share_acknowledge, share_fetch
from raftka.wire.messages.share_acknowledge import AcknowledgeTopic, ShareAcknowledgeRequest
from raftka.wire.messages.share_fetch import FetchTopic, ShareFetchRequest

ShareRequest = Request[ShareFetchRequest] | Request[ShareAcknowledgeRequest]
Batches = (
    Sequence[share_fetch.AcknowledgementBatch] | Sequence[share_acknowledge.AcknowledgementBatch]
)


def check_request(request: ShareRequest, metadata: MetadataCache) -> SessionKey:
    """Return the key of the request's session. Raises KafkaError for the answer's top level."""
    if not metadata.image.features.get(SHARE_VERSION):
        raise KafkaError(Code.UNSUPPORTED_VERSION)
    key = session_key(request.body.group_id, request.body.member_id)
    if not request.may("READ", (GROUP, key.group_id)):
        raise KafkaError(Code.GROUP_AUTHORIZATION_FAILED)
    return key


def check_topic(request: ShareRequest, metadata: MetadataCache, place: Place) -> None:
    """Raise KafkaError if the topic or the partition is unknown, or the client may not read it."""
    topic = metadata.image.topics.get(place[0])
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID)
    check(request, "READ", topic.name)
    if not 0 <= place[1] < len(topic.partitions):
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)


class Acknowledgements:
    """Begins the changes of a request, and knows when all of them are written."""

    def __init__(self, request: ShareRequest, leader: ShareLeader, key: SessionKey) -> None:
        self.results: dict[Place, KafkaError | None] = {}
        self._request = request
        self._leader = leader
        self._key = key
        self._writes = 0  # under way
        self._done: Callable[[], None] | None = None

    @property
    def are_written(self) -> bool:
        return not self._writes

    def when_written(self, done: Callable[[], None]) -> None:
        """Call `done` once, in a later turn or in this one; writes are under way."""
        self._done = done

    def begin(self, topics: Sequence[FetchTopic] | Sequence[AcknowledgeTopic]) -> Steps[None]:
        """Begin all that the request acknowledges."""
        for topic in topics:
            for each in topic.partitions:
                if each.acknowledgement_batches:
                    place = (topic.topic_id, each.partition_index)
                    try:
                        yield from self._begin(place, each.acknowledgement_batches)
                    except KafkaError as error:
                        self.results[place] = error
                yield
            yield

    def _begin(self, place: Place, batches: Batches) -> Steps[None]:
        acks: list[Ack] = []
        for each in batches:
            acks.append((each.first_offset, each.last_offset, each.acknowledge_types))
            if not self._request.body.is_renew_ack and RENEW in each.acknowledge_types:
                raise KafkaError(Code.INVALID_REQUEST)
            yield
        leader, (group_id, member_id) = self._leader, self._key
        check_topic(self._request, leader.context.metadata, place)
        share = leader.find(SharePartitionKey(group_id, *place))
        if share is None or share.state is not State.ACTIVE:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
        change = yield from share.core.acknowledge(
            member_id, acks, leader.lock_ends(share.settings), share.rules
        )
        self.results.setdefault(place, None)
        self._writes += 1
        leader.write(share, change, partial(self._on_written, place))

    def _on_written(self, place: Place, error: KafkaError | None) -> None:
        if error is not None:
            self.results[place] = error
        self._on_done(None)

    def _on_done(self, _: KafkaError | None) -> None:
        self._writes -= 1
        if not self._writes and self._done is not None:
            done, self._done = self._done, None
            done()

    def release(self, places: Iterable[Place]) -> Steps[None]:
        """Release all that the member holds of these share partitions."""
        for place in places:
            self._writes += 1
            key = SharePartitionKey(self._key.group_id, *place)
            if not self._leader.release(key, self._key.member_id, self._on_done):
                self._writes -= 1
            yield
        yield from self._leader.forget_idle(self._key.group_id)
