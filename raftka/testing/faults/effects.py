"""Effects of faults on the requests that they hit. Each function makes an effect for a Fault; names
and numbers are checked before a node sees them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from raftka.broker.network.dispatch import HANDLERS
from raftka.testing.faults.fault import Effect
from raftka.testing.faults.selection import Error, Selection, error_code
from raftka.testing.faults.treatment import Cut, Hit, Treatment, row_of
from raftka.wire.errors import Code
from raftka.wire.messages.produce import ProduceResponse
from raftka.wire.rows import Row

MOST_MS = 600_000  # of a delay or a throttle time: a test that waits longer is mistaken


def fails(errors: Sequence[Error]) -> Effect:
    """Answer with these errors, one a request, the last of them for all further ones."""
    codes = [error_code(each) for each in errors]
    if not codes:
        raise ValueError("no error: name at least one")
    if Code.NONE in codes:
        raise ValueError("NONE is no error; to let requests pass, use nth")
    hits = 0

    def effect(treatment: Treatment, hit: Hit) -> None:
        nonlocal hits
        treatment.fail(hit, codes[min(hits, len(codes) - 1)])
        hits += 1

    return effect


def delays(ms: float) -> Effect:
    """Let the request, and all behind it on its connection, wait."""
    _check_ms(ms)

    def effect(treatment: Treatment, hit: Hit) -> None:
        treatment.delay_s += ms / 1000

    return effect


def cuts(*, before: bool, answer_bytes: int = 0) -> Effect:
    """End the connection: before the request is looked at, or with so many bytes of its answer."""
    if answer_bytes < 0:
        raise ValueError(f"after_bytes={answer_bytes}: 0 or more")

    def effect(treatment: Treatment, hit: Hit) -> None:
        treatment.cut = Cut(before, answer_bytes)

    return effect


def throttles(selection: Selection, ms: int) -> Effect:
    """Put a throttle time into the answer (KIP-219: the client waits). Raises ValueError for an API
    whose answers have none.
    """
    _check_ms(ms)
    without = [
        HANDLERS[key].api.name
        for key in selection.apis
        if "throttle_time_ms" not in HANDLERS[key].api.response.__slots__
    ]
    if without and len(selection.apis) == len(without):
        raise ValueError(f"answers of {', '.join(without)} have no throttle_time_ms")

    def throttle(row: Row) -> None:
        if "throttle_time_ms" in row.__slots__:
            cast(ProduceResponse, row).throttle_time_ms = ms

    return changes(throttle)


def changes(change: Callable[[Row], None]) -> Effect:
    """Change the broker's answer before it is sent: rows have the names of Kafka's fields."""

    def effect(treatment: Treatment, hit: Hit) -> None:
        treatment.changes.append(change)

    return effect


class Received:
    """A request, as a control function sees it: names are Kafka's, `body` is plain dicts and
    lists.
    """

    def __init__(self, treatment: Treatment) -> None:
        request = treatment.request
        self.api = request.api.name
        self.version = request.version
        self.client_id = request.session.client_id
        self.peer = request.session.peer  # host:port of the client
        self.node = treatment.node.plan.node_id
        self.body = request.body.as_dict()

    def __repr__(self) -> str:
        return f"<{self.api} v{self.version} of {self.client_id!r} at node {self.node}>"


# None: the broker answers; a name or number of an error; an answer as a dict
Answer = Error | Mapping[str, object] | None
Control = Callable[[Received], Answer]


def controls(control: Control) -> Effect:
    """Let a function of the test decide on each request. It is called where the nodes run, so it
    must not wait. ConnectionError from it ends the connection.
    """

    def effect(treatment: Treatment, hit: Hit) -> None:
        try:
            answer = control(Received(treatment))
        except ConnectionError:
            treatment.cut = Cut(before=True)
            return
        if isinstance(answer, Mapping):
            treatment.answer = row_of(treatment.request.api.response, answer)
        elif answer is not None:
            treatment.fail(hit, error_code(answer))

    return effect


def _check_ms(ms: float) -> None:
    if not 0 <= ms <= MOST_MS:
        raise ValueError(f"ms={ms:g}: 0 to {MOST_MS}")
