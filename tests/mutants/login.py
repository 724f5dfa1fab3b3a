"""Planted in the login: who is let in, with what, and for how long."""

from typing import Any

from raftka.broker.context import MetadataCache
from raftka.broker.controller.peer_security import PeerSecurity
from raftka.broker.handlers import delegation_tokens
from raftka.broker.network.access import issuer_keys
from raftka.broker.network.access.authentication import SaslGate
from raftka.broker.network.access.issuer_keys import IssuerKeys
from raftka.broker.network.access.mechanisms import ListenerMechanisms
from raftka.broker.network.session import Session
from raftka.security import scram
from raftka.security.delegation_tokens import DelegationToken
from raftka.security.kerberos import local_names
from raftka.security.kerberos.mechanism import LAYERS, Context, GssapiServer
from raftka.security.oauth import jwt
from raftka.security.oauth.jwks import KeySet
from raftka.security.oauth.jwt import Expected, Jwt, Verified
from raftka.security.oauth.oauthbearer import OAuthBearerServer
from raftka.security.plain import PlainServer
from raftka.security.scram import ScramServer
from tests.mutants.registry import mutant


@mutant(SaslGate, "passes")
def requests_pass_before_the_login(passes: Any) -> Any:
    """A request of a client that has not logged in is carried out, as long as it is not one of the
    login.
    """

    def bug(self: SaslGate, frame: memoryview) -> bool:
        key = int.from_bytes(frame[:2])
        return key not in (17, 18, 36) or passes(self, frame)

    return bug


@mutant(PeerSecurity, "client_gate")
def kafka_client_needs_no_login_at_controllers(_: Any) -> Any:
    """A Kafka client at a controllers' listener with SASL is served without a login."""

    def bug(self: PeerSecurity, endpoint: Any) -> None: ...

    return bug


@mutant(scram, "_unbase64")
def binding_is_not_compared(unbase64: Any) -> Any:
    """The header for channel bindings may be another at the end than at the beginning."""

    def bug(text: str) -> bytes:
        data: bytes = unbase64(text)
        return b"n,," if data.endswith(b",,") else data

    return bug


@mutant(ScramServer, "_final")
def nonce_is_not_compared(final: Any) -> Any:
    """SCRAM's last message may have another nonce than the one of this login (CVE-2024-56128)."""

    def bug(self: ScramServer, token: bytes) -> bytes:
        nonce = token.split(b",r=")[1].split(b",")[0].decode()
        self._nonce = nonce
        return bytes(final(self, token))

    return bug


@mutant(ScramServer, "_made_up")
def unknown_user_has_another_salt_each_time(_: Any) -> Any:
    """A user that does not exist is told from one that does: its salt changes."""
    salts = iter(range(1000))

    def bug(self: ScramServer) -> tuple[bytes, int]:
        return b"salt%d" % next(salts), 4096

    return bug


@mutant(PlainServer, "step")
def authorization_id_names_the_user(step: Any) -> Any:
    """A client that knows its own password is let in as the user that it names (CVE-2017-12610)."""

    def bug(self: PlainServer, token: bytes) -> bytes:
        authzid, user, password = token.split(b"\0")
        answer: bytes = step(self, b"\0".join((b"", user, password)))
        self.user = authzid.decode() or self.user
        return answer

    return bug


@mutant(OAuthBearerServer, "step")
def invalid_token_may_be_followed_by_another(step: Any) -> Any:
    """After a token that was refused the client may try another one on the same connection."""

    def bug(self: OAuthBearerServer, token: bytes) -> bytes:
        if token != b"\x01":
            self._invalid = ""
        return bytes(step(self, token))

    return bug


@mutant(KeySet, "verify")
def token_may_name_no_algorithm(verify: Any) -> Any:
    """A token that says that it has no signature needs none."""

    def bug(self: KeySet, token: Jwt) -> None:
        if token.algorithm != "none":
            verify(self, token)

    return bug


@mutant(issuer_keys, "check_claims")
def expired_token_is_taken_within_the_skew(check_claims: Any) -> Any:
    """As long as the clocks may differ: its session has no end."""

    def bug(claims: Any, expected: Expected, now_ms: int) -> Verified:
        found: Verified = check_claims(claims, expected, now_ms - expected.skew_ms)
        return found._replace(expires_ms=max(found.expires_ms, now_ms + 10**9))

    return bug


