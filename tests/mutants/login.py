"""Planted in the login: who is let in, with what, and for how long."""

from typing import Any

from raftka.broker.network.access.authentication import SaslGate
from raftka.security import scram
from raftka.security.plain import PlainServer
from raftka.security.scram import ScramServer
from tests.mutants.registry import mutant


@mutant(SaslGate, "passes")
def requests_pass_before_the_login(passes: Any) -> Any:
    """A request of a client that has not logged in is carried out, as long as it is not one of the login."""

    def bug(self: SaslGate, frame: memoryview) -> bool:
        key = int.from_bytes(frame[:2])
        return key not in (17, 18, 36) or passes(self, frame)

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
