"""An operator who brings a cluster to the present release while everything else goes on: node by
node in any order, back again when he likes, and at last for good.

The seed draws the order, the moments, the way back, whether features are upgraded, and whether a
node of the earlier release is tried on the raised data, which it must refuse.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from random import Random
from typing import ClassVar, NamedTuple

import trio

from raftka.broker.node import Node
from raftka.chaos.simulated.clients.client import Client, NoAnswer
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.releases import PRESENT, Release, raised_levels
from raftka.versions import NewerFormat
from raftka.wire.errors import Code
from raftka.wire.messages.quorum import UPDATE_FEATURES

GOES_BACK, RAISES, TRIES_AFTER = 0.5, 0.6, 0.4  # of the lives; the last of those that raise
RAISES_EARLY = 0.4  # of the lives: while a node has the earlier release
STOPS_IN_ORDER, WAITS = 0.7, 0.7  # of the steps: a controlled shutdown; until the node is ready
LAST_S = 5.0  # before faults end: the last step
LOOK_S = 0.02
STOP_S = 20.0  # of a controlled shutdown
READY_S = 5.0  # that a step waits, when faults keep the node from it
TIMEOUT_MS = 4_000
# the command before this one may have been carried out without an answer; a node is away
PASSES = frozenset({Code.NONE, Code.REQUEST_TIMED_OUT, Code.INVALID_UPDATE_VERSION})


class Kind(Enum):
    TO_PRESENT = auto()
    TO_EARLIER = auto()
    RAISE = auto()  # the levels of features
    RAISE_EARLY = auto()  # the same, which must be refused
    TRY_EARLIER = auto()  # on raised data


class Step(NamedTuple):
    kind: Kind
    node_id: int = 0


def draw_path(chance: Random, nodes: Sequence[int]) -> list[Step]:
    """Return steps that leave each node at the present release. Before features are raised any of
    them may go back.
    """
    order = chance.sample(nodes, len(nodes))
    up = [Step(Kind.TO_PRESENT, node_id) for node_id in order]
    path = up
    if chance.random() < GOES_BACK:
        reached = chance.randint(1, len(order))
        back = chance.sample(order[:reached], chance.randint(1, reached))
        again = [*back, *order[reached:]]
        path = [
            *up[:reached],
            *(Step(Kind.TO_EARLIER, node_id) for node_id in back),
            *(Step(Kind.TO_PRESENT, node_id) for node_id in chance.sample(again, len(again))),
        ]
    if chance.random() < RAISES_EARLY:
        path = list(path)
        path.insert(chance.randrange(len(path)), Step(Kind.RAISE_EARLY))
    if chance.random() < RAISES:
        path = [*path, Step(Kind.RAISE)]
        if chance.random() < TRIES_AFTER:
            path = [*path, Step(Kind.TRY_EARLIER, chance.choice(order))]
    return path


class Operator:
    """`in_order`: each node is shut down in order, and the next one waits until all replicas are in
    sync, as docs/versions.md says. `mend`: makes good a node's disk, before its start. `seconds`:
    the time over which steps are spread.
    """

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        earlier: Release,
        chance: Random,
        mend: Callable[[int], None],
        seconds: float,
        *,
        in_order: bool,
    ) -> None:
        self.client = client
        self.over = self.done = False
        self.steps = 0  # that are done; when all are, it goes on counting
        self.level = earlier.level  # of raftka.version, that the cluster has or was asked for
        self.wrong: list[str] = []
        self._cluster = cluster
        self._earlier = earlier
        self._random = chance
        self._mend = mend
        self._in_order = in_order
        self.path = draw_path(chance, sorted(cluster.nodes))
        self._pause_s = (0.0, 2 * max(0.0, seconds - LAST_S) / len(self.path))

    async def run(self) -> None:
        for step in self.path:
            await trio.sleep(self._random.uniform(*self._pause_s))
            await self._take(step)
            self.steps += 1
        while not self.over:
            self.steps += 1
            await trio.sleep(LOOK_S)
        self.done = True

    async def _take(self, step: Step) -> None:
        if step.kind is Kind.RAISE:
            await self._raise_levels()
        elif step.kind is Kind.RAISE_EARLY:
            await self._raise_early()
        elif step.kind is Kind.TRY_EARLIER:
            await self._try_earlier(step.node_id)
        else:
            release = PRESENT if step.kind is Kind.TO_PRESENT else self._earlier
            await self._restart(step.node_id, release)

    async def _restart(self, node_id: int, release: Release) -> None:
        """A node that a fault has stopped meanwhile begins again with that release too."""
        self._cluster.releases[node_id] = release
        self._cluster.log.write(f"the operator starts {release.name} on node={node_id} ")
        await self._stop(node_id)
        self._start(node_id)
        if self._in_order:
            await self._until(lambda: self._is_ready(node_id) and self._all_in_sync(), STOP_S)
        elif self._random.random() < WAITS:
            await self._until(lambda: self._is_ready(node_id), READY_S)

    async def _stop(self, node_id: int) -> None:
        """A fault may end or replace the process first."""
        if not self._cluster.alive(node_id):
            return
        if not self._in_order and self._random.random() >= STOPS_IN_ORDER:
            self._cluster.kill(node_id, power_loss=False)
            return
        node, ended = self._cluster.nodes[node_id], trio.Event()

        async def stop() -> None:
            try:
                await node.shutdown()
            except OSError:  # of a disk
                pass
            ended.set()

        node.runtime.spawn(stop, "stop")

        def is_over() -> bool:
            return ended.is_set() or not self._runs(node_id, node)

        await self._until(is_over, STOP_S)
        if self._runs(node_id, node):
            self._cluster.kill(node_id, power_loss=False)

    def _runs(self, node_id: int, node: Node) -> bool:
        return self._cluster.nodes[node_id] is node and self._cluster.alive(node_id)

    def _start(self, node_id: int) -> None:
        if not self._cluster.alive(node_id):
            self._mend(node_id)
            self._cluster.start(node_id)

    def _is_ready(self, node_id: int) -> bool:
        return self._cluster.alive(node_id) and self._cluster.nodes[node_id].ready.is_set()

    def _all_in_sync(self) -> bool:
        return all(len(each.isr) == len(each.replicas) for each in self._cluster.all_partitions())

    async def _until(self, holds: Callable[[], bool], at_most_s: float) -> None:
        for _ in range(round(at_most_s / LOOK_S)):
            if holds():
                return
            await trio.sleep(LOOK_S)

    # for good

    async def _raise_levels(self) -> None:
        """All features but kraft.version, again and again until the cluster has them: a node that
        is away stops it.
        """
        while self.level < PRESENT.level:
            await self._ask_for_levels()
            self.level = max(
                [node.image.level for node in self._cluster.judged.values()], default=self.level
            )
            await trio.sleep(self._random.uniform(0.05, 0.3))

    async def _raise_early(self) -> None:
        if await self._ask_for_levels() is Code.NONE:
            self.wrong.append("features are raised while a node has the earlier release")

    async def _ask_for_levels(self) -> Code | None:
        """Return the answer's code. None: none came, and nothing will be done."""
        request = UPDATE_FEATURES.request
        updates = [
            request.feature_updates(feature=name, max_version_level=level)
            for name, level in raised_levels(self._earlier).items()
        ]
        row = request(timeout_ms=TIMEOUT_MS, feature_updates=updates)
        address = self._random.choice(self.client.bootstrap)
        try:
            answer = await self.client.ask(address, UPDATE_FEATURES, row)
        except NoAnswer:
            await trio.sleep(TIMEOUT_MS / 1000)
            return None
        code = Code(answer.error_code)
        if code not in PASSES:
            self.wrong.append(f"an upgrade of features: {code.name}: {answer.error_message}")
        return code

    async def _try_earlier(self, node_id: int) -> None:
        """The earlier release must refuse the node's data, and leave every file as it is."""
        cluster = self._cluster

        def has_raised() -> bool:
            node = cluster.judged.get(node_id)
            return node is not None and node.ready.is_set() and node.image.level == PRESENT.level

        await self._until(has_raised, READY_S)
        if not has_raised():
            return
        await self._stop(node_id)
        if cluster.alive(node_id):  # a fault has started it meanwhile
            return
        before = cluster.disk(node_id).content()
        cluster.releases[node_id] = self._earlier
        cluster.start(node_id)
        await self._until(lambda: node_id in cluster.refused, 5 * LOOK_S)
        refused = cluster.refused.get(node_id)
        if type(refused).__name__ != NewerFormat.__name__:
            self.wrong.append(f"n{node_id} of {self._earlier.name} takes raised data: {refused!r}")
        elif cluster.disk(node_id).content() != before:
            self.wrong.append(f"n{node_id} of {self._earlier.name} alters raised data")
        cluster.releases[node_id] = PRESENT
        self._start(node_id)


