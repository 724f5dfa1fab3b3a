"""One request under faults: what all of them together do to it, and to its answer."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

from raftka.broker.network.connection import Parts
from raftka.broker.network.dispatch import Postponed
from raftka.broker.network.request import Answering, Request
from raftka.cluster.embedded import EmbeddedNode
from raftka.runtime.interfaces import FileSpan
from raftka.testing.faults.places import (
    Leaf,
    Message,
    answer_places,
    places_errors,
    request_places,
)
from raftka.testing.faults.selection import Selection
from raftka.wire.codec import Piece
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FETCH, FetchRequest
from raftka.wire.messages.produce import PRODUCE, ProduceRequest
from raftka.wire.rows import Row

HELD_AGAIN_S = 0.005  # between two looks at a request that is held
# requests that change nothing: they are carried out as a whole, and the answer is changed
READS = ("Fetch", "List", "Metadata", "OffsetFetch", "OffsetForLeaderEpoch", "Describe")
READS_TOO = ("FindCoordinator", "ConsumerGroupDescribe")

Change = Callable[[Row], None]  # of an answer, in place


class Hit(NamedTuple):
    """The part of a request that a selection has chosen; no leaves: the whole of it."""

    leaves: frozenset[Leaf]
    chosen: Leaf


def is_read(name: str) -> bool:
    return name.startswith(READS) or name in READS_TOO


class Treatment:
    """Faults add to it, each what it does; `carry_out` does all of it, once."""

    def __init__(self, request: Request[Row], node: EmbeddedNode) -> None:
        self.request = request
        self.node = node
        self.delay_s = 0.0
        self.holds: list[Callable[[], bool]] = []  # each returns whether it still holds
        self.code = Code.NONE  # of the whole answer
        self.answer: Row | None = None  # in place of the broker's own
        self.cut: Cut | None = None
        self.changes: list[Change] = []
        self._errors: dict[Leaf, Code] = {}  # of parts of a request that is carried out
        self._is_read = is_read(request.api.name)

    # which part is hit

    def _message(self) -> Message:
        api, version = self.request.api, self.request.version
        return Message(self.request.body, request_places(api, version), self.topic_name)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic as the node knows it."""
        node = self.node.node
        topic = node.image.topics.get(topic_id) if node is not None else None
        return topic.name if topic is not None else None

    @property
    def is_decided(self) -> bool:
        """Nothing is left of the request that a further fault could hit."""
        return bool(self.code or self.cut is not None or self.answer is not None)

    def leaves(self) -> Iterator[Leaf]:
        """Yield the parts of the request; of a fetch session those too that it does not repeat."""
        yield from self._message().leaves()
        node = self.node.node
        if self.request.api is FETCH and node is not None:
            body = cast(FetchRequest, self.request.body)
            session = node.fetch_sessions.by_id.get(body.session_id)
            for cached in session.partitions.values() if session is not None else ():
                yield Leaf(
                    cached.topic or self.topic_name(cached.topic_id),
                    cached.fetch_request.partition,
                    topic_id=cached.topic_id,
                )

    def find(self, selection: Selection) -> Hit | None:
        """Return what the selection has chosen of the request; None: nothing."""
        if self.is_decided:
            return None
        if not selection.is_of_a_part:
            return Hit(frozenset(), selection.leaf)
        chosen = selection.leaf
        leaves = set(self.leaves())
        if chosen.topic is not None and self._message().is_for_all:
            rest = chosen._replace(topic=None, partition=None)
            if any(leaf.within(rest) for leaf in leaves):
                return Hit(frozenset(), chosen)
        if self._is_read:
            chosen = chosen._replace(partition=None)  # answers may name more than requests
        found = frozenset(
            leaf
            for leaf in leaves
            if leaf.within(chosen) and leaf not in self._errors and _reaches(leaf, selection.leaf)
        )
        return Hit(found, selection.leaf) if found else None

    # what faults do

    def fail(self, hit: Hit, code: Code) -> None:
        """Answer the part with an error and do nothing for it; where the answer has no place for
        errors of parts, or nothing else is asked for, the whole request.
        """
        api, version = self.request.api, self.request.version
        has_places = all(places_errors(api, version, each) for each in hit.leaves)
        if hit.chosen == Leaf() or self._has_no_answer() or not has_places:
            self.code = code
        elif self._is_read:
            self._errors.update(dict.fromkeys(hit.leaves, code))
            self.changes.append(lambda row: self._fail_answer(row, hit, code))
        elif not hit.leaves or set(self.leaves()) == hit.leaves:
            self.code = code
        else:
            self._errors.update(dict.fromkeys(hit.leaves, code))

    def _has_no_answer(self) -> bool:
        """Return whether the client waits for no answer: Produce with acks=0."""
        body = self.request.body
        return self.request.api is PRODUCE and cast(ProduceRequest, body).acks == 0

    def _answer(self, row: Row) -> Message:
        api, version = self.request.api, self.request.version
        key_type = getattr(self.request.body, "key_type", 0)
        return Message(row, answer_places(api, version), self.topic_name, key_type)

    def _fail_answer(self, row: Row, hit: Hit, code: Code) -> None:
        answer = self._answer(row)
        failed = answer.fail_leaves(hit.chosen, int(code))
        for leaf in hit.leaves:
            if leaf.within(hit.chosen) and not any(leaf.within(each) for each in failed):
                answer.put_error(leaf, int(code))

    def carry_out(self, request: Request[Row]) -> Row | None:
        """Return the answer; None: the handler makes it. Raises KafkaError with the error of the
        whole request, and Postponed.
        """
        self.request = request  # a postponed one is decoded anew
        if self.delay_s:
            delay_s, self.delay_s = self.delay_s, 0.0
            raise Postponed(delay_s)
        if any(holds() for holds in self.holds):
            raise Postponed(HELD_AGAIN_S)
        if self.cut is not None and self.cut.before:
            request.connection.abort("a fault of the test's: the request is lost")
            return _empty_answer(request)
        if self.code:
            self._wrap()
            raise KafkaError(self.code)
        answer = self.answer
        if self._errors and not self._is_read:
            answer = self._take_out()
        elif self._errors and request.api is FETCH:
            cast(FetchRequest, request.body).max_wait_ms = 0  # errors are answered at once
        self._wrap()
        return answer

    def _take_out(self) -> Row | None:
        """Take the failed parts out of the request; return the answer if nothing is left."""
        request, node = self.request, self.node.node
        message = self._message()
        message.take_out(self._errors.__contains__)
        if node is not None:
            request.keep(node.pool)  # no short way is made of a request that was changed
        self.changes.append(self._put_errors)
        return None if any(_arrays(message)) else _empty_answer(request)

    def _put_errors(self, row: Row) -> None:
        answer = self._answer(row)
        for leaf, code in self._errors.items():
            answer.put_error(leaf, int(code))

    def _wrap(self) -> None:
        """Let the answer go through the changes, and the cut."""
        if self.changes or self.cut is not None:
            dispatcher = ChangedAnswers(self.request.dispatcher, self.changes, self.cut)
            self.request.dispatcher = cast(Answering, dispatcher)

    def __str__(self) -> str:
        request = self.request
        client = request.session.client_id or request.session.peer
        return f"{request.api.name} v{request.version} of {client}, node {self.node.plan.node_id}"


