"""Decisions on features: UpdateFeatures. raftka/versions.py has the levels."""

from collections.abc import Iterator

from raftka.metadata.commands import FeatureUpdate, UpdateFeatures
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.controller.partitions import MIN_ISR, records_of_feature
from raftka.metadata.records import FeatureLevelSet, Record
from raftka.versions import (
    ELR_LEVEL,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    RAFTKA_VERSION,
    SUPPORTED,
)
from raftka.wire.errors import Code, KafkaError

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "


def decide_update_features(draft: Draft, command: UpdateFeatures) -> Decision:
    """Set all of the levels or none. Raises INVALID_UPDATE_VERSION with Kafka's words."""
    image = draft.image
    records: list[Record] = []
    written = max(
        [each.level for each in command.updates if each.name == RAFTKA_VERSION],
        default=image.level,
    )
    for update in command.updates:
        level = image.features.get(update.name, 0)
        wrong = _find_fault(draft, update, level, written)
        if wrong is not None:
            raise KafkaError(Code.INVALID_UPDATE_VERSION, FAILED + wrong)
        if update.level != level:
            records += _records_of(draft, update)
    return [] if command.validate_only else records, None


def _records_of(draft: Draft, update: FeatureUpdate) -> list[Record]:
    image, environment = draft.image, draft.environment
    records: list[Record] = [FeatureLevelSet(update.name, update.level)]
    if update.name == ELR_VERSION and update.level:
        records += records_of_feature(image, environment.settings[MIN_ISR])
    elif update.name == ELR_VERSION:
        altered, _ = image.apply(draft.offset, records)
        records += environment.settle_partitions(altered)
    return records


def _find_fault(draft: Draft, update: FeatureUpdate, level: int, written: int) -> str | None:
    """`written`: the level of raftka.version when the command is done."""
    reason = _find_invalid(update, level, draft.environment.settings.node_id)
    if reason is None and update.name == ELR_VERSION and update.level and written < ELR_LEVEL:
        reason = (
            f"It needs {RAFTKA_VERSION} {ELR_LEVEL}, and the cluster has {written}: `raftka "
            "features upgrade` raises both."
        )
    if reason is None and update.level != level:
        reason = "; ".join(_find_unsupporting(draft, update.name, update.level)) or None
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    # an earlier release does not read what this level has allowed nodes to write
    if update.level < level and update.name in (METADATA_VERSION, RAFTKA_VERSION, KRAFT_VERSION):
        why = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
        if update.upgrade_type == UNSAFE_DOWNGRADE:
            why = "Unsafe metadata downgrade is not supported in this version."
        return f"Unsupported {update.name} downgrade from {level} to {update.level}. {why}"
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


def _find_unsupporting(draft: Draft, name: str, level: int) -> Iterator[str]:
    """Name each node whose release does not support the level: registered brokers, alive or not,
    and controllers. Kafka names the first.
    """
    image, environment = draft.image, draft.environment
    for broker in image.brokers.values():
        ranges = {feature: (low, high) for feature, low, high in broker.features}
        yield from _unsupported(f"Broker {broker.broker_id}", ranges.get(name, (0, 0)), level)
    for voter in environment.voters:
        if voter == environment.settings.node_id or voter in image.brokers:
            continue
        if voter not in environment.greeted:
            yield f"controller {voter} has not registered, and may not support this feature"
            continue
        known = environment.greeted[voter]
        ranges = {feature: (low, high) for feature, low, high in known}
        yield from _unsupported(f"Controller {voter}", ranges.get(name, (0, 0)), level)


def _unsupported(node: str, supported: tuple[int, int], level: int) -> Iterator[str]:
    low, high = supported
    if not low <= level <= high:
        yield (
            f"{node} only supports versions {low}-{high}"
            if high
            else f"{node} does not support this feature."
        )
