"""ACLs, passwords and quotas that change under faults: what was revoked lets nobody in, what was
granted does, and nothing acknowledged is lost.

Administrators make users and alter what they have; visitors log in as these users and use their
rights, at any node. What a visitor may expect says `rights.py`: at a node that must know the last
alteration its outcome holds, be it a grant or a revocation.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import ClassVar, TypeVar

import trio

from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer
from raftka.chaos.simulated.clients.rights import (
    OPEN,
    VAULT,
    WITHOUT,
    Expectation,
    Progress,
    Register,
    User,
)
from raftka.chaos.simulated.clients.visits import MECHANISM, PROTOCOL, Visit
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.client.connection import Secured
from raftka.metadata.configs.broker import STANDARD_AUTHORIZER
from raftka.metadata.quotas import PRODUCER_BYTE_RATE, USER
from raftka.security import acls
from raftka.security.acls import Acl
from raftka.security.client_security import ClientSecurity
from raftka.security.scram import FEWEST_ITERATIONS, NUMBERS, salted_password
from raftka.wire.errors import Code
from raftka.wire.messages.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from raftka.wire.messages.client_quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS

ADMIN, ADMIN_SECRET = "admin", "admin-secret"
ADMINISTRATORS, VISITORS = 2, 4
NUMBER = next(number for number, name in NUMBERS.items() if name == MECHANISM)
# bytes a second: with the first a client has to wait after a single record, with the other never
TINY, HUGE = 1.0, 1e9
ALTERED = 5  # the newest users of each administrator: the others are left as they are
PAUSE_S = (0.0, 0.15)
RETRY_S = 0.1
KEPT = 6  # connections of a visitor
CHECKED = 12  # users at each node in the end
UNSURE = (Code.REQUEST_TIMED_OUT, Code.NOT_CONTROLLER)
T = TypeVar("T")
Ask = Callable[[Address], Awaitable[int]]


def admin_login(random: Random) -> Secured:
    return Secured(ClientSecurity(PROTOCOL, "PLAIN", ADMIN, ADMIN_SECRET).login(random))


class Administrator:
    """Makes users and alters what they have, one alteration after the other. One without an answer
    is repeated until it is acknowledged.
    """

    def __init__(self, client: Client, progress: Progress, users: list[User], name: str) -> None:
        self.client = client
        self.over = self.done = False
        self.wrong: list[str] = []
        self.acknowledged = 0
        self._progress = progress
        self._all = users
        self._name = name
        self._mine: list[User] = []
        self._random = client.runtime.random(f"administrator {name}")

    async def run(self) -> None:
        while not self.over:
            random = self._random
            if len(self._mine) < 2 or random.random() < 0.2:
                await self._introduce()
            else:
                user = random.choice(self._mine[-ALTERED:])
                await random.choice(
                    (
                        self._change_password,
                        self._alter_rights,
                        self._alter_rights,
                        self._alter_quota,
                    )
                )(user)
            await trio.sleep(random.uniform(*PAUSE_S))
        self.done = True

    async def _introduce(self) -> None:
        random = self._random
        pattern = random.choice((acls.LITERAL, acls.PREFIXED))
        user = User(f"{self._name}{len(self._mine)}", denied=random.random() < 0.3, pattern=pattern)
        self._mine.append(user)
        self._all.append(user)
        await self._set_password(user)
        for operation, right in user.rights.items():
            if right.possible != {True}:
                await self._set_right(user, operation, True)

    async def _change_password(self, user: User) -> None:
        if (
            user.password.settled is not None
            and user.password.settled.value
            and self._random.random() < 0.4
        ):
            row = ALTER_USER_SCRAM_CREDENTIALS.request
            request = row(deletions=[row.deletions(name=user.name, mechanism=NUMBER)])

            async def delete(where: Address) -> int:
                code = (
                    (await self.client.ask(where, ALTER_USER_SCRAM_CREDENTIALS, request))
                    .results[0]
                    .error_code
                )
                return 0 if code == Code.RESOURCE_NOT_FOUND else code  # done by an attempt before

            await self._alter(((user.password, WITHOUT),), delete)
        else:
            await self._set_password(user)

    async def _set_password(self, user: User) -> None:
        user.passwords += 1
        number, row = user.passwords, ALTER_USER_SCRAM_CREDENTIALS.request
        salt = self._random.randbytes(8)
        salted = salted_password(MECHANISM, user.secret(number), salt, FEWEST_ITERATIONS)
        upsertion = row.upsertions(
            name=user.name,
            mechanism=NUMBER,
            iterations=FEWEST_ITERATIONS,
            salt=salt,
            salted_password=salted,
        )

        async def upsert(where: Address) -> int:
            return (
                (
                    await self.client.ask(
                        where, ALTER_USER_SCRAM_CREDENTIALS, row(upsertions=[upsertion])
                    )
                )
                .results[0]
                .error_code
            )

        await self._alter(((user.password, number),), upsert)

    async def _alter_rights(self, user: User) -> None:
        operation = self._random.choice(sorted(user.rights))
        settled = user.rights[operation].settled
        if self._random.random() < 0.2:
            await self._remove_acls(user, tuple(user.rights), everything=True)
        else:
            await self._set_right(user, operation, not (settled is not None and settled.value))

    async def _set_right(self, user: User, operation: int, allowed: bool) -> None:
        if allowed == user.denied:
            await self._remove_acls(user, (operation,), everything=False)
            return
        await self._alter(((user.rights[operation], allowed),), self._creating(user.acl(operation)))

    async def open_to_everybody(self) -> None:
        for operation in (acls.READ, acls.WRITE):
            acl = Acl(acls.TOPIC, OPEN, acls.LITERAL, acls.ANYBODY, "*", operation, acls.ALLOW)
            await self._alter(((Register(False), True),), self._creating(acl))

    def _creating(self, acl: Acl) -> Ask:
        row = CREATE_ACLS.request.creations
        creation = row(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )

        async def create(where: Address) -> int:
            return (
                (
                    await self.client.ask(
                        where, CREATE_ACLS, CREATE_ACLS.request(creations=[creation])
                    )
                )
                .results[0]
                .error_code
            )

        return create

    async def _remove_acls(
        self, user: User, operations: Sequence[int], *, everything: bool
    ) -> None:
        """`everything`: by a filter that finds all ACLs of the user."""
        acl = user.acl(operations[0])
        row = DELETE_ACLS.request.filters
        wanted = row(
            resource_type_filter=acls.ANY if everything else acl.resource_type,
            resource_name_filter=None if everything else acl.name,
            pattern_type_filter=acls.ANY if everything else acl.pattern,
            principal_filter=acl.principal,
            host_filter=None if everything or self._random.random() < 0.5 else acl.host,
            operation=acls.ANY if everything else acl.operation,
            permission_type=acls.ANY if everything else acl.permission,
        )

        async def delete(where: Address) -> int:
            return (
                (await self.client.ask(where, DELETE_ACLS, DELETE_ACLS.request(filters=[wanted])))
                .filter_results[0]
                .error_code
            )

        await self._alter(
            [(user.rights[operation], user.denied) for operation in operations], delete
        )

    async def _alter_quota(self, user: User) -> None:
        value = self._random.choice((TINY, TINY, HUGE, None))
        row = ALTER_CLIENT_QUOTAS.request.entries
        op = row.ops(key=PRODUCER_BYTE_RATE, value=value or 0.0, remove=value is None)
        entry = row(entity=[row.entity(entity_type=USER, entity_name=user.name)], ops=[op])

        async def alter(where: Address) -> int:
            return (
                (
                    await self.client.ask(
                        where, ALTER_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS.request(entries=[entry])
                    )
                )
                .entries[0]
                .error_code
            )

        await self._alter(((user.quota, value),), alter)

    async def _alter(self, alterations: Sequence[tuple[Register[T], T]], ask: Ask) -> None:
        while True:
            for register, value in alterations:
                register.begin(value)
            try:
                code = Code(await ask(self._random.choice(self.client.bootstrap)))
            except NoAnswer:
                code = Code.REQUEST_TIMED_OUT
            if code is Code.NONE:
                for register, value in alterations:
                    register.done(self._progress.settled(value))
                self.acknowledged += 1
                return
            if code not in UNSURE:
                self.wrong.append(f"an alteration is refused with {code.name}")
                return
            await trio.sleep(RETRY_S)


class Visitor:
    """Logs in as one user or another, with the password of today or an earlier one, and writes and
    reads, at once or later.
    """

    def __init__(
        self, client: Client, progress: Progress, users: Sequence[User], name: str
    ) -> None:
        """`client`: an administrator's, to look at what nodes describe."""
        self.client = client
        self.over = self.done = False
        self.wrong: list[str] = []
        self.let_in = self.refused = 0
        self._progress = progress
        self._users = users
        self._random = client.runtime.random(f"visitor {name}")
        self._kept: list[tuple[int, User, Visit]] = []

    async def run(self) -> None:
        while not self.over:
            random = self._random
            try:
                if self._kept and random.random() < 0.4:
                    await self._use(*self._kept.pop(random.randrange(len(self._kept))), fresh=False)
                elif self._users:
                    user = random.choice(self._users[-4 * ALTERED :])
                    node_id = random.randint(1, self._progress.cluster.size)
                    await (self._look if random.random() < 0.2 else self.visit)(user, node_id)
            except NoAnswer:
                pass
            await trio.sleep(random.uniform(*PAUSE_S))
        for _, _, visit in self._kept:
            visit.leave()
        self.done = True

    async def visit(self, user: User, node_id: int) -> None:
        """Raises NoAnswer."""
        random = self._random
        number = user.passwords if random.random() < 0.6 else random.randint(0, user.passwords)
        password = Expectation(self._progress, node_id, user.password)
        visit = Visit(
            self.client.runtime,
            (f"n{node_id}", CLIENT_PORT),
            user.name,
            user.secret(number),
            random,
        )
        if await visit.let_in():
            self.let_in += 1
            if number == WITHOUT or password.is_now(number) is False:
                self.wrong.append(
                    f"n{node_id} lets {user.name} in with a password that was revoked: its number "
                    f"{number}"
                )
            await self._use(node_id, user, visit, fresh=True)
        else:
            self.refused += 1
            if number != WITHOUT and password.is_now(number):
                self.wrong.append(
                    f"n{node_id} refuses {user.name}, whose password {number} was acknowledged"
                )

    async def _use(self, node_id: int, user: User, visit: Visit, *, fresh: bool) -> None:
        """Raises NoAnswer. Who was told to wait leaves."""
        operation = self._random.choice(sorted(user.rights))
        right = Expectation(self._progress, node_id, user.rights[operation])
        quota = Expectation(self._progress, node_id, user.quota)
        allowed, throttled = await visit.use(operation, user.topic)
        what = f"{acls.OPERATION_NAMES[operation - acls.ALL]} {user.topic}"
        if allowed and right.is_now(False):
            self.wrong.append(f"n{node_id} lets {user.name} {what}, a right that was revoked")
        if not allowed and right.is_now(True):
            self.wrong.append(
                f"n{node_id} refuses {user.name} to {what}, a right that was acknowledged"
            )
        if operation == acls.WRITE and throttled is False and quota.is_now(TINY):
            self.wrong.append(
                f"n{node_id} lets {user.name} go on at once in spite of a quota that was "
                "acknowledged"
            )
        if throttled and fresh and quota.is_now(TINY) is False:
            self.wrong.append(f"n{node_id} holds {user.name} up for a quota that was taken back")
        if throttled or len(self._kept) == KEPT or self._random.random() < 0.4:
            visit.leave()
        else:
            self._kept.append((node_id, user, visit))

    async def _look(self, user: User, node_id: int) -> None:
        """Ask the node for the user's quota, password or ACLs, and compare. Raises NoAnswer."""
        where = f"n{node_id}", CLIENT_PORT
        await self._random.choice(
            (self._look_at_quota, self._look_at_password, self._look_at_acls)
        )(user, node_id, where)

    async def _look_at_quota(self, user: User, node_id: int, where: Address) -> None:
        quota = Expectation(self._progress, node_id, user.quota)
        row = DESCRIBE_CLIENT_QUOTAS.request
        entries = (
            await self.client.ask(
                where,
                DESCRIBE_CLIENT_QUOTAS,
                row(components=[row.components(entity_type=USER, match=user.name)]),
            )
        ).entries
        told = entries[0].values[0].value if entries else None
        if quota.is_now(told) is False:
            self.wrong.append(
                f"n{node_id} describes the quota of {user.name} as {told}, which is not what was "
                "acknowledged"
            )

    async def _look_at_password(self, user: User, node_id: int, where: Address) -> None:
        password = Expectation(self._progress, node_id, user.password)
        row = DESCRIBE_USER_SCRAM_CREDENTIALS.request
        answer = await self.client.ask(
            where, DESCRIBE_USER_SCRAM_CREDENTIALS, row(users=[row.users(name=user.name)])
        )
        has_one = answer.results[0].error_code == Code.NONE
        if (has_one and password.is_now(WITHOUT)) or (
            not has_one and password.is_now(WITHOUT) is False
        ):
            self.wrong.append(
                f"n{node_id} describes {user.name} {'with' if has_one else 'without'} a password, "
                "which is not what was acknowledged"
            )

    async def _look_at_acls(self, user: User, node_id: int, where: Address) -> None:
        rights = {
            operation: Expectation(self._progress, node_id, right)
            for operation, right in user.rights.items()
        }
        wanted = DESCRIBE_ACLS.request(
            resource_type_filter=acls.ANY,
            pattern_type_filter=acls.ANY,
            principal_filter=user.principal,
            operation=acls.ANY,
            permission_type=acls.ANY,
        )
        answer = await self.client.ask(where, DESCRIBE_ACLS, wanted)
        told = {each.operation for resource in answer.resources for each in resource.acls}
        for operation, right in rights.items():
            if right.is_now((operation in told) is not user.denied) is False:
                self.wrong.append(
                    f"n{node_id} describes ACLs of {user.name} that are not what was acknowledged"
                )


