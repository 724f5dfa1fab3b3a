"""Commands to the controller about users, their rights and their quotas, as those of commands.py: frozen values of plain fields. Decides nothing."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple


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


class PlainAcl(NamedTuple):
    """`Acl` of raftka/security/acls.py."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class PlainAclFilter(NamedTuple):
    """`AclFilter` of raftka/security/acls.py."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


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


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """What is there already is left as it is."""

    acls: tuple[PlainAcl, ...]
    REPLY: ClassVar[object] = int  # how many are new


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    filters: tuple[PlainAclFilter, ...]
    REPLY: ClassVar[object] = tuple[tuple[PlainAcl, ...], ...]  # what each filter has found


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
