"""Kafka's own tools, run one after the other in one JVM: lines to and from JavaTools.java. Knows
their classes and no test.
"""

import subprocess
from base64 import b64decode, b64encode
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.kit.toolchains import Program

TOOLS = {
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


class ToolFailed(AssertionError):
    """It exited with something else than 0; the text is what it printed."""


@dataclass
class JavaTools:
    program: Program
    bootstrap_servers: str
    bootstrap_option: str = "--bootstrap-server"

    def __enter__(self) -> Self:
        self.jvm = subprocess.Popen(
            self.program.command,
            env=self.program.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.jvm.kill()
        self.jvm.communicate()

    def run(self, line: str, *more: str, given: str = "") -> str:
        """A command line as people type it, and arguments with spaces in them; returns what is
        printed. Raises ToolFailed.
        """
        tool, *arguments = line.split()
        words = [
            given,
            TOOLS[tool],
            self.bootstrap_option,
            self.bootstrap_servers,
            *arguments,
            *more,
        ]
        assert self.jvm.stdin is not None
        assert self.jvm.stdout is not None
        self.jvm.stdin.write(" ".join(b64encode(word.encode()).decode() for word in words) + "\n")
        self.jvm.stdin.flush()
        code, _, printed = self.jvm.stdout.readline().strip().partition(" ")
        text = b64decode(printed).decode()
        if code != "0":
            raise ToolFailed(f"{line}: exit code {code or 'none'}\n{text}")
        return text
