"""DescribeConfigs: v1-4, for topics (brokers, groups and metrics come with the APIs that change them)."""

from typing import TYPE_CHECKING

from raftka.broker.dispatch import Request, handles
from raftka.broker.handlers.finding import check
from raftka.metadata.describe import ConfigRow, describe_topic
from raftka.metadata.image import TOPIC
from raftka.metadata.topics import check_topic_name
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = DESCRIBE_CONFIGS.response


def _refused(request: Request, code: Code) -> Row:
    results = [response.results(error_code=int(code), resource_type=r.resource_type, resource_name=r.resource_name) for r in request.body.resources]
    return request.answer(results=results)


@handles(DESCRIBE_CONFIGS, refused=_refused)
def describe_configs(request: Request, node: "Node") -> Row:
    return response(results=[_resource(request, node, resource) for resource in request.body.resources])


def _resource(request: Request, node: "Node", resource: Row) -> Row:
    row = response.results(error_code=0, error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        row.configs = _configs(request, node, resource)
    except KafkaError as error:
        row.error_code, row.error_message = int(error.code), error.message or ""
    return row


def _configs(request: Request, node: "Node", resource: Row) -> list[Row]:
    if resource.resource_type != TOPIC:
        raise KafkaError(Code.INVALID_REQUEST, f"configs of resource type {resource.resource_type} can not be described")
    check(request, "DESCRIBE_CONFIGS", resource.resource_name)
    check_topic_name(resource.resource_name)
    if node.image.topic_named(resource.resource_name) is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    wanted = set(resource.configuration_keys or ())
    entries = describe_topic(node.settings, node.image, resource.resource_name)
    return [_config(request, entry) for entry in entries if not wanted or entry.name in wanted]


def _config(request: Request, entry: ConfigRow) -> Row:
    row = response.results.configs
    return row(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=[row.synonyms(name=s.name, value=s.value, source=int(s.source)) for s in entry.synonyms] if request.body.include_synonyms else [],
        config_type=int(entry.type),
        documentation=entry.documentation if request.body.include_documentation else None,
    )
