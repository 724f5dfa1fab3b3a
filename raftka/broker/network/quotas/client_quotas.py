"""Client quotas on this node: which quotas a client has, and whose requests are counted.

A `Meter` belongs to one request of a client with a quota. Clients without one have no meter. No
connection is closed because of a quota.
"""

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.quotas.meter import Meter
from raftka.broker.network.quotas.precedence import Applied, Quotas, any_of_clients, applied
from raftka.broker.network.quotas.sensors import Sensors
from raftka.broker.network.request import Request
from raftka.broker.network.session import Session
from raftka.wire.messages.produce import ProduceRequest
from raftka.wire.schema import Row

ADD_PARTITIONS_TO_TXN_KEY, WRITE_TXN_MARKERS_KEY = 24, 27
# Metadata, which may create topics, CreateTopics, DeleteTopics, CreatePartitions
MUTATIONS = frozenset({3, 19, 20, 37})
OF_COORDINATORS = 4  # from this version on AddPartitionsToTxn is a coordinator's


class ClientQuotas:
    def __init__(self, context: BrokerContext) -> None:
        self._metrics = context.metrics
        self.active = False  # there is a quota of a user or a client id
        self._quotas: Quotas = {}
        self._epoch = 0  # moves with every change of quotas
        self.sensors = Sensors(context)

    def on_image(self, quotas: Quotas) -> None:
        """The quotas have changed. What was used so far still counts."""
        self._quotas = quotas
        self._epoch += 1
        self.active = any_of_clients(quotas)
        if not self.active:
            self.sensors.clear()

    # a client's quotas

    def of(self, session: Session) -> Applied:
        known = session.quotas
        if (
            known is None
            or known.epoch != self._epoch
            or known.client_id != session.client_id
            or known.principal != session.principal
        ):
            known = session.quotas = applied(
                self._quotas, self._epoch, session.principal, session.client_id
            )
        return known

    def limits(self, session: Session) -> bool:
        """Return whether requests for records of this client are counted: no plan answers them
        then.
        """
        return self.of(session).limits_requests

    def meter(self, request: Request[Row], began_s: float) -> Meter | None:
        """For a request that has just come; work on it has begun at `began_s` of the CPU clock."""
        mine, key = self.of(request.session), request.api.key
        if not mine.limits_requests and (mine.mutations is None or key not in MUTATIONS):
            return None
        of_brokers = key == WRITE_TXN_MARKERS_KEY or (
            key == ADD_PARTITIONS_TO_TXN_KEY and request.version >= OF_COORDINATORS
        )
        if of_brokers and request.may("CLUSTER_ACTION", THE_CLUSTER):
            return None
        return Meter(self.sensors, self._metrics, request.connection, mine, began_s)

    @staticmethod
    def arrived(request: Request[Row]) -> None:
        """A request with a meter is about to be carried out."""
        if request.meter is not None and isinstance(request.body, ProduceRequest):
            request.meter.produced(len(request.frame), request.body.acks)
