"""Makes the topics that a project writes to, where they are not there yet. Those it reads are others' to make."""

from raftka.pipeline.brokers import Brokers, Patience, code_name
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.options import PATIENCE_MS, addresses
from raftka.pipeline.streams import Declared, Output
from raftka.wire.errors import Code
from raftka.wire.messages.topics import CREATE_TOPICS

TIMEOUT_MS = 30_000


def ensure_topics(found: Declared, patience_s: float = PATIENCE_MS / 1000) -> None:
    """Raises PipelineError."""
    wanted = {each.topic: each for each in found.outputs if each.topic is not None}
    if not wanted:
        return
    brokers = Brokers(addresses({"bootstrap.servers": found.bootstrap}), "raftka-pipeline", patience_s)
    try:
        for name in sorted(wanted.keys() - brokers.topics(list(wanted)).keys()):
            _make(brokers, name, wanted[name])
    finally:
        brokers.close()


def _make(brokers: Brokers, name: str, output: Output) -> None:
    topic = CREATE_TOPICS.request.topics
    configs = [topic.configs(name=key, value=value) for key, value in output.config.items()]
    request = CREATE_TOPICS.request(
        topics=[topic(name=name, num_partitions=output.partitions or -1, replication_factor=-1, configs=configs)], timeout_ms=TIMEOUT_MS
    )
    patience = Patience(brokers.patience_s, f"making the topic {name}")
    while True:
        why: object
        try:
            answer = brokers.ask_any(CREATE_TOPICS, request).topics[0]
        except OSError as error:
            why = error
        else:
            if answer.error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                return
            why = code_name(answer.error_code)
            if not Code(answer.error_code).retriable:
                raise PipelineError(f"the topic {name} can not be made: {why} {answer.error_message or ''}".rstrip())
        patience.wait(why)
