"""The level of this node's log, under Kafka's names: of the one logger there is, `root`. Knows no
request.
"""

from raftka.broker.context import BrokerContext, MetadataCache
from raftka.metadata.commands import DELETE, OPERATIONS, SET, ConfigResource
from raftka.metadata.configs.describe import LOGGER_SOURCE, ConfigRow
from raftka.metadata.configs.values import Type
from raftka.wire.errors import Code, KafkaError

ROOT = "root"
LEVELS = {
    "DEBUG": "debug",
    "ERROR": "error",
    "FATAL": "error",
    "INFO": "info",
    "TRACE": "debug",
    "WARN": "warning",
}
SHOWN = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}


def describe_loggers(context: BrokerContext, _: MetadataCache, name: str) -> list[ConfigRow]:
    """Raises KafkaError when another node is meant."""
    if not name:
        raise KafkaError(Code.INVALID_REQUEST, "Broker id must not be empty")
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(Code.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != context.node_id:
        raise KafkaError(
            Code.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.node_id} but received {name}",
        )
    return [
        ConfigRow(
            ROOT,
            SHOWN[context.events.level],
            LOGGER_SOURCE,
            False,
            False,
            (),
            Type.UNKNOWN,
            "",
        )
    ]


def set_levels(context: BrokerContext, resource: ConfigResource, *, validate_only: bool) -> None:
    """All or nothing. Raises KafkaError."""
    if not (resource.name.isascii() and resource.name.isdigit()):
        raise KafkaError(
            Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {resource.name}"
        )
    if int(resource.name) != context.node_id:
        raise KafkaError(
            Code.INVALID_REQUEST,
            f"Unexpected node id. Expected {context.node_id}, but received {resource.name}",
        )
    if len({name for name, _, _ in resource.changes}) < len(resource.changes):
        raise KafkaError(Code.INVALID_REQUEST, "Error due to duplicate config keys")
    levels = [_level(name, operation, value) for name, operation, value in resource.changes]
    if levels and not validate_only:
        context.events.level = levels[-1]


def _level(logger: str, operation: int, value: str | None) -> str:
    if operation not in (SET, DELETE):
        name = OPERATIONS[operation].upper() if 0 <= operation < len(OPERATIONS) else str(operation)
        raise KafkaError(
            Code.INVALID_REQUEST, f"{name} operation is not allowed for the BROKER_LOGGER resource"
        )
    if logger != ROOT:
        raise KafkaError(Code.INVALID_CONFIG, f"Logger {logger} does not exist!")
    if operation == DELETE:
        raise KafkaError(
            Code.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    if value is None:
        raise KafkaError(Code.INVALID_REQUEST, f"Null value not supported for : {logger}")
    if value not in LEVELS:
        wrong = (
            f"Cannot set the log level of {logger} to {value} as it is not a supported log level."
        )
        raise KafkaError(Code.INVALID_CONFIG, f"{wrong} Valid log levels are {', '.join(LEVELS)}")
    return LEVELS[value]
