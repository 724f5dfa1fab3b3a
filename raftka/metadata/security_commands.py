"""Commands to the controller about users, their rights and their quotas, as those of commands.py: frozen values of plain fields. Decides nothing."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from raftka.security.acls import Acl, AclFilter
from raftka.security.delegation_tokens import TokenCredential


class ScramUpsertion(NamedTuple):
    """As the cluster keeps it: the broker that was asked has made the keys."""

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
    """Wall clock, ms."""

    issued_ms: int
    expires_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class AddToken:
    """The broker that was asked has made the HMAC and the credentials. The same id twice is one token."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int  # not above 0: the longest
    hmac: bytes = field(repr=False)
    credentials: tuple[TokenCredential, ...] = field(repr=False)
    REPLY: ClassVar[object] = TokenTimes


@dataclass(frozen=True, slots=True)
class RenewToken:
    hmac: bytes = field(repr=False)
    requester: str
    period_ms: int  # not above 0: as long as may be
    REPLY: ClassVar[object] = int  # when it expires


@dataclass(frozen=True, slots=True)
class ExpireToken:
    hmac: bytes = field(repr=False)
    requester: str
    period_ms: int  # below 0: now
    REPLY: ClassVar[object] = int


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """What is there already is left as it is."""

    acls: tuple[Acl, ...]
    REPLY: ClassVar[object] = int  # how many are new


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    filters: tuple[AclFilter, ...]
    REPLY: ClassVar[object] = tuple[tuple[Acl, ...], ...]  # what each filter has found


@dataclass(frozen=True, slots=True)
class AlterScramCredentials:
    """No user twice. Each is decided by itself."""

    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]
    REPLY: ClassVar[object] = tuple[ScramResult, ...]


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """Each entity is decided by itself; one that is named twice is refused."""

    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False
    REPLY: ClassVar[object] = tuple[QuotaResult, ...]
