"""Begin a login with one of the mechanisms that a listener has now: from settings, and from the credentials in the metadata."""

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authentication import Logins, Rules
from raftka.metadata.configs.logins import MECHANISMS, jaas_of, mechanisms_of
from raftka.runtime.interfaces import SECRETS
from raftka.security.mechanism import ServerMechanism
from raftka.security.plain import PLAIN, PlainServer
from raftka.security.scram import NUMBERS, ScramCredential, ScramServer

NONCE_BYTES = 18
NUMBER_OF = {name: number for number, name in NUMBERS.items()}


class ListenerMechanisms:
    def __init__(self, context: BrokerContext, listener: str) -> None:
        self._context = context
        self._listener = listener
        self._random = context.runtime.random(SECRETS)

    def logins(self) -> Logins:
        return Logins(self._context, self._rules, self._start)

    def _rules(self) -> Rules:
        settings = self._context.metadata.settings
        return Rules(
            mechanisms=tuple(each for each in mechanisms_of(settings.values, self._listener) if each in MECHANISMS),
            max_receive_bytes=settings.number_at(self._listener, "sasl.server.max.receive.size"),
            failure_delay_s=settings.seconds("connection.failed.authentication.delay.ms"),
            session_ms=settings.number_at(self._listener, "connections.max.reauth.ms"),
        )

    def _start(self, mechanism: str) -> ServerMechanism | None:
        metadata = self._context.metadata
        if mechanism == PLAIN:
            jaas = jaas_of(metadata.settings.values, self._listener, PLAIN)
            return None if jaas is None else PlainServer(jaas.users)
        number = NUMBER_OF[mechanism]

        def lookup(user: str) -> ScramCredential | None:
            return metadata.image.scram.get((number, user))

        nonce = self._random.randbytes(NONCE_BYTES).hex()
        return ScramServer(mechanism, lookup, nonce, (metadata.image.cluster_id or "").encode())
