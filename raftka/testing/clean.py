"""Make a cluster as it was at its start, on the same nodes and ports: commands to the controller
for all that tests have left in the metadata. Called where the nodes run.

Groups, offsets and transactions lie in internal topics, and go with them; so do the states of
producers. Ids of producers go on, and so do metrics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar

import trio

from raftka.broker.node import Node
from raftka.metadata.commands import (
    DELETE,
    SET,
    AlterConfigs,
    Command,
    ConfigChange,
    ConfigResource,
    DeletedTopic,
    DeleteTopics,
    DoomedTopic,
    FeatureUpdate,
    UpdateFeatures,
)
from raftka.metadata.image import TOPIC, MetadataImage, QuotaEntity
from raftka.metadata.security_commands import (
    AlterClientQuotas,
    AlterScramCredentials,
    CreateAcls,
    DeleteAcls,
    ExpireToken,
    QuotaAlteration,
    QuotaOp,
    ScramDeletion,
    ScramUpsertion,
)
from raftka.security.acls import AclFilter
from raftka.security.scram import ScramCredential
from raftka.wire.errors import Code, KafkaError

ROUNDS = 3  # a client that is still there may have made a topic again
SETTLE_S = 2.0  # for a round
PAUSE_S = 0.0005
OF_COMMAND = 100  # topics, or changes
UPGRADE, UNSAFE_DOWNGRADE = 1, 3
K = TypeVar("K")
V = TypeVar("V")

# what a command finds gone already: a test's client was quicker
PASSING = frozenset(
    {Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.RESOURCE_NOT_FOUND}
)


async def restore(nodes: Sequence[Node], start: MetadataImage) -> None:
    """Undo all that differs from the image of the start, on all of these nodes. Raises TimeoutError
    when clients go on to change the cluster, and KafkaError.
    """
    for _ in range(ROUNDS):
        image = max((node.image for node in nodes), key=lambda image: image.offset)
        failures: list[KafkaError] = []
        async with trio.open_nursery() as nursery:
            for command in commands_to(start, image):
                nursery.start_soon(_carry_out, nodes[0], command, failures)
        if failures:
            raise failures[0]
        for node in nodes:
            node.events.level = node.settings["raftka.log.level"]
        with trio.move_on_after(SETTLE_S):
            while not all(_is_restored(node, start) for node in nodes):  # noqa: ASYNC110
                await trio.sleep(PAUSE_S)
            return
    left = [repr(each) for node in nodes for each in commands_to(start, node.image)]
    raise TimeoutError(
        f"the cluster is not clean after {ROUNDS * SETTLE_S:g} s; clients of a test may still be "
        f"at work: {'; '.join(dict.fromkeys(left)) or 'logs are being closed'}"
    )


def _is_restored(node: Node, start: MetadataImage) -> bool:
    return (
        next(commands_to(start, node.image), None) is None
        and not node.replicas.partitions
        and not any(runtime.partitions for runtime in node.coordinators)
    )


async def _carry_out(node: Node, command: Command, failures: list[KafkaError]) -> None:
    """Send the command; add the errors that its reply has, or that it is refused with."""
    try:
        reply = await node.controller.ask(command)
    except KafkaError as error:
        if error.code is not Code.DELEGATION_TOKEN_NOT_FOUND:
            failures.append(error)
        return
    for result in reply if isinstance(command, DeleteTopics | AlterConfigs) else ():
        if (code := Code(result.error)) not in PASSING:
            name = f"{result.name}: " if isinstance(result, DeletedTopic) else ""
            failures.append(KafkaError(code, f"{name}{result.message or 'cannot be removed'}"))


def commands_to(start: MetadataImage, image: MetadataImage) -> Iterator[Command]:
    """Yield the commands that lead from an image to that of the start."""
    for topics in _portions(image.topic_ids):
        yield DeleteTopics(tuple([DoomedTopic(name) for name in topics]))
    yield from map(AlterConfigs, _portions(_configs(start.configs, image.configs)))
    yield from map(AlterClientQuotas, _portions(_quotas(start.quotas, image.quotas)))
    yield from (
        DeleteAcls(tuple([AclFilter(*acl) for acl in acls]))
        for acls in _portions(image.acls.keys() - start.acls.keys())
    )
    yield from map(CreateAcls, _portions(start.acls.keys() - image.acls.keys()))
    yield from _credentials(start, image)
    for token_id, token in image.tokens.items():
        if token_id not in start.tokens:
            yield ExpireToken(token.hmac, token.owner, -1)
    if updates := tuple(_features(start.features, image.features)):
        yield UpdateFeatures(updates)


def _configs(
    start: Mapping[tuple[int, str], Mapping[str, str]],
    now: Mapping[tuple[int, str], Mapping[str, str]],
) -> Iterator[ConfigResource]:
    """Topics have no place here: their settings go with them."""
    for resource in dict.fromkeys(chain(now, start)):
        changes = [
            ConfigChange(name, DELETE if wanted is None else SET, wanted)
            for name, wanted in _differences(start.get(resource, {}), now.get(resource, {}))
        ]
        if changes and resource[0] != TOPIC:
            yield ConfigResource(*resource, tuple(changes))


def _quotas(
    start: Mapping[QuotaEntity, Mapping[str, float]], now: Mapping[QuotaEntity, Mapping[str, float]]
) -> Iterator[QuotaAlteration]:
    for entity in dict.fromkeys(chain(now, start)):
        ops = [
            QuotaOp(key, wanted or 0.0, wanted is None)
            for key, wanted in _differences(start.get(entity, {}), now.get(entity, {}))
        ]
        if ops:
            yield QuotaAlteration(entity, tuple(ops))


def _credentials(start: MetadataImage, image: MetadataImage) -> Iterator[AlterScramCredentials]:
    """Users of SCRAM. A command may have a user once, so each mechanism has commands of its own."""
    by_mechanism: dict[int, list[tuple[str, ScramCredential | None]]] = {}
    for (mechanism, user), wanted in _differences(start.scram, image.scram):
        by_mechanism.setdefault(mechanism, []).append((user, wanted))
    for number, changes in by_mechanism.items():
        for portion in _portions(changes):
            deletions = [ScramDeletion(user, number) for user, wanted in portion if wanted is None]
            upsertions = [
                ScramUpsertion(user, number, *wanted)
                for user, wanted in portion
                if wanted is not None
            ]
            yield AlterScramCredentials(tuple(deletions), tuple(upsertions))


def _features(start: Mapping[str, int], now: Mapping[str, int]) -> Iterable[FeatureUpdate]:
    for name, wanted in _differences(start, now):
        level = wanted or 0
        is_lower = level < now.get(name, 0)
        yield FeatureUpdate(name, level, UNSAFE_DOWNGRADE if is_lower else UPGRADE)


def _differences(start: Mapping[K, V], now: Mapping[K, V]) -> Iterator[tuple[K, V | None]]:
    """Yield the keys whose values differ, with the value of the start; None: it had none."""
    for key in dict.fromkeys(chain(now, start)):
        if (value := start.get(key)) != now.get(key):
            yield key, value


def _portions(items: Iterable[V]) -> Iterator[tuple[V, ...]]:
    """Yield the items in tuples of at most OF_COMMAND."""
    rest = iter(items)
    while portion := tuple(islice(rest, OF_COMMAND)):
        yield portion
