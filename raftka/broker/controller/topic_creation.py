"""Automatic creation of topics that requests name: one command to the controller at a time, with
the topics that were named meanwhile.

The request does not wait. Its client gets UNKNOWN_TOPIC_OR_PARTITION, and asks again.
"""

from collections.abc import Callable
from itertools import islice

from raftka.broker.context import BrokerContext
from raftka.broker.controller.controller_client import ControllerClient
from raftka.limits import AUTOMATIC_TOPICS
from raftka.metadata.commands import CreatedTopic, CreateTopics, NewTopic
from raftka.wire.errors import KafkaError, code_of

TOPICS_AT_ONCE = 4  # in one command: all partitions of a command are made in one turn
Report = Callable[[str, KafkaError | None], None]  # the name of a topic; None: it is there


class TopicCreation:
    def __init__(self, context: BrokerContext, controller: ControllerClient) -> None:
        self.context = context
        self._controller = controller
        self._wanted: dict[str, NewTopic] = {}  # by name; the first of them are under way
        self._reports: dict[str, Report] = {}  # by name
        self._under_way = 0

    def want(
        self, topic: NewTopic, *, internal: bool = False, report: Report | None = None
    ) -> None:
        """Create the topic, unless it waits already or is under way. `internal`: a topic of the
        broker itself, which the limit does not refuse. `report` is called when the controller has
        answered.
        """
        if topic.name in self._wanted:
            return
        if len(self._wanted) >= AUTOMATIC_TOPICS.value and not internal:
            self.context.metrics.hit(AUTOMATIC_TOPICS)
            return
        self._wanted[topic.name] = topic
        if report is not None:
            self._reports[topic.name] = report
        if not self._under_way:
            self._send_command()

    def wants(self, name: str) -> bool:
        """Return whether the topic waits, or is under way."""
        return name in self._wanted

    def _send_command(self) -> None:
        topics = tuple(islice(self._wanted.values(), TOPICS_AT_ONCE))
        self._under_way = len(topics)
        self._controller.call(CreateTopics(topics), self._on_reply)

    def _on_reply(self, error: KafkaError | None, reply: tuple[CreatedTopic, ...] | None) -> None:
        errors = {
            topic.name: KafkaError(code_of(topic.error), topic.message)
            for topic in reply or ()
            if topic.error
        }
        for name in list(islice(self._wanted, self._under_way)):
            del self._wanted[name]
            report = self._reports.pop(name, None)
            if report is not None:
                report(name, error or errors.get(name))
        self._under_way = 0
        if self._wanted:
            self._send_command()
