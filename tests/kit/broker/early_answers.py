"""Requests behind an answer that is written while its handler goes on."""

from raftka.chaos.simulated.workloads.workload import busy
from raftka.wire.errors import Code
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_DELETE
from tests.broker.stage import Stage


def ask_behind_an_early_answer(stage: Stage) -> None:
    """A coordinator refuses at once: the answer is written while the handler goes on. Answers
    behind it must not wait for another one.
    """
    wire, row = stage.wire(), OFFSET_DELETE.request
    partitions = [row.topics.partitions(partition_index=index) for index in range(20)]
    with busy():
        for _ in range(2):
            answer = wire.ask(
                OFFSET_DELETE,
                row(group_id="group", topics=[row.topics(name="t", partitions=partitions)]),
            )
            assert Code(answer.error_code) is Code.NOT_COORDINATOR
        wire.ask(METADATA, METADATA.request(topics=[]))
