"""The identity that a connection has proved, its mechanism, and the requests that are allowed
before. Knows no socket and no tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.metadata.configs.ports import bridge_users_of
from raftka.metadata.configs.values import Values
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.server.digest_md5 import NONCE_BYTES, DigestMd5, LoginRefused
from zookeeper_bridge.tree.acl import SCHEMES, SUPER, Identity, digest_of

# what a client may ask for that has to log in
BEFORE_LOGIN = frozenset(map(int, (Op.AUTH, Op.SASL, Op.PING, Op.CLOSE_SESSION)))


@dataclass(frozen=True, slots=True)
class LoginRules:
    super_digest: str = field(default="", repr=False)
    super_subject: str = ""  # of a certificate
    super_users: frozenset[str] = frozenset()  # of SASL
    users: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords of SASL's users
    sasl_in_the_open: bool = False
    required: frozenset[str] = frozenset()  # schemes of which a client must show one; empty: none
    has_certificates: bool = False

    @classmethod
    def of(cls, values: Values) -> "LoginRules":
        return cls(
            values["zookeeper.bridge.super.digest"] or "",
            values["zookeeper.bridge.x509.super.user"] or "",
            frozenset(values["zookeeper.bridge.sasl.super.users"]),
            bridge_users_of(values["zookeeper.bridge.sasl.jaas.config"]),
            values["zookeeper.bridge.sasl.plaintext.enable"],
            frozenset(values["zookeeper.bridge.enforce.auth.schemes"]),
            values["zookeeper.bridge.secure.port"] is not None,
        )

    @property
    def schemes(self) -> frozenset[str]:
        """Of identities that ACLs may name."""
        return SCHEMES | {
            name
            for name, given in (("sasl", bool(self.users)), ("x509", self.has_certificates))
            if given
        }

    def by_digest(self, shown: bytes) -> list[Identity]:
        """Return the identity of any user and password: ACLs decide on its rights."""
        identity = digest_of(shown)
        return (
            [SUPER, identity]
            if self.super_digest and identity == ("digest", self.super_digest)
            else [identity]
        )

    def by_certificate(self, subject: str) -> list[Identity]:
        identity = ("x509", subject)
        return [SUPER, identity] if subject == self.super_subject else [identity]

    def by_sasl(self, user: str) -> list[Identity]:
        identity = ("sasl", user)
        return [SUPER, identity] if user in self.super_users else [identity]

    def admits(self, opcode: int, identities: tuple[Identity, ...]) -> bool:
        return not self.required or opcode in BEFORE_LOGIN or self.known(identities)

    def known(self, identities: tuple[Identity, ...]) -> bool:
        """Return whether all is shown that has to be."""
        return not self.required or any(scheme in self.required for scheme, _ in identities)


class Answer(NamedTuple):
    token: bytes | None
    identities: list[Identity]


class SaslLogin:
    """Of one connection."""

    def __init__(self, rules: LoginRules, random: Callable[[int], bytes], *, secure: bool) -> None:
        self._rules = rules
        self._offered = secure or rules.sasl_in_the_open
        self._mechanism = DigestMd5(rules.users, random(NONCE_BYTES))

    def step(self, token: bytes | None) -> Answer:
        """Raises LoginRefused."""
        if not self._rules.users:
            return Answer(None, [])  # as a server that has no SASL
        if not self._offered:
            raise LoginRefused("DIGEST-MD5 without TLS")
        answer = self._mechanism.step(token or b"")
        user = self._mechanism.user
        return Answer(answer, self._rules.by_sasl(user) if user is not None else [])
