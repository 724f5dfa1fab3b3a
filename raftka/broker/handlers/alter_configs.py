"""IncrementalAlterConfigs: v0-1, and AlterConfigs: v0-2, which replaces all that a resource has.

The controller decides; what is set holds on every node as soon as it has applied the records. The level of this node's log alone is set here, and
is forgotten with the process, as in Kafka.
"""

from collections import Counter
from typing import TYPE_CHECKING

from raftka.broker.authorizer import GROUP, THE_CLUSTER, TOPIC, Resource
from raftka.broker.dispatch import Request, handles
from raftka.broker.handlers.log_levels import set_levels
from raftka.metadata import image
from raftka.metadata.commands import AlterConfigs, AlteredConfigs, ConfigChange, ConfigResource
from raftka.metadata.configs import SET
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

DENIED = {TOPIC: Code.TOPIC_AUTHORIZATION_FAILED, GROUP: Code.GROUP_AUTHORIZATION_FAILED}
Key = tuple[int, str]  # resource type and name
Answers = dict[Key, AlteredConfigs]


def _refused(request: Request, code: Code, message: str | None = None) -> Row:
    answer = AlteredConfigs(int(code), message)
    return _row(request, {(resource.resource_type, resource.resource_name): answer for resource in request.body.resources})


@handles(INCREMENTAL_ALTER_CONFIGS, refused=_refused)
async def incremental_alter_configs(request: Request, node: "Node") -> Row:
    return await _alter(request, node, replace_all=False)


@handles(ALTER_CONFIGS, refused=_refused)
async def alter_configs(request: Request, node: "Node") -> Row:
    return await _alter(request, node, replace_all=True)


async def _alter(request: Request, node: "Node", *, replace_all: bool) -> Row:
    answers: Answers = {}
    asked = _resources(request, replace_all=replace_all)
    times = Counter((resource.resource_type, resource.name) for resource in asked)
    for_controller = []
    for resource in asked:
        key = (resource.resource_type, resource.name)
        try:
            if times[key] > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Each resource must appear at most once.")
            check_allowed(request, "ALTER_CONFIGS", *key)
            if resource.resource_type == image.BROKER_LOGGER and not replace_all:
                set_levels(node, resource, validate_only=request.body.validate_only)
                answers[key] = AlteredConfigs(0, None)
            else:
                _check_own(node, *key)
                for_controller.append(resource)
        except KafkaError as error:
            answers[key] = AlteredConfigs(int(error.code), error.message)
    answers |= await _ask(node, for_controller, replace_all=replace_all, validate_only=request.body.validate_only)
    return _row(request, answers)


def _resources(request: Request, *, replace_all: bool) -> list[ConfigResource]:
    resources = []
    for resource in request.body.resources:
        changes = [ConfigChange(each.name, SET if replace_all else each.config_operation, each.value) for each in resource.configs]
        resources.append(ConfigResource(resource.resource_type, resource.resource_name, tuple(changes)))
    return resources


async def _ask(node: "Node", resources: list[ConfigResource], *, replace_all: bool, validate_only: bool) -> Answers:
    if not resources:
        return {}
    replies: tuple[AlteredConfigs, ...]
    try:
        replies = await node.link.ask(AlterConfigs(tuple(resources), replace_all, validate_only))
    except KafkaError as error:
        replies = (AlteredConfigs(int(error.code), error.message),) * len(resources)
    return {(resource.resource_type, resource.name): reply for resource, reply in zip(resources, replies, strict=True)}


def check_allowed(request: Request, operation: str, kind: int, name: str) -> None:
    """Raises KafkaError."""
    resources: dict[int, Resource] = {image.TOPIC: (TOPIC, name), image.GROUP: (GROUP, name)}
    resource = resources.get(kind, THE_CLUSTER)
    if not request.may(operation, resource):
        raise KafkaError(DENIED.get(resource[0], Code.CLUSTER_AUTHORIZATION_FAILED))


def _check_own(node: "Node", kind: int, name: str) -> None:
    """A broker's settings are asked of that very broker: only there its file is known."""
    if kind == image.BROKER and name and name != str(node.node_id):
        known = name.isascii() and name.isdigit()
        wrong = f"Unexpected broker id, expected {node.node_id}, but received {name}" if known else f"Node id must be an integer, but it is: {name}"
        raise KafkaError(Code.INVALID_REQUEST, wrong)


def _row(request: Request, answers: Answers) -> Row:
    row = request.api.response.responses
    rows = []
    for resource in request.body.resources:
        key = (resource.resource_type, resource.resource_name)
        rows.append(row(error_code=answers[key].error, error_message=answers[key].message, resource_type=key[0], resource_name=key[1]))
    return request.answer(responses=rows)
