"""IncrementalAlterConfigs: v0-1, and AlterConfigs: v0-2, which replaces all settings of a resource.

The controller decides, and every node uses the settings when it has replayed the records. Only the
level of this node's log is set here; it lasts until the process ends, as in Kafka.
"""

from typing import Any

from raftka.broker.context import BrokerContext
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.log_levels import set_levels
from raftka.broker.network.access.authorizer import GROUP, REFUSED, THE_CLUSTER, TOPIC, Resource
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.limits import SETTINGS_OF_RESOURCE
from raftka.metadata import image
from raftka.metadata.commands import (
    SET,
    SUBTRACT,
    AlterConfigs,
    AlteredConfigs,
    ConfigChange,
    ConfigResource,
)
from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.settings import CORDONED, SettingError, check_cordoned
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of
from raftka.wire.messages.configs import (
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from raftka.wire.schema import Row

DENIED = {TOPIC: Code.TOPIC_AUTHORIZATION_FAILED, GROUP: Code.GROUP_AUTHORIZATION_FAILED}
Asked = Request[AlterConfigsRequest] | Request[IncrementalAlterConfigsRequest]
Key = tuple[int, str]  # resource type and name
Answers = dict[Key, AlteredConfigs]
CHANGES_OF_COMMAND = 200  # the controller decides a command in one piece


def _refuse_all(request: Asked, code: Code) -> Steps[Any]:
    answer = AlteredConfigs(int(code), None)
    keys = [(resource.resource_type, resource.resource_name) for resource in request.body.resources]
    return (yield from _make_response(request, dict.fromkeys(keys, answer)))


@handles(INCREMENTAL_ALTER_CONFIGS, refused=_refuse_all)
async def incremental_alter_configs(
    request: Request[IncrementalAlterConfigsRequest], controller: ControllerClient
) -> IncrementalAlterConfigsResponse:
    answer: IncrementalAlterConfigsResponse = await _alter(request, controller, replace_all=False)
    return answer


@handles(ALTER_CONFIGS, refused=_refuse_all)
async def alter_configs(
    request: Request[AlterConfigsRequest], controller: ControllerClient
) -> AlterConfigsResponse:
    answer: AlterConfigsResponse = await _alter(request, controller, replace_all=True)
    return answer


async def _alter(request: Asked, controller: ControllerClient, *, replace_all: bool) -> Any:
    """Send the resources in one or several commands; each resource is altered as a whole."""
    answers: Answers = {}
    for resources in await request.finish(
        _make_commands(request, answers, replace_all=replace_all)
    ):
        answers |= await _ask_controller(
            controller, resources, replace_all=replace_all, validate_only=request.body.validate_only
        )
    return await request.finish(_make_response(request, answers))


def _make_commands(
    request: Asked, answers: Answers, *, replace_all: bool
) -> Steps[list[list[ConfigResource]]]:
    """Return the resources by command; `answers` gets those that are answered without the
    controller.
    """
    times: dict[Key, int] = {}
    for resource in request.body.resources:
        key = (resource.resource_type, resource.resource_name)
        times[key] = times.get(key, 0) + 1
        yield
    commands: list[list[ConfigResource]] = []
    command: list[ConfigResource] = []
    room = CHANGES_OF_COMMAND
    for resource in request.body.resources:
        yield
        key = (resource.resource_type, resource.resource_name)
        try:
            if times[key] > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Each resource must appear at most once.")
            check_allowed(request, "ALTER_CONFIGS", *key)
            check_limit(SETTINGS_OF_RESOURCE, len(resource.configs))
            wanted = _read_resource(resource)
            if wanted.resource_type == image.BROKER_LOGGER and not replace_all:
                set_levels(
                    request.dispatcher.context, wanted, validate_only=request.body.validate_only
                )
                answers[key] = AlteredConfigs(0, None)
                continue
            _check_own_broker(request.dispatcher.context, *key)
            _check_own_directories(request.dispatcher.context, wanted)
        except KafkaError as error:
            for limit in limit_of(error):
                request.dispatcher.metrics.hit(limit)
            answers[key] = AlteredConfigs(int(error.code), error.message)
            continue
        if command and len(wanted.changes) >= room:
            commands.append(command)
            command, room = [], CHANGES_OF_COMMAND
        command.append(wanted)
        room -= 1 + len(wanted.changes)
    return [*commands, command] if command else commands


def _read_resource(
    resource: AlterConfigsResource | IncrementalAlterConfigsResource,
) -> ConfigResource:
    changes = [
        ConfigChange(
            each.name,
            each.config_operation if isinstance(each, IncrementalAlterableConfig) else SET,
            each.value,
        )
        for each in resource.configs
    ]
    return ConfigResource(resource.resource_type, resource.resource_name, tuple(changes))


async def _ask_controller(
    controller: ControllerClient,
    resources: list[ConfigResource],
    *,
    replace_all: bool,
    validate_only: bool,
) -> Answers:
    replies: tuple[AlteredConfigs, ...]
    try:
        replies = await controller.ask(AlterConfigs(tuple(resources), replace_all, validate_only))
    except KafkaError as error:
        replies = (AlteredConfigs(int(error.code), error.message),) * len(resources)
    return {
        (resource.resource_type, resource.name): reply
        for resource, reply in zip(resources, replies, strict=True)
    }


def check_allowed(request: Request[Row], operation: str, kind: int, name: str) -> None:
    """Raise KafkaError if the client may not do this with the resource."""
    resources: dict[int, Resource] = {image.TOPIC: (TOPIC, name), image.GROUP: (GROUP, name)}
    resource = resources.get(kind, THE_CLUSTER)
    if not request.may(operation, resource):
        raise KafkaError(
            DENIED.get(resource[0], Code.CLUSTER_AUTHORIZATION_FAILED), REFUSED[resource[0]]
        )


def _check_own_broker(context: BrokerContext, kind: int, name: str) -> None:
    """Refuse settings of another broker: only that broker knows its properties file."""
    if kind == image.BROKER and name and name != str(context.node_id):
        is_id = name.isascii() and name.isdigit()
        fault = (
            f"Unexpected broker id, expected {context.node_id}, but received {name}"
            if is_id
            else f"Node id must be an integer, but it is: {name}"
        )
        raise KafkaError(Code.INVALID_REQUEST, fault)


def _check_own_directories(context: BrokerContext, wanted: ConfigResource) -> None:
    """Refuse to cordon directories that this broker does not have: only this broker knows them."""
    settings = context.metadata.settings
    if (wanted.resource_type, wanted.name) != (image.BROKER, str(context.node_id)):
        return
    try:
        for change in wanted.changes:
            if change.name == CORDONED and change.operation != SUBTRACT and change.value:
                check_cordoned(BROKER_SETTINGS[CORDONED].parse(change.value), settings.log_dirs)
    except SettingError as error:
        raise KafkaError(Code.INVALID_REQUEST, str(error)) from None


def _make_response(request: Asked, answers: Answers) -> Steps[Any]:
    """Return the response of either API."""
    row = request.api.response.responses
    rows = request.encoded_rows(row)
    for resource in request.body.resources:
        key = (resource.resource_type, resource.resource_name)
        rows.add(
            row(
                error_code=answers[key].error,
                error_message=answers[key].message,
                resource_type=key[0],
                resource_name=key[1],
            )
        )
        yield
    return request.api.response(responses=rows)