class UpgradeWork:
    settings: ClassVar[Mapping[str, str]] = {}
    topics: Sequence[tuple[str, int]] = ()

    def __init__(
        self, earlier: Release, mend: Callable[[int], None], seconds: float, *, in_order: bool
    ) -> None:
        self._seconds = seconds
        self._earlier = earlier
        self._mend = mend
        self._in_order = in_order
        self._operator: Operator | None = None

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client("operator")
        self._operator = Operator(
            client,
            cluster,
            self._earlier,
            chance,
            self._mend,
            self._seconds,
            in_order=self._in_order,
        )
        client.runtime.spawn(self._operator.run, "upgrade")

    @property
    def operator(self) -> Operator:
        assert self._operator is not None
        return self._operator

    @property
    def counts(self) -> Sequence[int]:
        """The path must come to its end when all is healed."""
        operator = self.operator
        return (max(0, operator.steps - len(operator.path)),)

    def end(self) -> None:
        self.operator.over = True

    @property
    def ended(self) -> bool:
        return self._operator is not None and self._operator.done

    @property
    def wrong(self) -> list[str]:
        return self._operator.wrong if self._operator is not None else []

    def check(self, cluster: Cluster) -> list[str]:
        """The levels are those that the operator has asked for: no node raises one by itself."""
        level = self.operator.level
        return [
            f"n{node_id} has raftka.version {node.image.level}, asked for was {level}"
            for node_id, node in cluster.judged.items()
            if node.image.level != level
        ]
