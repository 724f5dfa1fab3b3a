"""DescribeConfigs: v1-4, of topics, this broker, all brokers, this node's log, groups and client
metrics. Answers from the local image.
"""

from raftka.broker.context import BrokerContext, MetadataCache
from raftka.broker.handlers.alter_configs import check_allowed
from raftka.broker.handlers.log_levels import describe_loggers
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.limits import DESCRIBED_SETTINGS
from raftka.metadata.configs.describe import (
    LOGGER_SOURCE,
    ConfigRow,
    describe_all_brokers,
    describe_client_metrics,
    describe_group,
)
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import MALFORMED, Code, KafkaError, check_limit, limit_of
from raftka.wire.messages.configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

Shown = tuple[int, bool, bool]  # the id of a row, with synonyms, with documentation
response = DESCRIBE_CONFIGS.response
ENTRIES_OF_STEP = 16


def _refused(
    request: Request[DescribeConfigsRequest], code: Code, message: str | None = None
) -> Steps[DescribeConfigsResponse]:
    results = request.encoded_rows(response.results)
    for resource in request.body.resources:
        row = response.results(
            error_code=int(code),
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        results.add(row)
        yield
    return response(results=results)


@handles(DESCRIBE_CONFIGS, refused=_refused)
def describe_configs(
    request: Request[DescribeConfigsRequest], metadata: MetadataCache
) -> Steps[DescribeConfigsResponse]:
    for resource in request.body.resources:
        if resource.resource_type not in DESCRIBED:
            # also of those that could be described
            return (yield from _refused(request, Code.INVALID_REQUEST, MALFORMED))
        yield
    run = _Description(request, metadata)
    results = request.encoded_rows(response.results)
    for resource in request.body.resources:
        results.add((yield from run.result(resource)))
        yield
    return response(results=results)


class _Description:
    """One request. Thousands of topics have most of their settings in common: these are one row
    each; a broker's are kept for the next request.
    """

    def __init__(self, request: Request[DescribeConfigsRequest], metadata: MetadataCache) -> None:
        self.request = request
        self.metadata = metadata
        self.described = 0
        self.rows: dict[Shown, tuple[ConfigRow, DescribeConfigsResourceResult]] = {}

    def result(self, resource: DescribeConfigsResource) -> Steps[DescribeConfigsResult]:
        row = response.results(
            error_code=0,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            row.configs = yield from self._configs(resource)
        except KafkaError as error:
            row.error_code, row.error_message = int(error.code), error.message or ""
            for limit in limit_of(error):
                self.request.dispatcher.metrics.hit(limit)
        return row

    def _configs(
        self, resource: DescribeConfigsResource
    ) -> Steps[EncodedRows[DescribeConfigsResourceResult]]:
        describe = DESCRIBED[resource.resource_type]
        check_allowed(
            self.request, "DESCRIBE_CONFIGS", resource.resource_type, resource.resource_name
        )
        wanted = set(resource.configuration_keys or ())
        entries = [
            each
            for each in describe(
                self.request.dispatcher.context, self.metadata, resource.resource_name
            )
            if not wanted or each.name in wanted
        ]
        check_limit(DESCRIBED_SETTINGS, self.described + len(entries))
        self.described += len(entries)
        kept = (
            self.metadata.broker_rows.shown
            if resource.resource_type == BROKER and resource.resource_name
            else self.rows
        )
        rows = self.request.encoded_rows(response.results.configs)
        for place, entry in enumerate(entries):
            rows.add(self._row(entry, kept))
            if not place % ENTRIES_OF_STEP:
                yield
        return rows

    def _row(
        self, entry: ConfigRow, kept: dict[Shown, tuple[ConfigRow, DescribeConfigsResourceResult]]
    ) -> DescribeConfigsResourceResult:
        body = self.request.body
        key = id(entry), body.include_synonyms, body.include_documentation
        known = kept.get(key)
        if known is None:
            known = kept[key] = (entry, _config(self.request, entry))
        return known[1]


def _topic(context: BrokerContext, metadata: MetadataCache, name: str) -> list[ConfigRow]:
    check_topic_name(name)
    if metadata.image.topic_named(name) is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    return metadata.topic_rows.of(metadata.settings, metadata.image, name)


def _broker(context: BrokerContext, metadata: MetadataCache, name: str) -> list[ConfigRow]:
    if not name:
        return describe_all_brokers(metadata.image)
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(Code.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != context.node_id:
        raise KafkaError(
            Code.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.node_id} or empty string, but "
            f"received {name}",
        )
    return metadata.broker_rows.of(metadata.settings, metadata.image)


def _group(context: BrokerContext, metadata: MetadataCache, name: str) -> list[ConfigRow]:
    if not name:
        raise KafkaError(Code.INVALID_REQUEST, "Group name must not be empty")
    return describe_group(metadata.settings, metadata.image, name)


def _client_metrics(context: BrokerContext, metadata: MetadataCache, name: str) -> list[ConfigRow]:
    if not name:
        raise KafkaError(Code.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return describe_client_metrics(metadata.image, name)


DESCRIBED = {
    TOPIC: _topic,
    BROKER: _broker,
    BROKER_LOGGER: describe_loggers,
    CLIENT_METRICS: _client_metrics,
    GROUP: _group,
}


def _config(
    request: Request[DescribeConfigsRequest], entry: ConfigRow
) -> DescribeConfigsResourceResult:
    row = response.results.configs
    return row(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=[
            row.synonyms(name=s.name, value=s.value, source=int(s.source)) for s in entry.synonyms
        ]
        if request.body.include_synonyms
        else [],
        config_type=int(entry.type),
        documentation=entry.documentation
        if request.body.include_documentation or entry.source == LOGGER_SOURCE
        else None,
    )
