"""Parse the values that tools of ZooKeeper's time write into Kafka's znodes. Anything unexpected
raises BAD_ARGUMENTS. Decides nothing.
"""

import json
import re
from collections.abc import Mapping

from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.tree.projection import number_of

MOST = (1 << 31) - 1  # of what Kafka has 32 bits for
Assignment = dict[int, tuple[int, ...]]


def bad(message: str) -> ZooKeeperError:
    return ZooKeeperError(Err.BAD_ARGUMENTS, message)


def fields_of(data: bytes | None) -> Mapping[str, object]:
    """A JSON object."""
    try:
        found = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise bad("no JSON") from error
    if not isinstance(found, dict):
        raise bad("no JSON object")
    return found


def assignment_of(data: bytes | None) -> Assignment:
    """Parse a topic's own znode, of any version: replicas of each partition, from 0 on without a
    gap. The controller assigns ids and moves.
    """
    partitions = fields_of(data).get("partitions")
    if not isinstance(partitions, dict) or not partitions:
        raise bad("no partitions")
    found = {_number(name): _replicas(replicas) for name, replicas in partitions.items()}
    if sorted(found) != list(range(len(found))):
        raise bad("partitions are not numbered from 0 on")
    return found


def configs_of(data: bytes | None) -> dict[str, str]:
    configs = fields_of(data).get("config")
    if not isinstance(configs, dict) or not all(
        isinstance(value, str) for value in configs.values()
    ):
        raise bad("no settings, or values that are no strings")
    return configs


def partitions_of(
    data: bytes | None, *, with_replicas: bool
) -> dict[str, dict[int, tuple[int, ...]]]:
    """By topic and partition: the replicas it is to have, or none if none are meant. Of a partition
    that is named twice the last one counts.
    """
    rows = fields_of(data).get("partitions")
    if not isinstance(rows, list):
        raise bad("no partitions")
    found: dict[str, dict[int, tuple[int, ...]]] = {}
    for row in rows:
        if (
            not isinstance(row, dict)
            or not isinstance(topic := row.get("topic"), str)
            or not _is_number(row.get("partition"))
        ):
            raise bad("a partition without its topic or number")
        if with_replicas and any(each != "any" for each in _list(row.get("log_dirs", []))):
            raise bad(
                "log_dirs: a broker's log directory is chosen with kafka-reassign-partitions "
                "--bootstrap-server"
            )
        found.setdefault(topic, {})[row["partition"]] = (
            _replicas(row.get("replicas")) if with_replicas else ()
        )
    return found


def block_of(data: bytes | None) -> tuple[int, int]:
    """First and last of a block of producer ids."""
    block = fields_of(data)
    return _id(block.get("block_start")), _id(block.get("block_end"))


def _id(given: object) -> int:
    """As a string: JSON's numbers have no 64 bits everywhere."""
    if not isinstance(given, str) or not re.fullmatch("[0-9]{1,19}", given):
        raise bad("no block of producer ids")
    return int(given)


def _number(name: str) -> int:
    number = number_of(name)
    if number is None:
        raise bad(f"{name!r:.40} is no partition")
    return number


def _replicas(given: object) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(map(_is_number, given)):
        raise bad("replicas are numbers of brokers")
    return tuple(given)


def _list(given: object) -> list[object]:
    if not isinstance(given, list):
        raise bad("a list was due")
    return given


def _is_number(given: object) -> bool:
    return type(given) is int and 0 <= given <= MOST
