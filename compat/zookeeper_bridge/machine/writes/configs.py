"""/config: settings of topics and brokers, replaced as a whole and at once; settings written for
topics that do not exist yet; and announcements.

The metadata hold the settings. The tree has a small znode beside each entity that was ever changed,
with its version and time. A znode with data holds the settings that a client wrote for a topic that
does not exist yet.
"""

import json
from collections.abc import Iterable, Sequence

from raftka.limits import Limit
from raftka.metadata.commands import SET, AlterConfigs, ConfigChange, ConfigResource
from raftka.metadata.configs.settings import check_topic_configs
from raftka.metadata.configs.values import SettingError
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.metadata.image import BROKER, TOPIC, MetadataImage
from raftka.metadata.records import ConfigSet, Record, TopicCreated, TopicDeleted
from raftka.wire.errors import KafkaError
from zookeeper_bridge.limits import ANNOUNCEMENTS
from zookeeper_bridge.machine.operations import Caller, next_version, remove
from zookeeper_bridge.machine.writes.controls import refused
from zookeeper_bridge.machine.writes.parse import bad, configs_of
from zookeeper_bridge.machine.writes.write_request import Written, put
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.projection import entity_name, resource_of
from zookeeper_bridge.tree.store import NodeKind, Znode
from zookeeper_bridge.tree.tree import Layer

CHANGES = "/config/changes"
FOLDERS = {TOPIC: "topics", BROKER: "brokers"}
Entity = tuple[int, str]  # resource type and name


def keep_for_later(written: Written) -> None:
    """Settings of a topic that is not there yet: the tools write them first."""
    try:
        check_topic_name(written.name)
        check_topic_configs(configs_of(written.data))
    except KafkaError as error:
        raise refused(error.code, error.message) from error
    except SettingError as error:
        raise bad(str(error)) from error
    put(written.layer, written.path, written.data, written.caller.zxid, written.caller.wall_ms)


def replace_topics(written: Written) -> None:
    if written.name in written.caller.controls.draft.image.topic_ids:
        _replace(written, TOPIC)
        return
    assert written.node is not None
    configs = configs_of(written.data)
    try:
        check_topic_configs(configs)
    except SettingError as error:
        raise bad(str(error)) from error
    version = next_version(written.node.version)
    after = written.node._replace(
        data=written.data, version=version, mzxid=written.caller.zxid, mtime=written.caller.wall_ms
    )
    written.layer.set_node(written.path, after)


def remove_config(written: Written) -> None:
    """Only before there is a topic: afterwards it goes with the topic."""
    if written.name in written.caller.controls.draft.image.topic_ids:
        raise ZooKeeperError(Err.NO_AUTH)
    remove(written.layer, written.path, written.caller.zxid)


def create_brokers(written: Written) -> None:
    acl.check(acl.PRIVATE, acl.CREATE, written.caller.identities)
    _replace(written, BROKER)


def replace_brokers(written: Written) -> None:
    acl.check(acl.PRIVATE, acl.WRITE, written.caller.identities)
    _replace(written, BROKER)


def clear_brokers(written: Written) -> None:
    acl.check(acl.PRIVATE, acl.DELETE, written.caller.identities)
    _alter(written, BROKER, {})
    if written.layer.node(written.path) is not None:
        remove(written.layer, written.path, written.caller.zxid)


def _replace(written: Written, resource_type: int) -> None:
    """All settings of an entity: those that are not named go back to their defaults. A write that
    changes none counts as one.
    """
    before = written.layer.node(written.path)
    _alter(written, resource_type, configs_of(written.data))
    if written.layer.node(written.path) is before:
        _count(
            written.layer,
            written.path,
            written.caller.zxid,
            written.caller.wall_ms,
            written.caller.controls.draft.image,
        )


