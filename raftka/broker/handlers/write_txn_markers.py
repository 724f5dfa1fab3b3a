"""WriteTxnMarkers: v1-2, from transaction coordinators, and from the tool that ends a hanging
transaction.
"""

from functools import partial

from raftka.broker.coordinators.markers import MarkerWriter
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.log.producers.markers import Marker
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import (
    WRITE_TXN_MARKERS,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

response = WRITE_TXN_MARKERS.response
Codes = list[list[list[Code]]]  # by marker, topic and partition of the request


def _refused(
    request: Request[WriteTxnMarkersRequest], code: Code
) -> Steps[WriteTxnMarkersResponse]:
    markers = request.body.markers
    return (
        yield from _rows(
            request,
            [
                [[code] * len(topic.partition_indexes) for topic in marker.topics]
                for marker in markers
            ],
        )
    )


@handles(WRITE_TXN_MARKERS, refused=_refused)
def write_txn_markers(
    request: Request[WriteTxnMarkersRequest], coordinators: CoordinatorParts
) -> Steps[WriteTxnMarkersResponse | Delayed]:
    if not request.may("ALTER", THE_CLUSTER) and not request.may("CLUSTER_ACTION", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    run = _Writing(request, coordinators.marker_writer)
    yield from run.begin()
    return (yield from run.result())


class _Writing:
    """One request; it is answered when all of its markers are committed."""

    def __init__(self, request: Request[WriteTxnMarkersRequest], writer: MarkerWriter) -> None:
        self.request = request
        self.writer = writer
        self.codes: Codes = []
        self.waiting = 1  # markers, and the request itself until all markers are begun
        self.pending: Delayed | None = None

    def begin(self) -> Steps[None]:
        for asked in self.request.body.markers:
            marker = Marker(
                asked.producer_id,
                asked.producer_epoch,
                asked.coordinator_epoch,
                asked.transaction_result,
                asked.transaction_version,
            )
            of_marker: list[list[Code]] = []
            self.codes.append(of_marker)
            for topic in asked.topics:
                codes = [Code.NONE] * len(topic.partition_indexes)
                of_marker.append(codes)
                for place, index in enumerate(topic.partition_indexes):
                    self.waiting += 1
                    self.writer.write(
                        marker, topic.name, index, partial(self._written, codes, place)
                    )
                    yield
                yield

    def _written(self, codes: list[Code], place: int, code: Code) -> None:
        codes[place] = code
        self.waiting -= 1
        if not self.waiting and self.pending is not None:
            self.request.dispatcher.long_work.run(
                self.request.api.name, _rows(self.request, self.codes), self.pending.settle
            )

    def result(self) -> Steps[WriteTxnMarkersResponse | Delayed]:
        self.waiting -= 1
        if self.waiting:
            self.pending = Delayed(self.request)
            return self.pending
        return (yield from _rows(self.request, self.codes))


def _rows(request: Request[WriteTxnMarkersRequest], codes: Codes) -> Steps[WriteTxnMarkersResponse]:
    rows = request.encoded_rows(response.markers)
    of_topic, of_partition = response.markers.topics, response.markers.topics.partitions
    for asked, of_marker in zip(request.body.markers, codes, strict=True):
        topics = request.encoded_rows(of_topic)
        for topic, found in zip(asked.topics, of_marker, strict=True):
            partitions = request.encoded_rows(of_partition)
            for index, code in zip(topic.partition_indexes, found, strict=True):
                partitions.add(of_partition(partition_index=index, error_code=int(code)))
                yield
            topics.add(of_topic(name=topic.name, partitions=partitions))
        rows.add(response.markers(producer_id=asked.producer_id, topics=topics))
        yield
    return response(markers=rows)
