"""Sessions of SQL that have no Spark: only materialised tables answer them. Run as a module it is a
process with such a session, which prints the rows of each line that it is given.

    python -m tests.kit.sql_tables BOOTSTRAP FOLDER
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from raftka.client.blocking import transaction
from raftka.client.blocking.producer import Producer
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics.brokers import Brokers
from raftka.sql.session import Session
from raftka.sql.tables import view

NO_SPARK = "there is no Spark in this test"
TIMEOUT_MS = 60_000
Record = tuple[bytes | None, bytes | None]


def no_spark(_held: int | None) -> NoReturn:
    raise PipelineError(NO_SPARK)


def rows(session: Session, text: str, limit: int | None = None) -> list[list[Any]]:
    """Return the rows of a lookup. Spark is not asked."""
    answer = session.execute(text, limit)
    assert "from the materialised table, " in answer.note
    return [list(each) for each in answer.rows]


def send(brokers: Brokers, topic: str, *records: Record, partition: int = 0) -> None:
    _write(Producer(brokers), topic, records, partition)


def send_in_transaction(brokers: Brokers, topic: str, *records: Record, commit: bool) -> None:
    identity = transaction.begin(brokers, f"test-{topic}", TIMEOUT_MS)
    _write(Producer(brokers, identity=identity), topic, records, 0)
    transaction.end(brokers, identity, commit=commit)


def _write(producer: Producer, topic: str, records: Sequence[Record], partition: int) -> None:
    for at, (key, value) in enumerate(records):
        producer.add((topic, partition), (key, value, (), 1_700_000_000_000 + at))
    producer.flush()


def main() -> None:
    view.PATIENCE_S = 60.0
    session = Session(sys.argv[1], state=Path(sys.argv[2]), start_spark=no_spark)
    for line in sys.stdin:
        print(json.dumps(rows(session, line)), flush=True)


if __name__ == "__main__":
    main()