@mutant(jwt, "_user")
def name_in_a_token_is_trimmed(_: Any) -> Any:
    """Blanks around a name are cut off: it becomes another user's."""

    def bug(claims: Any, name: str) -> str:
        return str(claims[name]).strip()

    return bug


@mutant(IssuerKeys, "_expedite")
def keys_are_read_for_every_stranger(_: Any) -> Any:
    """Each token with an unknown key id has the keys read again."""

    def bug(self: IssuerKeys) -> None:
        self._read()

    return bug


@mutant(SaslGate, "_check_same_user")
def another_user_takes_over_a_session(_: Any) -> Any:
    """A client logs in again as another user, and keeps what the first one had begun."""

    def bug(self: SaslGate, principal: str, again: bool) -> None:
        pass

    return bug


@mutant(SaslGate, "_lifetime_ms")
def session_never_ends(_: Any) -> Any:
    """A client need not log in again: its requests are answered after the end of its session."""

    def bug(self: SaslGate, expires_ms: int | None) -> int:
        return 10**9

    return bug


@mutant(DelegationToken, "may_be_renewed_by")
def everybody_renews_tokens(_: Any) -> Any:
    """A client that has somebody's token lets it last longer, or ends it."""
    return lambda self, principal: True


@mutant(delegation_tokens, "_allowed")
def token_makes_tokens(allowed: Any) -> Any:
    """A session of a token makes further tokens, which outlive it."""

    def bug(session: Session, metadata: MetadataCache) -> bool:
        session.by_token = False
        return bool(allowed(session, metadata))

    return bug


@mutant(ScramServer, "_final")
def removed_token_lets_in(final: Any) -> Any:
    """A token that is removed during a login lets in."""

    def bug(self: ScramServer, token: bytes) -> bytes:
        known = self._token
        self._token_lookup = lambda token_id: known
        return bytes(final(self, token))

    return bug


@mutant(ScramServer, "_first")
def token_logs_in_as_any_user(first: Any) -> Any:
    """The extension tokenauth counts for users that are no tokens, and tokens log in without it."""

    def bug(self: ScramServer, token: bytes) -> bytes:
        users, tokens = self._lookup, self._token_lookup
        self._lookup = lambda name: (
            users(name) or ((found := tokens(name)) and found.credential) or None
        )
        return bytes(first(self, token))

    return bug


@mutant(GssapiServer, "_names_service")
def kerberos_client_asks_to_be_another(_: Any) -> Any:
    """The authorization id of a Kerberos login is not compared with the ticket's principal."""
    return lambda self, asked: True


@mutant(GssapiServer, "_chosen")
def layer_that_was_not_offered_is_taken(chosen: Any) -> Any:
    """A Kerberos client that wants its bytes protected from now on is let in, and they are not."""

    def bug(self: GssapiServer, context: Context, message: bytes) -> None:
        chosen(self, context, LAYERS + message[len(LAYERS) :])

    return bug


@mutant(local_names, "_applied")
def realm_of_a_principal_is_ignored(applied: Any) -> Any:
    """A principal of another realm is the user of the same name here."""

    def bug(rule: local_names.LocalRule, own_realm: str, parts: list[str]) -> str | None:
        name: str | None = applied(rule, own_realm, [own_realm, *parts[1:]])
        return name

    return bug


@mutant(SaslGate, "_step_ended")
def refusal_beside_the_loop_is_forgotten(step_ended: Any) -> Any:
    """A login that is refused beside the loop gets no answer, and its connection stays."""

    def bug(self: SaslGate, mechanism: Any, result: Any, answer: Any) -> None:
        if not isinstance(result, BaseException):
            step_ended(self, mechanism, result, answer)

    return bug


@mutant(ListenerMechanisms, "_session_ms")
def sessions_of_a_mechanism_never_end(session_ms: Any) -> Any:
    """Sessions last as long as the listener's setting says: connections.max.reauth.ms of a
    mechanism does nothing.
    """
    return lambda self, _: session_ms(self, "")
