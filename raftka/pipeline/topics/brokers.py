"""Requests of tasks and drivers to a cluster: the blocking client, with the pipeline's patience and
errors, and the questions of planning. Knows no records.

Connections stay open in the worker's process for the tasks that come later: Spark uses a worker for
many.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from raftka.client.blocking import client
from raftka.client.blocking.connection import ANSWER_S, ClientError
from raftka.client.connection import Address
from raftka.pipeline.errors import PipelineError, Unreachable
from raftka.pipeline.topics.options import addresses
from raftka.pipeline.topics.planning import Topic
from raftka.pipeline.topics.positions import Where
from raftka.pipeline.topics.security import check_stores, security_of
from raftka.security.client_security import PLAINTEXT, ClientSecurity
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.metadata import MetadataResponseTopic

DECISIONS = "__raftka_spark_commits"  # see decisions.py
STATEMENTS = "__raftka_sql"  # see raftka/sql/statement_log.py
ERRNO = re.compile(r"\[Errno -?\d+\] ")
UNKNOWN_S = 5.0  # so long a broker may be behind the one that has made a topic


def unreachable(text: str) -> Unreachable:
    """Return the error of a Patience that is over."""
    return Unreachable(
        f"{text}. The checkpoint stays where it is: start the query again when the brokers are "
        "back, or give them more time with kafkaConsumer.pollTimeoutMs"
    )


def no_answer(text: str) -> Unreachable:
    """Return the error of a Patience that is over, for a person who waits at a prompt."""
    why = ERRNO.sub("", text.rpartition("; last: ")[2])
    return Unreachable(
        f"the brokers do not answer ({why}). Next step: see whether they run; -b names others"
    )


@contextmanager
def as_pipeline_errors() -> Iterator[None]:
    try:
        yield
    except (KafkaError, ClientError) as error:
        raise PipelineError(str(error)) from error


class Brokers(client.Client):
    def __init__(
        self,
        bootstrap: Sequence[Address],
        client_id: str,
        patience_s: float,
        *,
        read_committed: bool = False,
        wait_s: float = ANSWER_S,
        security: ClientSecurity = PLAINTEXT,
        error: Callable[[str], Unreachable] = unreachable,
    ) -> None:
        """`wait_s`: for one answer. `error`: of a patience that is over. Raises OptionRefused for
        keys and certificates that cannot be used.
        """
        check_stores(security)
        super().__init__(bootstrap, client_id, patience_s, answer_s=wait_s, security=security)
        self._read_committed, self._error = read_committed, error

    def patience(self, what: str) -> client.Patience:
        return client.Patience(self.patience_s, what, self._error)

    # what planning asks

    def names(self) -> Sequence[str]:
        """Of all topics that are not internal: to the brokers, to sinks, or to statements."""
        return sorted(
            str(topic.name)
            for topic in self._topics(None)
            if not topic.is_internal and topic.name not in (DECISIONS, STATEMENTS)
        )

    def topics(self, names: Collection[str]) -> Mapping[str, Topic]:
        if not names:
            return {}
        return {
            str(topic.name): Topic(
                self.topic_id(str(topic.name)),
                tuple(sorted(each.partition_index for each in topic.partitions)),
            )
            for topic in self._topics(names)
        }

    def _topics(self, names: Collection[str] | None) -> Sequence[MetadataResponseTopic]:
        answer = self.metadata(names)
        if denied := [
            topic.name
            for topic in answer.topics
            if topic.error_code == Code.TOPIC_AUTHORIZATION_FAILED
        ]:
            raise PipelineError(
                f"topic {denied[0]}: TOPIC_AUTHORIZATION_FAILED. The user of this connection "
                "needs DESCRIBE and READ on it"
            )
        return [topic for topic in answer.topics if not topic.error_code]

    def pause(self) -> None:
        time.sleep(UNKNOWN_S / 5)

    def offsets(self, asked: Mapping[Where, int], isolation: int | None = None) -> dict[Where, int]:
        with as_pipeline_errors():
            return super().offsets(
                asked, int(self._read_committed) if isolation is None else isolation
            )


def open_brokers(
    connection: Mapping[str, str],
    client_id: str,
    patience_s: float,
    error: Callable[[str], Unreachable] = unreachable,
) -> Brokers:
    """`connection`: options of the source that say where the cluster is and how to get in. `error`:
    of a patience that is over. Raises OptionRefused.
    """
    kafka = {name.removeprefix("kafka."): value for name, value in connection.items()}
    return Brokers(
        addresses(kafka), client_id, patience_s, security=security_of(kafka), error=error
    )


_KEPT: dict[tuple[Any, ...], Brokers] = {}


def kept_brokers(
    bootstrap: Sequence[Address],
    client_id: str,
    patience_s: float,
    *,
    read_committed: bool = False,
    security: ClientSecurity = PLAINTEXT,
) -> Brokers:
    """The ones of this process, with their connections: a process that was forked has its own."""
    key = (os.getpid(), tuple(bootstrap), client_id, patience_s, read_committed, security)
    if key not in _KEPT:
        _KEPT[key] = Brokers(
            bootstrap, client_id, patience_s, read_committed=read_committed, security=security
        )
    return _KEPT[key]
