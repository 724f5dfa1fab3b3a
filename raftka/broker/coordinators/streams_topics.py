"""Internal topics of streams groups: the broker creates them after its answer. The next answers
have the errors of topics that could not be created.
"""

from collections.abc import Iterable, Mapping

from raftka.broker.context import BrokerContext
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.coordinator.streams.configured import MissingTopic
from raftka.limits import AUTOMATIC_TOPICS
from raftka.metadata.commands import NewTopic
from raftka.wire.errors import KafkaError

REMEMBERED_S = 10.0  # of an error: two heartbeats, so that a member hears of it


class StreamsTopics:
    def __init__(self, context: BrokerContext, creation: TopicCreation) -> None:
        self._context = context
        self._creation = creation
        # by topic: the error of its creation, and until when it is told
        self._failures: dict[str, tuple[str, float]] = {}

    def is_wanted(self, name: str) -> bool:
        """Return whether the topic waits to be created, or is under way."""
        return self._creation.wants(name)

    def create(self, topic: MissingTopic) -> None:
        new = NewTopic(topic.name, topic.partitions, topic.replication_factor, (), topic.configs)
        self._creation.want(new, report=self._note)

    def failures_of(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the errors of these topics, by name."""
        now = self._context.runtime.clock.now()
        found = {name: self._failures[name] for name in names if name in self._failures}
        return {name: text for name, (text, until) in found.items() if now < until}

    def _note(self, name: str, error: KafkaError | None) -> None:
        self._failures.pop(name, None)
        if error is not None:
            now = self._context.runtime.clock.now()
            until = now + REMEMBERED_S
            self._failures[name] = str(error.message or error.code.name), until
            while len(self._failures) > AUTOMATIC_TOPICS.value:
                del self._failures[next(iter(self._failures))]
