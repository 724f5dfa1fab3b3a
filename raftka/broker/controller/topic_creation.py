"""Create topics that requests named: one request to the controller at a time, with the topics that
were named meanwhile.

Nobody waits for it: who asked is told that there is no such topic, and asks again.
"""

from itertools import islice

from raftka.broker.context import BrokerContext
from raftka.broker.controller.controller_client import ControllerClient
from raftka.limits import AUTOMATIC_TOPICS
from raftka.metadata.commands import CreateTopics, NewTopic
from raftka.wire.errors import KafkaError

TOPICS_AT_ONCE = 4  # in one request: all partitions of one are made in one turn


class TopicCreation:
    def __init__(self, context: BrokerContext, controller: ControllerClient) -> None:
        self.context = context
        self._controller = controller
        self._wanted: dict[str, NewTopic] = {}  # by name, the first of them under way
        self._under_way = 0

    def want(self, topic: NewTopic, *, internal: bool = False) -> None:
        """A name that waits already, or is under way, is not asked for twice. `internal`: those of
        our own are not kept out by others.
        """
        if topic.name in self._wanted:
            return
        if len(self._wanted) >= AUTOMATIC_TOPICS.value and not internal:
            self.context.metrics.hit(AUTOMATIC_TOPICS)
            return
        self._wanted[topic.name] = topic
        if not self._under_way:
            self._ask()

    def wants(self, name: str) -> bool:
        """Return whether it waits already, or is under way."""
        return name in self._wanted

    def _ask(self) -> None:
        topics = tuple(islice(self._wanted.values(), TOPICS_AT_ONCE))
        self._under_way = len(topics)
        self._controller.call(CreateTopics(topics), self._answered)

    def _answered(self, error: KafkaError | None, reply: object) -> None:
        for name in list(islice(self._wanted, self._under_way)):
            del self._wanted[name]
        self._under_way = 0
        if self._wanted:
            self._ask()
