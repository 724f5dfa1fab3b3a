"""Topics of `raftka.topics`: makes those that the cluster does not have, once this broker takes
part, and says when all have leaders. Topics that exist stay as they are.

Several nodes with the same list may start at once: the controller makes each topic once, and
answers the others that it exists.
"""

from collections.abc import Iterable, Sequence

from raftka.broker.context import BrokerContext
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.controller.topic_creation import TOPICS_AT_ONCE
from raftka.metadata.commands import CreatedTopic, CreateTopics, NewTopic
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError

# s; after a refusal, such as for a replication factor while the other brokers are not there yet
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


class StartingTopics:
    def __init__(
        self, context: BrokerContext, controller: ControllerClient, topics: Iterable[NewTopic]
    ) -> None:
        self._context = context
        self._controller = controller
        self._awaited = {topic.name: topic for topic in topics}  # not seen with all leaders yet
        self._refusals: dict[str, str] = {}  # by topic: the controller's last reason
        self._answered: set[str] = set()  # the controller has answered about them in this round
        self._asking = False  # a command is under way, or its pause is
        self._pause_s = FIRST_PAUSE_S

    def on_image(self, image: MetadataImage) -> bool:
        """Look for the topics; ask for those that are not there. Return whether all are there and
        have leaders, or have been: from then on nothing is looked at.
        """
        for name, wanted in list(self._awaited.items()):
            topic = image.topic_named(name)
            if topic is None:
                continue
            self._refusals.pop(name, None)
            if any(partition.leader < 0 for partition in topic.partitions):
                continue
            del self._awaited[name]
            if wanted.num_partitions not in (-1, len(topic.partitions)):
                self._context.events.warning(
                    "starting_topic_differs",
                    topic=name,
                    partitions=len(topic.partitions),
                    wanted=wanted.num_partitions,
                )
        if self._awaited and not self._asking:
            self._ask()
        return not self._awaited

    def reason_to_wait(self) -> str | None:
        """Return why clients would not find all topics yet; None: they do."""
        name = next(iter(self._refusals), None) or next(iter(self._awaited), None)
        if name is None:
            return None
        topic = self._context.metadata.image.topic_named(name)
        if topic is not None:
            return f"topic {name} of raftka.topics has a partition without a leader"
        told = self._refusals.get(name)
        return f"topic {name} of raftka.topics is not there yet" + (f": {told}" if told else "")

    def _ask(self) -> None:
        """Send the next command of this round; with none left, begin another after a pause."""
        missing = self._missing()
        topics = tuple([each for each in missing if each.name not in self._answered])
        self._asking = bool(missing) and not self._context.stopping
        if not self._asking:
            return
        if topics:
            part = topics[:TOPICS_AT_ONCE]
            self._controller.call(
                CreateTopics(part), lambda error, reply: self._on_reply(part, error, reply)
            )
            return
        clock = self._context.runtime.clock
        clock.call_at(clock.now() + self._pause_s, self._ask)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._answered.clear()

    def _missing(self) -> list[NewTopic]:
        image = self._context.metadata.image
        return [each for each in self._awaited.values() if image.topic_named(each.name) is None]

    def _on_reply(
        self,
        topics: Sequence[NewTopic],
        error: KafkaError | None,
        reply: Sequence[CreatedTopic] | None,
    ) -> None:
        self._answered.update([each.name for each in topics])
        refused = [(each.name, str(error)) for each in topics] if error is not None else []
        refused += [
            (each.name, each.message or Code(each.error).name)
            for each in reply or ()
            if each.error not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
        ]
        for name, reason in refused:
            if self._refusals.get(name) != reason:
                self._context.events.warning("starting_topic_refused", topic=name, reason=reason)
            self._refusals[name] = reason
        self._context.later(self._ask)