class SecurityWork:
    settings: ClassVar[Mapping[str, str]] = {
        "listener.security.protocol.map": f"PLAINTEXT:{PROTOCOL},CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{ADMIN}" password="{ADMIN_SECRET}" user_{ADMIN}="{ADMIN_SECRET}";'
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "metadata.log.max.record.bytes.between.snapshots": "2000",
        "broker.session.timeout.ms": "2000",
    }
    topics: Sequence[tuple[str, int]] = ((VAULT, 1), (OPEN, 1))

    def __init__(self) -> None:
        self.users: list[User] = []
        self.progress: Progress
        self.administrators: list[Administrator] = []
        self.visitors: list[Visitor] = []

    def begin(self, cluster: Cluster, chance: Random) -> None:
        self.progress = Progress(cluster)
        first = self._admin_client(cluster, "owner")
        for name, partitions in self.topics:
            cluster.do(
                first,
                lambda name=name, partitions=partitions: first.create_topic(  # type: ignore[misc]
                    name, partitions, 3, {"min.insync.replicas": "1"}
                ),
            )
        cluster.do(first, Administrator(first, self.progress, [], "owner").open_to_everybody)
        for name in "ab"[:ADMINISTRATORS]:
            self.administrators.append(
                Administrator(
                    self._admin_client(cluster, f"administrator {name}"),
                    self.progress,
                    self.users,
                    name,
                )
            )
        for number in range(VISITORS):
            client = self._admin_client(cluster, f"visitor{number}")
            self.visitors.append(Visitor(client, self.progress, self.users, str(number)))
        for each in self._everybody:
            each.client.runtime.spawn(each.run, type(each).__name__)

    @property
    def _everybody(self) -> list[Administrator | Visitor]:
        return [*self.administrators, *self.visitors]

    @staticmethod
    def _admin_client(cluster: Cluster, name: str) -> Client:
        return cluster.client(name, secured=admin_login(cluster.world.random(f"login of {name}")))

    @property
    def wrong(self) -> list[str]:
        return [wrong for each in self._everybody for wrong in each.wrong]

    @property
    def counts(self) -> Sequence[int]:
        each_visitor = [(each.let_in, each.refused) for each in self.visitors]
        return [
            *(each.acknowledged for each in self.administrators),
            sum(let_in for let_in, _ in each_visitor),
            sum(no for _, no in each_visitor),
        ]

    def end(self) -> None:
        for each in self._everybody:
            each.over = True

    @property
    def ended(self) -> bool:
        return all(each.done for each in self._everybody)

    def check(self, cluster: Cluster) -> list[str]:
        """Every node has what was acknowledged, and treats users by it."""
        found = [
            wrong for node_id in sorted(cluster.living) for wrong in self._of_node(cluster, node_id)
        ]
        if not found:
            visitor, chance = self.visitors[0], cluster.world.random("last visits")
            for node_id in sorted(cluster.living):
                for user in chance.sample(self.users, min(CHECKED, len(self.users))):
                    cluster.do(
                        visitor.client,
                        lambda user=user, node_id=node_id: visitor.visit(user, node_id),  # type: ignore[misc]
                    )
            found += visitor.wrong
        return found[:5]

    def _of_node(self, cluster: Cluster, node_id: int) -> list[str]:
        image, found = cluster.nodes[node_id].image, []
        for user in self.users:
            if ((NUMBER, user.name) in image.scram) not in {
                number != WITHOUT for number in user.password.possible
            }:
                found.append(
                    f"n{node_id}: whether {user.name} has a password is not what was acknowledged"
                )
            for operation, right in user.rights.items():
                if ((user.acl(operation) in image.acls) is not user.denied) not in right.possible:
                    found.append(f"n{node_id}: an ACL of {user.name} is not what was acknowledged")
            quota = image.quotas.get(((USER, user.name),), {}).get(PRODUCER_BYTE_RATE)
            if quota not in user.quota.possible:
                found.append(
                    f"n{node_id}: the quota of {user.name} is {quota}, acknowledged is one of "
                    f"{user.quota.possible}"
                )
        return found
