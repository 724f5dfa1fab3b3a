"""Makes the topics that a project writes to, where they are not there yet. Those it reads are
others' to make.
"""

from collections.abc import Mapping

from raftka.client.blocking.client import is_retriable
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.streams import Declared
from raftka.pipeline.topics.brokers import Brokers, open_brokers
from raftka.pipeline.topics.options import PATIENCE_MS
from raftka.wire.errors import Code, name_of_code
from raftka.wire.messages.topics import CREATE_TOPICS

TIMEOUT_MS = 30_000


def ensure_topics(found: Declared, patience_s: float = PATIENCE_MS / 1000) -> None:
    """Raises PipelineError."""
    wanted = {each.topic: each for each in found.outputs if each.topic is not None}
    letters = {
        each.sink.dead_letters
        for each in found.outputs
        if each.sink is not None and each.sink.dead_letters is not None
    } - wanted.keys()
    if not wanted and not letters:
        return
    brokers = open_brokers(found.connection, "raftka-pipeline", patience_s)
    try:
        for name in sorted((wanted.keys() | letters) - brokers.topics([*wanted, *letters]).keys()):
            output = wanted.get(name)
            create_topic(
                brokers,
                name,
                (output.partitions if output else 0) or -1,
                output.config if output else {},
            )
    finally:
        brokers.close()


def create_topic(brokers: Brokers, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create it unless it is there, with as many replicas as brokers give. `partitions`: -1: as
    many as they give. Raises PipelineError.
    """
    topic = CREATE_TOPICS.request.topics
    configs = [topic.configs(name=key, value=value) for key, value in config.items()]
    request = CREATE_TOPICS.request(
        topics=[
            topic(name=name, num_partitions=partitions, replication_factor=-1, configs=configs)
        ],
        timeout_ms=TIMEOUT_MS,
    )
    answer = brokers.ask(CREATE_TOPICS, request, passing=is_retriable).topics[0]
    if answer.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
        raise PipelineError(
            (
                f"the topic {name} can not be made: {name_of_code(answer.error_code)} "
                f"{answer.error_message or ''}"
            ).rstrip()
        )
