"""Settings of topics, brokers, all brokers and whatever else a Kafka keeps settings for: described
with their sources, and changed. Knows no setting by name.
"""

from collections.abc import Mapping, Sequence

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import Unsupported
from raftka.json_values import JsonObject
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
)
from raftka.wire.schema import Api, Req, Resp

Changes = Mapping[str, tuple[str, str | None]]  # by name: operation and value
Altered = Sequence[IncrementalAlterConfigsResourceResponse | AlterConfigsResourceResponse]
ALL_BROKERS = ""
OF_ONE_BROKER = ("broker", "broker-logger")
TYPES = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
OPERATIONS = {"SET": 0, "DELETE": 1, "APPEND": 2, "SUBTRACT": 3}
OF_ALL_BROKERS = 3  # a source
SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "file",
    5: "default",
    6: "log level",
    7: "client metrics",
    8: "group",
}
# the source of a value that was set for the resource itself
GIVEN = {"topic": 1, "broker": 2, "broker-logger": 6, "client-metrics": 7, "group": 8}


def describe_settings(
    client: Client, kind: str, name: str, *, documentation: bool = False
) -> DescribeConfigsResult:
    """Ask for all settings of a thing, their synonyms and, if wanted, their texts. The answer may
    have an error. `name`: ALL_BROKERS, or of the thing. Raises KafkaError for a broker that is not
    there.
    """
    request = settings_request(kind, name, documentation=documentation)
    return _ask(client, kind, name, DESCRIBE_CONFIGS, request).results[0]


def change_settings(
    client: Client, kind: str, name: str, changes: Changes, *, validate_only: bool = False
) -> Altered:
    """Change settings of a thing, or only let the cluster judge the changes. The answers may have
    errors. Raises as `describe_settings` does.
    """
    try:
        request = _incremental(kind, name, changes, validate_only)
        return _ask(client, kind, name, INCREMENTAL_ALTER_CONFIGS, request).responses
    except Unsupported:
        whole = _whole(client, kind, name, changes, validate_only)
        return _ask(client, kind, name, ALTER_CONFIGS, whole).responses


def settings_request(
    kind: str, name: str, *, documentation: bool = False
) -> DescribeConfigsRequest:
    resource = DESCRIBE_CONFIGS.request.resources(
        resource_type=TYPES[kind], resource_name=name, configuration_keys=None
    )
    return DESCRIBE_CONFIGS.request(
        resources=[resource], include_synonyms=True, include_documentation=documentation
    )


def as_json(entry: DescribeConfigsResourceResult) -> JsonObject:
    """Return a setting with its value, its source, and the values that would count without it."""
    return {
        "setting": entry.name,
        "value": "(hidden)" if entry.is_sensitive else entry.value,
        "source": source_name(entry.config_source),
        "read_only": entry.read_only,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": source_name(each.source)}
            for each in entry.synonyms
        ],
    }


def source_name(number: int) -> str:
    return SOURCES.get(number, str(number))


def _ask(client: Client, kind: str, name: str, api: Api[Req, Resp], row: Req) -> Resp:
    """A broker answers for itself."""
    if kind not in OF_ONE_BROKER or name == ALL_BROKERS:
        return client.ask(api, row)
    try:
        node_id = int(name)
    except ValueError:
        raise KafkaError(Code.BROKER_NOT_AVAILABLE, f"there is no broker {name}") from None
    return client.ask_broker(node_id, api, row)


def _incremental(
    kind: str, name: str, changes: Changes, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    resource = INCREMENTAL_ALTER_CONFIGS.request.resources
    configs = [
        resource.configs(name=key, config_operation=OPERATIONS[how], value=value)
        for key, (how, value) in changes.items()
    ]
    rows = [resource(resource_type=TYPES[kind], resource_name=name, configs=configs)]
    return INCREMENTAL_ALTER_CONFIGS.request(resources=rows, validate_only=validate_only)


def _whole(
    client: Client, kind: str, name: str, changes: Changes, validate_only: bool
) -> AlterConfigsRequest:
    """For a Kafka older than 2.3, which takes all settings of a resource at once: those that it
    has, and the changes. Raises KafkaError.
    """
    described = describe_settings(client, kind, name)
    if described.error_code:
        raise KafkaError(Code(described.error_code), described.error_message)
    before = {each.name: each for each in described.configs}
    after = {
        key: each.value
        for key, each in before.items()
        if each.config_source == (GIVEN[kind] if name else OF_ALL_BROKERS)
    }
    for key, (how, value) in changes.items():
        items = [
            item
            for item in ((before[key].value if key in before else None) or "").split(",")
            if item
        ]
        match how:
            case "SET":
                after[key] = value
            case "DELETE":
                after.pop(key, None)
            case "APPEND":
                after[key] = ",".join(dict.fromkeys([*items, *(value or "").split(",")]))
            case "SUBTRACT":
                after[key] = ",".join(
                    item for item in items if item not in (value or "").split(",")
                )
    resource = ALTER_CONFIGS.request.resources
    configs = [resource.configs(name=key, value=value) for key, value in after.items()]
    return ALTER_CONFIGS.request(
        resources=[resource(resource_type=TYPES[kind], resource_name=name, configs=configs)],
        validate_only=validate_only,
    )