def _alter(written: Written, resource_type: int, configs: dict[str, str]) -> None:
    caller = written.caller
    changes = tuple(ConfigChange(name, SET, value) for name, value in configs.items())
    resource = ConfigResource(resource_type, resource_of(written.name), changes)
    known = len(caller.controls.draft.records)
    caller.controls.decide(
        AlterConfigs((resource,), replace_all=True), lambda reply: [each.error for each in reply]
    )
    for limit in announce(
        written.layer,
        caller.controls.draft.records[known:],
        caller.controls.draft.image,
        caller.zxid,
        caller.wall_ms,
    ):
        caller.hit(limit)


def adopted(layer: Layer, topic: str, caller: Caller) -> dict[str, str]:
    """Return the settings that were written for a topic before its creation; from now on the
    metadata have them.
    """
    path = f"/config/topics/{topic}"
    kept = layer.node(path)
    if kept is None or kept.data is None:
        return {}
    layer.set_node(path, kept._replace(data=None))
    return configs_of(kept.data)


def topic_gone(layer: Layer, topic: str, zxid: int) -> None:
    path = f"/config/topics/{topic}"
    if layer.node(path) is not None:
        remove(layer, path, zxid)


def beside(
    layer: Layer, records: Sequence[Record], image: MetadataImage, zxid: int, wall_ms: int
) -> list[Limit]:
    """Change the tree along with records that the controller has decided for others. `image`: as it
    was before them. As `announce`.
    """
    created = {
        record.topic_id: record.name for record in records if isinstance(record, TopicCreated)
    }
    for record in records:
        match record:
            case TopicCreated(name):
                # the request that creates it says what its settings are
                topic_gone(layer, name, zxid)
            case TopicDeleted(topic_id):
                topic = image.topics.get(topic_id)
                topic_gone(
                    layer, topic.name if topic is not None else created.get(topic_id, ""), zxid
                )
    born = set(created.values())
    changed = [
        record
        for record in records
        if isinstance(record, ConfigSet)
        and not (record.resource_type == TOPIC and record.resource in born)
    ]
    return announce(layer, changed, image, zxid, wall_ms)


def announce(
    layer: Layer, records: Iterable[Record], image: MetadataImage, zxid: int, wall_ms: int
) -> list[Limit]:
    """Move versions on and announce changed settings in /config/changes, as far as there is room;
    return the limits that were reached.
    """
    entities = dict.fromkeys(
        (each.resource_type, each.resource)
        for each in records
        if isinstance(each, ConfigSet) and each.resource_type in FOLDERS
    )
    hit: list[Limit] = [ANNOUNCEMENTS] if len(entities) > ANNOUNCEMENTS.value else []
    for number, (resource_type, resource) in enumerate(entities):
        entity = f"{FOLDERS[resource_type]}/{entity_name(resource)}"
        _count(layer, f"/config/{entity}", zxid, wall_ms, image)
        if (
            number < ANNOUNCEMENTS.value
            and (full := _announced(layer, entity, zxid, wall_ms)) is not None
            and full not in hit
        ):
            hit.append(full)
    return hit


def _announced(layer: Layer, entity: str, zxid: int, wall_ms: int) -> Limit | None:
    """Return the limit that kept the announcement out: a full tree does not keep clients from
    changing settings.
    """
    family = layer.family(CHANGES)
    text = json.dumps({"version": 2, "entity_path": entity}, separators=(",", ":"))
    try:
        put(layer, f"{CHANGES}/config_change_{family.creates:010d}", text.encode(), zxid, wall_ms)
    except ZooKeeperError as error:
        if error.limit is None:
            raise
        return error.limit
    return None


def _count(layer: Layer, path: str, zxid: int, wall_ms: int, image: MetadataImage) -> None:
    """One more version."""
    known = layer.node(path)
    if known is None:
        kind, _, name = path.removeprefix("/config/").partition("/")
        topic = image.topic_named(resource_of(name)) if kind == "topics" else None
        created = topic.created_at if topic is not None else zxid
        known = Znode(
            created,
            created,
            0 if topic is not None else wall_ms,
            0,
            0 if topic is not None else -1,
            0,
            0,
            0,
            NodeKind.PERSISTENT,
            acl.OPEN,
            None,
        )
    layer.set_node(
        path, known._replace(version=next_version(known.version), mzxid=zxid, mtime=wall_ms)
    )
