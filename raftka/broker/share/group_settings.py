"""The settings of one share group, as the leaders of its partitions use them: its own, within the
present bounds of the broker, or else the broker's. Reads them each time.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from raftka.broker.context import MetadataCache
from raftka.metadata.configs.groups import GROUP_SETTINGS
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import GROUP

DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
SECONDS = (86_400, 3_600, 60, 1)


class Reset(NamedTuple):
    """The start of a group that has no offset; neither of both: the end."""

    is_earliest: bool
    age_ms: int | None  # at the first record that is not older


class GroupSettings(NamedTuple):
    lock_ms: int
    count_limit: int
    max_locks: int
    renews: bool
    reads_committed: bool
    reset: Reset


def lock_ms_of_group(metadata: MetadataCache, group_id: str) -> int:
    config = metadata.image.config(GROUP, group_id)
    return _bounded("record.lock.duration.ms", metadata.settings, config)


def settings_of_group(metadata: MetadataCache, group_id: str) -> GroupSettings:
    settings, config = metadata.settings, metadata.image.config(GROUP, group_id)
    return GroupSettings(
        lock_ms_of_group(metadata, group_id),
        _bounded("delivery.count.limit", settings, config),
        _bounded("partition.max.record.locks", settings, config),
        bool(_own("share.renew.acknowledge.enable", config)),
        _own("share.isolation.level", config) == "read_committed",
        reset_of(str(_own("share.auto.offset.reset", config))),
    )


def _own(name: str, config: Mapping[str, str]) -> object:
    setting = GROUP_SETTINGS[name]
    return setting.parse(config.get(name, setting.default or ""))


def _bounded(name: str, settings: NodeSettings, config: Mapping[str, str]) -> int:
    own = config.get(f"share.{name}")
    if own is None:
        found: int = settings[f"group.share.{name}"]
        return found
    least, most = settings[f"group.share.min.{name}"], settings[f"group.share.max.{name}"]
    return int(min(max(GROUP_SETTINGS[f"share.{name}"].parse(own), least), most))


def reset_of(value: str) -> Reset:
    """Read share.auto.offset.reset: earliest, latest or by_duration:<PnDTnHnMn.nS>."""
    kind, _, duration = value.partition(":")
    match = DURATION.fullmatch(duration) if kind == "by_duration" else None
    if match is None:
        return Reset(kind == "earliest", None)
    parts = zip(match.groups(), SECONDS, strict=True)
    return Reset(False, int(sum(float(number or 0) * size for number, size in parts) * 1000))
