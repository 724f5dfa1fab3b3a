"""Logins and rights of a secured cluster: users log in at the registry with their passwords of the
cluster, and have the rights that its ACLs give them.

The registry logs in at a broker as the user, and asks for the user's authorized operations on all
topics at once. It keeps the answer: a removed right, or an old password, works for RIGHTS_S at
most. Where the topic is not there, a user who may create it may register schemas for it.
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import trio

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import LoginRefused
from raftka.limits import Limit
from raftka.registry.access import ALTER, DELETE, FORBIDDEN, SEE, WRITE, User, topic_of
from raftka.registry.errors import STORE_FAILED, RegistryError
from raftka.registry.limits import RIGHTS, USERS
from raftka.security import acls
from raftka.security.client_security import ClientSecurity, security_for
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.topics import CREATE_TOPICS

T = TypeVar("T")

RIGHTS_S = 30.0
LOGINS_AT_ONCE = 4
WITH_CLUSTER = 10  # the last version of Metadata that has the operations of the cluster
BITS = {
    SEE: 1 << acls.READ | 1 << acls.WRITE,
    WRITE: 1 << acls.WRITE,
    DELETE: 1 << acls.DELETE,
    ALTER: 1 << acls.ALTER_CONFIGS,
}
NOBODY = "a user that has not logged in"


class Rights(NamedTuple):
    digest: bytes  # of the password
    until: float
    cluster: int  # bits of operations
    topics: dict[str, int]


class BrokerAccess:
    def __init__(
        self,
        client_of: Callable[[User], Client],
        now: Callable[[], float] = time.monotonic,
        hit: Callable[[Limit], None] = lambda limit: None,
    ) -> None:
        """`client_of` makes a client that logs in as a user."""
        self._client_of, self._now, self._hit = client_of, now, hit
        self._salt = secrets.token_bytes(16)
        self._known: dict[str, Rights] = {}  # by user's name, the oldest login first
        self._kept = 0  # topics of all users
        self._lock = threading.Lock()
        self._threads = trio.CapacityLimiter(LOGINS_AT_ONCE)

    async def __call__(self, user: User) -> bool:
        """Return True if a broker accepts the password. Raise RegistryError when no broker
        answers.
        """
        digest = self._digest(user)
        if self._current(user, digest):
            return True
        return await trio.to_thread.run_sync(self._log_in, user, digest, limiter=self._threads)

    def may(self, user: User | None, operation: str, subject: str | None) -> bool:
        rights = self._known.get(user.name) if user is not None else None
        if rights is None:
            return False
        if subject is None:
            return bool(rights.cluster & BITS[operation])
        return bool(rights.topics.get(topic_of(subject), 0) & BITS[operation])

    def check(self, user: User | None, operation: str, subject: str | None) -> None:
        """Raise RegistryError if the user may not do this. For WRITE it may ask a broker."""
        if self.may(user, operation, subject):
            return
        if (
            user is None
            or operation != WRITE
            or subject is None
            or not self._may_create(user, topic_of(subject))
        ):
            target = "all subjects" if subject is None else f"subject {subject}"
            raise RegistryError(
                FORBIDDEN,
                f"User {user.name if user is not None else NOBODY} is denied operation "
                f"{operation} on {target}",
            )

    def _current(self, user: User, digest: bytes) -> bool:
        rights = self._known.get(user.name)
        return (
            rights is not None
            and secrets.compare_digest(rights.digest, digest)
            and self._now() < rights.until
        )

    def _digest(self, user: User) -> bytes:
        return hashlib.blake2b(
            user.password.encode("utf-8", "surrogatepass"), key=self._salt
        ).digest()

    def _may_create(self, user: User, topic: str) -> bool:
        """Return True if a broker would create the topic, which is not there, for this user; then
        it counts as the user's. Blocks.
        """
        new = CREATE_TOPICS.request.topics(name=topic, num_partitions=-1, replication_factor=-1)
        answer = self._as(
            user,
            lambda client: client.ask_any(
                CREATE_TOPICS, CREATE_TOPICS.request(topics=[new], validate_only=True)
            ),
        )
        rights = self._known.get(user.name)
        if answer is None or rights is None or answer.topics[0].error_code:
            return False
        self._keep(user.name, rights._replace(topics={**rights.topics, topic: BITS[SEE]}))
        return True

    def _as(self, user: User, ask: Callable[[Client], T]) -> T | None:
        """Ask a broker as the user; None: the broker refuses the password. Raise RegistryError."""
        try:
            with self._client_of(user) as client:
                return ask(client)
        except LoginRefused:
            return None
        except OSError as error:
            raise RegistryError(
                STORE_FAILED, f"no broker could be asked for the user: {error}"
            ) from None

    def _log_in(self, user: User, digest: bytes) -> bool:
        """Log in at a broker and keep the user's rights. Return False for a wrong password.
        Blocks.
        """
        asked = METADATA.request(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        answer = (
            self._as(user, lambda client: client.ask_any(METADATA, asked, WITH_CLUSTER))
            if user.name
            else None
        )
        if answer is None:
            return False
        topics = {topic.name or "": topic.topic_authorized_operations for topic in answer.topics}
        self._keep(
            user.name,
            Rights(digest, self._now() + RIGHTS_S, answer.cluster_authorized_operations, topics),
        )
        return True

    def _keep(self, name: str, rights: Rights) -> None:
        with self._lock:
            self._forget(name)
            self._known[name] = rights
            self._kept += len(rights.topics)
            while len(self._known) > 1 and (
                len(self._known) > USERS.value or self._kept > RIGHTS.value
            ):
                self._hit(USERS if len(self._known) > USERS.value else RIGHTS)
                self._forget(next(iter(self._known)))

    def _forget(self, name: str) -> None:
        gone = self._known.pop(name, None)
        self._kept -= len(gone.topics) if gone is not None else 0


def as_user(security: ClientSecurity, mechanism: str, user: User) -> ClientSecurity:
    """Return the registry's own security settings, with the login of this user. Raise ValueError
    for a mechanism without passwords.
    """
    return security_for(security, mechanism, user.name, user.password)