def _reaches(leaf: Leaf, chosen: Leaf) -> bool:
    """Return whether the leaf has the partition that is chosen, or leaves it open."""
    return chosen.partition is None or leaf.partition in (None, chosen.partition)


class Cut(NamedTuple):
    """The end of the connection: before the request is looked at, or with so many bytes of its
    answer.
    """

    before: bool
    answer_bytes: int = 0


def _arrays(message: Message) -> Iterator[object]:
    return (getattr(message.row, array.name) for array in message.places.arrays)


def _empty_answer(request: Request[Row]) -> Row:
    empty: Row = request.api.response()
    return empty


class ChangedAnswers:
    """The dispatcher of one request, but for its answer: that is changed, or cut."""

    def __init__(self, dispatcher: Answering, changes: list[Change], cut: Cut | None) -> None:
        self._dispatcher = dispatcher
        self._changes = changes
        self._cut = cut

    def __getattr__(self, name: str) -> object:
        return getattr(self._dispatcher, name)

    def encoded(self, request: Request[Row], row: Row) -> Parts:
        if self._changes:
            row = plain_rows(request, row)
            for change in self._changes:
                change(row)
        parts = self._dispatcher.encoded(request, row)
        return parts if self._cut is None else self._cut_off(request, parts)

    def broken(self, request: Request[Row], error: Exception) -> Parts:
        parts = self._dispatcher.broken(request, error)
        return parts if self._cut is None else self._cut_off(request, parts)

    def _cut_off(self, request: Request[Row], parts: Parts) -> Parts:
        assert self._cut is not None
        connection = request.connection
        if not self._cut.answer_bytes:
            connection.abort("a fault of the test's: the answer is lost")
            return ()
        data = b"".join(map(_bytes_of, parts))[: self._cut.answer_bytes]
        # the connection closes in the next turn, when this piece has its place in the output
        connection.dispatcher.context.later(
            lambda: connection.end("a fault of the test's: the answer is cut")
        )
        return (data,)


def plain_rows(request: Request[Row], row: Row) -> Row:
    """Return the answer with all its rows: long arrays are encoded already, and records are spans
    of files.
    """
    api, version = request.api, request.version
    pieces: list[Piece] = []
    api.response_parts(version, row, pieces)
    decoded: Row
    decoded, _ = api.decode_response(version, memoryview(b"".join(map(_bytes_of, pieces))))
    return decoded


def _bytes_of(piece: Piece) -> bytes:
    if isinstance(piece, FileSpan):
        return bytes(piece.file.read(piece.position, piece.size))
    return bytes(piece)


def row_of(row: type[Row], values: Mapping[str, object]) -> Row:
    """Make a row of plain dicts and lists. Raises ValueError for a field that there is not."""
    unknown = values.keys() - set(row.__slots__)
    if unknown:
        raise ValueError(
            f"{row.struct.name} has no {', '.join(sorted(unknown))}; it has "
            f"{', '.join(row.__slots__)}"
        )
    inner = row.struct.inner
    made = {}
    for name, value in values.items():
        if name not in inner:
            made[name] = value
        elif isinstance(value, Mapping):
            made[name] = row_of(inner[name].row, value)
        elif isinstance(value, list | tuple):
            made[name] = [row_of(inner[name].row, each) for each in value]
        else:
            made[name] = value
    return row(**made)
