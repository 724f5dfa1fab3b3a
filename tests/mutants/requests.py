"""Planted where requests come in: the CRCs of batches that are appended together, the place where a
request begins, and that a request owns its bytes.
"""

from typing import Any

from raftka.broker.client_metrics.instances import Instance
from raftka.broker.client_metrics.series import ClientSeries
from raftka.broker.handlers import api_versions
from raftka.broker.network import dispatch
from raftka.broker.network.request import Delayed, Request
from raftka.checksum import crc32c
from raftka.log.client_batches import ClientBatches
from raftka.log.validation import NeedsSchemas, TakesLong
from raftka.runtime.memory import Owned, owned
from raftka.wire.errors import Code
from raftka.wire.frame import FrameBuffer
from raftka.wire.messages.produce import ProduceRequest
from tests.mutants.registry import mutant, part_of


@mutant(ClientBatches, "append_uniform")
def uniform_batches_get_new_crcs(append_uniform: Any) -> Any:
    """Batches that are appended together get a new CRC of their bytes: a record that was damaged on
    its way is stored, and looks sound.
    """

    def bug(
        self: ClientBatches, start: bytes, headers: Any, crcs: Any, bodies: Any, *rest: Any
    ) -> Any:
        return append_uniform(self, start, headers, tuple(map(crc32c, bodies)), bodies, *rest)

    return bug


@mutant(FrameBuffer, "is_between_frames")
def requests_begin_inside_a_frame(_: Any) -> Any:
    """Bytes in the middle of a request that look like requests are taken for requests: the broker
    carries out a value that a client stores.
    """
    return property(lambda self: True)


@mutant(dispatch, "owned")
def requests_lie_in_the_receive_buffer(_: Any) -> Any:
    """A request is copied when its handler is interrupted: what the handler took from it before
    lies in bytes that are received anew.
    """
    return lambda view: view if len(view) <= dispatch.LONG_FRAME_BYTES else owned(view)


@part_of(requests_lie_in_the_receive_buffer, Request, "keep")
def records_are_copied_late(keep: Any) -> Any:
    def bug(self: Request[Any], pool: Any) -> None:
        if isinstance(self.body, ProduceRequest) and self.frame and not pool.lends(self.frame):
            for topic in self.body.topic_data:
                for partition in topic.partition_data:
                    if partition.records is not None:
                        partition.records = Owned(memoryview(bytearray(partition.records)))
        keep(self, pool)

    return bug


def late_copies_are_whole(init: Any) -> Any:
    """The batch that is made anew beside the loop."""

    def bug(self: Any, batch: Any, *rest: Any) -> None:
        init(self, owned(batch), *rest)

    return bug


part_of(requests_lie_in_the_receive_buffer, TakesLong, "__init__")(late_copies_are_whole)
part_of(requests_lie_in_the_receive_buffer, NeedsSchemas, "__init__")(late_copies_are_whole)


@mutant(Delayed, "__init__")
def interrupted_handlers_take_a_second_place(init: Any) -> Any:
    """A handler that is interrupted behind an early answer takes another place among the answers:
    those behind it wait for ever.
    """

    def bug(self: Delayed, request: Request[Any], *more: Any) -> None:
        init(self, request, *more)
        request.promised = None

    return bug


@mutant(api_versions, "find_fault")
def another_node_greets(find_fault: Any) -> Any:
    """A node answers a client that means another one: the client takes this node's positions and
    leaders for those of its cluster.
    """

    def bug(*asked: Any) -> Code | None:
        fault: Code | None = find_fault(*asked)
        return None if fault is Code.REBOOTSTRAP_REQUIRED else fault

    return bug


@mutant(Instance, "may_push")
def early_pushes_are_taken(_: Any) -> Any:
    """A client pushes as often as it likes, whatever the interval of its subscription."""
    return lambda self, now: True


@mutant(ClientSeries, "_limit_of")
def series_of_clients_have_no_limit(_: Any) -> Any:
    """Clients that push ever new names fill the memory of a broker."""
    return lambda self, client, size_bytes: None
