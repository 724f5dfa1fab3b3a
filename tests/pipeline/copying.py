"""A query that copies a topic into another one, exactly once. As a program it is a driver of its
own, which a test may stop and kill.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tests.kit.processes import processes

ROOT = Path(__file__).parents[2]
SECONDS = 240  # for what takes twenty where nothing else runs


@dataclass(frozen=True)
class Copy:
    """`folder`: of the checkpoint. `value`: an SQL expression. `notes`: a folder where tasks write
    which executor runs them.
    """

    bootstrap_servers: str
    source: str
    topic: str
    folder: str
    tasks: int  # at least: where every partition has records, as many as partitions
    value: str = "value"
    notes: str = ""
    batch: int = 60  # records at most
    options: Mapping[str, str] = field(default_factory=dict)

    def start(self, spark: Any) -> Any:
        servers = {"kafka.bootstrap.servers": self.bootstrap_servers}
        reader = spark.readStream.format("raftka").options(
            **servers, subscribe=self.source, startingOffsets="earliest"
        )
        frame = reader.options(maxOffsetsPerTrigger=self.batch, minPartitions=self.tasks).load()
        rows = frame.selectExpr(
            "concat(partition, '-', cast(key as string)) as key",
            f"{self.value} as value",
            "partition",
        )
        if self.notes:
            rows = rows.mapInArrow(noting(self.notes), rows.schema)
        given = {
            **servers,
            "topic": self.topic,
            "deliveryGuarantee": "exactly-once",
            **self.options,
        }
        writer = (
            rows.writeStream.format("raftka")
            .options(**given)
            .option("checkpointLocation", self.folder)
        )
        return writer.trigger(availableNow=True).start()


class Job(Protocol):
    """A dataclass that a driver is started with."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def folder(self) -> str: ...

    def start(self, spark: Any) -> Any: ...


def noting(folder: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Pass batches on, and write down the executor of each partition's task."""

    def note(batches: Iterator[Any]) -> Iterator[Any]:
        daemon = os.getppid()
        executor = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        for batch in batches:
            for partition in set(batch.column("partition").to_pylist()):
                Path(folder, str(partition)).write_text(executor)
            yield batch

    return note


class Driver:
    """A driver with its Java and its Python workers: a session of the operating system."""

    def __init__(
        self,
        job: Job,
        settings: Mapping[str, str],
        master: str,
        environment: Mapping[str, str] | None = None,
        module: str = "tests.pipeline.copying",
    ) -> None:
        """`module`: the program, which takes the job, settings and master."""
        self._log = Path(job.folder).with_suffix(".log")
        command = [
            sys.executable,
            "-m",
            module,
            json.dumps(asdict(job)),
            json.dumps(settings),
            master,
        ]
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True
            )

    def kill(self) -> None:
        """The driver and its Java; workers are groups of their own, and live on until they find
        that nobody is there.
        """
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """All of it, as in a long pause of the machine."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)

    def ended(self) -> str:
        """Return its last output, which is an error."""
        code, said = self.process.wait(SECONDS), self._log.read_text()
        assert code == 1, said
        return said

    def close(self) -> None:
        for pid in self._pids():
            with suppress(ProcessLookupError):  # a worker ends when its daemon is gone
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _pids(self) -> list[int]:
        return [each.pid for each in processes() if each.session == self.process.pid]


def main(kind: Callable[..., Job] = Copy) -> None:
    from pyspark.errors import StreamingQueryException

    from raftka.pipeline.spark import session

    job, settings, master = sys.argv[1:]
    spark = session("copy", json.loads(settings), master=master)
    spark.sparkContext.setLogLevel("OFF")
    try:
        kind(**json.loads(job)).start(spark).awaitTermination()
    except StreamingQueryException as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
