"""Begin a login with one of the mechanisms that a listener has now: from settings, and from the
credentials in the metadata.
"""

from collections.abc import Callable
from functools import partial

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authentication import Logins, Rules
from raftka.broker.network.access.issuer_keys import IssuerKeys, unsecured
from raftka.broker.telemetry.event_log import BoundedRate
from raftka.metadata.configs.kerberos import kerberos_of
from raftka.metadata.configs.logins import jaas_of, mechanisms_of
from raftka.metadata.configs.oauth import oauth_of
from raftka.metadata.configs.prefixes import MECHANISMS, REAUTH
from raftka.metadata.configs.values import SettingError
from raftka.runtime.interfaces import SECRETS
from raftka.security.delegation_tokens import USER_PREFIX
from raftka.security.kerberos.library import accept
from raftka.security.kerberos.local_names import local_name
from raftka.security.kerberos.mechanism import GssapiServer
from raftka.security.mechanism import GSSAPI, ServerMechanism
from raftka.security.oauth.jwt import Verified
from raftka.security.oauth.oauthbearer import OAUTHBEARER, OAuthBearerServer
from raftka.security.plain import PLAIN, PlainServer
from raftka.security.scram import NUMBERS, ScramCredential, ScramServer, TokenLogin

NONCE_BYTES = 18
NUMBER_OF = {name: number for number, name in NUMBERS.items()}


class ListenerMechanisms:
    def __init__(self, context: BrokerContext, listener: str) -> None:
        self._context = context
        self._listener = listener
        self._random = context.runtime.random(SECRETS)
        self._verify = self._token_check()
        self._refused = BoundedRate(
            context.events.warning, "kerberos_refused", context.runtime.clock.now
        )

    def logins(self, start: Callable[[str], ServerMechanism | None] | None = None) -> Logins:
        """`start`: begins a login where it is not by the credentials in the metadata."""
        return Logins(self._context, self._rules, self._session_ms, start or self._start)

    def _rules(self) -> Rules:
        settings = self._context.metadata.settings
        return Rules(
            mechanisms=tuple(
                each
                for each in mechanisms_of(settings.values, self._listener)
                if each in MECHANISMS
            ),
            max_receive_bytes=settings.at(self._listener).number("sasl.server.max.receive.size"),
            failure_delay_s=settings.seconds("connection.failed.authentication.delay.ms"),
        )

    def _session_ms(self, mechanism: str) -> int:
        return self._context.metadata.settings.at(self._listener, mechanism).number(REAUTH)

    def _token_check(self) -> Callable[[str], Verified] | None:
        """Return the check of OAUTHBEARER's tokens, from the settings that the node was started
        with; None: the listener does not have that mechanism.
        """
        values = self._context.metadata.settings.values
        if OAUTHBEARER not in mechanisms_of(values, self._listener):
            return None
        expected, source = oauth_of(
            values, self._listener, jaas_of(values, self._listener, OAUTHBEARER)
        )
        if source is None:
            self._context.events.warning("unsecured_tokens", listener=self._listener)
            return partial(unsecured, self._context.runtime.clock.wall_ms, expected)
        return partial(IssuerKeys(self._context, self._listener, source).verify, expected)

    def _start(self, mechanism: str) -> ServerMechanism | None:
        metadata = self._context.metadata
        if mechanism == PLAIN:
            jaas = jaas_of(metadata.settings.values, self._listener, PLAIN)
            return None if jaas is None else PlainServer(jaas.users)
        if mechanism == OAUTHBEARER:
            return None if self._verify is None else OAuthBearerServer(self._verify)
        if mechanism == GSSAPI:
            return self._kerberos()
        number = NUMBER_OF[mechanism]

        def lookup(user: str) -> ScramCredential | None:
            return metadata.image.scram.get((number, user))

        def token(token_id: str) -> TokenLogin | None:
            found = metadata.image.tokens.get(token_id)
            credential = (
                found.credential(number)
                if found is not None and metadata.settings["delegation.token.secret.key"]
                else None
            )
            if found is None or credential is None:
                return None
            return TokenLogin(credential, found.owner.removeprefix(USER_PREFIX), found.expires_ms)

        nonce = self._random.randbytes(NONCE_BYTES).hex()
        return ScramServer(mechanism, lookup, nonce, metadata.image.secret, token)

    def _kerberos(self) -> ServerMechanism | None:
        """As the settings are now; None: they will not do, which only a change while the node runs
        can bring about.
        """
        context, settings = self._context, self._context.metadata.settings
        try:
            own = kerberos_of(
                settings.values, self._listener, jaas_of(settings.values, self._listener, GSSAPI)
            )
        except SettingError as error:
            self._refused(listener=self._listener, reason=str(error))
            return None
        ends = self._session_ms(GSSAPI) > 0
        now_ms = context.runtime.clock.wall_ms() if ends else None
        return GssapiServer(
            partial(accept, own.login),
            own.login.principal,
            partial(local_name, own.rules, own.realm),
            now_ms,
        )
