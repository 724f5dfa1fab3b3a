"""Decisions on features: UpdateFeatures. The features are metadata.version, group.version and
transaction.version.
"""

from raftka.metadata.commands import FeatureUpdate, UpdateFeatures
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.records import FeatureLevelSet, Record
from raftka.wire.errors import Code, KafkaError

METADATA_VERSION = "metadata.version"
LOWEST_LEVEL, LEVEL = 7, 30  # as Kafka 4.3 has them
GROUP_VERSION = "group.version"  # 1: consumer groups of the new protocol (KIP-848)
# 2: clients leave it to brokers to add partitions, and each end raises the epoch (KIP-890)
TRANSACTION_VERSION = "transaction.version"
SUPPORTED = {
    METADATA_VERSION: (LOWEST_LEVEL, LEVEL),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
FORMED_WITH = {METADATA_VERSION: LEVEL, GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
ABSENT = {  # with their highest levels in Kafka 4.3; an upgrade of the whole release names them
    "eligible.leader.replicas.version": 1,
    "kraft.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "


def decide_update_features(draft: Draft, command: UpdateFeatures) -> Decision:
    """Set all of the levels or none. Raises INVALID_UPDATE_VERSION with Kafka's words.

    `kafka-features upgrade --release-version` names all that its release has beside
    metadata.version: those that are not here stay as they are. A feature that is named without
    metadata.version must be here.
    """
    image, node_id = draft.image, draft.environment.settings.node_id
    records: list[Record] = []
    release = any(update.name == METADATA_VERSION for update in command.updates)
    for update in command.updates:
        if (
            release
            and update.upgrade_type == UPGRADE
            and 0 < update.level <= ABSENT.get(update.name, 0)
        ):
            continue
        level = image.features.get(update.name, 0)
        wrong = _find_fault(update, level, node_id)
        if wrong is not None:
            raise KafkaError(Code.INVALID_UPDATE_VERSION, FAILED + wrong)
        if update.level != level:
            records.append(FeatureLevelSet(update.name, update.level))
    return [] if command.validate_only else records, None


def _find_fault(update: FeatureUpdate, level: int, node_id: int) -> str | None:
    reason = _find_invalid(update, level, node_id)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    # no test shows yet that a lower level reads all records of a higher one
    if update.level < level and update.name == METADATA_VERSION:
        why = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
        if update.upgrade_type == UNSAFE_DOWNGRADE:
            why = "Unsafe metadata downgrade is not supported in this version."
        return f"Unsupported metadata.version downgrade from {level} to {update.level}. {why}"
    return None


def _find_invalid(update: FeatureUpdate, level: int, node_id: int) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if update.name not in SUPPORTED:
        return f"Local controller {node_id} does not support this feature."
    low, high = SUPPORTED[update.name]
    if not low <= update.level <= high:
        return f"Local controller {node_id} only supports versions {low}-{high}"
    if update.level < level and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > level and update.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None
