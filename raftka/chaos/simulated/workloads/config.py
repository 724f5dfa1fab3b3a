"""Settings that are altered under load: of a topic, of one broker, of all brokers. What was
acknowledged holds on every node.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

import trio

from raftka.chaos.simulated.clients.client import Client, NoAnswer
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.image import BROKER, GROUP, TOPIC
from raftka.wire.errors import Code
from raftka.wire.messages.configs import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from raftka.wire.schema import AnyApi, Row

LOADED = "trucks_gps"  # the topic that the life's own producers write to
PAUSE_S = (0.02, 0.4)
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC: Mapping[str, Sequence[str]] = {
    "index.interval.bytes": ("64", "400", "4096"),
    "flush.messages": ("1", "100"),
    "flush.ms": ("50", "100000"),
    "segment.ms": ("700", "100000"),
    "segment.jitter.ms": ("0", "500"),
    "segment.index.bytes": ("60", "10485760"),
    "internal.segment.bytes": ("2000", "9000", "1000000"),
    "compression.type": ("producer", "gzip", "lz4", "zstd", "snappy", "uncompressed"),
    "max.message.bytes": ("100000", "1048588"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "preallocate": ("true", "false"),
    "file.delete.delay.ms": ("0", "1000"),
    "retention.bytes": ("100000000", "-1"),
    "follower.replication.throttled.replicas": ("*", ""),
    "min.insync.replicas": ("1", "2"),
}
OF_GROUP: Mapping[str, Sequence[str]] = {
    "consumer.session.timeout.ms": ("45000", "50000"),
    "consumer.heartbeat.interval.ms": ("5000", "6000"),
    "share.auto.offset.reset": ("latest", "earliest"),
}
# of the topic: appended to and subtracted from
LIST, PARTS = "leader.replication.throttled.replicas", ("0:1", "1:2")
FLEET = "fleet"  # a group without members
OF_BROKERS: Mapping[str, Sequence[str]] = {
    "log.index.interval.bytes": ("100", "4096"),
    "log.roll.ms": ("900", "1000000"),
    "log.segment.delete.delay.ms": ("0", "1000"),
    "log.cleaner.threads": ("1", "2"),
    "log.cleaner.backoff.ms": ("100", "15000"),
    "num.replica.fetchers": ("1", "2", "3"),
    "num.io.threads": ("4", "8"),
    "num.network.threads": ("2", "3"),
    "background.threads": ("6", "10"),
    "message.max.bytes": ("200000", "1048588"),
    "max.connections": ("1000", "2147483647"),
    "follower.replication.throttled.rate": ("20000", "9223372036854775807"),
    "leader.replication.throttled.rate": ("20000", "9223372036854775807"),
    "replica.alter.log.dirs.io.max.bytes.per.second": ("20000", "9223372036854775807"),
}
LEFT_ALONE = (
    "ssl.",
    "sasl.",
    "listener",
    "principal.",
    "metric.",
    "config.",
    "cordoned",
    "unclean",
    "remote.",
    "min.insync",
    "log.retention",
)
Resource = tuple[int, str]


def _unchanged() -> dict[str, Sequence[str]]:
    """Every other dynamic setting: to its default, which is a change for the metadata and none for
    the broker.
    """
    names = [
        name
        for name, each in BROKER_SETTINGS.items()
        if each.dynamic and each.default not in (None, "") and not name.startswith(LEFT_ALONE)
    ]
    return {
        name: (str(BROKER_SETTINGS[name].default),)
        for name in sorted(names)
        if name not in OF_BROKERS
    }


class Alterer:
    def __init__(self, client: Client, brokers: Sequence[int]) -> None:
        self.client = client
        self.over = self.done = False
        self.wrong: list[str] = []
        self.acknowledged = 0
        # values that it may have now; None: none of its own
        self.allowed: dict[tuple[Resource, str], set[str | None]] = defaultdict(lambda: {None})
        # asked for, without an answer: it may still come
        self._doubtful: dict[tuple[Resource, str], set[str | None]] = defaultdict(set)
        self._random = client.runtime.random("alterer")
        self._brokers = brokers
        self._others = _unchanged()

    async def run(self) -> None:
        while not self.over:
            random = self._random
            if random.random() < 0.1:
                await self._replace((GROUP, FLEET), OF_GROUP)
            elif random.random() < 0.1:
                await self._change_list((TOPIC, LOADED), LIST, random.choice(PARTS))
            else:
                await self._alter(*self._choose())
            await trio.sleep(random.uniform(*PAUSE_S))
        self.done = True

    async def _replace(self, resource: Resource, known: Mapping[str, Sequence[str]]) -> None:
        """AlterConfigs: what is not named goes back to its default."""
        request, random = ALTER_CONFIGS.request, self._random
        values = {
            name: None if random.random() < 0.4 else random.choice(known[name]) for name in known
        }
        configs = [
            request.resources.configs(name=name, value=value)
            for name, value in values.items()
            if value is not None
        ]
        row = request(
            resources=[
                request.resources(
                    resource_type=resource[0], resource_name=resource[1], configs=configs
                )
            ]
        )
        await self._send(ALTER_CONFIGS, row, resource, values)

    async def _change_list(self, resource: Resource, name: str, part: str) -> None:
        """Change a list whose present value is known: else the result is unknown."""
        allowed = self.allowed[resource, name]
        if len(allowed) > 1 or self._doubtful[resource, name]:
            await self._alter(resource, {name: part})
            return
        parts = [each for each in (next(iter(allowed)) or "").split(",") if each]
        operation = self._random.choice((APPEND, SUBTRACT))
        after = (
            [each for each in parts if each != part]
            if operation == SUBTRACT
            else [*parts, *([part] if part not in parts else [])]
        )
        request = INCREMENTAL_ALTER_CONFIGS.request
        config = request.resources.configs(name=name, config_operation=operation, value=part)
        row = request(
            resources=[
                request.resources(
                    resource_type=resource[0], resource_name=resource[1], configs=[config]
                )
            ]
        )
        await self._send(INCREMENTAL_ALTER_CONFIGS, row, resource, {name: ",".join(after)})

    def _choose(self) -> tuple[Resource, dict[str, str | None]]:
        random = self._random
        if random.random() < 0.6:
            resource, known = (TOPIC, LOADED), OF_TOPIC
        else:
            resource = (BROKER, random.choice(("", *map(str, self._brokers))))
            known = OF_BROKERS if random.random() < 0.7 else self._others
        names = random.sample(sorted(known), random.randint(1, 3))
        return resource, {
            name: None if random.random() < 0.25 else random.choice(known[name]) for name in names
        }

    async def _alter(self, resource: Resource, values: Mapping[str, str | None]) -> None:
        request = INCREMENTAL_ALTER_CONFIGS.request
        configs = [
            request.resources.configs(
                name=name, config_operation=DELETE if value is None else SET, value=value
            )
            for name, value in values.items()
        ]
        row = request(
            resources=[
                request.resources(
                    resource_type=resource[0], resource_name=resource[1], configs=configs
                )
            ]
        )
        await self._send(INCREMENTAL_ALTER_CONFIGS, row, resource, values)

    async def _send(
        self, api: AnyApi, row: Row, resource: Resource, values: Mapping[str, str | None]
    ) -> None:
        """`values`: what stands there when it is done."""
        for name, value in values.items():
            self._doubtful[resource, name].add(value)
            self.allowed[resource, name].add(value)
        where = (
            (f"n{resource[1]}", CLIENT_PORT)
            if resource[0] == BROKER and resource[1]
            else self._random.choice(self.client.bootstrap)
        )
        try:
            answer = await self.client.ask(where, api, row)
        except NoAnswer:  # it may have happened
            return
        code = Code(answer.responses[0].error_code)
        if code is Code.NONE:
            self.acknowledged += 1
            for name, value in values.items():
                self._doubtful[resource, name].discard(value)
                self.allowed[resource, name] = {value} | self._doubtful[resource, name]
        elif code in (Code.INVALID_CONFIG, Code.INVALID_REQUEST, Code.UNKNOWN_SERVER_ERROR):
            self.wrong.append(
                f"{dict(values)} of {resource} is refused: {code.name} "
                f"{answer.responses[0].error_message}"
            )


class ConfigWork:
    settings: ClassVar[Mapping[str, str]] = {}
    topics: Sequence[tuple[str, int]] = ()

    def __init__(self) -> None:
        self.alterer: Alterer

    def begin(self, cluster: Cluster, chance: Random) -> None:
        brokers = [node_id for node_id in cluster.nodes if node_id not in cluster.controllers]
        self.alterer = Alterer(cluster.client("alterer"), brokers)
        made_with = cluster.newest.image.config(TOPIC, LOADED)
        self.alterer.allowed |= {
            ((TOPIC, LOADED), name): {value} for name, value in made_with.items()
        }
        self.alterer.client.runtime.spawn(self.alterer.run, "alterer")

    @property
    def wrong(self) -> list[str]:
        return self.alterer.wrong

    @property
    def counts(self) -> Sequence[int]:
        return [self.alterer.acknowledged]

    def end(self) -> None:
        self.alterer.over = True

    @property
    def ended(self) -> bool:
        return self.alterer.done

    def check(self, cluster: Cluster) -> list[str]:
        found = []
        for node_id, node in sorted(cluster.living.items()):
            for (resource, name), allowed in self.alterer.allowed.items():
                value = node.image.config(*resource).get(name)
                if value not in allowed:
                    found.append(
                        f"n{node_id}: {name} of {resource} is {value}, acknowledged is one of "
                        f"{allowed}"
                    )
            if node.metadata.settings != node.settings.with_dynamic(node.image):
                found.append(f"n{node_id} goes by other settings than if it began anew")
            for key, partition in sorted(node.replicas.partitions.items()):
                wanted = node.metadata.topic_configs.of(node.image, key[0])
                if partition.log.config != wanted.log:
                    found.append(
                        f"n{node_id}: the log of {key} goes by {partition.log.config}, the "
                        f"settings are {wanted.log}"
                    )
                if partition.leader is not None and partition.leader.min_isr != min(
                    wanted.min_insync_replicas, len(partition.image.replicas)
                ):
                    found.append(
                        f"n{node_id}: {key} is led with min.insync.replicas "
                        f"{partition.leader.min_isr}, it is {wanted.min_insync_replicas}"
                    )
        return found[:5] + self._described(cluster)

    def _described(self, cluster: Cluster) -> list[str]:
        """As clients are told: of a topic all say the same, of a broker the broker itself."""
        found, client, request = [], cluster.client("describer"), DESCRIBE_CONFIGS.request
        for node_id in sorted(cluster.living.keys() - cluster.controllers):
            resources = [(TOPIC, LOADED), (BROKER, str(node_id))]
            row = request(
                resources=[
                    request.resources(
                        resource_type=kind, resource_name=name, configuration_keys=None
                    )
                    for kind, name in resources
                ]
            )
            answer = cluster.do(
                client,
                lambda row=row, node_id=node_id: client.ask(  # type: ignore[misc]
                    (f"n{node_id}", CLIENT_PORT), DESCRIBE_CONFIGS, row
                ),
            )
            for resource, result in zip(resources, answer.results, strict=True):
                told = {each.name: each.value for each in result.configs}
                for (other, name), allowed in self.alterer.allowed.items():
                    if (
                        other == resource
                        and None not in allowed
                        and name in told
                        and told[name] not in allowed
                    ):
                        found.append(
                            f"n{node_id} describes {name} of {resource} as {told[name]}, "
                            f"acknowledged is one of {allowed}"
                        )
        return found[:5]
