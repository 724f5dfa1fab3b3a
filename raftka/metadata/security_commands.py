"""Commands to the controller about users, their rights and their quotas: frozen values of plain
fields, as in commands.py.
"""

from typing import NamedTuple

from raftka.security.acls import Acl, AclFilter
from raftka.security.delegation_tokens import TokenCredential


class ScramUpsertion(NamedTuple):
    """A credential as the cluster keeps it; the broker that got the request has made the keys."""

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramDeletion(NamedTuple):
    user: str
    mechanism: int


class ScramResult(NamedTuple):
    user: str
    error: int


class QuotaOp(NamedTuple):
    key: str
    value: float
    remove: bool


class QuotaAlteration(NamedTuple):
    entity: tuple[tuple[str, str | None], ...]  # (type, name; None: the default of that type)
    ops: tuple[QuotaOp, ...]


class QuotaResult(NamedTuple):
    entity: tuple[tuple[str, str | None], ...]
    error: int
    message: str | None


class TokenTimes(NamedTuple):
    """Times of a token on the wall clock, in ms."""

    issued_ms: int
    expires_ms: int
    max_ms: int


class AddToken(NamedTuple):
    """A new token; the broker that got the request has made the HMAC and the credentials. A second
    command with the same id adds no second token.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int  # not above 0: the longest
    hmac: bytes
    credentials: tuple[TokenCredential, ...]

    def __repr__(self) -> str:
        return f"AddToken({self.token_id!r}, {self.owner!r}, ...)"  # without its keys


class RenewToken(NamedTuple):
    hmac: bytes
    requester: str
    period_ms: int  # not above 0: the longest

    def __repr__(self) -> str:
        return f"RenewToken({self.requester!r}, {self.period_ms!r})"  # without the key


class ExpireToken(NamedTuple):
    hmac: bytes
    requester: str
    period_ms: int  # below 0: now

    def __repr__(self) -> str:
        return f"ExpireToken({self.requester!r}, {self.period_ms!r})"  # without the key


class CreateAcls(NamedTuple):
    """ACLs to add; those that exist already stay."""

    acls: tuple[Acl, ...]


class DeleteAcls(NamedTuple):
    filters: tuple[AclFilter, ...]


class AlterScramCredentials(NamedTuple):
    """Changes of users' credentials, no user twice. Each has a result of its own."""

    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]


class AlterClientQuotas(NamedTuple):
    """Changes of entities, each with a result of its own; one that is named twice is refused."""

    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False
